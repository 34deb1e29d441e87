package core

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The requests of one owner that wait for one name cost about as much as those of as many owners.
// The search for deadlocks must not look at all of them for each new one: one owner with many
// requests would keep everybody waiting.
func TestOwner_ManyRequests(t *testing.T) {
	const n = 60_000
	life := func(explicit bool) time.Duration {
		m := New(Config{
			Lease: time.Hour, RetryTime: time.Hour, PassCount: 1 << 20, PassTime: time.Hour, PollMax: time.Hour, PollBlind: time.Hour,
			TrustSubscribers: true, MaxLocks: 10,
		})
		answer := func(out []Effect) {
			for _, e := range out {
				if run, ok := e.(Run); ok && run.Op.Verb != VerbRelease {
					m.Step(0, &Replies{Replies: []Reply{{Op: run.Op, ID: run.Op.ID, Ran: Yes, OK: true}}}, nil)
				}
			}
		}
		lock := func(id, owner uint64, name string) *Request {
			r := &Request{Name: name, ID: id, Ends: Forever}
			if owner != 0 {
				r.As(owner)
			}
			answer(m.Step(0, Lock{r}, nil))
			return r
		}
		stranger := lock(1, 1, "a")
		require.Equal(t, reqGranted, stranger.state)
		begin := time.Now()
		var waiting []*Request
		for i := range uint64(n) {
			owner := uint64(0)
			if explicit {
				owner = 2
			}
			waiting = append(waiting, lock(3+i, owner, "a"))
		}
		for _, r := range waiting[:n/2] { // the oldest leave
			m.Step(0, Cancel{r}, nil)
		}
		answer(m.Step(0, Unlock{Request: stranger}, nil)) // the owner re-enters with all remaining requests
		require.Equal(t, reqGranted, waiting[n/2].state)
		took := time.Since(begin)
		if explicit {
			require.Zero(t, m.Stats().Waiting)
		}
		return took
	}
	ratio := 0.0
	for range 3 {
		one, many := life(true), life(false)
		t.Logf("one owner: %v, many: %v", one, many)
		if ratio = float64(one) / float64(many); ratio < 8 {
			return
		}
	}
	require.Fail(t, fmt.Sprintf("one owner's requests take %.0f times as long as those of %d owners", ratio, n))
}
