package lockmgr_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// A lock that KeepFor keeps goes to the request that names its hold, before all who wait elsewhere.
// Nobody was in between: the tokens follow each other.
func TestTakeOver(t *testing.T) {
	for _, where := range []string{"elsewhere", "same manager"} {
		for _, waiting := range []bool{false, true} {
			for _, id := range []string{"HolderID", "Inspect"} {
				t.Run(fmt.Sprintf("%s, by %s, others wait: %v", where, id, waiting), func(t *testing.T) {
					s, m, other := startServer(t, lockmgr.Options{})
					third := dial(t, s.Addr(), lockmgr.Options{})
					ctx := faults.Patient(t)
					to := map[string]*lockmgr.Manager{"elsewhere": other, "same manager": m}[where]
					l := mustLock(t, m, "a", lockmgr.KeepFor(time.Hour), lockmgr.Fenced())
					token, from := l.Token(), l.HolderID()
					require.ErrorIs(t, errOf(other.TryLock(ctx, "a", lockmgr.TakeOver(from))), lockmgr.ErrNotAcquired, "the hold has not ended")
					mustUnlock(t, l)
					require.ErrorIs(t, errOf(other.TryLock(ctx, "a")), lockmgr.ErrNotAcquired)
					require.ErrorIs(t, errOf(other.TryLock(ctx, "a", lockmgr.TakeOver(from+"0"))), lockmgr.ErrNotAcquired, "another hold")
					if id == "Inspect" {
						from = must(m.Inspect(ctx, "a"))(t).Holders[0].Owner
					}
					var next sync.WaitGroup
					if waiting {
						for _, m := range []*lockmgr.Manager{m, other, third} {
							if m != to {
								f := m.LockAsync("a")
								next.Go(func() { mustUnlock(t, mustAwait(t, f)) })
							}
						}
						faults.Eventually(t, func() bool { return faults.Do(t, s, "LLEN", "{a}:lock_line") == "2" }, "all stand in the line")
					}
					l = must(to.Lock(ctx, "a", lockmgr.TakeOver(from), lockmgr.Fenced(), lockmgr.MaxWait(time.Second)))(t)
					require.Equal(t, token+1, l.Token())
					require.True(t, l.Valid())
					if !waiting {
						require.ErrorIs(t, errOf(third.TryLock(ctx, "a", lockmgr.TakeOver(from))), lockmgr.ErrNotAcquired, "an ID is of use once")
					}
					mustUnlock(t, l)
					next.Wait()
					mustUnlock(t, must(third.TryLock(ctx, "a"))(t, "free"))
				})
			}
		}
	}
}

// A request that takes over waits as others do while there is nothing to take over.
func TestTakeOver_Waits(t *testing.T) {
	_, m, other := startServer(t, lockmgr.Options{})
	ctx := faults.Patient(t)
	for _, to := range []*lockmgr.Manager{m, other} { // the request comes before the unlock
		l := mustLock(t, m, "a", lockmgr.KeepFor(time.Hour))
		f := to.LockAsync("a", lockmgr.TakeOver(l.HolderID()))
		behind := to.LockAsync("a")
		faults.Eventually(t, func() bool { return to.Stats().Waiting == 2 })
		mustUnlock(t, l)
		mustUnlock(t, mustAwait(t, f))
		mustUnlock(t, mustAwait(t, behind))
	}

	mustUnlock(t, must(m.TryLock(ctx, "a", lockmgr.TakeOver("nobody")))(t, "a free lock"))
	l := mustLock(t, m, "a", lockmgr.KeepFor(100*time.Millisecond))
	from := l.HolderID()
	mustUnlock(t, l)
	l = mustLock(t, m, "a")
	requireTimesOut(t, func() error {
		return errOf(other.Lock(ctx, "a", lockmgr.TakeOver(from), lockmgr.MaxWait(10*time.Millisecond)))
	})
	mustUnlock(t, l)
}

// The record may carry an earlier number of a hold that was passed on in memory a moment ago. It
// stays under the ID that callers know.
func TestTakeOver_OfAHoldThatWasPassedOn(t *testing.T) {
	for _, work := range []time.Duration{0, 500 * time.Microsecond, time.Millisecond, 20 * time.Millisecond} {
		t.Run(work.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T, w *scene) {
				m, other := w.managers(lockmgr.Options{})
				for range 10 {
					l := mustLock(t, m, "a")
					plain, kept := m.LockAsync("a"), m.LockAsync("a", lockmgr.KeepFor(10*time.Second))
					synctest.Wait() // both wait
					mustUnlock(t, l)
					mustUnlock(t, mustAwait(t, plain))
					l = mustAwait(t, kept)
					time.Sleep(work)
					mustUnlock(t, l)
					mustUnlock(t, must(other.TryLock(ctx, "a", lockmgr.TakeOver(l.HolderID())))(t))
				}
			})
		})
	}
}
