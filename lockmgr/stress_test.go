package lockmgr_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

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

// Several managers contend for few names, callers give up early, and an administrator
// kills connections and flushes scripts. Locks stay exclusive, and nothing is left.
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
					case errors.Is(err, lockmgr.ErrNotAcquired), errors.Is(err, context.DeadlineExceeded):
						continue
					case errors.Is(err, lockmgr.ErrUnavailable): // its connection was killed
						continue
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
