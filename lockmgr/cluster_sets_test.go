package lockmgr_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
	wires "github.com/holdfast-go/holdfast/lockmgr/internal/wire"
)

// setOverSlots returns a set with names of all kinds and sides on every master, and the names in
// their order.
func setOverSlots(c *redistest.Cluster, each int) (set lockmgr.Set, names []string) {
	for _, list := range namesOn(c, each) {
		for i, name := range list {
			switch i % 3 {
			case 0:
				set.Names = append(set.Names, name)
			case 1:
				set.Exclusive = append(set.Exclusive, name)
			default:
				set.Shared = append(set.Shared, name)
			}
			names = append(names, name)
		}
	}
	return set, names
}

func requireNothingLeft(t *testing.T, c *redistest.Cluster, names []string) {
	t.Helper()
	for _, name := range names {
		require.Empty(t, ownKeys(t, c, name), name)
	}
}

// The names of a set may be in any slots. The set is had as a whole or not at all.
func TestCluster_SetOverSlots(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3, 0)
	for _, channels := range allChannels {
		t.Run(fmt.Sprintf("channels=%d", channels), func(t *testing.T) {
			o := lockmgr.Options{Channels: channels, Lease: 2 * time.Second}
			m, other := dialCluster(t, c, o), dialCluster(t, c, o)
			ctx := faults.Patient(t)
			set, names := setOverSlots(c, 3)

			l := mustLockAll(t, m, set, lockmgr.Fenced())
			require.ElementsMatch(t, names, l.Names())
			for _, name := range names {
				require.Positive(t, l.TokenOf(name), name)
			}
			for _, name := range append(set.Names, set.Exclusive...) {
				opts := []lockmgr.LockOption{}
				if name == set.Exclusive[0] {
					opts = append(opts, lockmgr.Shared())
				}
				require.Error(t, errOf(other.TryLock(ctx, name, opts...)), name)
			}
			mustUnlock(t, must(other.TryLock(ctx, set.Shared[0], lockmgr.Shared()))(t, "readers share"))
			require.ErrorIs(t, errOf(other.TryLockAll(ctx, set)), lockmgr.ErrNotAcquired)
			requireTimesOut(t, func() error { return errOf(other.LockAll(ctx, set, lockmgr.MaxWait(10*time.Millisecond))) })

			f := other.LockAllAsync(set)
			requireRenewed(t, o.Lease, l) // on all masters
			mustUnlock(t, mustPass(t, l, other, f))
			requireNothingLeft(t, c, names)

			// One that waits keeps nothing.
			single := mustLock(t, other, set.Names[2])
			f = m.LockAllAsync(set)
			mustUnlock(t, mustLock(t, other, set.Names[0], lockmgr.MaxWait(time.Second)))
			mustUnlock(t, single)
			l = mustAwait(t, f)

			// If one name is taken away, the set is lost, and the rest is given back.
			faults.Do(t, c.Owner(set.Names[1]), "DEL", set.Names[1])
			faults.AwaitLost(t, l)
			faults.Eventually(t, func() bool {
				return !slices.ContainsFunc(names, func(name string) bool { return ownKeys(t, c, name) != "" })
			})
		})
	}
}

// A set that comes to wait for an early slot leaves the line in a later slot. Else nobody could
// have the later name for two seconds: the set is told that the name is free, and can't use it.
func TestCluster_SetLeavesALaterLine(t *testing.T) {
	c, m, other := startMasters(t, lockmgr.Options{})
	names := []string{"job-0", "job-1"}
	slices.SortFunc(names, func(a, b string) int { return wires.SlotOf(a) - wires.SlotOf(b) })
	early, late := names[0], names[1]

	ofLate := mustLock(t, other, late)
	f := m.LockAllAsync(lockmgr.All(early, late))
	faults.Eventually(t, func() bool { return faults.Do(t, c.Owner(late), "EXISTS", "{"+late+"}:lock_line") == "1" }, "it stands in the line")
	ofEarly := mustLock(t, other, early) // as soon as the set gives it back
	mustUnlock(t, ofLate)
	mustUnlock(t, mustLock(t, other, late, lockmgr.MaxWait(time.Second)))
	mustUnlock(t, ofEarly)
	mustUnlock(t, mustAwait(t, f))
	requireNothingLeft(t, c, names)
}

// While one master is stopped, a set that needs it fails in time, and what it could have had of the
// others is free.
func TestCluster_SetAtAStoppedMaster(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3, 0, "--cluster-node-timeout", "60000", "--cluster-require-full-coverage", "no")
	o := lockmgr.Options{Lease: 4 * time.Second, CommandTimeout: time.Second, RetryTime: 1500 * time.Millisecond}
	m, other := dialCluster(t, c, o), dialCluster(t, c, o)
	ctx := faults.Patient(t)
	set, names := setOverSlots(c, 3)
	stopped := c.Owner(names[len(names)-1])
	held := mustLockAll(t, m, lockmgr.All("{"+names[0]+"}1", "{"+names[len(names)-1]+"}1"))
	var others []string // asked now, as the stopped one may be the one that is asked
	for _, name := range names {
		if c.Owner(name) != stopped {
			others = append(others, name)
		}
	}
	stopped.Freeze()
	t.Cleanup(stopped.Thaw)
	_, err := m.LockAll(ctx, set)
	requireServerError(t, lockmgr.ErrUnavailable, err, stopped.Addr())
	// A wait that is shorter than RetryTime is told the same, whichever name is first. The names
	// are others than those of the set: what was sent to the stopped master runs when it goes on.
	here, there := "{"+others[0]+"}2", "{"+names[len(names)-1]+"}2"
	for _, names := range [][]string{{here, there}, {there, here}} {
		_, err = m.LockAll(ctx, lockmgr.All(names...), lockmgr.MaxWait(700*time.Millisecond))
		require.ErrorIs(t, err, lockmgr.ErrUnavailable)
		require.NotErrorIs(t, err, lockmgr.ErrNotAcquired)
		require.ErrorContains(t, err, stopped.Addr())
		_, err = m.LockAll(endsIn(t, 700*time.Millisecond), lockmgr.All(names...))
		require.ErrorIs(t, err, lockmgr.ErrUnavailable)
		require.NotErrorIs(t, err, lockmgr.ErrNotAcquired)
	}
	require.Len(t, others, 6)
	for _, name := range others {
		mustUnlock(t, must(other.Lock(ctx, name, lockmgr.MaxWait(3*time.Second)))(t, name))
	}
	faults.AwaitLost(t, held) // it can't be renewed in full
	stopped.Thaw()
	mustUnlock(t, mustLockAll(t, other, set, lockmgr.MaxWait(20*time.Second)))
	requireNothingLeft(t, c, names)
}
