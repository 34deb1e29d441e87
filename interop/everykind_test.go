package interop

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// A pairing is a kind of lock that one side has, and one for which the other side waits meanwhile.
type pairing struct{ holds, waits string }

// eachPairing runs a test for each pairing, with a name that no other one has.
func (w *world) eachPairing(t *testing.T, test func(t *testing.T, p pairing, name string)) {
	for _, p := range []pairing{{"lock", "lock"}, {"fair", "fair"}, {"read", "write"}, {"write", "read"}, {"write", "write"}} {
		title := p.waits + " after " + p.holds
		t.Run(title, func(t *testing.T) { test(t, p, w.fairName(t, "")) })
	}
}

// recordOf returns the record of a lock that one owner has once.
func recordOf(kind, owner string) map[string]string {
	if kind == "read" || kind == "write" {
		return rwRecord(kind, owner)
	}
	return map[string]string{owner: "1"}
}

// Who does not have a lock can't unlock it. Those who have it and who wait for it notice nothing.
func TestKinds_UnlockByOthers(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		m, java := w.manager(t, lockmgr.Options{}), w.open(t, request{})
		a, b, waiter := java.thread("a"), java.thread("b"), java.thread("waiter")
		w.eachPairing(t, func(t *testing.T, p pairing, name string) {
			refused := func(holder string, threads ...thread) {
				t.Helper()
				for _, j := range threads {
					j.requireNotOwner(t, name)
					require.Equal(t, recordOf(p.holds, holder), w.record(t, name))
				}
			}
			a.as(p.holds).lock(t, name)
			ours := w.startGoWaitOf(t, m, p.waits, name)
			refused(a.owner(t), b.as(p.holds), b.as(p.waits))
			if p.holds != p.waits {
				refused(a.owner(t), a.as(p.waits))
			}
			require.False(t, ours.over())
			a.as(p.holds).unlock(t, name)
			unlock(t, ours.granted(t))

			l := lock(t, m, name, goOptions[p.holds]...)
			theirs := w.startJavaWaitOf(t, waiter.as(p.waits), name, name)
			refused(l.HolderID(), a.as(p.holds), a.as(p.waits))
			require.True(t, l.Valid())
			require.False(t, theirs.answered())
			unlock(t, l)
			require.NoError(t, theirs.result(t))
			require.ErrorIs(t, l.Unlock(t.Context()), lockmgr.ErrNotHeld)
			require.Equal(t, recordOf(p.waits, waiter.owner(t)), w.record(t, name))
			waiter.as(p.waits).unlock(t, name)

			err := a.as(p.holds).send(t, "unlock", name).result(t) // of a free lock
			if p.holds == "fair" || p.holds != "lock" && w.version == oldest {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, "IllegalMonitorStateException")
			}
		})
	})
}

// A fixed lease ends, the other side gets the lock, and the late unlock of the former holder fails
// and does not touch it.
func TestKinds_LateUnlock(t *testing.T) {
	const lease = 300 * time.Millisecond
	together(t, func(t *testing.T, w *world) {
		m, java := w.manager(t, lockmgr.Options{}), w.open(t, request{}).thread("a")
		w.eachPairing(t, func(t *testing.T, p pairing, name string) {
			l := lock(t, m, name, append(goOptions[p.holds], lockmgr.FixedLease(lease))...)
			java.as(p.waits).lock(t, name)
			requireLost(t, l, eventLimit)
			require.ErrorIs(t, l.Unlock(t.Context()), lockmgr.ErrNotHeld)
			require.Equal(t, recordOf(p.waits, java.owner(t)), w.record(t, name))
			java.as(p.waits).unlock(t, name)

			java.as(p.holds).lockFor(t, name, lease)
			l = lock(t, m, name, goOptions[p.waits]...)
			java.as(p.holds).requireNotOwner(t, name)
			require.Equal(t, recordOf(p.waits, l.HolderID()), w.record(t, name))
			require.True(t, l.Valid())
			unlock(t, l)
		})
	})
}

// A re-entry comes before those that wait, and they wait until the last unlock. Java counts in the
// record, Go does not.
func TestKinds_Reentry(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		m, other, java := w.manager(t, lockmgr.Options{}), w.manager(t, lockmgr.Options{}), w.open(t, request{})
		a, waiter := java.thread("a"), java.thread("waiter")
		w.eachPairing(t, func(t *testing.T, p pairing, name string) {
			holder := a.as(p.holds)
			holder.lock(t, name)
			ours := w.startGoWaitOf(t, m, p.waits, name)
			require.True(t, holder.tryLock(t, name))
			require.EqualValues(t, 2, holder.number(t, "holdCount", name))
			info := redistest.Must(m.Inspect(t.Context(), name))(t)
			field := a.owner(t)
			if p.holds == "write" {
				field += ":write"
			}
			require.Equal(t, []lockmgr.Holder{{Owner: field, Count: 2}}, faults.Entries(info))
			holder.unlock(t, name)
			require.EqualValues(t, 1, holder.number(t, "holdCount", name))
			require.Equal(t, recordOf(p.holds, a.owner(t)), w.record(t, name))
			other.refuses(t, name, goOptions[p.waits]...)
			require.False(t, ours.over())
			holder.unlock(t, name)

			outer := ours.granted(t)
			inner := lock(t, m, name, append(goOptions[p.waits], lockmgr.AsOwner(outer.Owner()))...)
			require.Equal(t, outer.HolderID(), inner.HolderID())
			require.Equal(t, recordOf(p.waits, outer.HolderID()), w.record(t, name))
			theirs := w.startJavaWaitOf(t, waiter.as(p.holds), name, name)
			unlock(t, inner)
			require.Equal(t, recordOf(p.waits, outer.HolderID()), w.record(t, name))
			require.False(t, holder.tryLock(t, name))
			require.False(t, theirs.answered())
			unlock(t, outer)
			require.NoError(t, theirs.result(t))
			waiter.as(p.holds).unlock(t, name)
		})
	})
}

