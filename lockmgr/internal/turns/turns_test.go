package turns

import (
	"flag"
	"fmt"
	"os"
	"slices"
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
	limit = flag.Duration("for", time.Duration(thorough.Choose(2, 5))*time.Second, "the simulated time of each case")
)

// The thresholds.
const (
	leastOfTwo  = 0.38 // of the time for which there is a record, and of the grants with a hold of a millisecond or more
	leastOfOne  = 0.28 // the same of a manager with one caller, beside clients that are in no line
	leastOfFour = 0.2
	longestGap  = 1500 * time.Millisecond // and the client's own round trips

	// A drain may take 1.2 times as long as it did when managers shared out grants instead of time.
	drainBefore  = 18 * time.Millisecond // the mean of ten seeds
	drainSlower  = 1.2
	drainPartMin = 0.5 // of a fair part of the first half of all grants
)

var holds = []time.Duration{0, time.Millisecond, 10 * time.Millisecond}

// shares is a case. Every client must get a grant at least every longestGap. If all stand in the
// line, each must get one turn for each of the others', however far it is. If least is set, each of
// two clients must also get this part of the time, and of the grants, and each of four leastOfFour.
type shares struct {
	name    string
	clients []Client
	least   float64
}

func managers(callers ...int) []Client {
	var out []Client
	for i, n := range callers {
		out = append(out, Client{Name: fmt.Sprintf("%c:%d", 'A'+i, n), Callers: n})
	}
	return out
}

func threads(n int) Client { return Client{Name: fmt.Sprintf("J:%d", n), Callers: n, Direct: true} }

// far returns a client like threads at a distance. Its messages come late, so a short pause of a
// manager is over before the client tries.
func far(n int, distance time.Duration) Client {
	c := threads(n)
	c.Distance = distance
	return c
}

var cases = []shares{
	{"1+1", managers(1, 1), 0.48},
	{"1+250", managers(1, 250), 0}, // a turn of the one has one grant
	{"50+50", managers(50, 50), 0.48},
	{"250+3", managers(250, 3), 0.45},
	{"3+50 threads", append(managers(3), threads(50)), leastOfTwo},
	{"1+1 thread", append(managers(1), threads(1)), leastOfOne},
	{"1+50 threads", append(managers(1), threads(50)), leastOfOne},
	{"1+1 thread, far", append(managers(1), far(1, 500*time.Microsecond)), 0},
	{"1+5 threads, far", append(managers(1), far(5, 500*time.Microsecond)), 0},
	{"4x25", managers(25, 25, 25, 25), leastOfTwo},
	{"near+far", []Client{{Name: "near", Callers: 25}, {Name: "far", Callers: 25, Distance: 30 * time.Millisecond}}, 0},
	{"10+5 threads, far", append(managers(10), far(5, 15*time.Millisecond)), 0},
	{"50+5 threads, farther", append(managers(50), far(5, 30*time.Millisecond)), 0},
	{"hears+deaf", []Client{{Name: "hears", Callers: 25}, {Name: "deaf", Callers: 25, Deaf: true}}, 0},
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

// On a slow machine the clients without local handoff leave the lock free for longer between two
// turns. A manager that takes the lock in such a gap while it stands back must go on standing back
// for most of the time that it owes.
func TestTurns_OnASlowMachine(t *testing.T) {
	skipIfRaced(t)
	c := shares{"", append(managers(3), threads(50)), leastOfTwo}
	for n := range 3 + *seeds {
		c.check(t, time.Millisecond, run(t, Config{Seed: *seed + n, Clients: c.clients, Hold: time.Millisecond, Hop: 200 * time.Microsecond}))
	}
}

// skipIfRaced skips a test under the race detector, which would take half a minute and find nothing
// in one goroutine.
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
		if !slices.ContainsFunc(c.clients, func(c Client) bool { return c.Direct }) {
			assert.InDelta(t, r.Clients[0].Turns, s.Turns, 1+float64(s.Turns)/200, "%s's turns", s.Name)
		}
		if c.least == 0 {
			continue
		}
		if len(c.clients) > 2 {
			assert.GreaterOrEqual(t, r.Part(i), leastOfFour, "%s's part of the time", s.Name)
			continue
		}
		assert.GreaterOrEqual(t, r.Part(i), c.least, "%s's part of the time", s.Name)
		if hold > 0 {
			assert.GreaterOrEqual(t, r.GrantPart(i), c.least, "%s's part of the grants", s.Name)
		}
	}
}

// Managers with one caller each that asks again and again: a grant costs one command, because the
// release joins the line for the next request.
func TestTurns_OneCommandAGrant(t *testing.T) {
	skipIfRaced(t)
	for n := 2; n <= 4; n++ {
		for _, hold := range holds {
			r := run(t, Config{Seed: *seed, Clients: managers(1, 1, 1, 1)[:n], Hold: hold, Time: 300 * time.Millisecond})
			require.LessOrEqual(t, r.Commands, r.Grants+10*n+r.Grants/50)
		}
	}
}

// Pauses in which nobody is heard get shorter, so a client that subscribes and never takes the lock
// costs a manager less than half of its grants.
func TestTurns_OneThatOnlySubscribes(t *testing.T) {
	skipIfRaced(t)
	cfg := Config{Seed: *seed, Clients: managers(10), Hold: 100 * time.Microsecond, Time: 2 * time.Second}
	alone := run(t, cfg)
	cfg.Clients = append(cfg.Clients, threads(0))
	require.Greater(t, run(t, cfg).Grants, alone.Grants/2)
}

// Each sixteenth of these pauses is long enough for a client that comes later, with a round trip of
// 2 ms.
func TestTurns_AThreadBesideOneThatOnlySubscribes(t *testing.T) {
	skipIfRaced(t)
	late := far(1, time.Millisecond)
	late.Late = time.Second
	for n := range *seeds {
		cfg := Config{Seed: *seed + n, Clients: append(managers(10), threads(0), late), Hold: time.Millisecond, Time: 2 * time.Second}
		require.Less(t, run(t, cfg).Clients[2].Gap, 350*time.Millisecond)
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
	cfg := Config{Seed: 1, Time: time.Second, Hold: time.Millisecond}
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
		require.Greater(t, r.Grants, int(2**limit/3/(hold+100*time.Microsecond)))
	}
}

func run(t *testing.T, cfg Config) Result {
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
