package core_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
)

// Renewals that are due at once are sent in bursts with pauses, so that other scripts go in
// between. However many they are, all are sent within a 24th of the lease.
func TestRenewal_Bursts(t *testing.T) {
	const lease = 30 * time.Second
	for _, locks := range []int{100, 1000, 200_000} {
		t.Run(fmt.Sprint(locks), func(t *testing.T) {
			m := core.New(core.Config{Lease: lease, Margin: 2 * time.Millisecond, RetryTime: time.Second, MaxLocks: locks, PassCount: 32, PassTime: time.Second})
			var replies core.Replies
			answer := func(effects []core.Effect) (sent int) {
				replies.Replies = replies.Replies[:0]
				for _, e := range effects {
					if run, ok := e.(core.Run); ok {
						replies.Replies = append(replies.Replies, core.Reply{Op: run.Op, ID: run.Op.ID, Ran: core.Yes, OK: true})
					}
				}
				return len(replies.Replies)
			}
			for i := range locks {
				answer(m.Step(0, core.Lock{Request: &core.Request{Name: fmt.Sprint(i), ID: uint64(i) + 1, Ends: core.Forever}}, nil))
				m.Step(0, &replies, nil)
			}
			var first, last time.Duration
			most, total := 0, 0
			for now := m.Next(); total < locks; now = max(now, m.Next()) {
				n := answer(m.Step(now, core.Tick{}, nil))
				m.Step(now, &replies, nil)
				if n > 0 && total == 0 {
					first = now
				}
				if n > 0 {
					last = now
				}
				most, total = max(most, n), total+n
			}
			require.Equal(t, locks, total)
			require.GreaterOrEqual(t, first, lease/3)
			require.LessOrEqual(t, last-first, lease/24)
			require.LessOrEqual(t, most, max(128, locks/1000))
		})
	}
}
