package server_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

type crowdStats struct{ acquires, waiting, subscriptions, wakes int }

func (c *subprocess) stats(t testing.TB) (s crowdStats) {
	t.Helper()
	c.say(t, "stats")
	redistest.Must(fmt.Sscan(c.hear(t, "stats"), &s.acquires, &s.waiting, &s.subscriptions, &s.wakes))(t)
	return s
}

// A process that holds a lock dies, and nobody sends a message. Those who wait in many processes
// find out when its lease is over, with one try for each process and not for each waiter, and then
// all get their turn.
func TestLease_KilledHolderIsSucceededAtItsEnd(t *testing.T) {
	t.Parallel()
	const (
		processes = 8
		dying     = 1500 * time.Millisecond
		// jitter is what keeps the processes from coming all at once.
		jitter = 100 * time.Millisecond
	)
	s := redistest.Start(t)
	victim := spawn(t, "holder", task{Addr: s.Addr(), Name: "a", Lease: dying})
	victim.hear(t, "held")
	crowds := make([]*subprocess, processes)
	for i := range crowds {
		crowds[i] = spawn(t, "crowd", task{Addr: s.Addr(), Name: "a", Lease: 30 * time.Second, Waiters: *waiters})
	}
	for _, c := range crowds {
		faults.Eventually(t, func() bool {
			// Refused, subscribed, and refused again as it had to make sure.
			s := c.stats(t)
			return s.waiting == *waiters && s.subscriptions == 3 && s.wakes >= 1 && s.acquires >= 2
		})
	}

	// Kill it when it has just renewed: the processes that look between the count and the kill know
	// its last deadline then.
	var before [processes]crowdStats
	for counted := false; !counted; {
		for len(victim.lines) > 0 {
			<-victim.lines
		}
		victim.hear(t, "renewed")
		start := time.Now()
		for i, c := range crowds {
			before[i] = c.stats(t)
		}
		counted = time.Since(start) < dying/3/2
	}
	evals := s.Commands(t)["evalsha"]
	victim.kill()
	asked := time.Now()
	left := faults.PTTL(t, s, "a")
	require.Positive(t, left)
	require.LessOrEqual(t, left, dying)

	winner, took := -1, time.Duration(0)
	var after [processes]crowdStats
	faults.Eventually(t, func() bool {
		// All have tried, now that the lease is over.
		tried := 0
		for i, c := range crowds {
			if i == winner {
				continue
			}
			c.say(t, "stats")
			line := c.hear(t, "")
			if at, ok := strings.CutPrefix(line, "granted "); ok {
				var ns int64
				redistest.Must(fmt.Sscan(at, &ns))(t)
				require.Equal(t, -1, winner, "two processes have it")
				winner, took = i, time.Unix(0, ns).Sub(asked) // by the host's clock, which both share
				line = c.hear(t, "")
			}
			_, err := fmt.Sscanf(line, "stats %d %d %d %d", &after[i].acquires, &after[i].waiting, &after[i].subscriptions, &after[i].wakes)
			require.NoError(t, err)
			if after[i].acquires > before[i].acquires {
				tried++
			}
		}
		return winner >= 0 && tried >= processes-1 && time.Since(asked) > left+jitter
	})
	most := 0
	for i := range crowds {
		most = max(most, after[i].acquires-before[i].acquires)
		require.LessOrEqual(t, after[i].wakes-before[i].wakes, 1, "the first that looks serves the line, and nobody else sends a message")
	}
	t.Logf("next grant %v after %v were left: %v more; at most %d tries a process, %d scripts in all",
		took, left, took-left, most, s.Commands(t)["evalsha"]-evals)
	require.GreaterOrEqual(t, took, left-2*time.Millisecond, "not before the record has expired")
	// Two round trips are nothing against what a busy machine may add.
	require.Less(t, took, left+jitter+late)
	require.LessOrEqual(t, most, 2, "one that was due anyway, and one when the lease is over")

	for _, c := range crowds {
		c.say(t, "go")
	}
	for _, c := range crowds {
		c.hear(t, "done")
	}
	require.Equal(t, "0", faults.Do(t, s, "EXISTS", "a"))
}
