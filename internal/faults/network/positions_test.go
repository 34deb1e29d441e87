package network

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/faultproxy"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

const (
	sceneLease   = 300 * time.Millisecond
	sceneTimeout = 80 * time.Millisecond
	sceneLate    = 2 * sceneTimeout // within the lease, after the time-out
)

// sceneFaults are what befalls one script of the scene.
var sceneFaults = []struct {
	name string
	make func(faultproxy.Fault) *faultproxy.Rule
}{
	{"lost reply", faultproxy.Fault.LoseReplyAndCut},
	{"cut before", faultproxy.Fault.CutBefore},
	{"cut after", faultproxy.Fault.CutAfterCommand},
	{"late reply", func(f faultproxy.Fault) *faultproxy.Rule { return f.DelayReply(sceneLate) }},
	{"late command", func(f faultproxy.Fault) *faultproxy.Rule { return f.DelayCommand(sceneLate) }},
	{"silence", faultproxy.Fault.BlackHole},
	{"silent reply", faultproxy.Fault.BlackHoleReply},
	{"repeated", faultproxy.Fault.RepeatCommand},
}

// leastCalls is how often the scene calls each script at least.
var leastCalls = map[string]int{"acquire": 3, "transfer": 1, "renew": 2, "release": 2}

// A position is one call of a script.
type position struct {
	fault int
	kind  string
}

// Each reply is lost, each command is lost, each is late, one at a time: nobody
// is hurt.
func TestAFaultAtEveryPosition(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	var all []position
	for i := range sceneFaults {
		for _, kind := range scripts {
			all = append(all, position{i, kind})
		}
	}
	var scenes, hit atomic.Int32
	atOnce(t, all, func(p position) string { return sceneFaults[p.fault].name + " of " + p.kind }, func(t *testing.T, p position) {
		for round := range *rounds {
			for n, tries := 1, 0; n <= 30; {
				scenes.Add(1)
				fired := playScene(t, s, fmt.Sprintf("scene %d %s %d %d %d", p.fault, p.kind, round, n, tries), p, n)
				if fired {
					hit.Add(1)
					n, tries = n+1, 0
					continue
				}
				if n > leastCalls[p.kind] {
					break // there is no such position
				}
				// How often a script is called depends on the machine: on one
				// that is very slow a lease may run out meanwhile.
				tries++
				require.Less(t, tries, 10, "%s is not called for the time %d", p.kind, n)
			}
		}
	})
	t.Logf("%d scenes, %d faults", scenes.Load(), hit.Load())
}

// playScene lets two managers take one lock in turn. The n-th call of a script
// meets a fault; it tells whether there was such a call.
func playScene(t *testing.T, s *redistest.Server, name string, at position, n int) (fired bool) {
	p := faultproxy.Start(t, s.Addr())
	seen := newEvents()
	options := lockmgr.Options{Lease: sceneLease, CommandTimeout: sceneTimeout, RetryTime: patience, Linger: -1, Observer: seen.observe}
	a := dial(t, p.Addr(), options)
	options.Observer = nil
	b := dial(t, p.Addr(), options)
	rule := sceneFaults[at.fault].make(p.On(script(t, at.kind).Nth(n)))

	var held beliefs
	var wg sync.WaitGroup
	var served atomic.Int32
	// The first is renewed twice, unless it is lost.
	l, err := a.Lock(patient(t), name)
	require.NoError(t, err)
	first := held.begin(l)
	done := make(chan struct{})
	wg.Go(func() { first.lookUntil(done) })
	// The others have a lease that none of them lives to see the end of: if
	// nothing is left at the end, it was released.
	for i := range 6 {
		m := []*lockmgr.Manager{a, b}[i%2]
		f := m.LockAsync(name, lockmgr.Lease(time.Hour))
		wg.Go(func() {
			l, err := f.Await(patient(t))
			if err != nil {
				requireTyped(t, err)
				return
			}
			mine := held.begin(l)
			pause := time.NewTimer(2 * time.Millisecond) // longer than the shortest time between transfers
			<-pause.C
			mine.look()
			served.Add(1)
			requireTyped(t, l.Unlock(patient(t)))
		})
	}
	reached[lockmgr.Renewed](seen, 2, l.Lost())
	if l.Valid() {
		record := do(t, s, "HVALS", name)
		require.Contains(t, []string{"1", ""}, record, "one owner, counted once")
	}
	close(done)
	requireTyped(t, l.Unlock(patient(t)))
	wg.Wait()
	held.requireApart(t)
	require.EqualValues(t, 6, served.Load(), "all who wait are served in the end")
	fired = rule.Count() > 0
	p.Heal() // what is silent would keep its subscription
	requireNothingLeft(t, s, name, a, b)
	return fired
}
