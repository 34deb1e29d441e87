package interop

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// A manager that does not listen looks for the record before it passes the lock on. So the next
// goroutine waits until Java has unlocked.
func TestLock_JavaForceUnlocksBeforeAHandOver(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		name := t.Name()
		m, java := w.manager(t, lockmgr.Options{}), w.open(t, request{})
		a, b := java.thread("a"), java.thread("b")
		l := lock(t, m, name)
		waiting := m.startQueued(t, name)
		require.True(t, a.is(t, "forceUnlock", name))
		b.lock(t, name)

		unlocked := l.Unlock(t.Context())
		select {
		case <-waiting.done:
			require.Fail(t, "the next goroutine got the lock of Java")
		case <-time.After(5 * wakeLimit):
			t.Logf("Unlock returned %v", unlocked)
		}
		require.Equal(t, map[string]string{b.owner(t): "1"}, w.record(t, name))
		b.unlock(t, name)
		unlock(t, waiting.granted(t))
	})
}

const deadLease = 3 * time.Second

// outlives kills a process, and checks that a waiter gets what the process had when its lease ends.
func outlives(t testing.TB, who waiter, victim *process, left func() time.Duration) {
	t.Helper()
	victim.kill()
	begin := time.Now()
	ttl := left()
	require.Positive(t, ttl)
	requireAtEndOfLease(t, ttl, begin, who.got(t))
}

// openDoomed opens a client in an agent of its own, which the test kills.
func (w *world) openDoomed(t testing.TB, r request) *client {
	t.Helper()
	victim := redistest.Must(startAgent(w.version, w.classPath))(t)
	t.Cleanup(victim.stop)
	return w.openIn(t, victim, r)
}

// requireAtEndOfLease checks that a waiter got the lock when the lease of a killed process ended:
// ttl is what was left of it at begin.
func requireAtEndOfLease(t testing.TB, ttl time.Duration, begin, got time.Time) {
	t.Helper()
	late := got.Sub(begin) - ttl
	t.Logf("got the lock %v after the end of the lease", late.Round(time.Millisecond))
	// The server's clock counts in ms.
	require.Greater(t, late, -20*time.Millisecond)
	require.Less(t, late, 2*time.Second)
}

func TestLock_GoOutlivesKilledJVM(t *testing.T) {
	together(t, func(t *testing.T, w *world) {
		name := t.Name()
		java := w.openDoomed(t, request{Watchdog: deadLease.Milliseconds()}).thread("a")
		java.lock(t, name)
		waiting := startWait(t, w.manager(t, lockmgr.Options{}), name)
		w.awaitListeners(t, name, 1)

		outlives(t, waiting, java.agent.process, func() time.Duration { return w.ttl(t, name) })
		unlock(t, waiting.lock)
	})
}

func TestLock_JavaOutlivesKilledGo(t *testing.T) {
	together(t, func(t *testing.T, w *world) {
		name := t.Name()
		victim := startChild(t, childTask{Addr: w.server.Addr(), Name: name, Lease: deadLease})
		java := w.open(t, request{}).thread("a")
		waiting := java.send(t, "lock", name)
		w.awaitListeners(t, name, 1)

		outlives(t, waiting, victim, func() time.Duration { return w.ttl(t, name) })
		java.unlock(t, name)
	})
}
