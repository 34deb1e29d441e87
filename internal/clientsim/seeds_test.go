package clientsim

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/leakcheck"
	"github.com/holdfast-go/holdfast/internal/raced"
	"github.com/holdfast-go/holdfast/internal/thorough"
)

func TestMain(m *testing.M) { leakcheck.Main(m) }

var (
	seeds  = flag.Int("seeds", 0, "how many seeds to run; 0 means 75, 300 with HOLDFAST_THOROUGH, and 50 with the race detector")
	seed   = flag.Int64("seed", -1, "run this seed only, and print every event")
	first  = flag.Uint64("first", 1, "the first seed")
	only   = flag.String("only", "", "kinds of happenings that every seed has, and no others, separated by commas")
	off    = flag.String("off", "", "kinds of happenings to switch off, separated by commas")
	ignore = flag.String("ignore", "", "invariants to ignore, separated by commas")
	goOn   = flag.Bool("go-on", false, "go on after a seed that fails, and count at the end")
	hang   = flag.Duration("hang", 2*time.Minute, "how long a seed may take")
	tail   = flag.Int("tail", 60, "how much of a failing seed's trace to show, in lines")
)

func TestSeeds(t *testing.T) {
	with, err := parseKinds(*only)
	without, err2 := parseKinds(*off)
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	deaf := make(map[string]bool)
	for name := range strings.SplitSeq(*ignore, ",") {
		if name != "" && !slices.Contains(invariants, name) {
			t.Fatalf("unknown invariant %q, want some of %q", name, invariants)
		}
		deaf[name] = true
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // a seed is best repeated on one processor
	o := options{only: with, off: without, ignore: deaf}
	if *seed >= 0 {
		o.seed, o.trace = uint64(*seed), os.Stdout
		if v := runSeed(t, o).violation; v != nil {
			t.Fatal(v)
		}
		return
	}
	n := *seeds
	if n == 0 {
		n = thorough.Choose(75, 300)
		if raced.On {
			n = 50
		}
	}
	seen := make(map[string]int)
	var ran, grants, commands int
	var lived time.Duration
	var failed []result
	began := time.Now()
	for i := range n {
		o.seed = *first + uint64(i)
		res := runSeed(t, o)
		ran, grants, commands, lived = ran+1, grants+res.grants, commands+res.commands, lived+res.lived
		for what, n := range res.seen {
			seen[what] += n
		}
		if res.violation == nil {
			continue
		}
		if failed = append(failed, res); !*goOn {
			break
		}
		fmt.Printf("seed %d: %v\n", o.seed, res.violation)
	}
	t.Logf("%d seeds, %.1f hours of life, %d grants, %d commands, in %v", ran, lived.Hours(), grants, commands, time.Since(began).Round(ms))
	if len(failed) > 0 {
		report(t, failed)
		return
	}
	if n >= 300 && with == 0 && without == 0 {
		requireSeen(t, seen)
	}
}

// requireSeen fails if a kind of happening occurred too rarely to be tested.
func requireSeen(t *testing.T, seen map[string]int) {
	want := slices.Concat(kindNames, slices.Collect(maps.Values(outcomes)), []string{"a command of a connection that its client had closed"})
	for _, what := range want {
		if seen[what] < 5 && what != known.String() {
			t.Errorf("has happened %d times: %s", seen[what], what)
		}
	}
}

func runSeed(t *testing.T, o options) result {
	hung := time.AfterFunc(*hang, func() {
		lines := current.Load().trace.lines()
		panic(fmt.Sprintf("seed %d does not end: its time stands still, or hardly moves, since\n%s", o.seed,
			strings.Join(lines[max(0, len(lines)-*tail):], "\n")))
	})
	defer hung.Stop()
	return run(t, o)
}

// report shows the first failing seed, without the kinds of happenings that it
// does not need, and counts the others.
func report(t *testing.T, failed []result) {
	counts := make(map[string]int)
	for _, res := range failed {
		counts[res.violation.invariant]++
	}
	res := shrink(t, failed[0])
	lines := res.tail[max(0, len(res.tail)-*tail):]
	replay := fmt.Sprintf("go test ./internal/clientsim -run TestSeeds -v -seed %d", res.seed)
	if res.only != 0 {
		replay += " -only " + res.only.String()
	}
	if res.off != 0 {
		replay += " -off " + res.off.String()
	}
	t.Errorf("seed %d: %v\nwith %v\n...\n%s\nreplay: %s", res.seed, res.violation, &res.set, strings.Join(lines, "\n"), replay)
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		t.Errorf("%5d seeds: %s", counts[name], name)
	}
}

// shrink switches off, one after the other, the kinds of happenings without
// which a seed still breaks the same invariant.
func shrink(t *testing.T, res result) result {
	for k := kinds(1); k < allKinds; k <<= 1 {
		if res.set.kinds&k == 0 {
			continue
		}
		o := res.options
		o.off |= k
		if again := runSeed(t, o); again.violation != nil && again.violation.invariant == res.violation.invariant {
			res = again
		}
	}
	return res
}
