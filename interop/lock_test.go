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
