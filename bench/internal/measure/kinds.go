package measure

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/holdfast-go/holdfast/bench/internal/locker"
	"github.com/holdfast-go/holdfast/bench/internal/result"
)

// ReadersFigures are those of readers.
var ReadersFigures = []result.Figure{
	{Key: "reads", Name: "reads", Unit: "/s", Better: result.Higher, Chart: true},
	{Key: "read99", Name: "read wait p99", Unit: "ms", Better: result.Lower},
	{Key: "write50", Name: "writer's wait p50", Unit: "ms", Better: result.Lower, Chart: true},
	{Key: "writemax", Name: "at most", Unit: "ms", Better: result.Lower},
	{Key: "commands", Name: "commands", Unit: "/1,000 reads", Better: result.Lower, Count: true, Chart: true},
	{Key: "writes", Name: "writes"},
}

// readers measures callers that read again and again, each for Hold, beside one that
// wants to write every Settle.
func readers(ctx context.Context, b *bench) error {
	sides := b.locker.(locker.Sided)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var phase atomic.Int32
	var group sync.WaitGroup
	var failure error
	var fail sync.Once
	failed := make(chan struct{})
	// use holds a side for Hold. It returns how long that took to get, and false when the
	// measurement is over.
	use := func(side func(context.Context, string) (locker.Held, error)) (time.Duration, bool) {
		began := time.Now()
		h, err := side(ctx, name)
		waited := time.Since(began)
		if err == nil {
			_ = pause(ctx, b.Hold)
			err = h.Unlock(context.WithoutCancel(ctx))
		}
		if err != nil && ctx.Err() == nil {
			fail.Do(func() { failure = err; close(failed) })
		}
		return waited, err == nil && phase.Load() != over
	}
	reads := make([]*hdrhistogram.Histogram, b.Waiters)
	for i := range reads {
		reads[i] = newHistogram()
		group.Go(func() {
			for {
				waited, more := use(sides.Read)
				if !more {
					return
				}
				if phase.Load() == measuring {
					_ = reads[i].RecordValue(int64(waited))
				}
			}
		})
	}
	writes := newHistogram()
	group.Go(func() {
		for pause(ctx, b.Settle) == nil {
			waited, more := use(sides.Write)
			if !more {
				return
			}
			if phase.Load() == measuring {
				_ = writes.RecordValue(int64(waited))
			}
		}
	})
	wait := func(d time.Duration) error {
		select {
		case <-failed:
			return failure
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(d):
			return nil
		}
	}
	defer group.Wait()
	defer stop()
	if err := wait(b.Warmup); err != nil {
		return err
	}
	m, err := b.start(false)
	if err != nil {
		return err
	}
	defer m.abandon()
	phase.Store(measuring)
	began := clock()
	if err := wait(b.Window); err != nil {
		return err
	}
	took := time.Duration(clock() - began)
	used, err := m.stop()
	if err != nil {
		return err
	}
	phase.Store(over)
	stop()
	group.Wait()
	all := newHistogram()
	for _, h := range reads {
		all.Merge(h)
	}
	n := float64(all.TotalCount())
	b.serverFigures(used, n/1000)
	v := b.values
	v["reads"] = n / took.Seconds()
	v["read99"] = ms(time.Duration(all.ValueAtPercentile(99)))
	v["writes"] = float64(writes.TotalCount())
	if writes.TotalCount() > 0 {
		v["write50"], v["writemax"] = ms(time.Duration(writes.ValueAtPercentile(50))), ms(time.Duration(writes.Max()))
	}
	return nil
}
