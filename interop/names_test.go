package interop

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// oddNames are names from which both sides must derive the same keys and the same channels.
var oddNames = []string{
	"a",
	"orders:42",
	"with  two spaces, and at the end: ",
	"\ttab 'single' \"double\" back\\slash %s $0 *?[a]",
	"zażółć gęślą jaźń, Straße, 鍵, ключ, مفتاح, 🔒👩‍👩‍👧",
	"e\u0301 is not \u00e9",
	"{order}",
	"{order}:items",
	"a{order}b",
	"a{b}c{d}",
	strings.Repeat("n", 512),
	strings.Repeat("鍵", 170) + "ab", // 512 bytes
}

// handOver has each side wait for the other once, for a lock of the thread's kind. The Java name is
// that which the NameMapper of its client, if any, turns into the name.
func (w *world) handOver(t testing.TB, m manager, java thread, name, javaName string) []time.Duration {
	t.Helper()
	l := lock(t, m, name, goOptions[java.kind]...)
	require.False(t, java.tryLock(t, javaName))
	javaWaits := w.startJavaWaitOf(t, java, name, javaName)
	took := wakes(t, func() { unlock(t, l) }, javaWaits)
	require.Equal(t, recordOf(java.kind, java.owner(t)), w.record(t, name))

	goWaits := w.startGoWaitOf(t, m, java.kind, name)
	took = append(took, wakes(t, func() { java.unlock(t, javaName) }, goWaits)...)
	require.Equal(t, recordOf(java.kind, goWaits.lock.HolderID()), w.record(t, name))
	unlock(t, goWaits.lock)
	return took
}

// The lock of a key of an RMap is a plain lock: Java makes its name of the map's name and the key.
func TestLock_OfAMapsKey(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		m, java := w.manager(t, lockmgr.Options{}), w.open(t, request{}).thread("a").as("mapKey")
		java.lock(t, t.Name())
		names, err := w.redis.Do(t.Context(), w.redis.B().Keys().Pattern("{"+t.Name()+"}:*:lock").Build()).AsStrSlice()
		require.NoError(t, err)
		require.Len(t, names, 1)
		t.Log(names[0])
		m.refuses(t, names[0])
		java.unlock(t, t.Name())
		requireHeard(t, "both sides", w.handOver(t, m, java, names[0], t.Name()))
	})
}

// Names that Redisson takes and holdfast refuses: on one server they work, but most of them could
// not be unlocked on a cluster.
func TestLock_NamesThatGoRefuses(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		m, java := w.manager(t, lockmgr.Options{}), w.open(t, request{}).thread("a")
		for _, name := range []string{"", "a{b", "a}b", "{}a", "{}", "redisson_lock_token:{a}"} {
			java.lock(t, name)
			java.unlock(t, name)
			_, err := m.TryLock(t.Context(), name)
			require.ErrorIs(t, err, lockmgr.ErrInvalidName, name)
		}
	})
}

func TestLock_NameMapper(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		m, java := w.manager(t, lockmgr.Options{}), w.open(t, request{Prefix: "app:"}).thread("a")
		took := w.handOver(t, m, java, "app:orders", "orders")
		took = append(took, w.handOver(t, m, java, "app:{orders}:1", "{orders}:1")...)
		requireHeard(t, "both sides, with a NameMapper", took)
	})
}

// The client's codec has no part in locks: neither in the record, which handOver looks at, nor in
// the message of an unlock.
func TestLock_Codecs(t *testing.T) {
	codecs := map[string]string{
		"Redisson's default": "",
		"StringCodec":        "org.redisson.client.codec.StringCodec",
		"LongCodec":          "org.redisson.client.codec.LongCodec",
		"SerializationCodec": "org.redisson.codec.SerializationCodec",
		"JsonJacksonCodec":   "org.redisson.codec.JsonJacksonCodec",
	}
	each(t, func(t *testing.T, w *world) {
		m := w.manager(t, lockmgr.Options{})
		var took []time.Duration
		for title, codec := range codecs {
			if title == "JsonJacksonCodec" && w.version == newest {
				continue // Jackson is optional there
			}
			java := w.open(t, request{Codec: codec}).thread("a")
			name := t.Name() + " " + title
			took = append(took, w.handOver(t, m, java, name, name)...)

			messages := w.listen(t, channelOf(name))
			java.lock(t, name)
			java.unlock(t, name)
			select {
			case text := <-messages:
				require.Equal(t, "0", text, title)
			case <-time.After(eventLimit):
				require.Fail(t, "an unlock of Java publishes nothing", title)
			}
		}
		requireHeard(t, "both sides, with all codecs", took)
	})
}

// listen subscribes to a channel and returns its messages.
func (w *world) listen(t testing.TB, channel string) <-chan string {
	t.Helper()
	c := redistest.Must(w.server.dial())(t)
	t.Cleanup(c.Close)
	messages := make(chan string, 16)
	conn, release := c.Dedicate()
	t.Cleanup(release)
	conn.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: func(m rueidis.PubSubMessage) { messages <- m.Message }})
	require.NoError(t, conn.Do(t.Context(), conn.B().Subscribe().Channel(channel).Build()).Error())
	return messages
}
