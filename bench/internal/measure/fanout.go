package measure

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/bench/internal/clock"
	"github.com/holdfast-go/holdfast/bench/internal/locker"
	"github.com/holdfast-go/holdfast/bench/internal/result"
	"github.com/holdfast-go/holdfast/bench/internal/stats"
)

// FanoutFigures are those of fanout.
var FanoutFigures = []result.Figure{
	{Key: "drain", Name: "drain time", Unit: "ms", Better: result.Lower, Chart: true},
	{Key: "handoffs", Name: "handoffs", Unit: "/s", Better: result.Higher, Chart: true},
	{Key: "over", Name: "beyond holding", Unit: "%"},
	{Key: "wait50", Name: "wait p50", Unit: "ms", Better: result.Lower},
	{Key: "wait99", Name: "wait p99", Unit: "ms", Better: result.Lower},
	{Key: "waitmax", Name: "wait max", Unit: "ms", Better: result.Lower},
	{Key: "commands", Name: "commands", Unit: "/handoff", Better: result.Lower, Count: true, Chart: true},
	{Key: "bytes", Name: "bytes", Unit: "/handoff", Better: result.Lower, Count: true},
	{Key: "cpu", Name: "client CPU", Unit: "ms", Better: result.Lower},
	{Key: "servercpu", Name: "server CPU", Unit: "ms", Better: result.Lower},
	{Key: "heap", Name: "peak heap", Unit: "MB", Better: result.Lower},
	{Key: "goroutines", Name: "goroutines", Better: result.Lower, Count: true},
}

// A crowd is many callers in one process that want one lock, each for some turns.
type crowd struct {
	lock  func(ctx context.Context, caller int) (locker.Held, error)
	hold  time.Duration
	turns int
	pause time.Duration // on average, see Spec

	asks    []int64 // by caller and turn: when it began to wait
	grants  []int64 // by caller and turn: when, on the common clock; zero: not yet
	ends    []int64 // when it was done holding
	granted atomic.Int64
	inside  atomic.Int64 // must never pass 1 within one process
	twice   atomic.Bool
	wg      sync.WaitGroup

	mu  sync.Mutex
	err error // the first
}

// newCrowd starts n callers that want name.
func newCrowd(ctx context.Context, l locker.Locker, name string, n, turns int, hold time.Duration) *crowd {
	c := emptyCrowd(n, turns, hold, func(ctx context.Context, _ int) (locker.Held, error) { return l.Lock(ctx, name) })
	for i := range n {
		c.start(ctx, i)
	}
	return c
}

// emptyCrowd returns a crowd of n callers that have not started.
func emptyCrowd(n, turns int, hold time.Duration, lock func(ctx context.Context, caller int) (locker.Held, error)) *crowd {
	turns = max(turns, 1)
	return &crowd{lock: lock, hold: hold, turns: turns, asks: make([]int64, n*turns), grants: make([]int64, n*turns), ends: make([]int64, n*turns)}
}

// start starts a caller.
func (c *crowd) start(ctx context.Context, caller int) {
	c.wg.Go(func() {
		for t := range c.turns {
			if err := c.turn(ctx, caller, caller*c.turns+t); err != nil {
				c.fail(err)
				return
			}
		}
	})
}

func (c *crowd) turn(ctx context.Context, caller, i int) error {
	if c.pause > 0 && i%c.turns > 0 {
		time.Sleep(c.pause/2 + rand.N(c.pause))
	}
	c.asks[i] = clock.Now()
	h, err := c.lock(ctx, caller)
	if err != nil {
		return err
	}
	atomic.StoreInt64(&c.grants[i], clock.Now())
	if c.inside.Add(1) > 1 {
		c.twice.Store(true)
	}
	c.granted.Add(1)
	if c.hold > 0 {
		time.Sleep(c.hold)
	}
	atomic.StoreInt64(&c.ends[i], clock.Now())
	c.inside.Add(-1)
	if err := h.Unlock(ctx); err != nil {
		return fmt.Errorf("unlock: %w", err)
	}
	return nil
}

func (c *crowd) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = err
	}
}

