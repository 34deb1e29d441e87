package turns

import (
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/raced"
	"github.com/holdfast-go/holdfast/internal/thorough"
)

var (
	seed  = flag.Uint64("seed", 1, "the seed of all cases")
	seeds = flag.Uint64("seeds", 1, "how many seeds to try, from -seed on")
	trace = flag.Bool("trace", false, "print what happens on the server and in each manager; for one case")
	hop   = flag.Duration("hop", 0, "the extra time of each change of goroutine or thread")
	limit = flag.Duration("for", time.Duration(thorough.Choose(3, 5))*time.Second, "the simulated time of each case")
)

// The thresholds.
const (
	leastOfTwo, mostOfTwo             = 0.38, 0.62 // of the time for which there is a record
	leastGrantsOfTwo, mostGrantsOfTwo = 0.35, 0.65 // of the grants, with a hold of a millisecond or more
	leastOfFour                       = 0.15
	longestGap                        = 1500 * time.Millisecond // and the client's own round trips

	// A drain may take 1.2 times as long as it did when managers shared out
	// grants instead of time.
	drainBefore  = 18 * time.Millisecond // the mean of ten seeds
	drainSlower  = 1.2
	drainPartMin = 0.5 // of a fair part of the first half of all grants
)

var holds = []time.Duration{0, time.Millisecond, 10 * time.Millisecond}

// shares is a case. Every client must get a grant at least every longestGap. If equal
// is set, each must also get its part of the time.
type shares struct {
	name    string
	clients []Client
	equal   bool
}

func managers(callers ...int) []Client {
	var out []Client
	for i, n := range callers {
		out = append(out, Client{Name: fmt.Sprintf("%c:%d", 'A'+i, n), Callers: n})
	}
	return out
}

func threads(n int) Client { return Client{Name: fmt.Sprintf("J:%d", n), Callers: n, Direct: true} }

var cases = []shares{
	{"1+1", managers(1, 1), true},
	{"1+250", managers(1, 250), true},
	{"50+50", managers(50, 50), true},
	{"250+3", managers(250, 3), true},
	{"3+50 threads", append(managers(3), threads(50)), true},
	{"1+1 thread", append(managers(1), threads(1)), true},
	{"1+50 threads", append(managers(1), threads(50)), true},
	{"4x25", managers(25, 25, 25, 25), true},
	{"near+far", []Client{{Name: "near", Callers: 25}, {Name: "far", Callers: 25, Distance: 30 * time.Millisecond}}, false},
	{"hears+deaf", []Client{{Name: "hears", Callers: 25}, {Name: "deaf", Callers: 25, Deaf: true}}, false},
}

func TestTurns(t *testing.T) {
	skipIfRaced(t)
	for _, c := range cases {
		for _, hold := range holds {
			t.Run(fmt.Sprintf("%s/hold %v", c.name, hold), func(t *testing.T) {
				for n := range *seeds {
					c.check(t, hold, run(t, Config{Seed: *seed + n, Clients: c.clients, Hold: hold}))
				}
			})
		}
	}
}

// On a slow machine the clients without local handoff leave the lock free for
// longer between two turns. A manager that takes the lock in such a gap while it
// stands back must go on standing back for most of the time that it owes.
func TestTurns_OnASlowMachine(t *testing.T) {
	skipIfRaced(t)
	c := shares{"", append(managers(3), threads(50)), true}
	for n := range 3 + *seeds {
		c.check(t, time.Millisecond, run(t, Config{Seed: *seed + n, Clients: c.clients, Hold: time.Millisecond, Hop: 200 * time.Microsecond}))
	}
}

// skipIfRaced skips a test under the race detector, which would take half a minute
// and find nothing in one goroutine.
func skipIfRaced(t *testing.T) {
	if raced.On {
		t.Skip("SKIPPED: the race detector finds nothing in one goroutine")
	}
}

// check compares a result with the thresholds.
func (c *shares) check(t *testing.T, hold time.Duration, r Result) {
	for i, s := range r.Clients {
		gap := longestGap + 4*c.clients[i].Distance
		assert.LessOrEqual(t, s.Gap, gap, "%s waits for a grant", s.Name)
		if !c.equal {
			continue
		}
		if len(c.clients) > 2 {
			assert.GreaterOrEqual(t, r.Part(i), leastOfFour, "%s's part of the time", s.Name)
			continue
		}
		assert.GreaterOrEqual(t, r.Part(i), leastOfTwo, "%s's part of the time", s.Name)
		assert.LessOrEqual(t, r.Part(i), mostOfTwo, "%s's part of the time", s.Name)
		if hold > 0 {
			assert.GreaterOrEqual(t, r.GrantPart(i), leastGrantsOfTwo, "%s's part of the grants", s.Name)
			assert.LessOrEqual(t, r.GrantPart(i), mostGrantsOfTwo, "%s's part of the grants", s.Name)
		}
	}
}

// TestDrain has four managers with 250 callers each. Each caller takes the lock once.
func TestDrain(t *testing.T) {
	skipIfRaced(t)
	n := max(10, *seeds)
	var sum time.Duration
	for i := range n {
		r := run(t, Config{Seed: *seed + i, Clients: managers(250, 250, 250, 250), Drain: true, Time: time.Minute})
		require.Equal(t, 1000, r.Grants)
		sum += r.Time
		for i, n := range r.FirstHalf {
			assert.GreaterOrEqual(t, float64(n), drainPartMin*500/4, "%s's part of the first half", r.Clients[i].Name)
		}
	}
	mean := sum / time.Duration(n)
	t.Logf("mean: %v", mean)
	assert.LessOrEqual(t, float64(mean), drainSlower*float64(drainBefore))
}

// The figures of a case must be the same each time, and add up.
func TestMeter_RepeatsAndAddsUp(t *testing.T) {
	cfg := Config{Seed: 1, Time: time.Second, Hold: time.Millisecond, Core: ShellConfig()}
	cfg.Clients = append(managers(1, 50), threads(10))
	r := Run(cfg)
	require.Equal(t, r, Run(cfg))
	var had time.Duration
	grants := 0
	for _, c := range r.Clients {
		had += c.Had
		grants += c.Grants
	}
	require.Equal(t, r.Taken, had)
	require.Equal(t, r.Grants, grants)
	require.LessOrEqual(t, r.Taken+r.Idle, r.Time)
	require.InDelta(t, time.Second, r.Time, 1)
	require.Greater(t, r.Taken, time.Duration(grants-1)*cfg.Hold, "each holds it for a millisecond")
	cfg.Seed = 2
	require.NotEqual(t, r, Run(cfg))
}

// Two clients without a handoff in memory that have as many threads get equal parts.
func TestTurns_DirectClientsAreEqual(t *testing.T) {
	for _, hold := range holds {
		r := run(t, Config{Seed: 1, Clients: []Client{threads(50), threads(50)}, Hold: hold})
		require.InDelta(t, 0.5, r.Part(0), 0.1)
		require.Greater(t, r.Grants, int(2*time.Second/(hold+100*time.Microsecond)))
	}
}

func run(t *testing.T, cfg Config) Result {
	cfg.Core = ShellConfig()
	if *hop > 0 {
		cfg.Hop = *hop
	}
	if cfg.Time == 0 {
		cfg.Time = *limit
	}
	if *trace {
		cfg.Trace = os.Stdout
	}
	began := time.Now()
	r := Run(cfg)
	t.Logf("seed %d, %v of CPU\n%s\n%s", cfg.Seed, time.Since(began).Round(time.Millisecond), Head, r)
	return r
}
