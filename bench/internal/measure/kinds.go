package measure

import (
	"context"
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
	{Key: "writemax", Name: "writer's longest wait", Unit: "ms", Better: result.Lower, Long: true},
	{Key: "commands", Name: "commands", Unit: "/1,000 reads", Better: result.Lower, Count: true, Chart: true},
	{Key: "writes", Name: "writes"},
}

// WriterFigures are those of readers that hold for long, beside a writer of another client.
var WriterFigures = []result.Figure{
	{Key: "reads", Name: "reads", Unit: "/s", Better: result.Higher},
	{Key: "holds50", Name: "writer's wait p50", Unit: "holds", Better: result.Lower},
	{Key: "holdsmax", Name: "writer's longest wait", Unit: "holds", Better: result.Lower, Chart: true},
	{Key: "commands", Name: "commands", Unit: "/1,000 reads", Better: result.Lower, Count: true},
	{Key: "writes", Name: "writes"},
}

// readers measures callers that read again and again, each for Hold, beside one that wants to write
// about every Settle, and holds as long. The first reads begin over one Hold.
func readers(ctx context.Context, b *bench) error {
	sides, err := clients[locker.Sided](ctx, b, b.Clients)
	if err != nil {
		return err
	}
	load := b.newLoad(ctx)
	defer load.end() // also of readers that have begun before an error
	reads := make([]*hdrhistogram.Histogram, b.Waiters)
	for i := range reads {
		reads[i] = newHistogram()
		load.repeat(reads[i], 0, func(ctx context.Context) (locker.Held, error) { return sides[0].Read(ctx, b.Name) })
		if err := load.wait(b.Hold / time.Duration(b.Waiters)); err != nil {
			return err
		}
	}
	writes := newHistogram()
	load.repeat(writes, b.Settle, load.noted(func(ctx context.Context) (locker.Held, error) { return sides[len(sides)-1].Write(ctx, b.Name) }))
	w, err := b.window(load)
	if err != nil {
		return err
	}
	all := merged(reads)
	n := float64(all.TotalCount())
	b.serverFigures(w.cost, max(n, 1)/1000) // a machine under load may get no read in a short window
	v := b.values
	v["reads"] = n / w.took.Seconds()
	v["read99"] = ms(time.Duration(all.ValueAtPercentile(99)))
	v["writes"] = float64(writes.TotalCount())
	waits := map[string]time.Duration{"max": max(w.longest, time.Duration(writes.Max()))}
	if writes.TotalCount() > 0 {
		waits["50"] = time.Duration(writes.ValueAtPercentile(50))
	}
	for which, wait := range waits {
		v["write"+which] = ms(wait)
		if b.Hold > 0 {
			v["holds"+which] = float64(wait) / float64(b.Hold)
		}
	}
	return nil
}