// wait returns when all have had the lock, or an error that says how many have not.
func (c *crowd) wait(ctx context.Context) error {
	done := make(chan struct{})
	go func() { c.wg.Wait(); close(done) }()
	select {
	case <-done:
	case <-ctx.Done():
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	n := int(c.granted.Load())
	switch {
	case c.twice.Load():
		return partial("two held the lock at a time")
	case n < len(c.grants) && ctx.Err() != nil:
		return partial(fmt.Sprintf("stopped by the watchdog: %d of %d granted", n, len(c.grants)))
	case c.err != nil:
		return c.err
	}
	return ctx.Err()
}

// none returns an error if somebody has had the lock.
func (c *crowd) none() error {
	if n := c.granted.Load(); n > 0 {
		return partial(fmt.Sprintf("%d were granted a lock that is held", n))
	}
	return nil
}

// warm has a small crowd lock another name first: the code, the connections and the memory of a
// process that has just begun are not what is measured.
func (b *bench) warm(ctx context.Context, number int) error {
	if b.Warm == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, max(b.Limit/4, time.Second))
	defer cancel()
	name := fmt.Sprintf("%s:warm-up:%d", b.Name, number)
	h, err := b.locker.Lock(ctx, name)
	if err != nil {
		return fmt.Errorf("warm-up: %w", err)
	}
	c := newCrowd(ctx, b.locker, name, b.Warm, 1, 0)
	if err := errors.Join(pause(ctx, b.Settle/10), h.Unlock(ctx)); err != nil {
		return fmt.Errorf("warm-up: %w", err)
	}
	if err := c.wait(ctx); err != nil {
		return partial("warm-up: " + err.Error())
	}
	return nil
}

func fanout(ctx context.Context, b *bench) error {
	if err := b.warm(ctx, 0); err != nil {
		return err
	}
	h, err := b.locker.Lock(ctx, b.Name)
	if err != nil {
		return err
	}
	c := newCrowd(ctx, b.locker, b.Name, b.Waiters, b.Turns, b.Hold)
	if err := pause(ctx, b.Settle); err != nil {
		return err
	}
	return b.drain(ctx, h, c)
}

// drain measures a crowd from the release of the lock that it waits for until it is done.
func (b *bench) drain(ctx context.Context, h locker.Held, c *crowd) error {
	if err := c.none(); err != nil {
		return err
	}
	var began int64
	used, err := b.cost(true, func() error {
		began = clock.Now()
		if err := h.Unlock(ctx); err != nil {
			return err
		}
		return c.wait(ctx)
	})
	if err == nil {
		b.drained(began, c.grants, c.ends, used)
	}
	return err
}

// drained fills in the figures of a crowd that is done. A turn's wait begins with the release that
// set all going, or with the end of the turn before, or of the pause.
func (b *bench) drained(began int64, grants, ends []int64, used cost) {
	n := float64(len(grants))
	waits := make([]time.Duration, len(grants))
	var held time.Duration
	for i, at := range grants {
		since := began
		if b.Turns > 1 && i%b.Turns > 0 {
			since = ends[i-1]
			if b.Pause > 0 {
				since = b.asks[i]
			}
		}
		waits[i] = time.Duration(at - since)
		held += time.Duration(ends[i] - at)
	}
	slices.Sort(waits)
	drain := time.Duration(slices.Max(ends) - began)
	v := b.values
	v["drain"], v["handoffs"] = ms(drain), n/drain.Seconds()
	if b.Hold > 0 {
		// What the callers slept is not the lock's doing, nor that a sleep takes longer than it was
		// asked to.
		v["over"] = 100 * float64(drain-held) / float64(held)
	}
	v["wait50"], v["wait99"], v["waitmax"] = ms(stats.Quantile(waits, 0.5)), ms(stats.Quantile(waits, 0.99)), ms(waits[len(waits)-1])
	v["cpu"] = ms(used.cpu)
	v["heap"], v["goroutines"] = used.heap/1e6, used.goroutines
	b.serverFigures(used, n)
}

// serverFigures fills in what the server counted, per unit of work.
func (b *bench) serverFigures(used cost, n float64) {
	if b.conn == nil {
		return
	}
	b.values["commands"] = used.server.Commands(b.candidate.Extra...) / n
	b.values["bytes"] = (used.server.In + used.server.Out) / n
	b.values["servercpu"] = ms(used.server.CPU)
}

// secondsOf fills in the CPU time in seconds for 100,000 units of work.
func (b *bench) secondsOf(used cost, n float64) {
	b.values["cpu"], b.values["servercpu"] = used.cpu.Seconds()/n*1e5, used.server.CPU.Seconds()/n*1e5
}

// perSecond fills in what some seconds cost, and the CPU time in percent of a core.
func (b *bench) perSecond(used cost, seconds float64) {
	b.serverFigures(used, seconds)
	b.values["cpu"], b.values["servercpu"] = 100*used.cpu.Seconds()/seconds, 100*used.server.CPU.Seconds()/seconds
}
