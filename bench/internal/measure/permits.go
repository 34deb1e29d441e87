package measure

import (
	"context"
	"slices"

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

// SharedPermitsFigures are those of permits that several clients share.
var SharedPermitsFigures = []result.Figure{
	{Key: "inuse", Name: "in use", Unit: "permits", Better: result.Higher, Chart: true},
	{Key: "waitmax", Name: "longest wait", Unit: "ms", Better: result.Lower, Long: true},
	{Key: "commands", Name: "commands", Unit: "/grant", Better: result.Lower, Count: true, Chart: true},
}

// permits measures callers that take one of Permits permits again and again, each for Hold. They
// are Waiters callers of one client, or Callers of each of several.
func permits(ctx context.Context, b *bench) error {
	limiters, err := clients[locker.Limiter](ctx, b, len(b.Callers))
	if err != nil {
		return err
	}
	of := make([]int, b.Waiters) // the client of each caller
	if len(b.Callers) > 0 {
		of = nil
		for client, n := range b.Callers {
			of = append(of, slices.Repeat([]int{client}, n)...)
		}
		b.Waiters = len(of)
	}
	waits, err := b.grants(ctx, func(ctx context.Context, caller int) (locker.Held, error) {
		return limiters[of[caller]].Acquire(ctx, b.Name, b.Permits)
	})
	if err != nil {
		return err
	}
	without, had, all := 0, make([]int64, len(limiters)), int64(0)
	for i, h := range waits {
		had[of[i]] += h.TotalCount()
		all += h.TotalCount()
		if h.TotalCount() == 0 {
			without++
		}
	}
	b.values["without"] = float64(without)
	fair := float64(all) / float64(len(had))
	b.values["least"], b.values["most"] = 100*float64(slices.Min(had))/fair, 100*float64(slices.Max(had))/fair
	return nil
}
