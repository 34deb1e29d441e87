package interop

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// A multi sends requests for Redisson's multi lock of some names, in their order.
type multi struct {
	thread
	names []string
}

func (j multi) do(t testing.TB, op string) *call {
	t.Helper()
	return j.sendRequest(t, request{Op: op, Names: j.names, Wait: -1, Lease: -1})
}

func (j multi) try(t testing.TB) (got bool) {
	t.Helper()
	j.do(t, "tryLock").into(t, &got)
	return got
}

func TestSet_ExcludesAndWakesAMultiLock(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		names := []string{t.Name() + " 1", t.Name() + " 2", t.Name() + " 3"}
		m, java := w.manager(t, lockmgr.Options{}), w.open(t, request{})
		j := multi{java.thread("multi").as("multi"), []string{names[2], names[0]}}

		l := redistest.Must(m.LockAll(t.Context(), lockmgr.All(names...)))(t)
		require.False(t, j.try(t))
		require.False(t, java.thread("single").tryLock(t, names[1]))
		waits := j.do(t, "lock")
		w.awaitListeners(t, names[2], 1)
		unlock(t, l)
		require.NoError(t, waits.result(t))

		_, err := m.TryLockAll(t.Context(), lockmgr.All(names...))
		require.ErrorIs(t, err, lockmgr.ErrNotAcquired)
		require.Empty(t, w.record(t, names[1]), "a try that fails leaves nothing")
		f := m.LockAllAsync(lockmgr.All(names...))
		w.awaitListeners(t, names[1], 1) // Go's
		require.NoError(t, j.do(t, "unlock").result(t))
		unlocked := time.Now()
		l = redistest.Must(f.Await(t.Context()))(t)
		t.Logf("woken after %v", time.Since(unlocked))
		require.Less(t, time.Since(unlocked), heardLimit)
		for _, name := range names {
			require.Equal(t, map[string]string{l.HolderID(): "1"}, w.record(t, name))
		}

		// A forced unlock of one of them by Java ends the set, and frees the others.
		require.True(t, java.thread("admin").is(t, "forceUnlock", names[1]))
		require.ErrorIs(t, l.Unlock(t.Context()), lockmgr.ErrLeaseLost)
		require.True(t, j.try(t))
		require.NoError(t, j.do(t, "unlock").result(t))
	})
}

// Sets of Go and multi locks of Java overlap in opposite orders, beside single locks of both.
// Nobody waits for ever, and no update of a counter that the middle lock guards is lost.
func TestSet_AndMultiLocksNeverDeadlock(t *testing.T) {
	const turns = 40 // by each of the workers
	each(t, func(t *testing.T, w *world) {
		a, b, c := t.Name()+" a", t.Name()+" b", t.Name()+" c"
		counter := w.counter(t, 7*turns)
		m, java := w.manager(t, lockmgr.Options{}), w.open(t, request{})
		var wg sync.WaitGroup
		for _, set := range []lockmgr.Set{lockmgr.All(a, b), lockmgr.All(b, c), lockmgr.All(a, b, c), lockmgr.All(b)} {
			wg.Go(func() {
				turn := 0
				again(t, func() (*lockmgr.Lock, error) { return m.LockAll(t.Context(), set) }, func() (more bool, err error) {
					turn++
					_, err = counter.count()
					return turn < turns, err
				})
			})
		}
		js := []multi{
			{java.thread("1").as("multi"), []string{b, a}},
			{java.thread("2").as("multi"), []string{c, b}},
			{java.thread("3").as("multi"), []string{c, b, a}},
		}
		for range turns {
			var calls []*call
			for _, j := range js {
				calls = append(calls, j.do(t, "lock"))
			}
			// They are granted in any order: each counts and unlocks when it has the lock.
			var inTurn sync.WaitGroup
			for i, call := range calls {
				inTurn.Go(func() {
					if err := call.result(t); err != nil {
						t.Errorf("Java: %v", err)
						return
					}
					if _, err := counter.count(); err != nil {
						t.Errorf("inside the lock: %v", err)
					}
					if err := js[i].do(t, "unlock").result(t); err != nil {
						t.Errorf("Java: %v", err)
					}
				})
			}
			inTurn.Wait()
		}
		wg.Wait()
		counter.requireExact(t)
	})
}
