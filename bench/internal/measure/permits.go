package measure

import (
	"context"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/holdfast-go/holdfast/bench/internal/locker"
	"github.com/holdfast-go/holdfast/bench/internal/result"
)

// PermitsFigures are those of permits.
var PermitsFigures = []result.Figure{
	{Key: "grants", Name: "grants", Unit: "/s", Better: result.Higher, Chart: true},
	{Key: "wait50", Name: "wait p50", Unit: "ms", Better: result.Lower, Chart: true},
	{Key: "wait99", Name: "wait p99", Unit: "ms", Better: result.Lower, Chart: true},
	{Key: "waitmax", Name: "at most", Unit: "ms", Better: result.Lower},
	{Key: "without", Name: "workers without a grant"},
	{Key: "commands", Name: "commands", Unit: "/grant", Better: result.Lower, Count: true, Chart: true},
	{Key: "cpu", Name: "client CPU", Unit: "s/100k grants", Better: result.Lower},
	{Key: "servercpu", Name: "server CPU", Unit: "s/100k grants", Better: result.Lower},
}

// permits measures Waiters callers that take one of Permits permits again and again, each
// for Hold.
func permits(ctx context.Context, b *bench) error {
	limiter := b.locker.(locker.Limiter)
	load := b.newLoad(ctx)
	defer load.end()
	waits, open := make([]*hdrhistogram.Histogram, b.Waiters), make([]underWay, b.Waiters)
	for i := range waits {
		waits[i] = newHistogram()
		load.repeat(waits[i], 0, open[i].of(func(ctx context.Context) (locker.Held, error) {
			return limiter.Acquire(ctx, name, b.Permits)
		}))
	}

	m, began, err := b.window(load)
	if err != nil {
		return err
	}
	for !load.some.Load() { // a window that is short for this machine
		if err := load.wait(10 * time.Millisecond); err != nil {
			return err
		}
	}
	took := time.Duration(clock() - began)
	load.phase.Store(over)
	var longest time.Duration // of the waits that are not over
	for i := range open {
		longest = max(longest, open[i].taken())
	}
	used, err := m.stop()
	if err != nil {
		return err
	}
	load.end()
	all := newHistogram()
	without := 0
	for _, h := range waits {
		all.Merge(h)
		if h.TotalCount() == 0 {
			without++
		}
	}
	n := float64(all.TotalCount())
	b.serverFigures(used, n)
	v := b.values
	v["grants"] = n / took.Seconds()
	v["wait50"], v["wait99"] = ms(time.Duration(all.ValueAtPercentile(50))), ms(time.Duration(all.ValueAtPercentile(99)))
	v["waitmax"] = ms(max(longest, time.Duration(all.Max())))
	v["without"] = float64(without)
	v["cpu"] = used.cpu.Seconds() / n * 1e5
	if used.server.Detailed {
		v["servercpu"] = used.server.CPU.Seconds() / n * 1e5
	}
	return nil
}
