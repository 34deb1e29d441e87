package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// A crowd of callers who change their minds.
type crowd struct {
	ms     []*lockmgr.Manager
	names  []string
	left   atomic.Int64 // requests to be cancelled yet
	inside []atomic.Int32

	wanted, cancelled, raced atomic.Int64
}

func newCrowd(left int, ms []*lockmgr.Manager) *crowd {
	c := &crowd{ms: ms, names: []string{"a", "b", "c"}}
	c.inside = make([]atomic.Int32, len(c.names))
	c.left.Store(int64(left))
	return c
}

// moment waits for up to about a millisecond: from nothing at all over the time of a round trip to
// that of some handoffs.
func moment(rng *rand.Rand) {
	switch rng.IntN(4) {
	case 0:
	case 1:
		for range rng.IntN(20) {
			runtime.Gosched()
		}
	case 2:
		for end := time.Now().Add(time.Duration(rng.IntN(300)) * time.Microsecond); time.Now().Before(end); {
			runtime.Gosched()
		}
	default:
		time.Sleep(time.Duration(rng.IntN(1000)) * time.Microsecond)
	}
}

// live is one caller: of four requests it wants one, and takes three back at some moment or other.
func (c *crowd) live(rng *rand.Rand) error {
	for c.left.Load() > 0 {
		m, i := c.ms[rng.IntN(len(c.ms))], rng.IntN(len(c.names))
		var l *lockmgr.Lock
		var err error
		way := rng.IntN(8)
		switch way {
		case 0, 1: // is wanted
			c.wanted.Add(1)
			patient, cancel := context.WithTimeout(ctx, faults.Patience)
			l, err = m.Lock(patient, c.names[i])
			cancel()
			if err != nil {
				return fmt.Errorf("a request that nobody cancelled: %w, %+v", err, m.Stats())
			}
		case 2, 3:
			f := m.LockAsync(c.names[i])
			moment(rng)
			if way == 3 { // often after the grant, on a busy machine, too
				select {
				case <-f.Done():
					c.raced.Add(1) // Cancel gives the lock back
				case <-time.After(time.Duration(rng.IntN(20)) * time.Millisecond):
				}
			}
			f.Cancel()
			<-f.Done()
			l, err = f.Result()
		case 4:
			cancelled, cancel := context.WithCancel(ctx)
			done := make(chan struct{})
			go func(seed uint64) {
				defer close(done)
				moment(rand.New(rand.NewPCG(seed, 0)))
				cancel()
			}(rng.Uint64())
			l, err = m.Lock(cancelled, c.names[i])
			<-done
		case 5:
			timed, cancel := context.WithTimeout(ctx, time.Duration(rng.IntN(1500))*time.Microsecond)
			l, err = m.Lock(timed, c.names[i])
			cancel()
		default:
			l, err = m.Lock(ctx, c.names[i], lockmgr.MaxWait(time.Duration(rng.IntN(1500))*time.Microsecond))
		}
		if way > 1 {
			c.left.Add(-1)
		}
		if err != nil {
			if !errors.Is(err, lockmgr.ErrCanceled) && !errors.Is(err, context.Canceled) &&
				!errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, lockmgr.ErrNotAcquired) &&
				!errors.Is(err, lockmgr.ErrUnavailable) { // a busy machine is silent for some 50 ms
				return err
			}
			c.cancelled.Add(1)
			continue
		}
		if way > 1 {
			c.raced.Add(1)
		}
		if n := c.inside[i].Add(1); n != 1 {
			return fmt.Errorf("%d holders of %s", n, l.Name())
		}
		if rng.IntN(8) == 0 {
			moment(rng)
		}
		c.inside[i].Add(-1)
		if rng.IntN(2) == 0 {
			l.UnlockAsync()
		} else if err := l.Unlock(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Thousands of requests for a few hot names, most of them taken back at a random moment, while two
// managers contend: every request that was not taken back is served, and by messages, as no lease
// ends here. When the managers are closed Redis has nothing, and nothing of it went by expiring.
func TestCancel_RandomCancelsLeaveNothing(t *testing.T) {
	s := redistest.Start(t)
	gone := expired(t, s)
	var ms []*lockmgr.Manager
	for _, linger := range []time.Duration{-1, time.Millisecond} { // subscriptions go at once, or are kept for a while
		ms = append(ms, dial(t, s, lockmgr.Options{Linger: linger, PassCount: 8, PassTime: time.Millisecond}))
	}
	c := newCrowd(*cancels, ms)
	seed := rand.Uint64()
	start := time.Now()
	var g errgroup.Group
	for i := range 24 {
		g.Go(func() error { return c.live(rand.New(rand.NewPCG(seed, uint64(i)))) })
	}
	require.NoError(t, g.Wait())
	t.Logf("%d refused, %d taken back too late, %d wanted, in %v", c.cancelled.Load(), c.raced.Load(), c.wanted.Load(), time.Since(start))
	require.Positive(t, c.cancelled.Load())
	require.Positive(t, c.raced.Load())

	for _, m := range c.ms {
		require.Eventually(t, func() bool {
			st := m.Stats()
			return st.Pending == 0 && st.Waiting == 0 && st.Held == 0 && st.Locks == 0 && st.Subscriptions == 0
		}, faults.Patience, time.Millisecond, "%+v", m.Stats())
		require.Zero(t, m.Stats().Losses)
		require.Zero(t, m.Stats().Unreleased)
	}
	require.Equal(t, "0", faults.Do(t, s, "DBSIZE"), "managers that live on have left %s", faults.Do(t, s, "KEYS", "*"))
	faults.Eventually(t, func() bool { return faults.Do(t, s, "PUBSUB", "CHANNELS") == "" }, "a subscription is left")
	for _, m := range c.ms {
		require.NoError(t, m.Close(faults.Patient(t)))
	}
	requireEmpty(t, s)
	require.Empty(t, gone())
}
