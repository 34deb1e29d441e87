package sim

import (
	"bytes"
	"flag"
	"fmt"
	"hash/fnv"
	"maps"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/raced"
	"github.com/holdfast-go/holdfast/internal/thorough"
	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
)

var (
	seeds  = flag.Int("seeds", 0, "how many seeds to run; 0 means a twentieth of those that are run with HOLDFAST_THOROUGH")
	seed   = flag.Int64("seed", -1, "run this seed only, and print all events")
	first  = flag.Uint64("first", 1, "the first seed")
	events = flag.Int("events", 500, "events in each seed before the end begins")
	off    = flag.String("off", "", "kinds of faults to switch off, separated by commas")
	shrink = flag.Bool("shrink", true, "look for a smaller run that fails in the same way")
	hang   = flag.Duration("hang", 2*time.Minute, "how long a seed may take")
	ignore = flag.String("ignore", "", "invariants that may be violated, separated by commas")
	survey = flag.Bool("survey", false, "go on after a violation, and count the violated invariants")
	digest = flag.Bool("digest", false, "log a digest of all events, to check that a change of the code changes no behaviour")
	tail   = flag.Int("tail", 60, "how many lines of a failing seed's trace to print")
)

const defaultSeeds = 10000

// A seed needs little memory and the scripts leave much behind, so the collector runs less often.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}

// TestSeeds simulates exclusive locks.
func TestSeeds(t *testing.T) { testSeeds(t, one(core.Exclusive), defaultSeeds) }

// TestSeeds_ReadWrite simulates read-write locks.
func TestSeeds_ReadWrite(t *testing.T) { testSeeds(t, one(core.ReadWrite), defaultSeeds/2) }

// TestSeeds_Several simulates locks of several names, with single names beside them.
func TestSeeds_Several(t *testing.T) { testSeeds(t, one(core.Several), defaultSeeds) }

// TestSeeds_Permits simulates permits.
func TestSeeds_Permits(t *testing.T) { testSeeds(t, one(core.Permits), defaultSeeds/2) }

// TestSeeds_Fair simulates fair locks, also with clients of Redisson in their queues.
func TestSeeds_Fair(t *testing.T) { testSeeds(t, one(core.Fair), defaultSeeds/2) }

// TestSeeds_Shards simulates clusters: each seed has locks of one kind on several shards.
func TestSeeds_Shards(t *testing.T) {
	testSeeds(t, func(seed uint64) Options {
		return Options{Kind: []core.Kind{core.Exclusive, core.ReadWrite, core.Permits, core.Fair}[seed%4], Shards: true}
	}, defaultSeeds)
}

// TestSeeds_KeepFor simulates exclusive locks that stay taken for a while after their unlock.
func TestSeeds_KeepFor(t *testing.T) {
	testSeeds(t, func(uint64) Options { return Options{Kind: core.Exclusive, Keeps: true} }, defaultSeeds/2)
}

// one returns the options of seeds whose locks are all of one kind.
func one(k core.Kind) func(uint64) Options {
	return func(uint64) Options { return Options{Kind: k} }
}

// testSeeds runs many seeds. of returns what is special in the options of a seed.
func testSeeds(t *testing.T, of func(seed uint64) Options, many int) {
	without, err := ParseFaults(*off)
	if err != nil {
		t.Fatal(err)
	}
	may := strings.Split(*ignore, ",")
	if *seed >= 0 {
		o := of(uint64(*seed))
		o.Seed, o.Events, o.Off, o.Ignore, o.Trace = uint64(*seed), *events, without, may, os.Stdout
		res := Run(o)
		if res.Violation != nil {
			t.Fatal(res.Violation)
		}
		return
	}
	n := *seeds
	if n == 0 {
		n = thorough.Choose(many/20, many)
		if raced.On {
			n = many / 40 // each world is one goroutine: there is little to find
		}
	}
	var (
		next            atomic.Uint64
		mu              sync.Mutex
		wg              sync.WaitGroup
		failed          *Result
		found           = map[string][]uint64{} // seeds by invariant, with -survey
		total           Coverage
		count, happened int
		scripts         uint64
		digests         uint64
		simulated       time.Duration
		began           = time.Now()
	)
	next.Store(*first)
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			var cover Coverage
			var c, h int
			var s, told uint64
			var d time.Duration
			for {
				i := next.Add(1) - 1
				if i >= *first+uint64(n) {
					break
				}
				hung := time.AfterFunc(*hang, func() { panic(fmt.Sprintf("seed %d does not end", i)) })
				o := of(i)
				o.Seed, o.Events, o.Off, o.Ignore, o.Phases = i, *events, without, may, i-*first < defaultSeeds
				all := fnv.New64a()
				if *digest {
					o.Trace = all
				}
				res := Run(o)
				hung.Stop()
				told ^= all.Sum64() // the seeds may end in any order
				cover.Add(&res.Cover)
				c, h, s, d = c+1, h+res.Events, s+res.Scripts, d+res.Time
				if res.Violation != nil {
					mu.Lock()
					if failed == nil || res.Options.Seed < failed.Options.Seed {
						failed = &res
					}
					found[res.Violation.Invariant] = append(found[res.Violation.Invariant], i)
					mu.Unlock()
					if *survey {
						continue
					}
					next.Store(*first + uint64(n))
				}
			}
			mu.Lock()
			defer mu.Unlock()
			total.Add(&cover)
			count, happened, scripts, simulated = count+c, happened+h, scripts+s, simulated+d
			digests ^= told
		})
	}
	wg.Wait()
	took := time.Since(began)
	t.Logf("%d seeds, %d events (%d steps of the core, %d scripts), %.1f manager hours in %v: %.0f events/s", count, happened, total.Steps,
		scripts, simulated.Hours(), took.Round(time.Millisecond), float64(happened)/took.Seconds())
	if *digest {
		t.Logf("digest %016x", digests)
	}
	if *survey {
		reportSurvey(t, found, n)
	}
	if failed != nil {
		report(t, *failed)
		return
	}
	t.Log("\n" + total.String())
	if n >= many && without == 0 {
		if missing := total.Missing(); len(missing) > 0 {
			t.Errorf("hardly ever happened: %v", missing)
		}
	}
}

// reportSurvey logs how many seeds violated each invariant, and the first of them.
func reportSurvey(t *testing.T, found map[string][]uint64, n int) {
	for _, name := range slices.Sorted(maps.Keys(found)) {
		seeds := found[name]
		slices.Sort(seeds)
		t.Logf("%-34s %6d of %d seeds, the first ones %v", name, len(seeds), n, seeds[:min(4, len(seeds))])
	}
}

// report fails the test with the smallest run of a failing seed.
func report(t *testing.T, res Result) {
	small := res
	if *shrink {
		small = Shrink(res)
	}
	var b bytes.Buffer
	o := small.Options
	o.Trace = &b
	again := Run(o)
	lines := strings.Split(strings.TrimRight(b.String(), "\n"), "\n")
	head := lines[:min(2, len(lines))]
	lines = lines[len(head):]
	lines = lines[max(0, len(lines)-*tail):]
	replay := fmt.Sprintf("go test ./lockmgr/internal/sim -run '%s$' -v -seed %d -events %d", t.Name(), o.Seed, o.Events)
	if o.Off != 0 {
		replay += " -off " + o.Off.String()
	}
	t.Errorf("seed %d: %v\nshrunk: %v (%d events, faults: %v)\n%s\n...\n%s\nreplay: %s", res.Options.Seed, res.Violation, again.Violation,
		again.Events, again.Faults, strings.Join(head, "\n"), strings.Join(lines, "\n"), replay)
}
