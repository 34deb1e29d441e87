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

// gaveUp reports whether a short wait has ended. A busy machine may not answer for that long.
func gaveUp(err error) bool {
	return errors.Is(err, lockmgr.ErrWaitTimeout) || errors.Is(err, lockmgr.ErrUnavailable)
}

func (w *world) countFairly(t *testing.T, giveUp bool) {
	name, c := t.Name(), w.counter(t, fairGrants)
	managers := []manager{w.manager(t, lockmgr.Options{}), w.manager(t, lockmgr.Options{})}
	begin := time.Now()
	running := w.open(t, request{}).thread("load").fair().sendRequest(t, c.request(name, fairWorkers))
	var wg sync.WaitGroup
	var mine [fairWorkers]int64 // grants of those that always wait
	var longest [fairWorkers]time.Duration
	for i := range fairWorkers {
		wg.Go(func() {
			take := func() (*lockmgr.Lock, error) {
				asked := time.Now()
				l, err := managers[i%2].Lock(t.Context(), name, fairly)
				longest[i] = max(longest[i], time.Since(asked))
				return l, err
			}
			again(t, take, func() (more bool, err error) {
				if more, err = c.count(); more {
					mine[i]++
				}
				return more, err
			})
		})
	}
	var refused atomic.Int64
	for i := range fairWorkers {
		if !giveUp {
			break
		}
		wg.Go(func() {
			try := func() (*lockmgr.Lock, error) {
				return managers[i%2].Lock(t.Context(), name, fairly, lockmgr.MaxWait(fairWait))
			}
			again(t, func() (*lockmgr.Lock, error) {
				l, err := try()
				for ; gaveUp(err) && !t.Failed(); l, err = try() {
					refused.Add(1)
				}
				return l, err
			}, c.count)
		})
	}
	wg.Wait()

	r := running.report(t)
	ours := int64(0)
	for _, n := range mine {
		ours += n
	}
	t.Logf("%d grants of Go (%d to %d of each goroutine), %d of Java (%d to %d of each thread), %d to short waits, of which %d ended, "+
		"in %.1f s; longest wait: Go %v, Java %.2f s", ours, slices.Min(mine[:]), slices.Max(mine[:]), r.Grants, r.Fewest, r.Most,
		c.grants.Load()-ours, refused.Load(), time.Since(begin).Seconds(), slices.Max(longest[:]).Round(time.Millisecond), float64(r.Longest)/1000)
	c.requireExact(t, r)
	require.InDelta(t, 0.5, float64(ours)/float64(ours+r.Grants), 0.1, "the part of Go")
	unlock(t, lock(t, managers[0], name, fairly))
}
