package main

import (
	"bytes"
	"context"
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/bench/internal/locker"
	"github.com/holdfast-go/holdfast/bench/internal/measure"
	"github.com/holdfast-go/holdfast/bench/internal/report"
	"github.com/holdfast-go/holdfast/bench/internal/result"
	"github.com/holdfast-go/holdfast/bench/internal/server"
	"github.com/holdfast-go/holdfast/bench/redisson"
	"github.com/holdfast-go/holdfast/internal/leakcheck"
	"github.com/holdfast-go/holdfast/internal/redisserver"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 2 {
		hidden(os.Args[1]) // the tests start measurements and workers too
	}
	debug.SetGCPercent(400) // an eighth of these tests' time goes to the collector otherwise
	leakcheck.Main(m)
}

// bench runs the command in small and returns what it printed and left behind.
func bench(t *testing.T, p program, args ...string) (string, *result.Run) {
	t.Helper()
	redistest.Need(t)
	var out, errs bytes.Buffer
	p.out, p.err = &out, &errs
	dir := t.TempDir()
	args = append(args, "-redis", os.Getenv("HOLDFAST_SERVER"), "-short", "-out", dir)
	require.Zero(t, p.main(t.Context(), args), "%s%s", &out, &errs)
	require.Empty(t, errs.String(), "away from a terminal there is no noise")
	run := redistest.Must(result.Read(filepath.Join(dir, "results.json")))(t)
	require.FileExists(t, filepath.Join(dir, "report.html"))
	for line := range strings.Lines(strings.ReplaceAll(out.String(), dir, "DIR")) {
		require.LessOrEqual(t, utf8.RuneCountInString(line), 101, line)
	}
	return out.String(), run
}

// hurried makes measurements tiny: they are to work, not to tell anything.
func hurried(ctx context.Context, s measure.Spec) measure.Measure {
	s.Settle, s.Warmup = min(s.Settle, 30*time.Millisecond), 0
	if s.Workload != "release" {
		s.Window = min(s.Window, 30*time.Millisecond)
	}
	s.Rounds, s.Turns = min(s.Rounds, 3), min(s.Turns, 10)
	s.Locks = min(s.Locks, 50)
	return inProcess(ctx, s)
}

// nothing measures nothing.
func nothing(context.Context, measure.Spec) measure.Measure { return measure.Measure{} }

func TestCommand_EachInSmall(t *testing.T) {
	for command, c := range map[string]struct {
		only    string
		figures []string
	}{
		"fanout":         {"holdfast,poll,broadcast,one permit a message,one try a process,pass on in Redis,redsync tuned,bsm/redislock tuned,sync.Mutex", []string{"drain", "wait99", "heap"}},
		"processes":      {"holdfast,one try a process", []string{"drain", "least", "streak", "across", "crossed"}},
		"uncontended":    {"holdfast,raw batches,raw Do,2 x PING", []string{"pairs", "p50", "allocs"}},
		"renewal":        {"holdfast,bsm/redislock", []string{"commands", "goroutines"}},
		"idle":           {"holdfast,poll", []string{"commands", "goroutines"}},
		"release":        {"holdfast,one permit a message,raw handover", []string{"p50", "trips50", "ping"}},
		"kinds":          {"plain lock for all,one hold a reader", []string{"reads", "commands", "writes", "writemax"}},
		"kinds holdfast": {"holdfast", []string{"commands"}},
		"kinds sets":     {"Lock one by one,LockAsync of each,bsm/redislock", []string{"pairs", "p50", "commands"}},
		"kinds permits":  {"one command a permit,one try a message", []string{"grants", "wait99", "without", "commands", "least", "most"}},
		"kinds fair":     {"plain lock,one channel a waiter", []string{"commands", "cpu"}},
		"turns":          {"1 + 1,3 + direct 50,25 + 25 far off", []string{"first", "least", "gap", "grants"}},
	} {
		t.Run(command, func(t *testing.T) {
			command, _, _ := strings.Cut(command, " ")
			_, run := bench(t, program{measure: hurried}, command, "-waiters", "40", "-only", c.only)
			require.NotEmpty(t, run.Tables)
			for _, table := range run.Tables {
				require.Len(t, table.Rows, len(strings.Split(c.only, ",")))
				for _, r := range table.Rows {
					n, why := r.Problems()
					require.Zero(t, n, "%s %s: %s", table.ID, r.Candidate, why)
					for _, f := range c.figures {
						require.Contains(t, r.Samples[0].Values, f, "%s %s", table.ID, r.Candidate)
					}
				}
			}
		})
	}
}

