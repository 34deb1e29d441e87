package interop

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/lockmgr"
)

func rwChannelOf(name string) string { return "redisson_rwlock:" + braced(name) }

// rwRecord returns the record of a read-write lock with these holders.
func rwRecord(mode string, holders ...string) map[string]string {
	r := map[string]string{"mode": mode}
	for _, h := range holders {
		if mode == "write" {
			h += ":write"
		}
		r[h] = "1"
	}
	return r
}

func (j thread) reads() thread { return j.as("read") }

func (j thread) writes() thread { return j.as("write") }

// readers returns threads for the read side.
func (c *client) readers(n int) []thread {
	var all []thread
	for i := range n {
		all = append(all, c.thread("reader "+strconv.Itoa(i)).reads())
	}
	return all
}

// awaitRWListeners waits until at least n processes listen for a read-write lock. Redisson 4.7.0
// may listen for some 200 ms after its last wait.
func (w *world) awaitRWListeners(t testing.TB, name string, n int64) {
	t.Helper()
	w.awaitChannel(t, rwChannelOf(name), func(have int64) bool { return have >= n })
}

// startJavaSleep is startJavaWait, and returns when the thread sleeps indeed. The message of a
// writer's unlock wakes only those who do: Redisson loses it for a thread that has been refused and
// is about to sleep.
func (w *world) startJavaSleep(t testing.TB, j thread, name string) *call {
	t.Helper()
	c := w.startJavaWait(t, j, name)
	j.awaitState(t, name, "TIMED_WAITING")
	return c
}

// awaitState waits until a thread is in a state whose name ends so.
func (j thread) awaitState(t testing.TB, name, end string) {
	t.Helper()
	var state string
	eventually(t, func() bool {
		j.send(t, "state", name).into(t, &state)
		return strings.HasSuffix(state, end)
	}, func() string { return "the thread sleeps" })
}

// awaitFree waits until nobody has a lock. After an unlock of a Go manager that has had the lock
// less than others, that may take 2 ms. A Java thread that asks meanwhile would be told by the
// message that Redisson loses: see startJavaSleep.
func (w *world) awaitFree(t testing.TB, name string) {
	t.Helper()
	eventually(t, func() bool { return len(w.record(t, name)) == 0 }, func() string { return name + " is free" })
}

// requireLost waits until a lock is lost, but no longer than limit.
func requireLost(t testing.TB, l *lockmgr.Lock, limit time.Duration) {
	t.Helper()
	begin := time.Now()
	faults.AwaitLost(t, l)
	took := time.Since(begin)
	t.Logf("Lost fired after %v", took.Round(10*time.Microsecond))
	require.Less(t, took, limit)
	require.False(t, l.Valid())
	require.ErrorIs(t, l.Unlock(t.Context()), lockmgr.ErrLeaseLost)
}

// lives returns the remaining lives of a record and of one reader's own key, taken at one instant.
// They are -2 ms if there is none.
func (w *world) lives(t testing.TB, name, reader string) (record, own time.Duration) {
	t.Helper()
	ms, err := w.redis.Do(background, w.redis.B().Eval().
		Script("return {redis.call('PTTL', KEYS[1]), redis.call('PTTL', KEYS[2])}").Numkeys(2).
		Key(name, braced(name)+":"+reader+":rwlock_timeout:1").Build()).AsIntSlice()
	require.NoError(t, err)
	return time.Duration(ms[0]) * time.Millisecond, time.Duration(ms[1]) * time.Millisecond
}

// awaitKeyEnds waits until a reader's own key has ended.
func (w *world) awaitKeyEnds(t testing.TB, name, reader string) {
	t.Helper()
	eventually(t, func() bool { _, own := w.lives(t, name, reader); return own < 0 }, func() string { return "the lease of a reader ends" })
}

// requireKept checks that a record lives at least as long as a reader of it. The clock of Redis 7.0
// goes on while a script runs, so the two may differ a little.
func (w *world) requireKept(t testing.TB, name, reader string) {
	t.Helper()
	record, own := w.lives(t, name, reader)
	require.Positive(t, own, "the key of a reader of %s", name)
	require.GreaterOrEqual(t, record, own-50*time.Millisecond, "the record of %s ends before its reader", name)
}
