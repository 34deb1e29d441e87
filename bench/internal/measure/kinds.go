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

// readers measures callers that read again and again, each for Hold, beside one that
// wants to write every Settle.
func readers(ctx context.Context, b *bench) error {
	sides := b.locker.(locker.Sided)
	load := b.newLoad(ctx)
	defer load.end()
	reads := make([]*hdrhistogram.Histogram, b.Waiters)
	for i := range reads {
		reads[i] = newHistogram()
		load.repeat(reads[i], 0, func(ctx context.Context) (locker.Held, error) { return sides.Read(ctx, b.Name) })
	}
	writes := newHistogram()
	load.repeat(writes, b.Settle, func(ctx context.Context) (locker.Held, error) { return sides.Write(ctx, b.Name) })

	m, began, err := b.window(load)
	if err != nil {
		return err
	}
	took := time.Duration(clock() - began)
	used, err := m.stop()
	if err != nil {
		return err
	}
	load.phase.Store(over)
	load.end()
	all := newHistogram()
	for _, h := range reads {
		all.Merge(h)
	}
	n := float64(all.TotalCount())
	b.serverFigures(used, max(n, 1)/1000) // a machine under load may get no read in a short window
	v := b.values
	v["reads"] = n / took.Seconds()
	v["read99"] = ms(time.Duration(all.ValueAtPercentile(99)))
	v["writes"] = float64(writes.TotalCount())
	if writes.TotalCount() > 0 {
		v["write50"], v["writemax"] = ms(time.Duration(writes.ValueAtPercentile(50))), ms(time.Duration(writes.Max()))
	}
	return nil
}
