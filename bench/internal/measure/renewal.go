package measure

import (
	"context"
	"fmt"
	"runtime"
	"strconv"

	"golang.org/x/sync/errgroup"

	"github.com/holdfast-go/holdfast/bench/internal/locker"
	"github.com/holdfast-go/holdfast/bench/internal/result"
)

// RenewalFigures are those of renewal.
var RenewalFigures = []result.Figure{
	{Key: "commands", Name: "commands", Unit: "/s", Better: result.Lower, Count: true, Chart: true},
	{Key: "bytes", Name: "bytes", Unit: "/s", Better: result.Lower, Count: true},
	{Key: "cpu", Name: "client CPU", Unit: "% of a core", Better: result.Lower},
	{Key: "servercpu", Name: "server CPU", Unit: "% of a core", Better: result.Lower},
	{Key: "goroutines", Name: "goroutines", Better: result.Lower, Count: true},
	{Key: "heap", Name: "heap and stacks", Unit: "B/lock", Better: result.Lower, Count: true, Chart: true},
}

// As many callers take and give back the locks. More than that does nothing for the measurement.
const hands = 64

// renewal takes many locks and looks on while they are kept.
func renewal(ctx context.Context, b *bench) error {
	names := make([]string, b.Locks)
	for i := range names {
		names[i] = b.Name + ":" + strconv.Itoa(i)
	}
	held := make([]locker.Held, b.Locks)
	before := memory()
	if err := Each(ctx, hands, len(names), func(i int) (err error) {
		held[i], err = b.locker.Lock(ctx, names[i])
		return err
	}); err != nil {
		return err
	}
	if _, err := b.lookOn(ctx, before, b.Locks); err != nil {
		return err
	}
	if err := b.allHeld(); err != nil {
		return err
	}
	b.onEnd = append(b.onEnd, func() {
		ctx := context.WithoutCancel(ctx)
		_ = Each(ctx, hands, len(held), func(i int) error { return held[i].Unlock(ctx) })
	})
	return nil
}

// lookOn measures for Window. It fills in figures a second, and what has come to this process
// since before: goroutines, and memory for each of n.
func (b *bench) lookOn(ctx context.Context, before footprint, n int) (used cost, err error) {
	after := memory()
	if used, err = b.cost(false, func() error { return pause(ctx, b.Window) }); err != nil {
		return used, err
	}
	b.perSecond(used, used.took.Seconds())
	b.values["goroutines"] = after.goroutines - before.goroutines
	b.values["heap"] = (after.heap + after.stacks - before.heap - before.stacks) / float64(n)
	return used, nil
}

// allHeld returns an error if the server has fewer records than Locks.
func (b *bench) allHeld() error {
	size, err := b.conn.Do("DBSIZE")
	if err != nil {
		return err
	}
	if n, err := strconv.Atoi(size); err == nil && n < b.Locks {
		return partial(fmt.Sprintf("%d of %d locks were lost", b.Locks-n, b.Locks))
	}
	return nil
}

// Each calls f for 0 to n-1 on some goroutines, and returns the first error.
func Each(ctx context.Context, hands, n int, f func(int) error) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(hands)
	for i := range n {
		if ctx.Err() != nil {
			break
		}
		g.Go(func() error { return f(i) })
	}
	return g.Wait()
}

// A footprint is what the process holds on to.
type footprint struct{ heap, stacks, goroutines float64 }

func memory() footprint {
	runtime.GC()
	runtime.GC() // what the first one left in pools
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return footprint{float64(m.HeapAlloc), float64(m.StackInuse), float64(runtime.NumGoroutine())}
}
