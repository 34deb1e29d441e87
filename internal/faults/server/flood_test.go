package server_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/resp"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// A crier publishes on one channel, many messages at a time.
type crier struct {
	conn    *resp.Conn
	channel string
}

func newCrier(t testing.TB, s *redistest.Server, channel string) *crier {
	t.Helper()
	c := redistest.Must(resp.Dial(s.Addr(), faults.Patience))(t)
	t.Cleanup(c.Close)
	return &crier{c, channel}
}

// cry publishes messages and waits until the server has passed them on.
func (c *crier) cry(t testing.TB, messages ...string) {
	t.Helper()
	for _, m := range messages {
		c.conn.Send("PUBLISH", c.channel, m)
	}
	require.NoError(t, c.conn.Flush())
	for range messages {
		reply := redistest.Must(c.conn.Receive())(t)
		require.IsType(t, int64(0), reply)
	}
}

// contended is a lock that one manager holds and another one waits for. Both have a lock beside it
// that must be renewed.
func contended(t *testing.T) (s *redistest.Server, holder, waiter *lockmgr.Manager, check func(more uint64)) {
	s = redistest.Start(t)
	holder, waiter = faults.Dial(t, s.Addr(), with(watched)), faults.Dial(t, s.Addr(), with(watched))
	l, beside := faults.Take(t, holder, "a"), faults.Take(t, waiter, "beside")
	next := waiter.LockAsync("a")
	faults.Eventually(t, func() bool { return waiter.Stats().Wakes > 0 && faults.Subscribers(t, s, "a") == 1 })
	return s, holder, waiter, func(scripts uint64) {
		t.Helper()
		require.False(t, faults.Settled(next), "a message grants nothing")
		require.NoError(t, l.Err())
		require.NoError(t, beside.Err())
		require.Equal(t, []string{l.HolderID()}, owners(t, s, "a"))
		require.LessOrEqual(t, waiter.Stats().Scripts, scripts)
		faults.Release(t, l)
		faults.Release(t, faults.Await(t, next))
		faults.Release(t, beside)
		require.Zero(t, holder.Stats().Losses+waiter.Stats().Losses)
	}
}

// However many messages come for a lock, they cause one try at a time, keep nobody from renewing,
// and never grant anything.
func TestMessage_FloodCostsNoLock(t *testing.T) {
	t.Parallel()
	s, holder, waiter, check := contended(t)
	c := newCrier(t, s, faults.Channel("a"))
	batch := make([]string, 1000)
	for i := range batch {
		batch[i] = "0"
	}
	before, evals := waiter.Stats(), s.Commands(t)["evalsha"]
	want := [2]uint64{holder.Stats().Renewals + 1, waiter.Stats().Renewals + 1}
	cried := 0
	for cried < *flood || holder.Stats().Renewals < want[0] || waiter.Stats().Renewals < want[1] {
		c.cry(t, batch...)
		cried += len(batch)
	}
	after := waiter.Stats()
	tries := (after.Scripts - after.RenewalScripts) - (before.Scripts - before.RenewalScripts)
	evals = s.Commands(t)["evalsha"] - evals
	t.Logf("%d messages: %d wake-ups, %d tries, %d scripts on the server", cried, after.Wakes-before.Wakes, tries, evals)
	require.Positive(t, after.Wakes-before.Wakes)
	require.Less(t, tries, uint64(cried)/5, "messages are merged while a try is under way")
	require.LessOrEqual(t, uint64(evals), tries+50, "nothing else is asked of the server")
	check(after.Scripts + uint64(cried)/5)
}

func TestMessage_OfAnyTextGrantsNothing(t *testing.T) {
	t.Parallel()
	s, holder, waiter, check := contended(t)
	c := newCrier(t, s, faults.Channel("a"))
	messages := []string{"", "1", "2", "-1", "OK", "\x00", "\r\n", "*1\r\n$4\r\nPING\r\n", "message", faults.Channel("a"), holder.ID() + ":1", waiter.ID() + ":1"}
	rng := rand.New(rand.NewPCG(1, 2))
	for _, size := range []int{1, 63, 64, 65, 4095, 1 << 16, 1 << 20, 5 << 20} {
		junk := make([]byte, size)
		for i := range junk {
			junk[i] = byte(rng.Uint32())
		}
		messages = append(messages, string(junk))
	}
	sent := waiter.Stats().Scripts
	for _, m := range messages {
		wakes := waiter.Stats().Wakes
		c.cry(t, m)
		faults.Eventually(t, func() bool { return waiter.Stats().Wakes > wakes }, "every one is a hint")
	}
	check(sent + 4*uint64(len(messages)))
}
