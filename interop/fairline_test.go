package interop

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// fairly asks for a fair lock.
var fairly = lockmgr.Fair()

func queueKeyOf(name string) string { return "redisson_lock_queue:" + braced(name) }

func deadlinesKeyOf(name string) string { return "redisson_lock_timeout:" + braced(name) }

func waitsKeyOf(name string) string { return queueKeyOf(name) + ":waits" }

func (j thread) fair() thread { return j.as("fair") }

// fairName returns the name of a test's fair lock. At the end of the test its queue must be gone.
// What Go has noted of Redisson's members may stay if a thread of Java was the last.
func (w *world) fairName(t testing.TB, suffix string) string {
	t.Helper()
	name := t.Name() + suffix
	t.Cleanup(func() {
		require.Empty(t, w.queue(t, name))
		require.Empty(t, w.left(t, name))
		if ttl := w.ttl(t, waitsKeyOf(name)); ttl != -2*time.Millisecond {
			require.True(t, 0 < ttl && ttl <= time.Hour, "the notes live for %v", ttl)
			require.NoError(t, w.redis.Do(background, w.redis.B().Del().Key(waitsKeyOf(name)).Build()).Error())
		}
	})
	return name
}

// A member is a request that waits for a fair lock, or has got it.
type member struct {
	*world
	name string
	id   string // its place in the queue, and later its field of the record

	wait *wait // of Go
	java thread
	call *call // of Java
}

// queue returns the places of a fair lock, the next one first.
func (w *world) queue(t testing.TB, name string) []string {
	t.Helper()
	places, err := w.redis.Do(background, w.redis.B().Lrange().Key(queueKeyOf(name)).Start(0).Stop(-1).Build()).AsStrSlice()
	require.NoError(t, err)
	return places
}

// awaitQueue waits until exactly these members are in the queue.
func (w *world) awaitQueue(t testing.TB, name string, members ...*member) {
	t.Helper()
	var want, have []string
	for _, m := range members {
		want = append(want, m.id)
	}
	eventually(t, func() bool {
		have = w.queue(t, name)
		return slices.Equal(have, want)
	}, func() string {
		return "the queue is\n" + strings.Join(have, "\n") + "\nand not\n" + strings.Join(want, "\n")
	})
}

// joins starts a wait and returns its place in the queue. No other one may join meanwhile.
func (w *world) joins(t testing.TB, name string, start func()) (id string) {
	t.Helper()
	before := w.queue(t, name)
	start()
	eventually(t, func() bool {
		if places := w.queue(t, name); len(places) > 0 {
			id = places[len(places)-1]
		}
		return id != "" && !slices.Contains(before, id)
	}, func() string { return "a new place in the queue" })
	return id
}

// goJoins starts a wait of Go.
func (w *world) goJoins(ctx context.Context, t testing.TB, m manager, name string, opts ...lockmgr.LockOption) *member {
	t.Helper()
	var waiting *wait
	id := w.joins(t, name, func() {
		waiting = start(func() (*lockmgr.Lock, error) { return m.Lock(ctx, name, append(opts, fairly)...) })
	})
	require.Regexp(t, "^"+m.ID()+":[0-9]+:f$", id)
	return &member{world: w, name: name, id: id, wait: waiting}
}

// javaJoins starts a wait of Java, without a limit if that is zero.
func (w *world) javaJoins(t testing.TB, j thread, name string, limit time.Duration) *member {
	t.Helper()
	return w.javaJoinsFor(t, j, name, limit, -time.Millisecond)
}

// javaJoinsFor is javaJoins for a fixed lease.
func (w *world) javaJoinsFor(t testing.TB, j thread, name string, limit, lease time.Duration) *member {
	t.Helper()
	r := request{Op: "lock", Name: name, Wait: -1, Lease: lease.Milliseconds()}
	if limit > 0 {
		r.Op, r.Wait = "tryLock", limit.Milliseconds()
	}
	m := &member{world: w, name: name, java: j.fair()}
	m.id = w.joins(t, name, func() { m.call = m.java.sendRequest(t, r) })
	require.True(t, strings.HasPrefix(m.id, j.uuid+":"), "%s is a place of %s", m.id, j.uuid)
	return m
}

// over reports whether its wait has ended.
func (m *member) over() bool {
	if m.wait != nil {
		return m.wait.over()
	}
	return m.call.answered()
}

// ended returns when its wait has ended.
func (m *member) ended() time.Time {
	if m.wait != nil {
		return m.wait.at
	}
	return m.call.at
}

func (m *member) got(t testing.TB) time.Time {
	t.Helper()
	m.hasLock(t)
	return m.ended()
}

// hasLock waits until it has the lock, and checks that those behind it have not.
func (m *member) hasLock(t testing.TB, behind ...*member) {
	t.Helper()
	if m.wait != nil {
		require.Equal(t, m.id, m.wait.granted(t).HolderID())
		m.awaitRecord(t, m.name, m.id) // after a handoff in memory, the record follows
	} else {
		require.NoError(t, m.call.result(t))
		require.NotEqual(t, "false", string(m.call.Value), "%s has given up", m.id)
		require.Equal(t, map[string]string{m.id: "1"}, m.record(t, m.name))
	}
	for _, b := range behind {
		require.False(t, b.over(), "%s has its end before its turn", b.id)
	}
}

// gaveUp waits until its wait has ended without the lock.
func (m *member) gaveUp(t testing.TB) {
	t.Helper()
	if m.wait != nil {
		<-m.wait.done
		require.Error(t, m.wait.err)
		return
	}
	if m.call.result(t) == nil {
		require.Equal(t, "false", string(m.call.Value))
	}
}

func (m *member) unlock(t testing.TB) {
	t.Helper()
	if m.wait != nil {
		unlock(t, m.wait.lock)
		return
	}
	m.java.unlock(t, m.name)
}

// awaitRecord waits until a lock has this holder.
func (w *world) awaitRecord(t testing.TB, name, holder string) {
	t.Helper()
	var have map[string]string
	eventually(t, func() bool {
		have = w.record(t, name)
		return len(have) == 1 && have[holder] == "1"
	}, func() string { return holder + " has the lock" })
}

// serveAll has all members take the lock and unlock it, in this order.
func serveAll(t testing.TB, members ...*member) {
	t.Helper()
	for i, m := range members {
		m.hasLock(t, members[i+1:]...)
		m.unlock(t)
	}
}

// left returns how long each place of a fair lock lasts, by its deadline.
func (w *world) left(t testing.TB, name string) map[string]time.Duration {
	t.Helper()
	const script = `
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local out = redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')
for i = 2, #out, 2 do
  out[i] = string.format('%.0f', out[i] - now)
end
return out`
	flat, err := w.redis.Do(background, w.redis.B().Eval().Script(script).Numkeys(1).Key(deadlinesKeyOf(name)).Build()).AsStrSlice()
	require.NoError(t, err)
	all := make(map[string]time.Duration)
	for i := 0; i < len(flat); i += 2 {
		ms := redistest.Must(strconv.ParseInt(flat[i+1], 10, 64))(t)
		all[flat[i]] = time.Duration(ms) * time.Millisecond
	}
	return all
}
