package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast/bench/internal/locker"
	"github.com/holdfast-go/holdfast/bench/internal/measure"
	"github.com/holdfast-go/holdfast/bench/internal/report"
	"github.com/holdfast-go/holdfast/bench/internal/result"
	"github.com/holdfast-go/holdfast/bench/internal/server"
	"github.com/holdfast-go/holdfast/bench/internal/soak"
	"github.com/holdfast-go/holdfast/bench/redisson"
	"github.com/holdfast-go/holdfast/internal/redisserver"
)

func main() {
	if len(os.Args) == 2 {
		hidden(os.Args[1])
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(program{out: os.Stdout, err: os.Stderr, measure: inChild, loads: "/proc/loadavg"}.main(ctx, os.Args[1:]))
}

// hidden is the main function of the processes that a run starts. It does not return in such a
// process.
func hidden(arg string) {
	switch arg {
	case measureArg:
		os.Exit(measureMain(os.Stdin, os.Stdout))
	case measure.WorkerArg:
		measure.Worker(os.Stdin, os.Stdout)
		os.Exit(0)
	case soak.WorkerArg:
		soak.Worker(os.Stdin, os.Stdout)
		os.Exit(0)
	}
}

// program is the command. Its fields are what tests replace.
type program struct {
	out, err io.Writer
	measure  func(context.Context, measure.Spec) measure.Measure
	loads    string // the file of load averages
}

const usage = `usage: go run ./bench [command] [flags]

  (none)       a short version of all
  all          all of the following, in full
  fanout       many waiters, one lock, one process
  processes    the same over several processes
  uncontended  nobody waits
  renewal      many locks are held and kept
  idle         many wait and nothing happens
  release      from an unlock in one process to the grant in another
  kinds        many readers and a writer; several names at once; permits; fair locks
  turns        processes that take one lock again and again, and what each gets
  compare      OLD.json NEW.json: what became slower or dearer
  report       RESULTS.json DIR: the page and the charts of an earlier run
  scale        100,000 held locks, on one server and on a cluster; see scale -h
  soak         processes of workers under faults, and a verdict; see soak -h

flags:
`

func (p program) main(ctx context.Context, args []string) int {
	command, short := "all", true
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		command, short, args = args[0], false, args[1:]
	}
	switch command {
	case "compare":
		return p.compare(args)
	case "report":
		return p.render(args)
	case "soak":
		return p.soak(ctx, args)
	case "scale":
		return p.scale(ctx, args)
	}
	var z sizes
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(p.err)
	flags.Usage = func() { fmt.Fprint(p.err, usage); flags.PrintDefaults() }
	flags.BoolVar(&z.short, "short", short, "fewer waiters, shorter windows, one repetition")
	flags.IntVar(&z.reps, "reps", 0, "repetitions (default 5; -short 1)")
	flags.IntVar(&z.waiters, "waiters", 0, "callers that want one lock (default 1000, of fair locks 500; -short 200, 100)")
	flags.IntVar(&z.procs, "procs", 4, "processes that they are in")
	flags.IntVar(&z.locks, "locks", 0, "locks that renewal holds (default 10000 and 100000; -short 2000)")
	flags.DurationVar(&z.limit, "limit", 0, "the watchdog of one measurement (default 40s; -short 10s)")
	only := flags.String("only", "", "candidates to measure, separated by commas: "+strings.Join(names(), ", ")+"; of turns: "+strings.Join(measure.MixNames(), ", ")+"; or tables of kinds: "+strings.Join(kindTables, ", "))
	seed := flags.Uint64("seed", 1, "of all that is random")
	binary := flags.String("redis", "", "the server's binary (default redis-server or valkey-server from PATH)")
	java := flags.Bool("redisson", false, "measure Redisson too, in a JVM; the first time, Maven builds a small program in a cache folder")
	dir := flags.String("out", "", "write results.json, report.html and the charts to this folder")
	if err := flags.Parse(args); err != nil {
		return badFlags(err)
	}
	if flags.NArg() > 0 || command != "all" && !slices.Contains(commands, command) {
		fmt.Fprintf(p.err, "bench: unknown command %q\n", strings.Join(append([]string{command}, flags.Args()...), " "))
		flags.Usage()
		return 2
	}
	if *only != "" {
		for c := range strings.SplitSeq(*only, ",") {
			c = strings.TrimSpace(c)
			if c == locker.Redisson.Name && !*java {
				return p.fail(1, fmt.Errorf("%s is measured only with -redisson", c))
			}
			if _, ok := locker.ByName(c); !ok && !slices.Contains(measure.MixNames(), c) && !slices.Contains(kindTables, c) {
				return p.fail(1, fmt.Errorf("no candidate %q; there are: %s; for turns: %s; and the tables of kinds: %s", c, strings.Join(names(), ", "), strings.Join(measure.MixNames(), ", "), strings.Join(kindTables, ", ")))
			}
			z.only = append(z.only, c)
		}
	}
	computer := machine(p.loads)
	report.Busy(p.out, computer)
	path, err := redisserver.Find(*binary)
	if err != nil {
		return p.fail(1, err)
	}
	s, err := server.Start(path)
	if err != nil {
		return p.fail(1, err)
	}
	defer s.Stop()

	left := ""
	switch {
	case !z.wantsRedisson(command):
	case !*java:
		left = "run it with -redisson, which needs Java 17 and Maven"
	default:
		fmt.Fprintf(p.out, "%s is built, unless it was before\n", locker.Redisson.Name)
		if z.java, err = redisson.Build(ctx, ""); err != nil {
			left = err.Error()
		}
	}
	var plans []*plan
	for _, c := range commands {
		if command == "all" || command == c {
			plans = append(plans, z.plans(c)...)
		}
	}
	run := &result.Run{
		Schema: result.Schema, Started: time.Now().UTC().Truncate(time.Second), Command: repeat(command, flags),
		Machine: computer, Server: s.Name(), Versions: versions(), Seed: *seed,
	}
	if z.java != nil {
		run.Versions["org.redisson:redisson"], run.Versions["java"] = redisson.Version, z.java.Version
	}
	if left != "" {
		run.LeftOut = []string{"REDISSON WAS LEFT OUT: " + left}
	}
	leftOut(p.out, run)
	fmt.Fprintf(p.out, "%s, %s, %s, seed %d\n", run.Server, cores(computer), computer.Go, run.Seed)
	r := &runner{server: s, seed: *seed, warmup: !z.short, measure: p.measure, progress: newProgress(p.err), began: time.Now()}
	for _, pl := range plans {
		r.total += pl.reps * len(pl.candidates)
	}
	for _, pl := range plans {
		if err = r.run(ctx, pl); err != nil {
			break
		}
		run.Tables = append(run.Tables, pl.table)
		r.progress.show("")
		report.Text(p.out, pl.table)
	}
	r.progress.show("")
	report.Verdicts(p.out, run)
	run.Seconds = time.Since(run.Started).Round(time.Second).Seconds()
	if err != nil {
		fmt.Fprintln(p.err, "bench: ended early:", err)
	}
	if *dir != "" {
		if err := write(*dir, run); err != nil {
			return p.fail(1, err)
		}
		fmt.Fprintf(p.out, "\nresults.json, report.html and the charts are in %s\n", *dir)
	}
	leftOut(p.out, run)
	if z.short {
		fmt.Fprint(p.out, "\nThis was the short version. For figures to rely on: go run ./bench all -out DIR\n")
	}
	if err != nil {
		return 1
	}
	return 0
}

