package lockmgr_test

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// burst asks for many locks at once and returns the lock or the error of each.
func burst(t *testing.T, m *lockmgr.Manager, names []string) ([]*lockmgr.Lock, []error) {
	var asked []*futures.Future[*lockmgr.Lock]
	for _, name := range names {
		asked = append(asked, m.LockAsync(name))
	}
	locks, errs := make([]*lockmgr.Lock, len(names)), make([]error, len(names))
	for i, f := range asked {
		locks[i], errs[i] = f.Await(faults.Patient(t))
	}
	return locks, errs
}

// A name that the user may not use, or whose key is no lock, does not harm the other locks of its
// command. The server refuses the command as a whole because of the former.
func TestServer_BadNameHarmsNobodyElse(t *testing.T) {
	s := redistest.Start(t)
	setUser(t, s, "locker", strings.Fields(leastPrivilege)...)
	m := dialAs(t, s.Addr(), "locker", lockmgr.Options{})
	for kind, bad := range map[error]string{lockmgr.ErrPermission: "other:1", lockmgr.ErrWrongType: "app:taken"} {
		faults.Do(t, s, "SET", "app:taken", "x")
		names := numbered("app:", 200)
		names[77] = bad
		locks, errs := burst(t, m, names)
		faults.Do(t, s, "SET", names[78], "y")
		for i := range names {
			switch {
			case i == 77:
				requireServerError(t, kind, errs[i])
			case i == 78:
				require.NoError(t, errs[i])
				require.ErrorIs(t, locks[i].Unlock(faults.Patient(t)), lockmgr.ErrLeaseLost, "it was overwritten")
			default:
				require.NoError(t, errs[i], names[i])
				mustUnlock(t, locks[i])
			}
		}
		require.Equal(t, "2", faults.Do(t, s, "DBSIZE"))
		faults.Do(t, s, "DEL", names[78])
	}
}

// The releases of two managers join the line for the next requests. When one manager asks no more,
// the other does not wait for it, and nothing is left on the server.
func TestServer_ReleasesJoinTheLine(t *testing.T) {
	for name, opts := range map[string][]lockmgr.LockOption{"plain": nil, "fenced": {lockmgr.Fenced()}, "writer": {lockmgr.Exclusive(), lockmgr.Fenced()}} {
		t.Run(name, func(t *testing.T) {
			s, a, b := startServer(t, lockmgr.Options{})
			var last atomic.Int64
			turns := func(m *lockmgr.Manager, n int) {
				for range n {
					l := mustLock(t, m, "a", opts...)
					require.LessOrEqual(t, last.Swap(l.Token()), l.Token())
					mustUnlock(t, l)
				}
			}
			requireOnceWithin(t, 1500*time.Millisecond, func() (longest time.Duration) {
				var other sync.WaitGroup
				other.Go(func() { turns(a, 200) })
				turns(b, 300)
				other.Wait()
				scripts := a.Stats().Scripts
				for range 10 {
					start := time.Now()
					turns(b, 10)
					longest = max(longest, time.Since(start))
				}
				require.LessOrEqual(t, a.Stats().Scripts-scripts, uint64(2), "it gives the lock on, and leaves")
				return longest
			}, "a grant that nobody takes would last for two seconds")
			faults.Eventually(t, func() bool {
				left := strings.Fields(faults.Do(t, s, "KEYS", "*"))
				return len(slices.DeleteFunc(left, func(key string) bool { return key == "redisson_lock_token:{a}" })) == 0
			}, "the line ends")
		})
	}
}
