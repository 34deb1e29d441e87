package interop

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/lockmgr"
)

const (
	fairGrants  = 2_500
	fairWorkers = 4 // of each side
	fairWait    = 15 * time.Millisecond
)

// Both sides add to a counter under one fair lock until it has reached its limit: see
// TestLock_MixedGrants. Those that always wait have their turns equally often, and at the end
// nothing is left. In the second part others come and go whose waits are short.
func TestFair_MixedGrants(t *testing.T) {
	for _, title := range []string{"all wait", "some give up"} {
		t.Run(title, func(t *testing.T) {
			each(t, func(t *testing.T, w *world) { w.countFairly(t, title == "some give up") })
		})
	}
}

// A fairLoad is the part of Go.
type fairLoad struct {
	*world
	name, counter, inside string

	overlaps, grants, refused atomic.Int64
	mine                      [fairWorkers]int64 // grants of those that always wait
	longest                   [fairWorkers]time.Duration
}

// work takes the lock again and again until the counter has reached its limit.
func (s *fairLoad) work(t *testing.T, m *lockmgr.Manager, granted func(waited time.Duration), opts ...lockmgr.LockOption) {
	for more := true; more && !t.Failed(); {
		asked := time.Now()
		l, err := m.Lock(t.Context(), s.name, append(opts, fairly)...)
		if len(opts) > 0 && (errors.Is(err, lockmgr.ErrWaitTimeout) || errors.Is(err, lockmgr.ErrUnavailable)) {
			s.refused.Add(1)
			continue
		}
		if err != nil {
			t.Errorf("Lock: %v", err)
			return
		}
		waited := time.Since(asked)
		var alone bool
		if alone, more, err = s.count(s.counter, s.inside, fairGrants); err != nil {
			t.Errorf("count: %v", err)
		}
		if !alone {
			s.overlaps.Add(1)
		}
		if more {
			s.grants.Add(1)
			granted(waited)
		}
		if err := l.Unlock(t.Context()); err != nil {
			t.Errorf("Unlock: %v", err)
		}
	}
}

func (w *world) countFairly(t *testing.T, giveUp bool) {
	s := &fairLoad{world: w, name: t.Name(), counter: t.Name() + " counter", inside: t.Name() + " inside"}
	managers := []*lockmgr.Manager{w.manager(t, lockmgr.Options{}), w.manager(t, lockmgr.Options{})}
	java := w.open(t, request{})
	load := request{Op: "grants", Name: s.name, Threads: fairWorkers, Limit: fairGrants, Counter: s.counter, Inside: s.inside}
	begin := time.Now()
	running := java.thread("load").fair().sendRequest(t, load)
	var wg sync.WaitGroup
	for i := range fairWorkers {
		wg.Go(func() {
			s.work(t, managers[i%2], func(waited time.Duration) {
				s.mine[i]++
				s.longest[i] = max(s.longest[i], waited)
			})
		})
	}
	if giveUp {
		for i := range fairWorkers {
			wg.Go(func() { s.work(t, managers[i%2], func(time.Duration) {}, lockmgr.MaxWait(fairWait)) })
		}
	}
	wg.Wait()

	r := running.report(t)
	require.Empty(t, r.Errors)
	sum, overlaps := s.grants.Load()+r.Grants, s.overlaps.Load()+r.Overlaps
	ours := int64(0)
	for _, n := range s.mine {
		ours += n
	}
	t.Logf("%d grants of Go (%d to %d of each goroutine), %d of Java (%d to %d of each thread), %d to short waits, of which %d ended, "+
		"in %.1f s: %d overlaps, %d lost updates; longest wait: Go %v, Java %.2f s",
		ours, slices.Min(s.mine[:]), slices.Max(s.mine[:]), r.Grants, r.Fewest, r.Most, sum-ours-r.Grants, s.refused.Load(),
		time.Since(begin).Seconds(), overlaps, sum-fairGrants, slices.Max(s.longest[:]).Round(time.Millisecond), float64(r.Longest)/1000)
	require.Zero(t, overlaps, "overlaps")
	require.EqualValues(t, fairGrants, sum, "lost updates")
	require.EqualValues(t, fairGrants, w.number(t, s.counter))
	require.Zero(t, w.number(t, s.inside))
	require.InDelta(t, 0.5, float64(ours)/float64(ours+r.Grants), 0.1, "the part of Go")
	unlock(t, lock(t, managers[0], s.name, fairly))
}
