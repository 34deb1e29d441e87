package server_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
	"github.com/holdfast-go/holdfast/notify"
)

// connections lists the ids of clients of one type ("normal", "pubsub") and name.
func connections(t testing.TB, s *redistest.Server, typ, name string) (ids []string) {
	t.Helper()
	for line := range strings.Lines(faults.Do(t, s, "CLIENT", "LIST", "TYPE", typ)) {
		if id, _, _ := strings.Cut(line, " "); slices.Contains(strings.Fields(line), "name="+name) {
			ids = append(ids, strings.TrimPrefix(id, "id="))
		}
	}
	return ids
}

// Whichever of a waiter's connections breaks, and whatever it misses then, it has the lock when it
// is back, and not when the old record's lease is over.
func TestUnlock_NotMissedWhileAConnectionIsGone(t *testing.T) {
	t.Parallel()
	for _, types := range []string{"pubsub", "normal", "pubsub normal"} {
		t.Run(types, func(t *testing.T) {
			t.Parallel()
			g := &gapRun{s: redistest.Start(t), types: strings.Fields(types), rounds: *gaps}
			lanes := 1
			if *gaps > 8 {
				// For figures. A connection that breaks again and again is given longer pauses,
				// which is not what is to be measured.
				lanes, g.rounds, g.grown = 4, (*gaps+3)/4, true
			}
			t.Run("lanes", func(t *testing.T) {
				for i := range lanes {
					t.Run("", func(t *testing.T) {
						t.Parallel()
						g.lane(t, fmt.Sprint("lane", i))
					})
				}
			})
			require.Len(t, g.took, lanes*g.rounds)
			slices.Sort(g.took)
			t.Logf("%s: %d handoffs, median %v, p99 %v, longest %v; %d by a poll", types, len(g.took),
				percentile(g.took, 0.5), percentile(g.took, 0.99), g.took[len(g.took)-1], g.polled)
		})
	}
}

// lasting is the life of a connection after which the next one is not made to wait.
const lasting = notify.DefaultRetryMax + 200*time.Millisecond

type gapRun struct {
	s      *redistest.Server
	types  []string
	rounds int
	grown  bool // wait until the connections have lasted

	mu     sync.Mutex
	took   []time.Duration
	polled int
}

// lane hands one lock from a holder to a waiter again and again.
func (g *gapRun) lane(t *testing.T, name string) {
	// With the default lease, whose end nobody here would live to see.
	holder := faults.Dial(t, g.s.Addr(), lockmgr.Options{})
	w := faults.NewWitness()
	waiter := faults.Dial(t, g.s.Addr()+"?client_name="+name, lockmgr.Options{Observer: w.Observe})
	for range g.rounds {
		l := faults.Take(t, holder, name)
		refused := faults.Count(w, faults.Always[lockmgr.EventRefused]) + 1
		if waiter.Stats().Subscriptions == 0 {
			refused++ // once more when its subscription is confirmed
		}
		f := waiter.LockAsync(name)
		faults.Eventually(t, func() bool {
			return faults.Count(w, faults.Always[lockmgr.EventRefused]) >= refused && faults.Subscribers(t, g.s, name) > 0 &&
				len(connections(t, g.s, "pubsub", name)) == 1
		})
		if g.grown {
			<-time.After(lasting)
		}
		polls := waiter.Stats().Polls
		var killed []string
		for _, typ := range g.types {
			for _, id := range connections(t, g.s, typ, name) {
				faults.Do(t, g.s, "CLIENT", "KILL", "ID", id)
				killed = append(killed, id)
			}
		}
		require.GreaterOrEqual(t, len(killed), len(g.types))
		start := time.Now()
		faults.Release(t, l)
		l = faults.Await(t, f)
		took := time.Since(start)
		polled := waiter.Stats().Polls - polls
		faults.Release(t, l)
		g.mu.Lock()
		g.took = append(g.took, took)
		g.polled += int(min(1, polled))
		g.mu.Unlock()
	}
}
