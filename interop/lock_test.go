package interop

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// requireOthers checks what a thread is told of a lock that others have. It returns how long the
// lock is said to live.
func (j thread) requireOthers(t testing.TB, name string) (ttl time.Duration) {
	t.Helper()
	require.False(t, j.tryLock(t, name))
	require.True(t, j.is(t, "isLocked", name))
	require.False(t, j.is(t, "isHeld", name))
	require.Zero(t, j.number(t, "holdCount", name))
	ttl = time.Duration(j.number(t, "ttl", name)) * time.Millisecond
	require.Positive(t, ttl)
	return ttl
}

func TestLock_ExcludesTheOtherSide(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		name := t.Name()
		m, java := w.manager(t, lockmgr.Options{}), w.open(t, request{}).thread("a")

		l := lock(t, m, name)
		require.LessOrEqual(t, java.requireOthers(t, name), 30*time.Second)
		require.Equal(t, map[string]string{l.HolderID(): "1"}, w.record(t, name))
		unlock(t, l)
		require.False(t, java.is(t, "isLocked", name))

		require.True(t, java.tryLock(t, name))
		m.refuses(t, name)
		info := redistest.Must(m.Inspect(t.Context(), name))(t)
		require.Equal(t, []lockmgr.Holder{{Owner: java.owner(t), Count: 1}}, faults.Entries(info))
		require.True(t, 0 < info.TTL && info.TTL <= 30*time.Second, "TTL %v", info.TTL)
		java.unlock(t, name)

		unlock(t, m.grants(t, name))
	})
}

// What KeepFor leaves is a lock of another to Redisson, whatever the words in its record.
func TestLock_KeptByKeepFor(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		name := t.Name()
		m, java := w.manager(t, lockmgr.Options{}), w.open(t, request{}).thread("a")
		l := redistest.Must(m.Lock(t.Context(), name, lockmgr.KeepFor(time.Hour), lockmgr.Note("nightly")))(t)
		unlock(t, l)
		require.Contains(t, w.record(t, name)[l.HolderID()+":kept"], "nightly")

		ttl := java.requireOthers(t, name)
		require.True(t, 3500*time.Second < ttl && ttl <= time.Hour, "remainTimeToLive %v", ttl)
		require.True(t, java.is(t, "forceUnlock", name))
		require.True(t, java.tryLock(t, name))
		java.unlock(t, name)
	})
}

// A wait with a limit ends by a wake-up or by its limit, on both sides.
func TestLock_LimitedWait(t *testing.T) {
	const limit = 300 * time.Millisecond
	together(t, func(t *testing.T, w *world) {
		name := t.Name()
		g, java := w.manager(t, lockmgr.Options{}), w.open(t, request{}).thread("a")
		javaWaits := func(limit time.Duration) *call {
			return java.sendRequest(t, request{Op: "tryLock", Name: name, Wait: limit.Milliseconds(), Lease: -1})
		}
		var got bool

		l := lock(t, g, name)
		begin := time.Now()
		javaWaits(limit).into(t, &got)
		require.False(t, got)
		require.GreaterOrEqual(t, time.Since(begin), limit)
		w.awaitListeners(t, name, 0)
		waiting := javaWaits(eventLimit)
		w.awaitListeners(t, name, 1)
		unlock(t, l)
		waiting.into(t, &got)
		require.True(t, got)

		begin = time.Now()
		_, err := g.Lock(t.Context(), name, lockmgr.MaxWait(limit))
		require.ErrorIs(t, err, lockmgr.ErrWaitTimeout)
		require.GreaterOrEqual(t, time.Since(begin), limit)
		goWaits := g.startRefused(t, name, lockmgr.MaxWait(eventLimit))
		java.unlock(t, name)
		unlock(t, goWaits.granted(t))
	})
}

const wakeRounds = 15

func TestLock_JavaWaitsForGo(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		name := t.Name()
		m, java := w.manager(t, lockmgr.Options{}), w.open(t, request{}).thread("a")
		var took []time.Duration
		for range wakeRounds {
			l := lock(t, m, name)
			waiting := w.startJavaWait(t, java, name)
			require.False(t, waiting.answered())
			took = append(took, wakes(t, func() { unlock(t, l) }, waiting)...)
			java.unlock(t, name)
			w.awaitListeners(t, name, 0)
		}
		requireWoken(t, "Java after an unlock of Go", took)
	})
}

