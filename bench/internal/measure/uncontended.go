package measure

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/holdfast-go/holdfast/bench/internal/locker"
	"github.com/holdfast-go/holdfast/bench/internal/result"
)

// UncontendedFigures are those of uncontended.
var UncontendedFigures = []result.Figure{
	{Key: "pairs", Name: "pairs", Unit: "/s", Better: result.Higher, Chart: true},
	{Key: "p50", Name: "pair p50", Unit: "µs", Better: result.Lower, Chart: true},
	{Key: "p99", Name: "pair p99", Unit: "µs", Better: result.Lower},
	{Key: "commands", Name: "commands", Unit: "/pair", Better: result.Lower, Count: true},
	{Key: "bytes", Name: "bytes", Unit: "/pair", Better: result.Lower, Count: true},
	{Key: "allocs", Name: "allocations", Unit: "/pair", Better: result.Lower, Count: true},
	{Key: "allocated", Name: "allocated", Unit: "B/pair", Better: result.Lower, Count: true},
	{Key: "cpu", Name: "client CPU", Unit: "s/100k pairs", Better: result.Lower, Chart: true},
	{Key: "servercpu", Name: "server CPU", Unit: "s/100k pairs", Better: result.Lower},
}

// The phases of a stretch: what is done in the warm-up does not count.
const (
	warming int32 = iota
	measuring
	over
)

func uncontended(ctx context.Context, b *bench) error {
	names := make([]string, b.Goroutines)
	for i := range names {
		names[i] = fmt.Sprintf("%s:%d", b.Name, i)
	}
	pairer, ok := b.locker.(locker.Pairer)
	if !ok {
		pairer = goroutines{b.locker}
	}
	return b.pairs(ctx, pairer, names)
}

// pairs measures pairs of lock and unlock, each name by itself.
func (b *bench) pairs(ctx context.Context, pairer locker.Pairer, names []string) error {
	var phase atomic.Int32
	var some atomic.Bool // a pair was measured
	histograms := make([]*hdrhistogram.Histogram, pairer.Workers(len(names)))
	for i := range histograms {
		histograms[i] = newHistogram() // all of it now: recording allocates nothing
	}
	failed := make(chan error, 1)
	go func() {
		failed <- pairer.Pairs(ctx, names,
			func() bool { return phase.Load() == over || ctx.Err() != nil },
			func(w int, began time.Time) {
				if phase.Load() == measuring {
					_ = histograms[w].RecordValue(int64(time.Since(began))) // below the watchdog's limit
					if !some.Load() {
						some.Store(true)
					}
				}
			})
	}()
	ended := false
	defer func() {
		phase.Store(over)
		if !ended {
			<-failed
		}
	}()
	wait := func(d time.Duration) error {
		select {
		case err := <-failed:
			ended = true
			if err == nil {
				err = ctx.Err()
			}
			return err
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(d):
			return nil
		}
	}
	if err := wait(b.Warmup); err != nil {
		return err
	}
	used, err := b.cost(false, func() error {
		phase.Store(measuring)
		err := wait(b.Window)
		for err == nil && !some.Load() { // a window that is short for this machine
			err = wait(10 * time.Millisecond)
		}
		phase.Store(over)
		return err
	})
	if err != nil {
		return err
	}
	err, ended = <-failed, true
	if err != nil {
		return err
	}
	all := merged(histograms)
	n := float64(all.TotalCount())
	v := b.values
	v["pairs"] = n / used.took.Seconds()
	v["p50"], v["p99"] = us(time.Duration(all.ValueAtPercentile(50))), us(time.Duration(all.ValueAtPercentile(99)))
	v["allocs"], v["allocated"] = used.allocs/n, used.bytes/n
	b.serverFigures(used, n)
	b.secondsOf(used, n)
	return nil
}

// newHistogram has room for pairs of a nanosecond to ten minutes, to within 1 %.
func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(1, int64(10*time.Minute), 2)
}

// goroutines drives pairs as users do: each goroutine locks and unlocks.
type goroutines struct{ locker locker.Locker }

func (g goroutines) Workers(names int) int { return names }

func (g goroutines) Pairs(ctx context.Context, names []string, stop func() bool, pair func(int, time.Time)) error {
	var wg sync.WaitGroup
	var first atomic.Pointer[error]
	for w, name := range names {
		wg.Go(func() {
			for !stop() && first.Load() == nil {
				began := time.Now()
				h, err := g.locker.Lock(ctx, name)
				if err == nil {
					err = h.Unlock(ctx)
				}
				if err != nil {
					first.CompareAndSwap(nil, &err)
					return
				}
				pair(w, began)
			}
		})
	}
	wg.Wait()
	if err := first.Load(); err != nil {
		return *err
	}
	return nil
}
