package network

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/internal/faultproxy"
	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/thorough"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// A pace is the time-out of commands in a scene. All other times follow from it.
type pace time.Duration

// The first pace is that of an idle machine, the slowest is a hundred times what a round trip takes
// on a very busy one.
const (
	firstPace   = pace(80 * time.Millisecond)
	slowestPace = 32 * firstPace
)

func (p pace) timeout() time.Duration { return time.Duration(p) }
func (p pace) lease() time.Duration   { return 15 * time.Duration(p) / 4 }
func (p pace) late() time.Duration    { return 2 * time.Duration(p) } // within the lease, after the time-out

// sceneFaults are what befalls one script of the scene.
var sceneFaults = []struct {
	name string
	make func(faultproxy.Fault, pace) *faultproxy.Rule
}{
	{"lost reply", func(f faultproxy.Fault, _ pace) *faultproxy.Rule { return f.LoseReplyAndCut() }},
	{"cut before", func(f faultproxy.Fault, _ pace) *faultproxy.Rule { return f.CutBefore() }},
	{"cut after", func(f faultproxy.Fault, _ pace) *faultproxy.Rule { return f.CutAfterCommand() }},
	{"late reply", func(f faultproxy.Fault, p pace) *faultproxy.Rule { return f.DelayReply(p.late()) }},
	{"late command", func(f faultproxy.Fault, p pace) *faultproxy.Rule { return f.DelayCommand(p.late()) }},
	{"silence", func(f faultproxy.Fault, _ pace) *faultproxy.Rule { return f.BlackHole() }},
	{"silent reply", func(f faultproxy.Fault, _ pace) *faultproxy.Rule { return f.BlackHoleReply() }},
	{"repeated", func(f faultproxy.Fault, _ pace) *faultproxy.Rule { return f.RepeatCommand() }},
}

// A plot is a scene for one kind of lock.
type plot struct {
	name string
	// scripts are those of the kind, and how often a scene calls each at least.
	scripts map[string]int
	most    int // how many calls of each meet a fault at most, if the test is thorough
	// ask asks for what the name of a scene stands for. Any two requests of a scene exclude each
	// other. i counts the requests.
	ask func(m *lockmgr.Manager, name string, i int, o ...lockmgr.LockOption) *futures.Future[*lockmgr.Lock]
	// keys are the names of all locks of a scene. The first is part of each request.
	keys func(name string) []string
	// end removes what the server remembers at the end of a scene, if that is as it should be.
	end func(t *testing.T, m *lockmgr.Manager, name string)
}

// tries returns how many calls of each script meet a fault at most.
func (p *plot) tries() int { return thorough.Choose(max(p.most/6, 3), p.most) }

var plots = []plot{
	{
		name: "one name", scripts: map[string]int{"acquire": 3, "transfer": 1, "renew": 2, "release": 2}, most: 30,
		ask: func(m *lockmgr.Manager, name string, _ int, o ...lockmgr.LockOption) *futures.Future[*lockmgr.Lock] {
			return m.LockAsync(name, o...)
		},
		keys: func(name string) []string { return []string{name} },
	},
	{
		name: "sets", scripts: map[string]int{"several_acquire": 3, "several_renew": 2, "several_release": 2}, most: 8,
		ask: func(m *lockmgr.Manager, name string, i int, o ...lockmgr.LockOption) *futures.Future[*lockmgr.Lock] {
			set := lockmgr.Set{Names: []string{name}, Shared: []string{name + " r"}}
			if i%3 > 0 {
				set.Names = append(set.Names, name+" b")
			}
			if i%3 == 2 {
				set.Exclusive, set.Shared = set.Shared, nil
			}
			return m.LockAllAsync(set, o...)
		},
		keys: func(name string) []string { return []string{name, name + " b", name + " r"} },
	},
	{
		// Each wants two or three permits of three.
		name: "permits", scripts: map[string]int{"permits_acquire": 3, "permits_transfer": 1, "permits_renew": 2, "permits_release": 2}, most: 5,
		ask: func(m *lockmgr.Manager, name string, i int, o ...lockmgr.LockOption) *futures.Future[*lockmgr.Lock] {
			return m.Permits(name, 3).AcquireAsync(2+i/2%2, o...)
		},
		keys: func(name string) []string { return []string{name} },
		end: func(t *testing.T, m *lockmgr.Manager, name string) {
			p := m.Permits(name, 3)
			faults.Eventually(t, func() bool {
				info, err := p.Inspect(faults.Patient(t))
				if err != nil {
					require.ErrorIs(t, err, lockmgr.ErrUnavailable) // the scene's time-outs are short
					return false
				}
				require.Equal(t, 3, info.Limit, "a permit was lost or made")
				return info.Free == 3
			})
			faults.Eventually(t, func() bool {
				if _, err := p.Delete(faults.Patient(t)); err != nil {
					require.ErrorIs(t, err, lockmgr.ErrUnavailable)
					return false
				}
				info, err := p.Inspect(faults.Patient(t))
				return err == nil && !info.Exists
			})
		},
	},
}

// A position is one call of a script.
type position struct {
	plot  *plot
	fault int
	kind  string
}

