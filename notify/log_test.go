package notify_test

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/notify"
)

// A logBook collects log lines from info level on.
type logBook struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *logBook) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBook) count(text string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Count(b.text.String(), text)
}

func (b *logBook) logger() *slog.Logger { return slog.New(slog.NewTextHandler(b, nil)) }

// Of many channels that the server refuses one is a line. When they are granted, there is another.
func TestLog_RefusedChannels(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t).Unrestricted()
	redistest.Must(s.Do("ACL", "SETUSER", "listener", "on", "nopass", "+@all", "resetchannels", "&allowed"))(t)
	var log logBook
	hub := open(t, connect(t, s.Addr(), func(o *rueidis.ClientOption) { o.Username, o.Password = "listener", "any" }), notify.Options{Logger: log.logger()})
	for i := range 50 {
		hub.Watch(fmt.Sprint("forbidden\u202e", i)) // not every handler quotes this character
	}
	require.Eventually(t, func() bool { return hub.Stats().Refused == 50 }, time.Minute, time.Millisecond)
	require.Equal(t, 1, log.count(`level=WARN msg="notify: subscribe refused" channel="\"forbidden`))
	require.Equal(t, 1, log.count("refused"))
	redistest.Must(s.Do("ACL", "SETUSER", "listener", "&forbidden\u202e7"))(t)
	require.Eventually(t, func() bool { return hub.Stats().Confirmed == 1 }, time.Minute, time.Millisecond)
	require.Equal(t, 1, log.count("refused"), "49 are still refused")
	redistest.Must(s.Do("ACL", "SETUSER", "listener", "allchannels"))(t)
	require.Eventually(t, func() bool { return hub.Stats().Confirmed == 50 }, time.Minute, time.Millisecond)
	require.Equal(t, 1, log.count(`level=INFO msg="notify: subscribe no longer refused" channel="\"forbidden`))
	require.Equal(t, 2, log.count("refused"))
}

// A server that is away makes one line when it goes and one when it is back, which says how often
// the connection could not be opened. A connection that breaks again and again makes no more lines.
func TestLog_Outage(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t).Unrestricted() // the channel is not that of a lock
	var log logBook
	hub := open(t, connect(t, s.Addr()), notify.Options{Logger: log.logger(), RetryMax: 20 * time.Millisecond})
	hub.Watch("a")
	confirmed := func() bool { return hub.Stats().Confirmed == 1 }
	require.Eventually(t, confirmed, time.Minute, time.Millisecond)
	require.Equal(t, 1, log.count("notify: connected"))
	s.Kill()
	require.Eventually(t, func() bool { return hub.Stats().Confirmed == 0 }, time.Minute, time.Millisecond)
	require.Eventually(t, func() bool {
		err := hub.Err()
		return err != nil && strings.Contains(err.Error(), "connection refused")
	}, time.Minute, time.Millisecond)
	time.Sleep(200 * time.Millisecond)
	require.Equal(t, 1, log.count(`level=WARN msg="notify: connection lost"`))
	s.Restart()
	require.Eventually(t, confirmed, time.Minute, time.Millisecond)
	require.Equal(t, 2, log.count("notify: connected"))
	require.EqualValues(t, 2, hub.Stats().Connects, "a try that fails is none")
	require.Equal(t, 1, log.count("after="))
	require.Zero(t, log.count("failures=1\n"), "it tried once in 200 ms")
	for began := time.Now(); hub.Stats().Losses < 10; {
		require.Eventually(t, confirmed, time.Minute, time.Millisecond)
		redistest.Must(s.Do("CLIENT", "KILL", "TYPE", "pubsub"))(t)
		require.Eventually(t, func() bool { return hub.Stats().Confirmed == 0 }, time.Minute, time.Millisecond)
		if time.Since(began) > 10*time.Second { // a warning may be due soon
			break
		}
	}
	require.Equal(t, 1, log.count("connection lost"))
	require.Equal(t, 2, log.count("notify: connected"))
}