// The name of a table stands for all its candidates.
func TestKinds_OneTable(t *testing.T) {
	_, run := bench(t, program{measure: hurried}, "kinds", "-only", "permits", "-waiters", "40")
	require.Len(t, run.Tables, 4)
	for _, table := range run.Tables {
		require.Len(t, table.Rows, 3)
		for _, rival := range table.Rows[1:] {
			require.Contains(t, rival.Ratio, table.Figures[0].Key, "of the rival to holdfast")
		}
	}
	for _, table := range kindTables {
		require.NotEmpty(t, sizes{only: []string{table}}.plans("kinds"), table)
	}
}

// measured measures for longer and longer, until the figures are right. In a short window a busy
// machine gets little done, and what is under way at its ends has a large share.
func measured(t *testing.T, s measure.Spec, right func(map[string]float64) bool) measure.Measure {
	t.Helper()
	for ; ; s.Window *= 3 {
		m := inProcess(t.Context(), s)
		require.Empty(t, m.Problem, s.Candidate)
		if right(m.Values) || s.Window > 5*time.Second {
			return m
		}
	}
}

// A permit and its return are two commands at least if each caller sends its own. Most of
// holdfast's pass in memory.
func TestKinds_CommandsOfAPermit(t *testing.T) {
	s := redistest.Start(t)
	commands := map[string]float64{}
	for _, candidate := range []string{"holdfast", "one command a permit", "one try a message"} {
		require.NoError(t, flush(t.Context(), s.Addr()))
		m := measured(t, measure.Spec{
			Workload: "permits", Candidate: candidate, Addr: s.Addr(), Waiters: 100, Permits: 10,
			Warmup: 50 * time.Millisecond, Window: 300 * time.Millisecond, Limit: time.Minute,
		}, func(v map[string]float64) bool {
			return v["grants"] > 0 && (v["commands"] < 1) == (candidate == "holdfast")
		})
		require.Positive(t, m.Values["grants"], candidate)
		commands[candidate] = m.Values["commands"]
	}
	require.Less(t, commands["holdfast"], 1.0)
	require.Greater(t, commands["one command a permit"], 1.9)
	require.Greater(t, commands["one try a message"], 1.9)
}

// Handoffs within a client need no command each. Those from one client to another do, and the order
// is that of arrival whoever waits.
func TestKinds_CommandsOfAFairHandoff(t *testing.T) {
	s := redistest.Start(t)
	burst := func(candidate string, interleaved bool) map[string]float64 {
		require.NoError(t, flush(t.Context(), s.Addr()))
		m := inProcess(t.Context(), measure.Spec{
			Workload: "fair", Candidate: candidate, Addr: s.Addr(), Waiters: 100, Clients: 5, Warm: 5,
			Interleaved: interleaved, Settle: 50 * time.Millisecond, Limit: time.Minute,
		})
		require.Empty(t, m.Problem, candidate)
		require.Positive(t, m.Values["handoff"])
		return m.Values
	}
	fair := burst("holdfast", false)
	require.Less(t, fair["commands"], 1.0)
	require.Zero(t, fair["disorder"])
	require.Zero(t, burst("holdfast", true)["disorder"])
	rival := burst("one channel a waiter", true)
	require.InDelta(t, 4, rival["commands"], 0.5, "two scripts, the latch and the subscription")
	require.InDelta(t, 7, rival["joining"], 0.5, "two more scripts, and the subscription")
	require.Zero(t, rival["disorder"])
	require.Positive(t, burst("plain lock", true)["disorder"])
}

