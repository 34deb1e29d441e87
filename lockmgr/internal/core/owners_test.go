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
		s := newScripted()
		lock := func(id, owner uint64) *Request {
			r := &Request{ID: id}
			if owner != 0 {
				r.As(owner)
			}
			return s.lock(r)
		}
		stranger := lock(1, 1)
		require.Equal(t, reqGranted, stranger.state)
		begin := time.Now()
		var waiting []*Request
		for i := range uint64(n) {
			owner := uint64(0)
			if explicit {
				owner = 2
			}
			waiting = append(waiting, lock(3+i, owner))
		}
		for _, r := range waiting[:n/2] { // the oldest leave
			s.step(Cancel{r})
		}
		s.step(Unlock{Request: stranger}) // the owner re-enters with all remaining requests
		require.Equal(t, reqGranted, waiting[n/2].state)
		took := time.Since(begin)
		if explicit {
			require.Zero(t, s.m.Stats().Waiting)
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