func TestLock_GoWaitsForJava(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		g, java := w.manager(t, lockmgr.Options{}), w.open(t, request{}).thread("a")
		requireWoken(t, "Go after an unlock of Java", w.goWakes(t, g, java, "lock", wakeRounds, t.Name()))
	})
}

// requireWoken checks that waiters got the lock by a message, and soon. The lease is 30 s, so it
// cannot have been the end of that.
func requireWoken(t testing.TB, who string, took []time.Duration) {
	t.Helper()
	requireHeard(t, who, took)
	require.Less(t, median(took), wakeLimit)
}

// requireHeard is requireWoken for so few waits that a busy machine may make half of them slow.
func requireHeard(t testing.TB, who string, took []time.Duration) {
	t.Helper()
	longest := slices.Max(took)
	t.Logf("%s: median %v, longest %v", who, median(took).Round(10*time.Microsecond), longest.Round(10*time.Microsecond))
	require.Less(t, longest, heardLimit)
}

// The connections that carry the messages are cut, and the unlock comes before they are back. Go
// looks at the lock when it listens again. Redisson does not: its waiter has the lock when the TTL
// is over that it was told.
func TestLock_UnlockWhileNobodyListens(t *testing.T) {
	const lease = 4 * time.Second
	together(t, func(t *testing.T, w *world) {
		byGo, byJava := t.Name()+" held by Go", t.Name()+" held by Java"
		g, java := w.manager(t, withLease(lease)), w.open(t, request{})
		holder, waiter := java.thread("holder"), java.thread("waiter")
		l := lock(t, g, byGo)
		holder.lock(t, byJava)
		javaWaits := w.startJavaWait(t, waiter, byGo)
		goWaits := g.startRefused(t, byJava)
		w.awaitListeners(t, byJava, 1)

		begin := time.Now()
		require.NoError(t, w.redis.Do(background, w.redis.B().ClientKill().TypePubsub().Build()).Error())
		unlock(t, l)
		holder.unlock(t, byJava)
		next := goWaits.granted(t)
		require.NoError(t, javaWaits.result(t))
		t.Logf("Go had the lock after %v, Java after %v; the lease of Go is %v",
			goWaits.at.Sub(begin).Round(time.Millisecond), javaWaits.at.Sub(begin).Round(time.Millisecond), lease)
		require.Less(t, goWaits.at.Sub(begin), heardLimit, "it looks when it listens again")
		unlock(t, next)
		waiter.unlock(t, byGo)
	})
}

func TestLock_WatchdogsOutlastWaiters(t *testing.T) {
	const (
		lease  = 2 * time.Second
		leases = 4
	)
	together(t, func(t *testing.T, w *world) {
		byGo, byJava := t.Name()+" held by Go", t.Name()+" held by Java"
		m := w.manager(t, withLease(lease))
		java := w.open(t, request{Watchdog: lease.Milliseconds()})
		holder, waiter := java.thread("holder"), java.thread("waiter")

		l := lock(t, m, byGo)
		holder.lock(t, byJava)
		goWaits, javaWaits := startWait(t, m, byJava), waiter.send(t, "lock", byGo)
		goRecord, javaRecord := map[string]string{l.HolderID(): "1"}, map[string]string{holder.owner(t): "1"}
		// The passing of time is what is tested.
		for end := time.Now().Add(leases * lease); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
			require.Equal(t, goRecord, w.record(t, byGo))
			require.Equal(t, javaRecord, w.record(t, byJava))
			require.False(t, javaWaits.answered())
			require.False(t, goWaits.over())
		}
		require.True(t, l.Valid())
		unlock(t, l)
		require.NoError(t, javaWaits.result(t))
		waiter.unlock(t, byGo)
		holder.unlock(t, byJava)
		unlock(t, goWaits.granted(t))
	})
}

