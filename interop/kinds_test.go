package interop

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// The tests of this file show that the agent can take all kinds of lock. Two Redisson clients share
// them; holdfast has only some of these kinds.

func (w *world) two(t testing.TB) (a, b *client) {
	t.Helper()
	return w.open(t, request{}), w.open(t, request{})
}

// length returns the length of a list, which is zero if there is none.
func (w *world) length(t testing.TB, key string) int64 {
	t.Helper()
	return redistest.Must(w.redis.Do(background, w.redis.B().Llen().Key(key).Build()).AsInt64())(t)
}

func TestAgent_FairLock(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		name := t.Name()
		one, two := w.two(t)
		a, b, c := one.thread("a").as("fair"), two.thread("b").as("fair"), one.thread("c").as("fair")
		a.lock(t, name)
		require.False(t, b.tryLock(t, name))
		var waiting []*call
		for i, j := range []thread{b, c} {
			waiting = append(waiting, j.send(t, "lock", name))
			eventually(t, func() bool { return w.length(t, "redisson_lock_queue:{"+name+"}") == int64(i+1) },
				func() string { return "a place in the queue" })
		}
		a.unlock(t, name)
		require.NoError(t, waiting[0].result(t))
		require.False(t, waiting[1].answered())
		require.Equal(t, map[string]string{b.owner(t): "1"}, w.record(t, name))
		b.unlock(t, name)
		require.NoError(t, waiting[1].result(t))
		c.unlock(t, name)
		w.mixedGrants(t, one, two, "fair")
	})
}

// mixedGrants has two clients take a lock of a kind that excludes all others.
func (w *world) mixedGrants(t testing.TB, one, two *client, kind string) {
	t.Helper()
	c := w.counter(t, 200)
	load := c.request(t.Name()+" load", 2)
	first, second := one.thread("load").as(kind).sendRequest(t, load), two.thread("load").as(kind).sendRequest(t, load)
	c.requireExact(t, first.report(t), second.report(t))
}

func TestAgent_ReadWriteLock(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		name := t.Name()
		one, two := w.two(t)
		a, b, c := one.thread("a").as("read"), two.thread("b").as("read"), two.thread("c").as("write")
		a.lock(t, name)
		b.lock(t, name)
		require.Equal(t, map[string]string{"mode": "read", a.owner(t): "1", b.owner(t): "1"}, w.record(t, name))
		require.False(t, c.tryLock(t, name))
		waiting := c.send(t, "lock", name)
		a.unlock(t, name)
		require.False(t, waiting.answered())
		b.unlock(t, name)
		require.NoError(t, waiting.result(t))
		require.Equal(t, map[string]string{"mode": "write", c.owner(t) + ":write": "1"}, w.record(t, name))
		require.False(t, a.tryLock(t, name))
		c.unlock(t, name)
		w.mixedGrants(t, one, two, "write")
	})
}

func TestAgent_MultiLock(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		names := []string{t.Name() + " 1", t.Name() + " 2"}
		one, two := w.two(t)
		a, b := multi{one.thread("a").as("multi"), names}, multi{two.thread("b").as("multi"), names}
		require.NoError(t, a.do(t, "lock").result(t))
		m := w.manager(t, lockmgr.Options{})
		for _, name := range names {
			require.Equal(t, map[string]string{a.owner(t): "1"}, w.record(t, name))
			m.refuses(t, name)
		}
		require.False(t, b.try(t))
		require.NoError(t, a.do(t, "unlock").result(t))
		l := lock(t, m, names[1])
		require.False(t, b.try(t))
		require.Empty(t, w.record(t, names[0]), "a failed try leaves nothing")
		unlock(t, l)
		require.True(t, b.try(t))
		require.NoError(t, b.do(t, "unlock").result(t))
	})
}

func TestAgent_Semaphore(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		name := t.Name()
		one, two := w.two(t)
		a, b, c := one.thread("a").as("semaphore"), two.thread("b").as("semaphore"), two.thread("c").as("semaphore")
		var was bool
		a.sendRequest(t, request{Op: "trySetPermits", Name: name, Permits: 2}).into(t, &was)
		require.True(t, was)
		a.lockFor(t, name, time.Minute)
		var permit string
		b.sendRequest(t, request{Op: "lock", Name: name, Lease: time.Minute.Milliseconds()}).into(t, &permit)
		require.NotEmpty(t, permit)
		require.Zero(t, a.number(t, "available", name))
		require.False(t, c.tryLock(t, name))
		waiting := c.send(t, "lock", name)
		a.unlock(t, name)
		require.NoError(t, waiting.result(t))
		b.unlock(t, name)

		// A permit whose lease ends is available again, unless it was extended.
		a.lockFor(t, name, 300*time.Millisecond)
		a.sendRequest(t, request{Op: "extend", Name: name, Lease: 600}).into(t, &was)
		require.True(t, was)
		b.lock(t, name)
		require.Error(t, a.send(t, "unlock", name).result(t))
		b.unlock(t, name)
		c.unlock(t, name)
		require.EqualValues(t, 2, a.number(t, "available", name))
		require.NoError(t, w.redis.Do(background, w.redis.B().Del().Key(name).Build()).Error())
	})
}

func TestAgent_SpinLock(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		name := t.Name()
		one, two := w.two(t)
		a := one.thread("a").as("spin")
		a.lock(t, name)
		require.Equal(t, map[string]string{a.owner(t): "1"}, w.record(t, name))
		w.manager(t, lockmgr.Options{}).refuses(t, name)
		a.unlock(t, name)
		w.mixedGrants(t, one, two, "spin")
	})
}

func TestAgent_Interrupt(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		name := t.Name()
		one, two := w.two(t)
		a, b := one.thread("a"), two.thread("b")
		a.lock(t, name)
		waiting := b.send(t, "lock", name)
		w.awaitListeners(t, name, 1)
		require.NoError(t, b.send(t, "interrupt", name).result(t))
		require.ErrorContains(t, waiting.result(t), "InterruptedException")
		a.unlock(t, name)
	})
}

func TestAgent_CommandsThatFail(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		a := w.open(t, request{}).thread("a")
		require.ErrorContains(t, a.send(t, "dance", "n").result(t), "no command dance")
		require.ErrorContains(t, a.as("trap").send(t, "lock", "n").result(t), "no kind trap")
		require.ErrorContains(t, thread{&client{agent: w.agent, name: "nobody"}, "a", "lock"}.send(t, "lock", "n").result(t), "no client nobody")
		require.ErrorContains(t, a.send(t, "unlock", "n").result(t), "IllegalMonitorStateException")
		redistest.Must(w.agent.in.Write([]byte("not a command\n\n")))(t)
		a.lock(t, t.Name())
		a.unlock(t, t.Name())
	})
}