// Each side renews its lease while the other one waits.
func TestKinds_WatchdogsOutlastWaiters(t *testing.T) {
	const lease, leases = 2 * time.Second, 4
	together(t, func(t *testing.T, w *world) {
		m, java := w.manager(t, withLease(lease)), w.open(t, request{Watchdog: lease.Milliseconds()})
		w.eachPairing(t, func(t *testing.T, p pairing, byGo string) {
			t.Parallel()
			byJava := w.fairName(t, " held by Java")
			holder, waiter := java.thread(t.Name()+" holder").as(p.holds), java.thread(t.Name()+" waiter").as(p.waits)
			l := lock(t, m, byGo, goOptions[p.holds]...)
			holder.lock(t, byJava)
			ours, theirs := startWait(t, m, byJava, goOptions[p.waits]...), waiter.send(t, "lock", byGo)
			goRecord, javaRecord := recordOf(p.holds, l.HolderID()), recordOf(p.holds, holder.owner(t))
			throughout(leases*lease, func() {
				require.Equal(t, goRecord, w.record(t, byGo))
				require.Equal(t, javaRecord, w.record(t, byJava))
				require.False(t, ours.over() || theirs.answered())
			})
			require.True(t, l.Valid())
			unlock(t, l)
			holder.unlock(t, byJava)
			unlock(t, ours.granted(t))
			require.NoError(t, theirs.result(t))
			waiter.unlock(t, byGo)
		})
	})
}

// Both sides derive the same keys and the same channels from a name.
func TestKinds_Names(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		m, java := w.manager(t, lockmgr.Options{}), w.open(t, request{}).thread("a")
		for _, kind := range []string{"lock", "fair"} {
			var took []time.Duration
			for _, name := range oddNames {
				took = append(took, w.handOver(t, m, java.as(kind), name, name)...)
			}
			requireWoken(t, "both sides, with all names of a "+kind, took)
		}
	})
}

// A force unlock of either side wakes the one of the other side that waits. The former holder is
// told, and gives back nothing of the next holder's.
func TestKinds_ForceUnlock(t *testing.T) {
	// Longer than heardLimit, so that no wait ends with a lease; and short, because readers' keys stay
	// behind for that long.
	const lease = 6 * time.Second
	together(t, func(t *testing.T, w *world) {
		m, other := w.manager(t, withLease(lease)), w.manager(t, withLease(lease))
		java := w.open(t, request{Watchdog: lease.Milliseconds()})
		a, admin := java.thread("a"), java.thread("admin")
		w.eachPairing(t, func(t *testing.T, p pairing, name string) {
			l := lock(t, m, name, goOptions[p.holds]...)
			theirs := w.startJavaWaitOf(t, a.as(p.waits), name, name)
			requireHeard(t, "Java after a ForceUnlock of Go", wakes(t, func() { other.forces(t, name) }, theirs))
			require.ErrorIs(t, l.Unlock(t.Context()), lockmgr.ErrLeaseLost)
			require.Equal(t, recordOf(p.waits, a.owner(t)), w.record(t, name))

			ours := w.startGoWaitOf(t, m, p.holds, name)
			requireHeard(t, "Go after a forceUnlock of Java", wakes(t, func() { require.True(t, admin.as(p.waits).is(t, "forceUnlock", name)) }, ours))
			require.False(t, a.as(p.waits).is(t, "isHeld", name))
			a.as(p.waits).requireNotOwner(t, name)
			require.Equal(t, recordOf(p.holds, ours.lock.HolderID()), w.record(t, name))

			if p.holds != p.waits {
				require.False(t, admin.as(p.waits).is(t, "forceUnlock", name), "of the side that is not taken")
			}
			require.True(t, admin.as(p.holds).is(t, "forceUnlock", name))
			a.as(p.waits).lock(t, name)
			requireLost(t, ours.lock, lease+time.Second)
			require.Equal(t, recordOf(p.waits, a.owner(t)), w.record(t, name))
			a.as(p.waits).unlock(t, name)
			require.False(t, admin.as(p.holds).is(t, "forceUnlock", name))
			was := redistest.Must(m.ForceUnlock(t.Context(), name))(t)
			require.False(t, was)
		})
	})
}