func TestLock_JavaReentry(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		name := t.Name()
		g, java := w.manager(t, lockmgr.Options{}), w.open(t, request{}).thread("a")
		java.lock(t, name)
		java.lock(t, name)
		require.Equal(t, map[string]string{java.owner(t): "2"}, w.record(t, name))
		info := redistest.Must(g.Inspect(t.Context(), name))(t)
		require.Equal(t, []lockmgr.Holder{{Owner: java.owner(t), Count: 2}}, faults.Entries(info))
		waiting := g.startRefused(t, name)

		java.unlock(t, name)
		require.EqualValues(t, 1, java.number(t, "holdCount", name))
		w.manager(t, lockmgr.Options{}).refuses(t, name)
		require.False(t, waiting.over())

		java.unlock(t, name)
		unlock(t, waiting.granted(t))
	})
}

func TestLock_GoReentry(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		name := t.Name()
		m, java := w.manager(t, lockmgr.Options{}), w.open(t, request{}).thread("a")
		outer := lock(t, m, name)
		inner := lock(t, m, name, lockmgr.AsOwner(outer.Owner()))
		require.Equal(t, map[string]string{outer.HolderID(): "1"}, w.record(t, name))
		waiting := java.send(t, "lock", name)
		w.awaitListeners(t, name, 1)

		unlock(t, inner)
		require.Equal(t, map[string]string{outer.HolderID(): "1"}, w.record(t, name))
		require.False(t, java.client.thread("b").tryLock(t, name))
		require.False(t, waiting.answered())

		unlock(t, outer)
		require.NoError(t, waiting.result(t))
		java.unlock(t, name)
	})
}

func TestLock_UnlockByAnotherJavaThread(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		name := t.Name()
		m, java := w.manager(t, lockmgr.Options{}), w.open(t, request{})
		a, b := java.thread("a"), java.thread("b")

		a.lock(t, name)
		b.requireNotOwner(t, name)
		require.Equal(t, map[string]string{a.owner(t): "1"}, w.record(t, name))
		a.unlock(t, name)

		l := lock(t, m, name)
		b.requireNotOwner(t, name)
		require.Equal(t, map[string]string{l.HolderID(): "1"}, w.record(t, name))
		require.True(t, l.Valid())
		unlock(t, l)
	})
}

// A fixed lease ends, the other side gets the lock, and the late unlock of the former holder fails
// and does not touch it.
func TestLock_LateUnlock(t *testing.T) {
	together(t, func(t *testing.T, w *world) { w.unlockLate(t, w.open(t, request{}).thread("a"), t.Name()) })
}

func (w *world) unlockLate(t testing.TB, java thread, name string) {
	const lease = 500 * time.Millisecond
	m, opts := w.manager(t, lockmgr.Options{}), goOptions[java.kind]
	l := lock(t, m, name, append(opts, lockmgr.FixedLease(lease))...)
	java.lock(t, name)
	<-l.Lost()
	require.False(t, l.Valid())
	require.ErrorIs(t, l.Unlock(t.Context()), lockmgr.ErrLeaseLost)
	require.ErrorIs(t, l.Unlock(t.Context()), lockmgr.ErrNotHeld)
	require.Equal(t, map[string]string{java.owner(t): "1"}, w.record(t, name))
	java.unlock(t, name)

	java.lockFor(t, name, lease)
	l = lock(t, m, name, opts...)
	java.requireNotOwner(t, name)
	require.Equal(t, map[string]string{l.HolderID(): "1"}, w.record(t, name))
	require.True(t, l.Valid())
	unlock(t, l)
}

// Tokens of fenced locks rise with each grant of either side.
func TestLock_FencingTokens(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		if w.version == oldest {
			t.Skip("SKIPPED: Redisson " + oldest + " has no fenced locks")
		}
		name := t.Name()
		m, java := w.manager(t, lockmgr.Options{}), w.open(t, request{}).thread("a").as("fenced")
		var last int64
		for range 10 {
			l := lock(t, m, name, lockmgr.Fenced())
			require.Greater(t, l.Token(), last)
			last = l.Token()
			unlock(t, l)
			java.lock(t, name)
			token := java.number(t, "token", name)
			require.Greater(t, token, last)
			last = token
			java.unlock(t, name)
		}
		// Token counters are never deleted.
		require.Equal(t, last, w.number(t, "redisson_lock_token:{"+name+"}"))
	})
}
