package clientsim

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/leakcheck"
	"github.com/holdfast-go/holdfast/internal/raced"
	"github.com/holdfast-go/holdfast/internal/thorough"
)

func TestMain(m *testing.M) {
	debug.SetGCPercent(400) // worlds are small and many
	leakcheck.Main(m)
}

var (
	seeds  = flag.Int("seeds", 0, "how many seeds to run; 0: as many as the test chooses, more with HOLDFAST_THOROUGH")
	seed   = flag.Int64("seed", -1, "run this seed only, and print every event")
	first  = flag.Uint64("first", 1, "the first seed")
	only   = flag.String("only", "", "kinds of happenings that every seed has, and no others, separated by commas")
	off    = flag.String("off", "", "kinds of happenings to switch off, separated by commas")
	ignore = flag.String("ignore", "", "oracles to ignore, separated by commas")
	goOn   = flag.Bool("go-on", false, "go on after a seed that fails, and count at the end")
	hang   = flag.Duration("hang", 2*time.Minute, "how long a seed may take")
	part   = flag.String("part", "", "where to write the results, as JSON; for the processes that TestSeeds starts")
	pairs  = flag.Bool("pairs", false, "print the table of pairs of features")
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
		if name != "" && !slices.Contains(oracles, name) {
			t.Fatalf("unknown oracle %q, want some of %q", name, oracles)
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
		n = thorough.Choose(60, 10_000)
		if raced.On {
			n = 20
		}
	}
	began := time.Now()
	var c *count
	if n >= 1000 && *part == "" {
		c = inParts(t, n)
	} else {
		c = runSeeds(t, o, n)
	}
	if *part != "" {
		c.save(t)
		return
	}
	missing, impossible, totals := c.Table.verdict()
	t.Logf("%d seeds, %.1f hours of life, %d grants, %d commands, in %v", c.Ran, c.Lived.Hours(), c.Grants, c.Commands, time.Since(began).Round(ms))
	t.Log(totals)
	if *pairs {
		fmt.Print(&c.Table)
		fmt.Printf("%d pairs are missing: %s\n", len(missing), strings.Join(missing, "; "))
	}
	for _, pair := range impossible {
		t.Errorf("runs have met what is listed as impossible: %s", pair)
	}
	listed := undeclaredKeys(t)
	for what := range c.Seen {
		if strings.HasPrefix(what, undeclared) && !slices.Contains(listed, what) {
			t.Errorf("package wire does not list: %s", what)
		}
	}
	switch whole := with == 0 && without == 0; {
	case len(c.Failed) > 0:
		report(t, o, c.Failed)
	case whole && n >= 10_000:
		for _, pair := range missing {
			t.Errorf("no run has met: %s", pair)
		}
		requireSeen(t, c.Seen)
	}
}

// A count is what some seeds have come to.
type count struct {
	Table                 table
	Seen                  map[string]int
	Ran, Grants, Commands int
	Lived                 time.Duration
	Failed                []broken
}

// A broken is a seed that has broken a promise.
type broken struct {
	Seed   uint64
	Oracle string
	Text   string
}

func (c *count) add(o *count) {
	c.Table.merge(&o.Table)
	c.Ran, c.Grants, c.Commands, c.Lived = c.Ran+o.Ran, c.Grants+o.Grants, c.Commands+o.Commands, c.Lived+o.Lived
	c.Failed = append(c.Failed, o.Failed...)
	for what, n := range o.Seen {
		c.Seen[what] += n
	}
}

func (c *count) save(t *testing.T) {
	b, err := json.Marshal(c)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(*part, b, 0o600))
}

// runSeeds runs n seeds, one after the other.
func runSeeds(t *testing.T, o options, n int) *count {
	c := &count{Seen: make(map[string]int)}
	for i := range n {
		o.seed = *first + uint64(i)
		res := runSeed(t, o)
		one := count{Seen: res.seen, Ran: 1, Grants: res.grants, Commands: res.commands, Lived: res.lived}
		if v := res.violation; v != nil {
			one.Failed = append(one.Failed, broken{o.seed, v.oracle, v.Error()})
			fmt.Printf("seed %d: %v\n", o.seed, v)
		}
		if res.sheet != nil {
			one.Table.add(res.sheet)
		}
		if c.add(&one); len(c.Failed) > 0 && !*goOn {
			break
		}
	}
	return c
}

