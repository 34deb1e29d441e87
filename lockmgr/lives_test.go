package lockmgr_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/lockmgr"
)

// A process dies. Others get the name when the leases are over of those who held it then. What was asked
// for by somebody who has left before does not count.
func TestLife_FollowsThoseWhoHold(t *testing.T) {
	const lease, long = 3 * time.Second, time.Hour
	shared, fixed := lockmgr.Shared(), lockmgr.FixedLease(long)
	lock := func(t *testing.T, m *lockmgr.Manager, opts ...lockmgr.LockOption) *lockmgr.Lock {
		return mustLock(t, m, "a", opts...)
	}
	// Each returns who stays, and for how long others must wait then.
	tests := map[string]func(t *testing.T, m *lockmgr.Manager) (*lockmgr.Lock, time.Duration){
		"a reader's fixed lease": func(t *testing.T, m *lockmgr.Manager) (*lockmgr.Lock, time.Duration) {
			a, b := lock(t, m, shared, fixed), lock(t, m, shared)
			mustUnlock(t, a)
			return b, lease
		},
		"of one that joined": func(t *testing.T, m *lockmgr.Manager) (*lockmgr.Lock, time.Duration) {
			a, b := lock(t, m, shared), lock(t, m, shared, fixed)
			time.Sleep(time.Second)
			mustUnlock(t, b)
			return a, lease
		},
		"of one that was cancelled": func(t *testing.T, m *lockmgr.Manager) (*lockmgr.Lock, time.Duration) {
			a, f := lock(t, m, shared), m.LockAsync("a", shared, fixed)
			<-f.Done()
			f.Cancel()
			return a, lease
		},
		"another fixed lease": func(t *testing.T, m *lockmgr.Manager) (*lockmgr.Lock, time.Duration) {
			a, b := lock(t, m, shared, fixed), lock(t, m, shared, lockmgr.FixedLease(20*time.Second))
			mustUnlock(t, a)
			return b, 20 * time.Second
		},
		"a reader's extension": func(t *testing.T, m *lockmgr.Manager) (*lockmgr.Lock, time.Duration) {
			a, b := lock(t, m, shared), lock(t, m, shared)
			require.NoError(t, a.Extend(ctx, long))
			mustUnlock(t, a)
			return b, lease
		},
		"an extension that is still wanted": func(t *testing.T, m *lockmgr.Manager) (*lockmgr.Lock, time.Duration) {
			a, b := lock(t, m, shared, fixed), lock(t, m, shared)
			require.NoError(t, b.Extend(ctx, 20*time.Second))
			mustUnlock(t, a)
			return b, 20 * time.Second
		},
		"a re-entry's extension": func(t *testing.T, m *lockmgr.Manager) (*lockmgr.Lock, time.Duration) {
			as := lockmgr.AsOwner(m.NewOwner())
			a, b := lock(t, m, as), lock(t, m, as)
			require.NoError(t, b.Extend(ctx, long))
			mustUnlock(t, b)
			return a, lease
		},
		"a re-entry's fixed lease": func(t *testing.T, m *lockmgr.Manager) (*lockmgr.Lock, time.Duration) {
			as := lockmgr.AsOwner(m.NewOwner())
			a, b := lock(t, m, as, lockmgr.FixedLease(10*time.Second)), lock(t, m, as, fixed)
			mustUnlock(t, b)
			return a, 10 * time.Second
		},
		"a fixed lease before a re-entry": func(t *testing.T, m *lockmgr.Manager) (*lockmgr.Lock, time.Duration) {
			as := lockmgr.AsOwner(m.NewOwner())
			a, b := lock(t, m, as, fixed), lock(t, m, as)
			mustUnlock(t, a)
			return b, lease
		},
		"of a fair lock": func(t *testing.T, m *lockmgr.Manager) (*lockmgr.Lock, time.Duration) {
			as := lockmgr.AsOwner(m.NewOwner())
			a, b := lock(t, m, as, lockmgr.Fair(), fixed), lock(t, m, as, lockmgr.Fair())
			mustUnlock(t, a)
			return b, lease
		},
		"a writer that goes on reading": func(t *testing.T, m *lockmgr.Manager) (*lockmgr.Lock, time.Duration) {
			as := lockmgr.AsOwner(m.NewOwner())
			a, b := lock(t, m, as, lockmgr.Exclusive(), fixed), lock(t, m, as, shared)
			mustUnlock(t, a)
			return b, lease
		},
		"a reader that writes": func(t *testing.T, m *lockmgr.Manager) (*lockmgr.Lock, time.Duration) {
			as := lockmgr.AsOwner(m.NewOwner())
			a := lock(t, m, as, shared, fixed)
			b := mustTryLock(t, m, "a", as, lockmgr.Exclusive())
			mustUnlock(t, a)
			return b, lease
		},
	}
	for what, do := range tests {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *scene) {
				m, n := w.manager(lockmgr.Options{Lease: lease})
				other, _ := w.manager(lockmgr.Options{Lease: lease})
				stays, wait := do(t, m)
				id := stays.HolderID()
				time.Sleep(time.Second)
				require.True(t, stays.Valid())
				require.Equal(t, id, stays.HolderID())
				require.LessOrEqual(t, stays.Remaining(), wait)
				n.cut()
				began := time.Now()
				kind := []lockmgr.LockOption{lockmgr.Exclusive()}
				if k := lockKind(t, other, "a"); k == "fair" {
					kind = []lockmgr.LockOption{lockmgr.Fair()}
				} else if k == "plain" {
					kind = nil
				}
				next := mustLock(t, other, "a", kind...)
				require.False(t, stays.Valid())
				require.LessOrEqual(t, time.Since(began), wait+200*time.Millisecond)
				mustUnlock(t, next)
				n.heal()
				time.Sleep(10 * time.Second) // until the manager that was cut off has given up its release
			})
		})
	}
}

// lockKind returns the kind of a lock, as Inspect tells it.
func lockKind(t *testing.T, m *lockmgr.Manager, name string) string {
	return mustInspect(t, m, name).Kind
}
