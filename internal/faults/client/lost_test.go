package client

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// tooEarly is how much before its deadline a lock may be lost for nothing: the clock that counts
// suspensions may take the pause of a thread for a short one.
const tooEarly = 10 * time.Millisecond

// Locks whose leases end at random while others keep the manager busy: Lost fires for each, not
// before its deadline, and none is valid then. With -lateness it measures how long after the
// deadline the news was read.
func TestLock_LossIsToldForEach(t *testing.T) {
	t.Parallel()
	locks, busy, longest := 200, 32, 600*time.Millisecond
	if *lateness {
		locks, busy, longest = 2000, 256, 5*time.Second
	}
	s := redistest.Start(t)
	m := dial(t, s, lockmgr.Options{})
	stop := make(chan struct{})
	var load errgroup.Group
	for i := range busy {
		name := fmt.Sprint("busy:", i%(busy/2)) // half of them contended
		load.Go(func() error {
			for {
				select {
				case <-stop:
					return nil
				default:
				}
				l, err := m.Lock(ctx, name)
				if err == nil {
					err = l.Unlock(ctx)
				}
				if err != nil {
					return err
				}
			}
		})
	}
	var mu sync.Mutex
	var late []time.Duration
	var g errgroup.Group
	for i := range locks {
		g.Go(func() error {
			lease := lockmgr.MinLease*10 + time.Duration(rand.Int64N(int64(longest)))
			l, err := m.Lock(ctx, fmt.Sprint("ending:", i), lockmgr.FixedLease(lease))
			if err != nil {
				return err
			}
			lost := l.Lost()
			before := time.Now()
			left := l.Remaining()
			deadline := before.Add(left) // or a little later: what is measured is no less than what was
			if left == 0 {               // it took that long to get here
				<-lost
				return nil
			}
			select {
			case <-lost:
			case <-time.After(left + faults.Patience):
				return fmt.Errorf("%s: Lost has not fired", l.Name())
			}
			at := time.Now()
			switch {
			case l.Valid() || l.Err() == nil:
				return fmt.Errorf("%s: lost, and valid: %v", l.Name(), l.Err())
			case at.Before(deadline.Add(-tooEarly)):
				return fmt.Errorf("%s: lost %v before its deadline", l.Name(), deadline.Sub(at))
			}
			mu.Lock()
			late = append(late, at.Sub(deadline))
			mu.Unlock()
			return nil
		})
	}
	require.NoError(t, g.Wait())
	close(stop)
	require.NoError(t, load.Wait())
	require.NotEmpty(t, late)
	require.EqualValues(t, locks, m.Stats().Losses)
	slices.Sort(late)
	at := func(q float64) time.Duration { return late[int(q*float64(len(late)-1))].Round(10 * time.Microsecond) }
	t.Logf("%d losses beside %d busy goroutines (%d grants): late by p50 %v, p99 %v, max %v",
		len(late), busy, m.Stats().Grants, at(0.5), at(0.99), at(1))
}
