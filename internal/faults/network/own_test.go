package network

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/faultproxy"
	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// awaitOwn locks and unlocks, for which nobody else waits, until the commands of a manager, the only one behind
// the proxy, travel on a connection that its sender has for itself. It returns that
// connection.
func awaitOwn(t testing.TB, p *faultproxy.Proxy, m *lockmgr.Manager) *faultproxy.Conn {
	t.Helper()
	var used atomic.Pointer[faultproxy.Conn]
	watch := p.On(script(t, "release").Where(func(c faultproxy.Cmd) bool {
		used.Store(c.Conn)
		return false
	})).Observe()
	defer watch.Remove()
	l := take(t, m, t.Name())
	require.NoError(t, l.Unlock(faults.Patient(t)))
	first := used.Load()
	for limit := faults.Patient(t); limit.Err() == nil; {
		l := take(t, m, t.Name())
		require.NoError(t, l.Unlock(limit))
		if c := used.Load(); c != first {
			return c
		}
	}
	require.FailNow(t, "the sender has no connection of its own")
	return nil
}

// Whatever happens to a sender's own connection, the lock is granted and given
// back, and a command that was held back changes nothing later.
func TestOwnConnection_Faults(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	type fault func(faultproxy.Fault) *faultproxy.Rule
	for what, f := range map[string]fault{
		"cut before the command": faultproxy.Fault.CutBefore,
		"cut after the command":  faultproxy.Fault.CutAfterCommand,
		"reply lost":             faultproxy.Fault.LoseReplyAndCut,
		"black hole":             faultproxy.Fault.BlackHole,
		"late":                   func(f faultproxy.Fault) *faultproxy.Rule { return f.HoldBack(-1) },
		"reply held":             faultproxy.Fault.HoldReply,
	} {
		for _, kind := range []string{"acquire", "release"} {
			t.Run(what+", "+kind, func(t *testing.T) {
				t.Parallel()
				p := faultproxy.Start(t, s.Addr())
				m, other := dial(t, p.Addr(), lateOptions()), dial(t, s.Addr(), lateOptions())
				name := what + kind
				own := awaitOwn(t, p, m)
				r := f(p.On(script(t, kind).OnConn(own).Nth(1)))
				l := faults.Await(t, m.LockAsync(name))
				_, err := other.TryLock(faults.Patient(t), name)
				require.ErrorIs(t, err, lockmgr.ErrNotAcquired)
				require.NoError(t, l.Unlock(faults.Patient(t)))
				faults.AwaitClosed(t, r.Fired(), "the fault struck")
				next := faults.Await(t, other.LockAsync(name))
				if what == "late" {
					runLate(t, r)
				}
				r.Release()
				require.NoError(t, next.Extend(faults.Patient(t), time.Second), "a late command took the lock away")
				require.NoError(t, next.Unlock(faults.Patient(t)))
				awaitOwn(t, p, m)
				requireNothingLeft(t, s, name, m, other)
			})
		}
	}
}

// A server that falls silent is told of as soon as on the shared connection, and
// Close does not wait for it.
func TestOwnConnection_SilentServer(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	p := faultproxy.Start(t, s.Addr())
	m := dial(t, p.Addr(), lockmgr.Options{Lease: 2 * faults.Patience, CommandTimeout: timeout, RetryTime: timeout})
	awaitOwn(t, p, m)
	p.Stall()
	_, err := m.Lock(faults.Patient(t), "a")
	require.ErrorIs(t, err, lockmgr.ErrUnavailable)

	p.Heal()
	awaitOwn(t, p, m)
	p.Stall()
	f := m.LockAsync("b")
	closing, cancel := context.WithTimeout(ctx, timeout/4)
	defer cancel()
	require.ErrorIs(t, m.Close(closing), context.DeadlineExceeded)
	_, err = f.Result()
	require.ErrorIs(t, err, lockmgr.ErrClosed)
	p.Heal()
	require.Eventually(t, func() bool { return len(p.Conns()) == 0 }, faults.Patience, time.Millisecond, "a connection is left open")
}
