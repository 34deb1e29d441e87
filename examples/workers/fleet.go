package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"golang.org/x/sync/errgroup"

	"github.com/holdfast-go/holdfast/examples/internal/story"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// A fleet is many workers over fewer names.
type fleet struct {
	manager *lockmgr.Manager
	names   []string
	hold    time.Duration

	// holders has the lock under which somebody works, for each name.
	holders  []atomic.Pointer[lockmgr.Lock]
	overlaps atomic.Int64 // how often two held the same name
	lost     atomic.Int64
	grants   atomic.Int64
	waits    waits
}

func newFleet(m *lockmgr.Manager, names int, hold time.Duration) *fleet {
	// A prefix of its own for every run: another one may be at work on the same server.
	run := fmt.Sprintf("workers-%04x", rand.N(1<<16))
	f := &fleet{manager: m, hold: hold, holders: make([]atomic.Pointer[lockmgr.Lock], names)}
	for i := range names {
		f.names = append(f.names, fmt.Sprintf("%s:%d", run, i))
	}
	f.waits.histogram = hdrhistogram.New(1, time.Hour.Microseconds(), 3)
	return f
}

// run sets n workers to work until ctx ends or something goes wrong.
func (f *fleet) run(ctx context.Context, n int) error {
	workers, ctx := errgroup.WithContext(ctx)
	for range n {
		workers.Go(func() error {
			for ctx.Err() == nil {
				if err := f.work(ctx, rand.N(len(f.names))); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return workers.Wait()
}

// work takes one lock, works, and gives it back.
func (f *fleet) work(ctx context.Context, i int) error {
	asked := time.Now()
	lock, err := f.manager.Lock(ctx, f.names[i])
	if err != nil {
		return unlessOver(ctx, err)
	}
	f.waits.add(time.Since(asked))
	f.grants.Add(1)

	// Whoever was there before and has not left must have lost the lock. Locks that are valid have
	// been so since their grant: if other was when it was asked, and ours is now, then both were at
	// that moment.
	if other := f.holders[i].Swap(lock); other != nil && other.Valid() && lock.Valid() {
		f.overlaps.Add(1)
	}
	_ = story.Pause(ctx, f.hold) // the work; it may be cut short
	f.holders[i].CompareAndSwap(lock, nil)

	// When the time is over nobody waits for the answer, but the lock is given back all the same.
	err = lock.Unlock(ctx)
	if errors.Is(err, lockmgr.ErrLeaseLost) {
		f.lost.Add(1)
		return nil
	}
	return unlessOver(ctx, err)
}

// unlessOver returns no error if it is only that the time is over.
func unlessOver(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil
	}
	return err
}

// waits records how long the grants took. A histogram keeps its size however long the program runs.
type waits struct {
	mu        sync.Mutex
	histogram *hdrhistogram.Histogram // of microseconds
}

func (w *waits) add(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	_ = w.histogram.RecordValue(max(1, d.Microseconds())) // an hour at most
}

// at returns the wait that so many per cent of the grants did not exceed.
func (w *waits) at(percent float64) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Duration(w.histogram.ValueAtQuantile(percent)) * time.Microsecond
}