// A lock and an unlock of 64 names are two commands, where one by one they are 128.
func TestKinds_CommandsOfASet(t *testing.T) {
	s := redistest.Start(t)
	for candidate, want := range map[string]float64{"holdfast": 2, "bsm/redislock": 2, "Lock one by one": 128} {
		require.NoError(t, flush(t.Context(), s.Addr()))
		m := measured(t, measure.Spec{
			Workload: "sets", Candidate: candidate, Addr: s.Addr(), Goroutines: 1, Locks: 64,
			Warmup: 50 * time.Millisecond, Window: 300 * time.Millisecond, Limit: time.Minute,
		}, func(v map[string]float64) bool { return math.Abs(v["commands"]/want-1) < 0.2 })
		require.InEpsilon(t, want, m.Values["commands"], 0.2, candidate)
	}
}

// Without Redisson a run says so, loudly, where it would be measured.
func TestRedisson_LeftOut(t *testing.T) {
	redistest.Need(t)
	t.Setenv("HOLDFAST_SERVER", redistest.Must(redisserver.Find(os.Getenv("HOLDFAST_SERVER")))(t))
	t.Setenv("PATH", t.TempDir())
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"not asked for":   {[]string{"kinds", "-only", "fair", "-waiters", "5"}, "run it with -redisson"},
		"no Java":         {[]string{"kinds", "-only", "fair", "-waiters", "5", "-redisson"}, "there is no java"},
		"no such case":    {[]string{"kinds", "-only", "sets"}, ""},
		"others selected": {[]string{"uncontended", "-only", "holdfast"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			out, run := bench(t, program{measure: nothing}, c.args...)
			if c.want == "" {
				require.NotContains(t, out, "REDISSON")
				require.Empty(t, run.LeftOut)
				return
			}
			require.Equal(t, 2, strings.Count(out, "REDISSON WAS LEFT OUT: "), "at the beginning and at the end")
			require.Contains(t, out, c.want)
			require.Len(t, run.LeftOut, 1)
			var page bytes.Buffer
			require.NoError(t, report.Page(&page, run))
			require.Contains(t, page.String(), run.LeftOut[0])
		})
	}
}

// A chart is named by its figure and its table, and no two have one name. Figures of one table have
// names of their own.
func TestPlans_NamesAreUnique(t *testing.T) {
	for _, z := range []sizes{{}, {short: true}} {
		charts := map[string]bool{}
		questions := 0
		for _, c := range commands {
			for _, p := range z.plans(c) {
				figures := map[string]bool{}
				for _, f := range p.table.Figures {
					require.False(t, figures[f.Name+f.Unit], "%s: %s", p.table.ID, f.Name)
					figures[f.Name+f.Unit] = true
					chart := f.Name + f.Unit + p.table.Title
					require.False(t, charts[chart], chart)
					charts[chart] = charts[chart] || f.Chart
				}
				for _, q := range p.table.Questions {
					require.True(t, slices.ContainsFunc(p.table.Figures, func(f result.Figure) bool { return f.Key == q.Figure }), q.Question)
					questions++
				}
			}
		}
		require.Equal(t, 15, questions, "the table at the top of the report")
	}
}

// A short run has no figures that need a long one.
func TestPlans_ShortLeavesOutWhatItCanNotMeasure(t *testing.T) {
	for _, c := range commands {
		for _, p := range (sizes{short: true}).plans(c) {
			for _, f := range p.table.Figures {
				require.False(t, f.Long, "%s: %s", p.table.ID, f.Name)
			}
		}
	}
}

// Redisson is in the tables that a JVM takes part in, and in no others.
func TestRedisson_Plans(t *testing.T) {
	z := sizes{java: &redisson.Program{Java: "java", ClassPath: "path"}}
	with := map[string]int{}
	for _, c := range commands {
		for _, p := range z.plans(c) {
			if slices.Contains(p.candidates, locker.Redisson.Name) {
				with[p.spec.Workload]++
				require.Equal(t, "java", p.spec.Java)
				require.Equal(t, "path", p.spec.ClassPath)
				require.Positive(t, p.spec.JavaWarmup)
			}
		}
	}
	require.Equal(t, map[string]int{"fanout": 2, "uncontended": 8, "renewal": 1, "fair": 2}, with)
	require.False(t, sizes{}.wantsRedisson("release"))
	require.True(t, sizes{}.wantsRedisson("all"))
}

