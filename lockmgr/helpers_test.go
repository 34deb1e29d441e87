package lockmgr_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// The names of helpers begin in four ways. dial makes a manager. must makes a call that must
// succeed, and returns its value. require asserts. await waits until something is so, for up to
// faults.Patience.

var ctx = context.Background()

// secret is the password of all users of tests. No error may contain it.
const secret = "correct-horse-battery-staple"

// slow is the command time-out of tests with a short lease. The default, a tenth of the lease,
// would be too short on a busy machine.
const slow = 320 * time.Millisecond

// endsIn returns a context that ends after a time.
func endsIn(t testing.TB, d time.Duration) context.Context {
	c, cancel := context.WithTimeout(ctx, d)
	t.Cleanup(cancel)
	return c
}

// numbered returns names: prefix0, prefix1 and so on.
func numbered(prefix string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprint(prefix, i)
	}
	return out
}

// dialOption makes a manager, which is closed when t ends. Some of the servers may be down then, so
// its releases need not be confirmed.
func dialOption(t testing.TB, opt rueidis.ClientOption, o lockmgr.Options) *lockmgr.Manager {
	t.Helper()
	m := must(lockmgr.Dial(opt, o))(t)
	t.Cleanup(func() { _ = m.Close(endsIn(t, 5*time.Second)) })
	return m
}

// dial connects to a server, which must confirm all releases when t ends.
func dial(t testing.TB, addr string, o lockmgr.Options) *lockmgr.Manager {
	t.Helper()
	return faults.Dial(t, addr, o)
}

// dialAs connects as a user whose password is secret.
func dialAs(t testing.TB, addr, user string, o lockmgr.Options) *lockmgr.Manager {
	t.Helper()
	m := must(lockmgr.Dial(rueidis.ClientOption{InitAddress: []string{addr}, Username: user, Password: secret}, o))(t)
	faults.CloseAtEnd(t, m)
	return m
}

// dialTroubled connects to a server that won't confirm all releases.
func dialTroubled(t testing.TB, addr string, o lockmgr.Options) *lockmgr.Manager {
	t.Helper()
	return dialOption(t, rueidis.ClientOption{InitAddress: []string{addr}}, o)
}

// dialMini connects to an embedded server.
func dialMini(t testing.TB, o lockmgr.Options) *lockmgr.Manager {
	t.Helper()
	addr, _ := redistest.Mini(t)
	return dial(t, addr, o)
}

func dialCluster(t testing.TB, c *redistest.Cluster, o lockmgr.Options) *lockmgr.Manager {
	t.Helper()
	return dialOption(t, rueidis.ClientOption{InitAddress: c.Addrs()}, o)
}

func dialSentinel(t testing.TB, addrs []string, o lockmgr.Options) *lockmgr.Manager {
	t.Helper()
	return dialOption(t, rueidis.ClientOption{InitAddress: addrs, Sentinel: rueidis.SentinelOption{MasterSet: redistest.MasterSet}}, o)
}

// startServer starts a server, and connects two managers. The test is parallel.
func startServer(t *testing.T, o lockmgr.Options) (*redistest.Server, *lockmgr.Manager, *lockmgr.Manager) {
	t.Helper()
	t.Parallel()
	s := redistest.Start(t)
	return s, dial(t, s.Addr(), o), dial(t, s.Addr(), o)
}

// must returns the value of a call, and ends the test if the call failed: must(m.Check(ctx, ""))(t,
// "why").
func must[T any](v T, err error) func(t testing.TB, what ...any) T {
	return func(t testing.TB, what ...any) T {
		t.Helper()
		require.NoError(t, err, what...)
		return v
	}
}

// errOf returns the error of a call.
func errOf[T any](_ T, err error) error { return err }

// patiently is must for a call that takes a context.
func patiently[T any](t testing.TB, call func(ctx context.Context) (T, error)) T {
	t.Helper()
	c, cancel := context.WithTimeout(ctx, faults.Patience)
	defer cancel()
	return must(call(c))(t)
}

func mustLock(t testing.TB, m *lockmgr.Manager, name string, o ...lockmgr.LockOption) *lockmgr.Lock {
	t.Helper()
	return patiently(t, func(c context.Context) (*lockmgr.Lock, error) { return m.Lock(c, name, o...) })
}

// mustLockEach takes one lock after another.
func mustLockEach(t testing.TB, m *lockmgr.Manager, names []string) (held []*lockmgr.Lock) {
	t.Helper()
	for _, name := range names {
		held = append(held, mustLock(t, m, name))
	}
	return held
}

