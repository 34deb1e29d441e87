package lockmgr_test

import (
	"fmt"
	"math"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/internal/raced"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// heap returns the bytes in use after a garbage collection.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return int64(s.HeapAlloc)
}

// The bytes of a held lock, its name included, and of a waiting future have a bound, and neither
// costs a goroutine. The caller's pointers to them do not count.
func TestMemory(t *testing.T) {
	if raced.On {
		t.Skip("the race detector uses memory of its own")
	}
	const n = 100_000
	s := redistest.Start(t)
	m := dial(t, s.Addr(), lockmgr.Options{})
	one := must(m.Lock(ctx, "one"))(t)

	locks := make([]*lockmgr.Lock, n)
	waiting := make([]*futures.Future[*lockmgr.Lock], n)
	fs := make([]*futures.Future[*lockmgr.Lock], 1000)
	const open = n / 10 // when these are held, the senders have their connections
	before, goroutines := heap(), runtime.NumGoroutine()
	for i := 0; i < n; i += len(fs) {
		if i == open {
			before = heap()
		}
		for j := range fs {
			fs[j] = m.LockAsync(fmt.Sprintf("held:%06d", i+j))
		}
		for j, f := range fs {
			locks[i+j] = must(f.Await(ctx))(t)
		}
	}
	clear(fs)
	perLock := (heap() - before) / (n - open)
	t.Logf("%d bytes a held lock", perLock)
	require.LessOrEqual(t, perLock, int64(520))
	require.LessOrEqual(t, runtime.NumGoroutine(), goroutines+slack)

	before = heap()
	for i := range waiting {
		waiting[i] = m.LockAsync("one", lockmgr.MaxWait(time.Hour))
	}
	faults.Eventually(t, func() bool { return m.Stats().Waiting == n })
	perWaiter := (heap() - before) / n
	t.Logf("%d bytes a waiting future", perWaiter)
	require.LessOrEqual(t, perWaiter, int64(290))
	require.LessOrEqual(t, runtime.NumGoroutine(), goroutines+slack)
	for _, f := range waiting {
		f.Cancel()
	}
	require.NoError(t, one.Unlock(ctx))
	runtime.KeepAlive(locks)
}

// A lock and an unlock of one goroutine cost few allocations: the Lock, two channels, a promise, an
// effect, and those of the client for a call. The least of several counts is theirs: what tests
// before have left may allocate beside them.
func TestLock_AllocatesLittle(t *testing.T) {
	if raced.On {
		t.Skip("the race detector uses memory of its own")
	}
	s := redistest.Start(t)
	m := dial(t, s.Addr(), lockmgr.Options{})
	least := math.Inf(1)
	for range 10 {
		least = min(least, testing.AllocsPerRun(200, func() {
			l, err := m.Lock(ctx, "one")
			require.NoError(t, err)
			require.NoError(t, l.Unlock(ctx))
		}))
	}
	require.LessOrEqual(t, least, 5.0)
}

// Names that are only remembered are bounded too: there are at most MaxLocks of them, besides those
// that are held or waited for. Remembered names keep no other name out.
func TestName_RememberedOnesHaveABound(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		const most = 3
		other, _ := w.manager(lockmgr.Options{})
		m, _ := w.manager(lockmgr.Options{MaxLocks: most, Linger: time.Hour})
		name := func(i int) string { return fmt.Sprint("remembered:", i) }
		for i := range 2 * most {
			l := mustLock(t, other, name(i))
			f := m.LockAsync(name(i))
			time.Sleep(second) // it subscribes
			mustUnlock(t, l)
			mustUnlock(t, mustAwait(t, f))
		}
		require.Equal(t, 2*most, m.Stats().Locks, "their subscriptions linger")
		require.ErrorIs(t, errOf(m.TryLock(ctx, "another")), lockmgr.ErrOverloaded)
		mustUnlock(t, must(m.TryLock(ctx, name(0)))(t, "a name that is known"))
	})
}