// Redisson itself, in small. It needs a JVM, and Maven once.
func TestRedisson_EachInSmall(t *testing.T) {
	if os.Getenv("HOLDFAST_INTEROP") != "1" {
		t.Skip("set HOLDFAST_INTEROP=1 to run it")
	}
	s := redistest.Start(t)
	program := redistest.Must(redisson.Build(t.Context(), ""))(t)
	for workload, c := range map[string]struct {
		spec     measure.Spec
		figures  []string
		commands float64 // and how many more or less
		about    float64
	}{
		"fanout":      {measure.Spec{Waiters: 20, Hold: time.Millisecond}, []string{"drain", "over", "wait99", "cpu", "servercpu", "bytes"}, 3, 0.5},
		"fair":        {measure.Spec{Waiters: 20, Clients: 5, Interleaved: true}, []string{"drain", "handoff", "disorder"}, 4, 0.5},
		"uncontended": {measure.Spec{Goroutines: 4, Window: time.Second}, []string{"pairs", "p50", "p99"}, 3, 0.5},
		"renewal":     {measure.Spec{Locks: 300, Lease: 3 * time.Second, Window: 3 * time.Second}, []string{"heap", "cpu"}, 4, 2},
	} {
		t.Run(workload, func(t *testing.T) {
			require.NoError(t, flush(t.Context(), s.Addr()))
			z := c.spec
			z.Workload, z.Candidate, z.Addr, z.Limit = workload, locker.Redisson.Name, s.Addr(), time.Minute
			z.Settle, z.JavaWarmup = 100*time.Millisecond, 100*time.Millisecond
			z.Java, z.ClassPath = program.Java, program.ClassPath
			m := inProcess(t.Context(), z)
			require.Empty(t, m.Problem)
			for _, f := range c.figures {
				require.Contains(t, m.Values, f)
			}
			require.InDelta(t, c.commands, m.Values["commands"], c.about)
			require.Zero(t, m.Values["disorder"])
		})
	}
}

// The first line of a run and of its report says that the machine was busy.
func TestCommand_TellsABusyMachine(t *testing.T) {
	loads := filepath.Join(t.TempDir(), "loadavg")
	require.NoError(t, os.WriteFile(loads, []byte("9999.00 2.00 1.00 1/100 5\n"), 0o600))
	out, run := bench(t, program{measure: nothing, loads: loads}, "uncontended", "-only", "holdfast")
	first := func(out string) string { line, _, _ := strings.Cut(out, "\n"); return line }
	require.Contains(t, first(out), "BUSY before the run: load 9999.00 on ")
	require.Contains(t, out, " cores with a load of 9999.00 2.00 1.00, go")
	dir := t.TempDir()
	file := filepath.Join(dir, "results.json")
	require.NoError(t, run.Write(file))
	var again bytes.Buffer
	require.Zero(t, program{out: &again, err: &again}.main(t.Context(), []string{"report", file, dir}))
	require.Equal(t, first(out), first(again.String()))

	out, _ = bench(t, program{measure: nothing}, "uncontended", "-only", "holdfast")
	require.NotContains(t, out, "BUSY", "the load is not known")
}

// A candidate that fails gets a row that says so, and the others get theirs.
func TestRow_TellsWhatWentWrong(t *testing.T) {
	p := program{measure: func(ctx context.Context, s measure.Spec) measure.Measure {
		if s.Candidate != "holdfast" {
			return measure.Measure{Problem: "it is broken"}
		}
		return hurried(ctx, s)
	}}
	out, run := bench(t, p, "uncontended", "-only", "holdfast,redsync")
	require.Empty(t, run.Tables[0].Rows[1].Summary)
	require.Contains(t, out, "! redsync: 1 of 1 runs: it is broken\n")
	require.NotEmpty(t, run.Tables[0].Rows[0].Summary)
}

