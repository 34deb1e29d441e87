package lockmgr_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/thorough"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// register is a resource that finds stale tokens and two holders at a time.
type register struct {
	token   atomic.Int64
	holders atomic.Int32
	grants  atomic.Int64
}

func (r *register) enter(t *testing.T, l *lockmgr.Lock) {
	r.grants.Add(1)
	if r.holders.Add(1) != 1 {
		t.Errorf("two holders of %s", l.Name())
	}
	if was := r.token.Swap(l.Token()); was >= l.Token() {
		t.Errorf("token %d of %s after %d", l.Token(), l.Name(), was)
	}
}

func (r *register) leave() { r.holders.Add(-1) }

// Several managers contend for few names, callers give up early, and an administrator kills
// connections and flushes scripts. Locks stay exclusive, and nothing is left.
func TestServer_Stress(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	const managers, workers, names = 3, 40, 4
	var registers [names]register
	var ms [managers]*lockmgr.Manager
	for i := range ms {
		ms[i] = dial(t, s.Addr(), lockmgr.Options{CommandTimeout: 500 * time.Millisecond, Linger: 100 * time.Millisecond})
	}
	until := time.Now().Add(time.Duration(thorough.Choose(1, 2)) * time.Second)
	var g errgroup.Group
	for _, m := range ms {
		for range workers {
			g.Go(func() error {
				for time.Now().Before(until) {
					i := rand.IntN(names)
					opts := []lockmgr.LockOption{lockmgr.Fenced()}
					if rand.IntN(4) == 0 {
						opts = append(opts, lockmgr.MaxWait(time.Duration(rand.IntN(2000))*time.Microsecond))
					}
					c, cancel := ctx, context.CancelFunc(func() {})
					if rand.IntN(4) == 0 {
						c, cancel = context.WithTimeout(ctx, time.Duration(rand.IntN(2000))*time.Microsecond)
					}
					l, err := m.Lock(c, "stress:"+string(rune('a'+i)), opts...)
					cancel()
					switch {
					case err == nil:
					case errors.Is(err, lockmgr.ErrNotAcquired), errors.Is(err, context.DeadlineExceeded), errors.Is(err, lockmgr.ErrUnavailable):
						continue // the wait was over, or the connection was killed
					default:
						return err
					}
					registers[i].enter(t, l)
					if rand.IntN(10) == 0 {
						time.Sleep(time.Duration(rand.IntN(1000)) * time.Microsecond) // work
					}
					if !l.Valid() {
						t.Errorf("lost: %v", l.Err())
					}
					registers[i].leave()
					if err := l.Unlock(ctx); err != nil {
						return err
					}
				}
				return nil
			})
		}
	}
	g.Go(func() error {
		for time.Now().Before(until) {
			for _, cmd := range [][]string{{"CLIENT", "KILL", "TYPE", "normal"}, {"CLIENT", "KILL", "TYPE", "pubsub"}, {"SCRIPT", "FLUSH"}} {
				if _, err := s.Do(cmd...); err != nil {
					return err
				}
				time.Sleep(50 * time.Millisecond)
			}
		}
		return nil
	})
	require.NoError(t, g.Wait())
	total := int64(0)
	for i := range registers {
		total += registers[i].grants.Load()
	}
	t.Logf("%d grants", total)
	faults.Eventually(t, func() bool {
		n := 0
		for _, m := range ms {
			n += m.Stats().Locks + m.Stats().Subscriptions
		}
		return n == 0
	}, "names and subscriptions end")
	require.Equal(t, "0", must(s.Do("EXISTS", "stress:a", "stress:b", "stress:c", "stress:d"))(t))
}

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
