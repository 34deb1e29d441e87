package lockmgr_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// A step is a script call or a command in a form that every world can run.
type step struct {
	op    string
	names []string // locks
	nums  []int64  // lease and tokens, or milliseconds
	args  []string // owners, fields, a subscriber
}

func (p step) String() string {
	return strings.Trim(fmt.Sprintln(p.op, p.names, p.nums, p.args), "\n")
}

// A world runs steps and shows its data. All worlds use the same texts for the same
// replies and data.
type world interface {
	name() string
	// do returns the reply, or "" for steps that have none.
	do(t testing.TB, p step) string
	// data returns the state of all keys as lines of text.
	data(t testing.TB) []string
	// heard returns the messages that reached a subscriber since the last call.
	heard(t testing.TB, subscriber string) []string
}

func channelName(name string) string { return compose("redisson_lock__channel:", name) }

func counterName(name string) string { return compose("redisson_lock_token:", name) }

func compose(prefix, name string) string {
	if strings.Contains(name, "{") {
		return prefix + name
	}
	return prefix + "{" + name + "}"
}

// TTLs are counted in units that are much longer than a trace takes. They end in the
// middle of a unit, so that no "pass" ends just when a key expires.
const diffUnit = int64(1_000_000) // ms

func diffLife(rng *rand.Rand) int64 { return rng.Int64N(5)*diffUnit + diffUnit/2 }

// A tracer makes random steps. They depend on its generator only.
type tracer struct {
	rng      *rand.Rand
	refusals bool // out of memory, and users that may not publish or count
	oom      bool
}

func (g *tracer) oneOf(from []string) string { return from[g.rng.IntN(len(from))] }

// owners returns owners of one manager. The first is the new one.
func (g *tracer) owners() []string {
	all := slices.Clone(diffOwners[g.oneOf([]string{"m1", "m1", "m2"})])
	g.rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:1+g.rng.IntN(len(all))]
}

func (g *tracer) next() step {
	name := g.oneOf(diffNames)
	one := []string{name}
	n := g.rng.IntN(100)
	switch {
	case n < 4:
		p := step{"acquire_many", nil, []int64{diffLife(g.rng)}, nil}
		g.several(&p)
		return p
	case n < 8:
		p := step{op: "release_many"}
		g.several(&p)
		return p
	case n < 34:
		return step{"acquire", one, []int64{diffLife(g.rng), max(0, g.rng.Int64N(6)-2)}, g.owners()}
	case n < 47:
		return step{"transfer", one, []int64{diffLife(g.rng), max(0, g.rng.Int64N(6)-2)}, g.owners()}
	case n < 58:
		p := step{"renew", nil, []int64{diffLife(g.rng)}, nil}
		g.several(&p)
		return p
	case n < 72:
		return step{"release", one, nil, g.owners()}
	case n < 74:
		return step{"force", one, nil, g.owners()[:1]}
	case n < 80:
		return step{"inspect", one, nil, nil}
	case n < 84:
		return step{"pass", nil, []int64{diffUnit * (1 + g.rng.Int64N(3))}, nil}
	case n < 86:
		return step{"subscribe", one, nil, []string{g.oneOf(diffSubscribers)}}
	case n < 88:
		return step{"unsubscribe", one, nil, []string{g.oneOf(diffSubscribers)}}
	case n < 96 || !g.refusals:
		return g.administrator(one)
	case n < 98:
		g.oom = !g.oom
		return step{"oom", nil, []int64{oneIf(g.oom)}, nil}
	}
	return step{g.oneOf([]string{"publish-denied", "numsub-denied"}), nil, []int64{g.rng.Int64N(2)}, nil}
}

// several gives a step some names, with an owner each.
func (g *tracer) several(p *step) {
	for _, name := range diffNames {
		if g.rng.IntN(3) > 0 {
			p.names, p.args = append(p.names, name), append(p.args, g.owners()[0])
		}
	}
}

func oneIf(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// administrator returns a step that changes data as no manager does.
func (g *tracer) administrator(one []string) step {
	harmless := []string{"del", "persist", "expire", "delcounter", "message"}
	all := append(harmless, "flush", "hash", "hash", "hash", "string", "list", "counter", "counter", "counterhash")
	if g.oom {
		all = harmless
	}
	p := step{op: g.oneOf(all), names: one}
	switch p.op {
	case "expire":
		p.nums = []int64{[]int64{-1, 0, diffLife(g.rng)}[g.rng.IntN(3)]}
	case "hash":
		p.nums = []int64{diffLife(g.rng) * g.rng.Int64N(2)}
		p.args = [][]string{{java, "2"}, {"m1:1", "2", "m1:2", "3"}, {"m2:2", "2", "m1:3", "2"}, {"m1:3", "2", "colour", "green"}}[g.rng.IntN(4)]
	case "string", "list":
		p.nums = []int64{diffLife(g.rng) * g.rng.Int64N(2)}
	case "counter":
		p.args = []string{g.oneOf([]string{"7", "9007199254740992", "9223372036854775806", "9223372036854775807", "-3", "many"})}
	case "message":
		p.args = []string{g.oneOf([]string{"0", "1", "nonsense"})}
	}
	return p
}
