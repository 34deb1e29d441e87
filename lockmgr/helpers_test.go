package lockmgr_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// The helpers of tests have four kinds of names. What begins with dial returns a manager. What begins with must
// makes a call that must succeed, and returns its value. What begins with require is an assertion. What begins with
// await waits until something is so. Each has a limit of time, faults.Patience.

var ctx = context.Background()

// must returns the value of a call, and ends the test if the call failed: must(m.Check(ctx, ""))(t, "why").
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
	for _, l := range locks {
		require.NoError(t, l.Unlock(faults.Patient(t)), l.Name())
	}
}

func mustClose(t testing.TB, managers ...*lockmgr.Manager) {
	t.Helper()
	for _, m := range managers {
		require.NoError(t, m.Close(faults.Patient(t)))
	}
}