// One that hangs is stopped, and the row says how far it came.
func TestMeasurement_StoppedByItsWatchdog(t *testing.T) {
	s := measure.Spec{
		Workload: "fanout", Candidate: "poll", Addr: redistest.Start(t).Addr(),
		Waiters: 500, Hold: 20 * time.Millisecond, Limit: 2 * time.Second,
	}
	m := inProcess(t.Context(), s)
	require.Regexp(t, `^stopped by the watchdog: \d+ of 500 granted$`, m.Problem)
}

// A measurement that does not even heed its own watchdog is killed.
func TestMeasurement_IsAProcess(t *testing.T) {
	s := measure.Spec{Workload: "fanout", Candidate: "holdfast", Addr: redistest.Start(t).Addr(), Waiters: 10, Limit: time.Minute}
	m := inChild(t.Context(), s)
	require.Empty(t, m.Problem)
	require.Contains(t, m.Values, "drain")

	s.Workload, s.Procs = "processes", 2
	m = inChild(t.Context(), s)
	require.Empty(t, m.Problem)
	require.Contains(t, m.Values, "streak")

	s.Candidate = "nobody"
	require.Contains(t, inChild(t.Context(), s).Problem, "nobody")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NotEmpty(t, inChild(ctx, s).Problem)
}

// A process that may not subscribe has its turns.
func TestTurns_OfADeafProcess(t *testing.T) {
	s := redistest.Start(t)
	m := measured(t, measure.Spec{
		Workload: "turns", Candidate: "25 + 25 deaf", Addr: s.Addr(),
		Warmup: 50 * time.Millisecond, Window: 200 * time.Millisecond, Limit: time.Minute,
	}, func(v map[string]float64) bool { return v["grants"] > 0 && v["taken"] > 0 && v["commands"] > 0 })
	for _, f := range []string{"grants", "taken", "commands"} {
		require.Positive(t, m.Values[f], f)
	}
	require.InDelta(t, 100, m.Values["least"]+m.Values["most"], 0.1)
	deaf := redistest.Must(server.Dial(t.Context(), s.Addr()))(t)
	defer deaf.Close()
	redistest.Must(deaf.Do("AUTH", "deaf", "deaf"))(t)
	_, err := deaf.Do("SUBSCRIBE", "c")
	require.ErrorContains(t, err, "NOPERM")
	m = inProcess(t.Context(), measure.Spec{Workload: "turns", Candidate: "nobody", Addr: s.Addr(), Limit: time.Second})
	require.Contains(t, m.Problem, "no mix")
}

func TestCommand_BadArguments(t *testing.T) {
	for name, args := range map[string][]string{
		"command":   {"walk"},
		"flag":      {"-walk"},
		"candidate": {"fanout", "-only", "nobody"},
		"Redisson":  {"fanout", "-only", "Redisson " + redisson.Version},
		"server":    {"fanout", "-redis", "no-such-binary"},
		"compare":   {"compare", "one.json"},
		"no file":   {"compare", "one.json", "two.json"},
		"report":    {"report"},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errs bytes.Buffer
			p := program{out: &out, err: &errs, measure: hurried}
			require.NotZero(t, p.main(t.Context(), args))
			require.NotEmpty(t, errs.String())
		})
	}
}

func TestCompare_Command(t *testing.T) {
	_, run := bench(t, program{measure: hurried}, "uncontended", "-only", "holdfast")
	dir := t.TempDir()
	before, after := filepath.Join(dir, "old.json"), filepath.Join(dir, "new.json")
	require.NoError(t, run.Write(before))
	s := run.Tables[0].Rows[0].Summary["commands"]
	s.Median, s.Min, s.Max = s.Median*3, s.Min*3, s.Max*3
	run.Tables[0].Rows[0].Summary["commands"] = s
	require.NoError(t, run.Write(after))

	var out, errs bytes.Buffer
	p := program{out: &out, err: &errs}
	require.Equal(t, 0, p.main(t.Context(), []string{"compare", before, before}), "%s%s", &out, &errs)
	out.Reset()
	require.Equal(t, 1, p.main(t.Context(), []string{"compare", before, after}))
	require.Contains(t, out.String(), "worse   uncontended/goroutines=1: commands")
	require.Zero(t, p.main(t.Context(), []string{"report", after, dir}))
}
