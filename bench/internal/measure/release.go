package measure

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/bench/internal/clock"
	"github.com/holdfast-go/holdfast/bench/internal/result"
	"github.com/holdfast-go/holdfast/bench/internal/stats"
)

// ReleaseFigures are those of release.
var ReleaseFigures = []result.Figure{
	{Key: "p50", Name: "latency p50", Unit: "µs", Better: result.Lower, Chart: true},
	{Key: "p99", Name: "latency p99", Unit: "µs", Better: result.Lower, Chart: true, Long: true},
	{Key: "trips50", Name: "latency p50", Unit: "round trips", Better: result.Lower, Chart: true},
	{Key: "trips99", Name: "latency p99", Unit: "round trips", Better: result.Lower, Long: true},
	{Key: "ping", Name: "round trip p50", Unit: "µs"},
	{Key: "unlock", Name: "unlock p50", Unit: "µs", Better: result.Lower},
	{Key: "commands", Name: "commands", Unit: "/round", Better: result.Lower, Count: true},
	{Key: "rounds", Name: "rounds"},
}

// A taken is what the taker says: when it was granted the lock.
type taken struct{ At int64 }

// taker is the worker's side: on "wait" it waits for the lock, on "leave" it gives it back.
func (b *bench) taker(ctx context.Context, commands <-chan string, answer *json.Encoder) error {
	if err := answer.Encode(taken{}); err != nil {
		return err
	}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-commands: // "wait"
		}
		h, err := b.locker.Lock(ctx, b.Name)
		if err != nil {
			return err
		}
		if err := answer.Encode(taken{clock.Now()}); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-commands: // "leave"
		}
		if err := h.Unlock(ctx); err != nil {
			return err
		}
		if err := answer.Encode(taken{clock.Now()}); err != nil {
			return err
		}
	}
}

// release measures from just before the unlock in this process to just after the grant in another.
// Between the rounds it measures plain round trips, at the same pace, as a machine that dozes is
// slower to answer.
func release(ctx context.Context, b *bench) error {
	w, err := b.spawn(ctx, 1, b.Spec)
	if err != nil {
		return err
	}
	var news taken
	if err := w.hear(&news); err != nil {
		return err
	}
	r := rand.New(rand.NewPCG(b.Seed, 23))
	// The phase is random, or a candidate that polls would look as good or as bad as the moment
	// that we chose.
	linger := func(more time.Duration) error {
		return pause(ctx, 5*time.Millisecond+time.Duration(r.Int64N(int64(10*time.Millisecond+more))))
	}
	var latencies, pings, unlocks []time.Duration
	warm := min(b.Rounds/10, 10)
	used, err := b.cost(false, func() error {
		for i, began := 0, time.Now(); i < b.Rounds+warm && (i <= warm || time.Since(began) < b.Window); i++ {
			h, err := b.locker.Lock(ctx, b.Name)
			if err != nil {
				return err
			}
			if err := linger(0); err != nil {
				return err
			}
			trip, err := b.conn.Ping()
			if err != nil {
				return err
			}
			if err := w.tell("wait"); err != nil {
				return err
			}
			if err := linger(b.candidate.Poll); err != nil {
				return err
			}
			at := clock.Now()
			if err := h.Unlock(ctx); err != nil {
				return err
			}
			unlocked := clock.Now()
			if err := w.hear(&news); err != nil {
				return err
			}
			if i >= warm {
				latencies = append(latencies, time.Duration(news.At-at))
				unlocks = append(unlocks, time.Duration(unlocked-at))
				pings = append(pings, trip)
			}
			if err := w.tell("leave"); err != nil {
				return err
			}
			if err := w.hear(&news); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, d := range [][]time.Duration{latencies, unlocks, pings} {
		slices.Sort(d)
	}
	n := float64(len(latencies))
	trip := stats.Quantile(pings, 0.5)
	v := b.values
	v["rounds"] = n
	v["p50"], v["p99"] = us(stats.Quantile(latencies, 0.5)), us(stats.Quantile(latencies, 0.99))
	v["trips50"], v["trips99"] = v["p50"]/us(trip), v["p99"]/us(trip)
	v["ping"], v["unlock"] = us(trip), us(stats.Quantile(unlocks, 0.5))
	b.serverFigures(used, n+float64(warm))
	return nil
}
