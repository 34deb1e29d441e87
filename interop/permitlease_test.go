package interop

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// A permit of a killed JVM comes free at the end of its lease. One without a lease does not, until
// somebody gives it back.
func TestPermits_GoOutlivesKilledJVM(t *testing.T) {
	together(t, func(t *testing.T, w *world) {
		name := t.Name()
		java := w.openDoomed(t, request{}).thread("a").permits()
		g := w.manager(t, lockmgr.Options{})
		p := g.Permits(name, 2)
		require.True(t, java.trySetPermits(t, name, 2))
		java.acquire(t, name, 1, deadLease)
		endless := java.acquire(t, name, 1, noLease)
		waiting := g.startTake(t, w, p, name, 1)

		outlives(t, waiting, java.agent.process, func() time.Duration { return inspect(t, p).Taken[0].TTL })
		require.Equal(t, endless, idsOfOthers(t, p))
		requireRefused(t, p, 1)
		returns(t, p, endless...)
		unlock(t, take(t, p, 1), waiting.lock)
		w.requireAllFree(t, name, 2)
	})
}

// Java gets the permits of Go: at the end of the lease if the process was killed or the lease is a
// fixed one, and at once if the manager is closed.
func TestPermits_JavaOutlivesGo(t *testing.T) {
	const fixed = 1500 * time.Millisecond
	together(t, func(t *testing.T, w *world) {
		a := w.open(t, request{}).thread("a").permits()
		p := w.manager(t, lockmgr.Options{}).Permits
		t.Run("killed", func(t *testing.T) {
			name := t.Name()
			victim := startChild(t, childTask{Addr: w.server.Addr(), Name: name, Lease: deadLease, Permits: 2})
			w.requireCounts(t, p(name, 2), a, name, 2, 2)
			waiting := w.startJavaTake(t, a, name, 1)
			outlives(t, waiting, victim, func() time.Duration { return inspect(t, p(name, 2)).Taken[0].TTL })
			w.requireCounts(t, p(name, 2), a, name, 2, 1)
			a.release(t, name, waiting.permitIDs(t)...)
			w.requireAllFree(t, name, 2)
		})
		t.Run("fixed lease", func(t *testing.T) {
			name := t.Name()
			l := take(t, p(name, 1), 1, lockmgr.FixedLease(fixed))
			waiting := w.startJavaTake(t, a, name, 1)
			begin := time.Now()
			ttl := inspect(t, p(name, 1)).Taken[0].TTL
			ids := waiting.permitIDs(t)
			// Go counts its lease from the send, less 1 %, and gives back what it has lost.
			late := waiting.at.Sub(begin) - ttl
			t.Logf("Java had a permit %v after the end of the lease", late.Round(time.Millisecond))
			require.False(t, l.Valid())
			require.Greater(t, late, -fixed/10)
			require.Less(t, late, 2*time.Second)
			requireLost(t, l, fixed)
			w.requireCounts(t, p(name, 1), a, name, 1, 1)
			a.release(t, name, ids...)
			w.requireAllFree(t, name, 1)
		})
		t.Run("closed", func(t *testing.T) {
			name := t.Name()
			m := w.manager(t, lockmgr.Options{})
			l := take(t, m.Permits(name, 1), 1)
			waiting := w.startJavaTake(t, a, name, 1)
			requireHeard(t, "Java after the manager was closed", wakes(t, func() { require.NoError(t, m.Close(t.Context())) }, waiting))
			ids := waiting.permitIDs(t)
			require.False(t, l.Valid())
			a.release(t, name, ids...)
			w.requireAllFree(t, name, 1)
		})
	})
}

// Go renews its permits while Java waits for one.
func TestPermits_GoRenewsWhileJavaWaits(t *testing.T) {
	const (
		lease  = 2 * time.Second
		leases = 3
	)
	together(t, func(t *testing.T, w *world) {
		name := t.Name()
		p, a := w.manager(t, withLease(lease)).Permits(name, 2), w.open(t, request{}).thread("a").permits()
		l := take(t, p, 2)
		waiting := w.startJavaTake(t, a, name, 1)
		throughout(leases*lease, func() {
			require.Len(t, inspect(t, p).Taken, 2)
			require.False(t, waiting.answered())
		})
		require.True(t, l.Valid())
		unlock(t, l)
		a.release(t, name, waiting.permitIDs(t)...)
		w.requireAllFree(t, name, 2)
	})
}

// A permit of Java that is given back too late. 3.16.8 does not look at the lease, and says that it
// was given back if nobody has noticed its end. The counts are right with both.
func TestPermits_JavaReleasesTooLate(t *testing.T) {
	const lease = 300 * time.Millisecond
	together(t, func(t *testing.T, w *world) {
		name := t.Name()
		p, a := w.manager(t, lockmgr.Options{}).Permits(name, 2), w.open(t, request{}).thread("a").permits()
		require.True(t, a.trySetPermits(t, name, 2))

		ids := a.acquire(t, name, 1, lease)
		eventually(t, func() bool { return len(inspect(t, p).Taken) == 0 }, func() string { return "the lease has ended" })
		require.Len(t, w.members(t, name), 1, "nobody has noticed")
		require.Equal(t, 2, inspect(t, p).Free)
		done := redistest.Must(p.Return(t.Context(), ids...))(t)
		require.False(t, done)
		if w.version == oldest {
			a.release(t, name, ids...)
		} else {
			a.requireNotTaken(t, name, ids[0])
		}
		w.requireCounts(t, p, a, name, 2, 0)

		ids = a.acquire(t, name, 1, lease)
		l := take(t, p, 1)
		other := take(t, p, 1) // that of Java, when its lease has ended
		a.requireNotTaken(t, name, ids[0])
		w.requireCounts(t, p, a, name, 2, 2)
		unlock(t, l, other)
		w.requireAllFree(t, name, 2)
	})
}