func mustTryLock(t testing.TB, m *lockmgr.Manager, name string, o ...lockmgr.LockOption) *lockmgr.Lock {
	t.Helper()
	return patiently(t, func(c context.Context) (*lockmgr.Lock, error) { return m.TryLock(c, name, o...) })
}

func mustLockAll(t testing.TB, m *lockmgr.Manager, s lockmgr.Set, o ...lockmgr.LockOption) *lockmgr.Lock {
	t.Helper()
	return patiently(t, func(c context.Context) (*lockmgr.Lock, error) { return m.LockAll(c, s, o...) })
}

func mustAcquire(t testing.TB, p lockmgr.Permits, n int, o ...lockmgr.LockOption) *lockmgr.Lock {
	t.Helper()
	return patiently(t, func(c context.Context) (*lockmgr.Lock, error) { return p.Acquire(c, n, o...) })
}

func mustAwait[T any](t testing.TB, f *futures.Future[T]) T {
	t.Helper()
	return patiently(t, f.Await)
}

func mustInspect(t testing.TB, m *lockmgr.Manager, name string) lockmgr.Info {
	t.Helper()
	return patiently(t, func(c context.Context) (lockmgr.Info, error) { return m.Inspect(c, name) })
}

func mustUnlock(t testing.TB, locks ...*lockmgr.Lock) {
	t.Helper()
	faults.Release(t, locks...)
}

func mustClose(t testing.TB, managers ...*lockmgr.Manager) {
	t.Helper()
	for _, m := range managers {
		require.NoError(t, m.Close(faults.Patient(t)))
	}
}

// mustPass unlocks a lock, and returns the lock of a request that waits for it in m. The message of
// the release must have reached m.
func mustPass(t testing.TB, l *lockmgr.Lock, m *lockmgr.Manager, f *futures.Future[*lockmgr.Lock]) (next *lockmgr.Lock) {
	t.Helper()
	faults.ByMessage(t, m, func() {
		mustUnlock(t, l)
		next = mustAwait(t, f)
	}, l.Name())
	return next
}

// requireServerError checks that an error is a ServerError of a kind, with a hint and texts, and
// without the password.
func requireServerError(t testing.TB, kind, err error, texts ...string) {
	t.Helper()
	require.ErrorIs(t, err, kind)
	var e *lockmgr.ServerError
	require.ErrorAs(t, err, &e)
	require.NotEmpty(t, e.Hint)
	require.Contains(t, err.Error(), e.Hint)
	require.NotContains(t, err.Error(), secret)
	for _, text := range texts {
		require.ErrorContains(t, err, text)
	}
}

// requireTimesOut checks that a request times out. It repeats the request: a machine that is busy for
// longer than the wait looks like a silent server.
func requireTimesOut(t testing.TB, ask func() error) {
	t.Helper()
	faults.Eventually(t, func() bool { return errors.Is(ask(), lockmgr.ErrWaitTimeout) })
}

// requirePending checks that a request waits.
func requirePending(t testing.TB, f *futures.Future[*lockmgr.Lock], what ...any) {
	t.Helper()
	require.False(t, faults.Settled(f), what...)
}

// requireOnceWithin repeats a scenario until its wait is once below a limit. A fault lengthens
// every wait, a busy machine only some.
func requireOnceWithin(t testing.TB, limit time.Duration, wait func() time.Duration, what ...any) {
	t.Helper()
	for end := time.Now().Add(faults.Patience); wait() >= limit; {
		require.True(t, time.Now().Before(end), what...)
	}
}

// requireRenewed watches locks for longer than they are valid without a renewal.
func requireRenewed(t testing.TB, lease time.Duration, held ...*lockmgr.Lock) {
	t.Helper()
	for begin := time.Now(); time.Since(begin) < lease*5/4; time.Sleep(20 * time.Millisecond) {
		for _, l := range held {
			require.True(t, l.Valid(), l.Name())
		}
	}
}

// awaitIdle waits until nothing is held or asked for.
func awaitIdle(t testing.TB, m *lockmgr.Manager) {
	t.Helper()
	faults.Eventually(t, func() bool { s := m.Stats(); return s.Held == 0 && s.Pending == 0 })
}

// awaitAtRest waits until a manager has no names, requests or subscriptions.
func awaitAtRest(t testing.TB, m *lockmgr.Manager) {
	t.Helper()
	faults.Eventually(t, func() bool {
		s := m.Stats()
		return s.Locks == 0 && s.Pending == 0 && s.Subscriptions == 0
	})
}
