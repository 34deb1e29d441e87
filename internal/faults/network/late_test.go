package network

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/faultproxy"
	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// awaitForgotten waits until a manager remembers nothing of any name. What it may have remembered
// of commands without an answer is forgotten then.
func awaitForgotten(t testing.TB, m *lockmgr.Manager) {
	t.Helper()
	require.Eventually(t, func() bool { return m.Stats().Locks == 0 }, faults.Patience, 2*time.Millisecond)
}

// runLate lets a command that is held back run: the client has given its connection up, and the
// manager has had an answer on another one.
func runLate(t testing.TB, r *faultproxy.Rule) {
	t.Helper()
	faults.AwaitClosed(t, r.GivenUp(), "the client gave the connection up")
	r.Release()
	faults.AwaitClosed(t, r.Delivered(), "the command ran late")
}

// lateOptions give a lease that no test lives to see the end of.
func lateOptions() lockmgr.Options {
	return lockmgr.Options{Lease: 2 * faults.Patience, CommandTimeout: timeout, RetryTime: faults.Patience, Linger: -1}
}

// A relay keeps the bytes of one connection. A named owner's release is repeated on another
// connection, and the owner locks again. The first release then runs: it names a hold that is over,
// so it must not remove the new one.
func TestRelease_LateLeavesALaterHoldOfItsOwner(t *testing.T) {
	owners := map[string]bool{"named owner": true, "owner of an earlier lock": false}
	eachFault(t, owners, func(t *testing.T, s *redistest.Server, p *faultproxy.Proxy, what string, named bool) {
		m, other := dial(t, p.Addr(), lateOptions()), dial(t, s.Addr(), lateOptions())
		var as []lockmgr.LockOption
		if named {
			as = append(as, lockmgr.AsOwner(m.NewOwner()))
		}
		first := faults.Await(t, m.LockAsync(what, as...))
		late := p.On(script(t, "release").Nth(1)).HoldBack(-1)
		require.NoError(t, first.Unlock(faults.Patient(t)), "it is repeated on another connection")
		awaitForgotten(t, m)

		second := faults.Await(t, m.LockAsync(what, lockmgr.AsOwner(first.Owner())))
		runLate(t, late)
		requireTaken(t, other, what)
		require.True(t, second.Valid())
		require.Equal(t, second.HolderID()+"\n1", faults.Do(t, s, "HGETALL", what))
		require.NotEqual(t, first.HolderID(), second.HolderID(), "a number is used for one hold only")
		faults.Release(t, second)
		requireNothingLeft(t, s, what, m, other)
	})
}

// An acquire that runs when nobody wants the lock any more takes it for nobody. That may cost at
// most Options.Lease, whatever lease the caller asked for.
func TestAcquire_LateCostsAtMostTheLease(t *testing.T) {
	eachFault(t, map[string]func(*testing.T, *lockmgr.Manager, string, *faultproxy.Rule){
		"granted by its retry": func(t *testing.T, m *lockmgr.Manager, name string, _ *faultproxy.Rule) {
			l := faults.Await(t, m.LockAsync(name, lockmgr.FixedLease(24*time.Hour)))
			require.Eventually(t, func() bool { return l.Remaining() > time.Hour }, faults.Patience, time.Millisecond, "the renewal sets the long lease")
			faults.Release(t, l)
		},
		"cancelled": func(t *testing.T, m *lockmgr.Manager, name string, late *faultproxy.Rule) {
			f := m.LockAsync(name, lockmgr.FixedLease(24*time.Hour))
			faults.AwaitClosed(t, late.Fired(), "the acquire was held back")
			f.Cancel()
			_, err := f.Result()
			require.Error(t, err)
		},
	}, func(t *testing.T, s *redistest.Server, p *faultproxy.Proxy, what string, end func(*testing.T, *lockmgr.Manager, string, *faultproxy.Rule)) {
		o := lateOptions()
		o.Lease = lease
		m, other := dial(t, p.Addr(), o), dial(t, s.Addr(), o)
		late := p.On(script(t, "acquire").Nth(1)).HoldBack(-1)
		end(t, m, what, late)
		awaitForgotten(t, m)
		require.Equal(t, "0", faults.Do(t, s, "EXISTS", what))

		runLate(t, late)
		require.LessOrEqual(t, faults.PTTL(t, s, what), lease)
		faults.Release(t, faults.Await(t, other.LockAsync(what)))
		requireNothingLeft(t, s, what, m, other)
	})
}