// fail says why the program fails, and returns its status.
func (p program) fail(status int, err error) int {
	fmt.Fprintln(p.err, "bench:", err)
	return status
}

// badFlags returns the status after flags that could not be read, or that asked for help.
func badFlags(err error) int {
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	return 2
}

// leftOut says loudly what is not measured.
func leftOut(w io.Writer, run *result.Run) {
	for _, text := range run.LeftOut {
		line := strings.Repeat("*", 80)
		fmt.Fprintf(w, "\n%s\n%s\n%s\n", line, report.Wrap("  "+text), line)
	}
}

func write(dir string, run *result.Run) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := run.Write(filepath.Join(dir, "results.json")); err != nil {
		return err
	}
	return report.Write(dir, run)
}

// repeat returns the command that repeats the run.
func repeat(command string, flags *flag.FlagSet) string {
	out := []string{"go run ./bench", command}
	flags.VisitAll(func(f *flag.Flag) {
		v := f.Value.String()
		switch {
		case f.Name == "out", f.Name == "redis": // paths of this machine do not matter elsewhere
		case (f.Name == "short" || f.Name == "redisson") && v == "true":
			out = append(out, "-"+f.Name)
		case f.Name == "seed", f.Name != "short" && v != f.DefValue:
			out = append(out, fmt.Sprintf("-%s %q", f.Name, v))
		}
	})
	return strings.ReplaceAll(strings.Join(out, " "), `"`, "'")
}

func names() []string {
	return append(locker.Names(locker.Holdfast, locker.Waker, locker.Peer, locker.Ceiling, locker.ReadWrite, locker.Several, locker.Permit, locker.Fair), locker.Redisson.Name)
}
