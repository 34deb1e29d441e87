package core_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/raced"
	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
)

// Renewals that are due at once are sent in bursts with pauses, so that other scripts go in
// between. However many they are, all are sent within a twelfth of the lease, also if each Tick
// comes late. While other scripts are sent, the bursts are smaller.
func TestRenewal_Bursts(t *testing.T) {
	const lease = 30 * time.Second
	for _, c := range []struct {
		name  string
		locks int
		late  time.Duration // for each Tick
		every int           // a lock is taken beside each so many bursts; zero: none is
		most  int           // of the largest burst
	}{
		{"100", 100, 0, 0, 100},
		{"1,000", 1000, 0, 0, 128},
		{"200,000", 200_000, 0, 0, 128},
		{"500,000", 500_000, 0, 0, 200},
		{"200,000, late", 200_000, 4 * time.Millisecond, 0, 400},
		{"200,000, very late", 200_000, 99 * time.Millisecond, 0, 8000},
		{"20,000 beside others", 20_000, 0, 80, 16},
		{"20,000 beside few others", 20_000, 0, 200, 128},
		{"100,000 beside others, late", 100_000, time.Millisecond, 30, 60},
	} {
		t.Run(c.name, func(t *testing.T) {
			if raced.On && c.locks > 20_000 {
				t.Skip("SKIPPED: the race detector takes half a minute, and finds nothing in one goroutine")
			}
			m := core.New(core.Config{Lease: lease, Margin: 2 * time.Millisecond, RetryTime: time.Second, MaxLocks: 2 * c.locks, PassCount: 32, PassTime: time.Second})
			var replies core.Replies
			answer := func(now time.Duration, effects []core.Effect) (sent int) {
				replies.Replies = replies.Replies[:0]
				for _, e := range effects {
					if run, ok := e.(core.Run); ok {
						replies.Replies = append(replies.Replies, core.Reply{Op: run.Op, ID: run.Op.ID, Ran: core.Yes, OK: true})
					}
				}
				m.Step(now, &replies, nil)
				return len(replies.Replies)
			}
			taken := uint64(0)
			take := func(now time.Duration) {
				taken++
				answer(now, m.Step(now, core.Lock{Request: &core.Request{Name: fmt.Sprint(taken), ID: taken, Ends: core.Forever}}, nil))
			}
			for range c.locks {
				take(0)
			}
			ticks := 2
			if c.every > 0 { // in the second tick, the locks that were taken beside would count
				ticks = 1
			}
			now := time.Duration(0)
			for tick := range ticks {
				var first, last time.Duration
				most, total := 0, 0
				for bursts := 0; total < c.locks; {
					now = max(now, m.Next())
					if bursts == 0 && c.every > 0 {
						take(now - 50*time.Millisecond)
					}
					now += c.late
					n := answer(now, m.Step(now, core.Tick{}, nil))
					if n == 0 {
						continue
					}
					if total == 0 {
						first = now
					}
					last = now
					most, total = max(most, n), total+n
					if bursts++; c.every > 0 && bursts%c.every == 0 {
						take(now)
					}
				}
				require.Equal(t, c.locks, total)
				require.GreaterOrEqual(t, first, lease/3)
				if tick == 0 { // later ones begin when some of the last one were not yet sent
					require.LessOrEqual(t, last-first, lease/12+c.late)
				}
				require.Equal(t, c.most, most)
			}
		})
	}
}
