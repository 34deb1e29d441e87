package measure

import (
	"context"

	"github.com/holdfast-go/holdfast/bench/internal/locker"
	"github.com/holdfast-go/holdfast/bench/internal/result"
)

// PermitsFigures are those of permits.
var PermitsFigures = []result.Figure{
	{Key: "grants", Name: "grants", Unit: "/s", Better: result.Higher, Chart: true},
	{Key: "wait50", Name: "wait p50", Unit: "ms", Better: result.Lower, Chart: true},
	{Key: "wait99", Name: "wait p99", Unit: "ms", Better: result.Lower, Chart: true, Long: true},
	{Key: "waitmax", Name: "longest wait", Unit: "ms", Better: result.Lower, Long: true},
	{Key: "without", Name: "workers without a grant", Long: true},
	{Key: "commands", Name: "commands", Unit: "/grant", Better: result.Lower, Count: true, Chart: true},
	{Key: "cpu", Name: "client CPU", Unit: "s/100k grants", Better: result.Lower},
	{Key: "servercpu", Name: "server CPU", Unit: "s/100k grants", Better: result.Lower},
}

// permits measures Waiters callers that take one of Permits permits again and again, each
// for Hold.
func permits(ctx context.Context, b *bench) error {
	limiter := b.locker.(locker.Limiter)
	waits, err := b.grants(ctx, func(ctx context.Context, _ int) (locker.Held, error) {
		return limiter.Acquire(ctx, b.Name, b.Permits)
	})
	if err != nil {
		return err
	}
	without := 0
	for _, h := range waits {
		if h.TotalCount() == 0 {
			without++
		}
	}
	b.values["without"] = float64(without)
	return nil
}