// inParts runs n seeds in as many processes as there are processors: a world runs on one.
func inParts(t *testing.T, n int) *count {
	c := &count{Seen: make(map[string]int)}
	var all sync.WaitGroup
	var mu sync.Mutex
	parts := runtime.NumCPU()
	for i := range parts {
		from, to := n*i/parts, n*(i+1)/parts
		path := filepath.Join(t.TempDir(), "part")
		cmd := exec.Command(os.Args[0], "-test.run=^TestSeeds$", "-test.timeout=0", "-part="+path, fmt.Sprint("-seeds=", to-from),
			fmt.Sprint("-first=", *first+uint64(from)), "-only="+*only, "-off="+*off, "-ignore="+*ignore, fmt.Sprint("-go-on=", *goOn), "-hang="+hang.String())
		all.Go(func() {
			out, err := cmd.CombinedOutput()
			mu.Lock()
			defer mu.Unlock()
			var one count
			b, failed := os.ReadFile(path)
			if failed == nil {
				failed = json.Unmarshal(b, &one)
			}
			// After a seed that failed, goroutines of its world may be left, and the process says
			// so.
			if failed != nil || err != nil && len(one.Failed) == 0 {
				t.Errorf("%v %v: %v\n%s", cmd.Args, err, failed, out)
				return
			}
			for _, b := range one.Failed {
				fmt.Printf("seed %d: %s\n", b.Seed, b.Text)
			}
			c.add(&one)
		})
	}
	all.Wait()
	return c
}

// requireSeen fails if a kind of happening occurred too rarely to be tested.
func requireSeen(t *testing.T, seen map[string]int) {
	want := slices.Concat(kindNames, slices.Collect(maps.Values(outcomes)), []string{"a command of a connection that its client had closed", "ask", "tryagain", "one stops"})
	for _, what := range want {
		if seen[what] < 5 {
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

// report shows the first failing seed, without the kinds of happenings that it does not need, and
// counts the others.
func report(t *testing.T, o options, failed []broken) {
	counts := make(map[string]int)
	for _, b := range failed {
		counts[b.Oracle]++
	}
	o.seed = failed[0].Seed
	res := runSeed(t, o)
	if res.violation == nil {
		t.Errorf("seed %d: %s, and nothing when it runs again", o.seed, failed[0].Text)
	} else {
		res = shrink(t, res)
		lines := res.tail[max(0, len(res.tail)-*tail):]
		replay := fmt.Sprintf("go test ./internal/clientsim -run TestSeeds -v -seed %d", res.seed)
		if res.only != 0 {
			replay += " -only " + res.only.String()
		}
		if res.off != 0 {
			replay += " -off " + res.off.String()
		}
		t.Errorf("seed %d: %v\nwith %v\n...\n%s\nreplay: %s", res.seed, res.violation, &res.set, strings.Join(lines, "\n"), replay)
	}
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		t.Errorf("%5d seeds: %s", counts[name], name)
	}
}

// shrink switches off, one after the other, the kinds of happenings without which a seed still
// breaks the same oracle.
func shrink(t *testing.T, res result) result {
	for k := kinds(1); k < allKinds; k <<= 1 {
		if res.set.kinds&k == 0 {
			continue
		}
		o := res.options
		o.off |= k
		if again := runSeed(t, o); again.violation != nil && again.violation.oracle == res.violation.oracle {
			res = again
		}
	}
	return res
}

// A lease that is over before replicas have the lock fails its own request, and none that waits for
// the name, too.
func TestReplicas_TooShortALeaseFailsAlone(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for seed := range uint64(10) {
		if v := runSeed(t, options{seed: seed, only: hopeless | replicated}).violation; v != nil {
			t.Fatalf("seed %d: %v", seed, v)
		}
	}
}
