package measure

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/holdfast-go/holdfast/bench/internal/locker"
)

// A load is callers that lock again and again, until the first error or the end.
type load struct {
	hold    time.Duration
	seed    uint64
	held    *inUse      // nil: not counted
	waits   []*underWay // of which the longest is wanted
	ctx     context.Context
	stop    func()
	phase   atomic.Int32
	some    atomic.Bool // there was a grant while the load is measured
	group   sync.WaitGroup
	fail    sync.Once
	failure error
	failed  chan struct{} // closed when failure is set
}

func (b *bench) newLoad(ctx context.Context) *load {
	ctx, stop := context.WithCancel(ctx)
	l := &load{hold: b.Hold, seed: b.Seed, ctx: ctx, stop: stop, failed: make(chan struct{})}
	if len(b.Callers) > 0 {
		l.held = &inUse{}
	}
	return l
}

// inUse counts what is held, over time. A nil one does nothing.
type inUse struct {
	mu    sync.Mutex
	n     int
	since time.Time
	sum   time.Duration // for how long all have been held, up to since
}

// add notes that n more are held from now on. It returns for how long all have been held.
func (u *inUse) add(n int) time.Duration {
	if u == nil {
		return 0
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	now := time.Now()
	u.sum += time.Duration(u.n) * now.Sub(u.since)
	u.n, u.since = u.n+n, now
	return u.sum
}

// repeat starts a caller that pauses, locks, holds and unlocks, again and again. A pause takes
// between on average, and half of that at least, so it ends anywhere within the holds of others.
// repeat records in waits how long each lock took that was granted while the load is measured.
func (l *load) repeat(waits *hdrhistogram.Histogram, between time.Duration, lock func(context.Context) (locker.Held, error)) {
	l.group.Go(func() {
		rng := rand.New(rand.NewPCG(l.seed, 29))
		for pause(l.ctx, between/2+time.Duration(rng.Int64N(int64(between)+1))) == nil {
			began := time.Now()
			h, err := lock(l.ctx)
			waited := time.Since(began)
			if err == nil {
				if l.phase.Load() == measuring {
					_ = waits.RecordValue(int64(waited))
					if !l.some.Load() {
						l.some.Store(true)
					}
				}
				l.held.add(1)
				_ = pause(l.ctx, l.hold)
				l.held.add(-1)
				err = h.Unlock(context.WithoutCancel(l.ctx))
			}
			if err != nil {
				if l.ctx.Err() == nil {
					l.fail.Do(func() { l.failure = err; close(l.failed) })
				}
				return
			}
		}
	})
}

// wait blocks for d, or until there is an error.
func (l *load) wait(d time.Duration) error {
	select {
	case <-l.failed:
		return l.failure
	case <-l.ctx.Done():
		return l.ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// end ends the callers, and waits for them.
func (l *load) end() {
	l.stop()
	l.group.Wait()
}

// underWay is the wait of one caller that is not over.
type underWay struct{ since atomic.Int64 }

// noted returns lock with its waits noted.
func (l *load) noted(lock func(context.Context) (locker.Held, error)) func(context.Context) (locker.Held, error) {
	u := &underWay{}
	l.waits = append(l.waits, u)
	return func(ctx context.Context) (locker.Held, error) {
		u.since.Store(time.Now().UnixNano())
		defer u.since.Store(0)
		return lock(ctx)
	}
}

// taken returns how long the wait has taken so far, or zero if there is none.
func (u *underWay) taken() time.Duration {
	at := u.since.Load()
	if at == 0 {
		return 0
	}
	return time.Since(time.Unix(0, at))
}

// A window is what came of a load.
type window struct {
	cost
	longest time.Duration // of the waits that were noted and not over
	inUse   float64       // held on average
}

// window lets a load run for Warmup, measures it for Window, and ends it.
func (b *bench) window(l *load) (w window, err error) {
	defer l.end()
	if err := l.wait(b.Warmup); err != nil {
		return w, err
	}
	w.cost, err = b.cost(false, func() error {
		began, before := time.Now(), l.held.add(0)
		l.phase.Store(measuring)
		err := l.wait(b.Window)
		for err == nil && !l.some.Load() { // a window that is short for this machine
			err = l.wait(10 * time.Millisecond)
		}
		w.inUse = float64(l.held.add(0)-before) / float64(time.Since(began))
		l.phase.Store(over)
		for _, u := range l.waits {
			w.longest = max(w.longest, u.taken())
		}
		return err
	})
	return w, err
}

// merged returns all that some histograms have.
func merged(some []*hdrhistogram.Histogram) *hdrhistogram.Histogram {
	all := newHistogram()
	for _, h := range some {
		all.Merge(h)
	}
	return all
}

// grants measures Waiters callers that lock again and again, each for Hold. It fills in the
// figures, and returns the waits of each caller.
func (b *bench) grants(ctx context.Context, lock func(ctx context.Context, caller int) (locker.Held, error)) ([]*hdrhistogram.Histogram, error) {
	load := b.newLoad(ctx)
	waits := make([]*hdrhistogram.Histogram, b.Waiters)
	for i := range waits {
		waits[i] = newHistogram()
		load.repeat(waits[i], 0, load.noted(func(ctx context.Context) (locker.Held, error) { return lock(ctx, i) }))
	}
	w, err := b.window(load)
	if err != nil {
		return nil, err
	}
	all := merged(waits)
	n := float64(all.TotalCount())
	b.serverFigures(w.cost, n)
	v := b.values
	v["inuse"] = w.inUse
	v["grants"] = n / w.took.Seconds()
	v["wait50"], v["wait99"] = ms(time.Duration(all.ValueAtPercentile(50))), ms(time.Duration(all.ValueAtPercentile(99)))
	v["waitmax"] = ms(max(w.longest, time.Duration(all.Max())))
	b.secondsOf(w.cost, n)
	return waits, nil
}