// Each reply is lost, each command is lost, each is late, one at a time: nobody is hurt.
func TestFault_AtEveryPosition(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	var all []position
	for i := range sceneFaults {
		for p := range plots {
			for _, kind := range slices.Sorted(maps.Keys(plots[p].scripts)) {
				all = append(all, position{&plots[p], i, kind})
			}
		}
	}
	var scenes, hit atomic.Int32
	stood := watchMachine(t, s)
	atOnce(t, all, func(p position) string { return sceneFaults[p.fault].name + " of " + p.kind + ", " + p.plot.name }, func(t *testing.T, p position) {
		speed := firstPace
		for round := range *rounds {
			for n, tries := 1, 0; n <= p.plot.tries(); {
				name := fmt.Sprintf("scene %d %s %d %d %d", p.fault, p.kind, round, n, scenes.Add(1))
				begun := now()
				fired, served := playScene(t, s, name, p, n, speed)
				if !served {
					require.True(t, stood.since(begun), "some who wait are never served: %s, call %d", name, n)
					speed *= 2
					require.LessOrEqual(t, speed, slowestPace, "some who wait are never served, however slow the scene")
					continue
				}
				if fired {
					hit.Add(1)
					n, tries = n+1, 0
					continue
				}
				if n > p.plot.scripts[p.kind] {
					break // there is no such position
				}
				// How often a script is called depends on the machine: on one that is very slow a
				// lease may run out meanwhile.
				tries++
				require.Less(t, tries, 10, "%s is not called for the time %d", p.kind, n)
			}
		}
	})
	t.Logf("%d scenes, %d faults", scenes.Load(), hit.Load())
}

// standstills are the times at which a machine took longer for a round trip than half the time-out
// of the fastest scene.
type standstills struct{ last atomic.Int64 }

func (s *standstills) since(begun time.Duration) bool { return s.last.Load() >= int64(begun) }

// watchMachine times round trips until the test and its subtests end.
func watchMachine(t *testing.T, s *redistest.Server) *standstills {
	var seen standstills
	seen.last.Store(-1)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	t.Cleanup(func() { close(stop); wg.Wait() })
	wg.Go(func() {
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for last := now(); ; last = now() {
			select {
			case <-stop:
				return
			case <-tick.C:
			}
			_, err := s.Do("PING")
			if err != nil || now()-last > firstPace.timeout()/2 {
				seen.last.Store(int64(now()))
			}
		}
	})
	return &seen
}

// playScene lets two managers take one lock in turn. The n-th call of a script meets a fault; fired
// reports whether there was such a call, and served whether all who waited had the lock before
// their faults.Patience ended.
func playScene(t *testing.T, s *redistest.Server, name string, at position, n int, speed pace) (fired, served bool) {
	p := faultproxy.Start(t, s.Addr())
	seen := faults.NewWitness()
	options := lockmgr.Options{
		Lease: speed.lease(), CommandTimeout: speed.timeout(), RetryTime: 2 * faults.Patience, Linger: -1, Observer: seen.Observe,
	}
	a := dial(t, p.Addr(), options)
	options.Observer = nil
	b := dial(t, p.Addr(), options)
	rule := sceneFaults[at.fault].make(p.On(script(t, at.kind).Nth(n)), speed)

	var held beliefs
	var wg sync.WaitGroup
	var had atomic.Int32 // requests that have had the lock
	// The first hold lasts until it was renewed twice. It may be lost.
	l, err := at.plot.ask(a, name, 0).Await(faults.Patient(t))
	if errors.Is(err, context.DeadlineExceeded) {
		return false, false
	}
	require.NoError(t, err)
	first := held.begin(l)
	done := make(chan struct{})
	wg.Go(func() { first.lookUntil(done) })
	// The others have a lease that none of them lives to see the end of: if nothing is left at the
	// end, it was released.
	const requests = 6
	for i := range requests {
		f := at.plot.ask([]*lockmgr.Manager{a, b}[i%2], name, i, lockmgr.FixedLease(time.Hour))
		wg.Go(func() {
			l, err := f.Await(faults.Patient(t))
			if errors.Is(err, context.DeadlineExceeded) {
				return
			}
			if err != nil {
				t.Errorf("not served: %v", err)
				return
			}
			mine := held.begin(l)
			pause := time.NewTimer(2 * time.Millisecond) // longer than the shortest time between transfers
			<-pause.C
			mine.look()
			had.Add(1)
			requireReleased(t, l)
		})
	}
	faults.Reached[lockmgr.EventRenewed](seen, 2, l.Lost())
	if l.Valid() && at.plot.end == nil {
		require.Contains(t, []string{"1", ""}, faults.Do(t, s, "HVALS", name), "one owner, counted once")
	}
	close(done)
	requireReleased(t, l)
	wg.Wait()
	held.requireApart(t)
	if had.Load() < requests {
		return false, false
	}
	fired = rule.Count() > 0
	p.Heal() // what is silent would keep its subscription
	if at.plot.end != nil {
		at.plot.end(t, b, name)
	}
	for _, key := range at.plot.keys(name) {
		requireNothingLeft(t, s, key, a, b)
	}
	return fired, true
}

// requireReleased unlocks, and expects an error of a documented kind if any, or the end of all
// faults.Patience. It expects no loss before the deadline, as nobody forces a lock open.
func requireReleased(t testing.TB, l *lockmgr.Lock) {
	t.Helper()
	deadline := now() + l.Remaining()
	err := l.Unlock(faults.Patient(t))
	if !errors.Is(err, context.DeadlineExceeded) {
		requireTyped(t, err)
	}
	if now() < deadline {
		require.NotErrorIs(t, err, lockmgr.ErrLeaseLost)
	}
}
