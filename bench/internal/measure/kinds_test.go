package measure

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/bench/internal/locker"
)

// inMemory is a client whose permits all clients share. It lets all read. Who writes waits for
// write.
type inMemory struct {
	permits chan struct{}
	write   time.Duration
}

func (c inMemory) Lock(ctx context.Context, name string) (locker.Held, error) {
	return c.Acquire(ctx, name, 1)
}

func (c inMemory) Close() {}

func (c inMemory) Acquire(ctx context.Context, _ string, _ int) (locker.Held, error) {
	select {
	case c.permits <- struct{}{}:
		return c, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (c inMemory) Unlock(context.Context) error { <-c.permits; return nil }

func (c inMemory) Read(context.Context, string) (locker.Held, error) { return inMemorySide{}, nil }

func (c inMemory) Write(ctx context.Context, _ string) (locker.Held, error) {
	return inMemorySide{}, pause(ctx, c.write)
}

type inMemorySide struct{}

func (inMemorySide) Unlock(context.Context) error { return nil }

// kind measures a workload of kinds with clients in memory, in fake time. Who writes with the first
// client does not wait.
func kind(t *testing.T, s Spec, permits int, write time.Duration, check func(map[string]float64)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := inMemory{make(chan struct{}, permits), write}
		b := &bench{Spec: s, values: map[string]float64{}, locker: inMemory{permits: c.permits}}
		b.candidate.Open = func(context.Context, locker.Config) (locker.Locker, error) { return c, nil }
		require.NoError(t, workloads[s.Workload](t.Context(), b))
		check(b.values)
	})
}

func TestPermits_OfSeveralClients(t *testing.T) {
	for name, c := range map[string]struct {
		callers            []int
		inUse, least, most float64
	}{
		"more callers than permits":  {[]int{3, 3}, 2, 100, 100},
		"clients of different sizes": {[]int{6, 2}, 2, 50, 150},
		"fewer callers than permits": {[]int{1}, 1, 100, 100},
	} {
		t.Run(name, func(t *testing.T) {
			s := Spec{Workload: "permits", Callers: c.callers, Permits: 2, Hold: 10 * time.Millisecond, Warmup: 25 * time.Millisecond, Window: 2 * time.Second}
			kind(t, s, 2, 0, func(v map[string]float64) {
				require.InDelta(t, c.inUse, v["inuse"], 1e-6)
				require.InDelta(t, c.least, v["least"], 2)
				require.InDelta(t, c.most, v["most"], 2)
			})
		})
	}
}

func TestReaders_WaitOfAWriterInHolds(t *testing.T) {
	const hold = 100 * time.Millisecond
	s := Spec{Workload: "readers", Waiters: 4, Clients: 2, Hold: hold, Settle: hold, Warmup: hold, Window: 10 * hold}
	kind(t, s, 0, 3*hold/2, func(v map[string]float64) {
		require.Positive(t, v["writes"])
		require.InEpsilon(t, 1.5, v["holds50"], 0.02)
		require.InEpsilon(t, 1.5, v["holdsmax"], 0.02)
	})
	kind(t, s, 0, time.Hour, func(v map[string]float64) {
		require.Zero(t, v["writes"])
		require.NotContains(t, v, "holds50")
		require.InDelta(t, 10, v["holdsmax"], 0.6, "as long as the window, and less than a warm-up before that")
	})
}

func TestLoad_PausesAreOfDifferentLengths(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := (&bench{}).newLoad(t.Context())
		var shortest, longest time.Duration
		n, last := 0, time.Now()
		l.repeat(newHistogram(), time.Second, func(context.Context) (locker.Held, error) {
			took := time.Since(last)
			if last = time.Now(); n == 0 {
				shortest = took
			}
			n, shortest, longest = n+1, min(shortest, took), max(longest, took)
			return inMemorySide{}, nil
		})
		require.NoError(t, l.wait(1000*time.Second))
		l.end()
		require.InDelta(t, 1000, n, 50, "the mean is a second")
		require.InDelta(t, 500, ms(shortest), 20)
		require.InDelta(t, 1500, ms(longest), 20)
	})
}
