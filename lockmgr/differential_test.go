package lockmgr_test

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// The simulation of the core proves something about locks only if the model that it
// runs against behaves like a server. Here the same random trace of scripts and of
// an administrator's commands runs on the model and on servers. After every step all
// must have given the same reply and hold the same data.
//
// To run one trace again: -differential.seed=N, and -differential.steps=N for
// a longer or shorter one.
var (
	differentialSeed  = flag.Uint64("differential.seed", 0, "run this trace only")
	differentialSteps = flag.Int("differential.steps", 500, "steps of a trace")
)

// The names have channels with and without braces. They are few, so that steps often
// meet on the same name.
var (
	diffNames       = []string{"a", "b{b}", "c:3"}
	diffSubscribers = []string{"0", "1", "2"}
	diffOwners      = map[string][]string{"m1": {"m1:1", "m1:2", "m1:3"}, "m2": {"m2:1", "m2:2"}}
)

// tally counts which replies a trace has seen, by script.
type tally map[string]int

// runTrace runs a random trace on all worlds and compares each with the first.
func runTrace(t *testing.T, seed uint64, refusals bool, worlds ...world) tally {
	g := &tracer{rng: rand.New(rand.NewPCG(seed, 0)), refusals: refusals}
	var trace []string
	seen := tally{}
	for i := range *differentialSteps {
		p := g.next()
		trace = append(trace, fmt.Sprintf("%4d %v", i, p))
		told := func(w world) string {
			return fmt.Sprintf("%s, replay with -differential.seed=%d; the last steps were\n%s", w.name(), seed, strings.Join(trace[max(0, len(trace)-25):], "\n"))
		}
		var reply string
		var data []string
		for j, w := range worlds {
			r := w.do(t, p)
			d := w.data(t)
			if j == 0 {
				reply, data = r, d
				trace[i] += " -> " + r
				seen[p.op+" "+shape(r)]++
				continue
			}
			require.Equal(t, reply, r, told(w))
			require.Equal(t, data, d, told(w))
		}
		if p.op == "unsubscribe" || i == *differentialSteps-1 {
			for _, sub := range diffSubscribers {
				heard := worlds[0].heard(t, sub)
				seen["message"] += len(heard)
				for _, w := range worlds[1:] {
					require.Equal(t, heard, w.heard(t, sub), "subscriber %s of %s", sub, told(w))
				}
			}
		}
	}
	return seen
}

// shape returns the kind of a reply, without its numbers.
func shape(reply string) string {
	switch {
	case strings.HasPrefix(reply, "["):
		return "[]"
	case strings.HasPrefix(reply, `"`):
		return "text"
	case reply == "-1":
		return reply
	case reply != "" && strings.Trim(reply, "0123456789") == "":
		return "number"
	}
	return reply
}

// differentialSeeds returns n fixed seeds and a new one, or only that of the flag.
func differentialSeeds(n int) []uint64 {
	if *differentialSeed != 0 {
		return []uint64{*differentialSeed}
	}
	out := []uint64{uint64(time.Now().UnixNano())}
	for i := range n {
		out = append(out, uint64(i+1))
	}
	return out
}

func TestModel_LikeMiniredisAndTheServer(t *testing.T) {
	redistest.Need(t)
	t.Parallel()
	all := tally{}
	for _, seed := range differentialSeeds(2) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			all.add(runTrace(t, seed, false, newModelWorld(), newServerWorld(t, realScripts(t)), newServerWorld(t, miniScripts(t))))
		})
	}
	all.requireAll(t, "acquire failed: WRONGTYPE", "acquire failed: would overflow", "acquire failed: not an integer")
}

// Traces with refusals run without miniredis, which has none.
func TestModel_LikeTheServer(t *testing.T) {
	redistest.Need(t)
	t.Parallel()
	all := tally{}
	for _, seed := range differentialSeeds(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			all.add(runTrace(t, seed, true, newModelWorld(), newServerWorld(t, realScripts(t))))
		})
	}
	all.requireAll(t, "acquire failed: OOM", "transfer failed: OOM", "transfer -1", "release released, nobody told")
}

func (a tally) add(b tally) {
	for k, n := range b {
		a[k] += n
	}
}

// requireAll checks that the traces have seen every kind of reply. Worlds that were
// never compared in some case prove nothing about it.
func (a tally) requireAll(t *testing.T, more ...string) {
	t.Helper()
	if *differentialSeed != 0 {
		return
	}
	for _, k := range append(more,
		"acquire nil", "acquire text", "acquire number", "acquire -1",
		"transfer nil", "transfer number", "transfer []", "transfer failed: WRONGTYPE",
		"renew []", "release nil", "release number", "release failed: WRONGTYPE",
		"acquire_many []", "release_many []", "force number", "inspect []", "inspect failed: WRONGTYPE", "message",
	) {
		if a[k] == 0 {
			t.Errorf("no trace has seen %q, but only\n%v", k, slices.Sorted(maps.Keys(a)))
		}
	}
}
