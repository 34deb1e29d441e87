package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/holdfast-go/holdfast/bench/internal/report"
	"github.com/holdfast-go/holdfast/bench/internal/soak"
	"github.com/holdfast-go/holdfast/internal/redisserver"
)

// soakClientEnv names the environment variable that makes the workers use a client that is broken
// on purpose. The run must fail then. See package soak.
const soakClientEnv = "HOLDFAST_SOAK_CLIENT"

// soak runs workers under faults and prints the verdict. The status is 1 if there was a violation
// or the run could not take place, and 2 for bad arguments.
func (p program) soak(ctx context.Context, args []string) int {
	c := soak.Config{Client: os.Getenv(soakClientEnv)}
	flags := flag.NewFlagSet("bench soak", flag.ContinueOnError)
	flags.SetOutput(p.err)
	flags.Usage = func() {
		fmt.Fprint(p.err, "usage: go run ./bench soak [flags]\n\nflags:\n")
		flags.PrintDefaults()
		fmt.Fprint(p.err, "\nfaults:\n", soak.Kinds())
	}
	flags.DurationVar(&c.Duration, "d", time.Minute, "how long the load lasts")
	flags.IntVar(&c.Procs, "procs", 4, "worker processes")
	flags.IntVar(&c.Workers, "workers", 32, "goroutines of each")
	flags.IntVar(&c.Names, "names", 8, "locks; a third of them are held for long")
	flags.DurationVar(&c.Lease, "lease", time.Second, "of watched locks, and the measure of how long faults last")
	flags.DurationVar(&c.Every, "every", 400*time.Millisecond, "mean time between two faults")
	flags.Uint64Var(&c.Seed, "seed", 0, "of the schedule (default: a new one, which is printed)")
	flags.BoolVar(&c.Cluster, "cluster", false, "on a cluster of three masters, with a replica each, instead of one server")
	flags.IntVar(&c.Acks, "acks", 0, "how many replicas must have a lock before it is granted (with -cluster)")
	faults := flags.String("faults", "all", "names, separated by commas; all, none, or breaking: those that void the promises")
	binary := flags.String("redis", "", "the server's binary (default redis-server or valkey-server from PATH)")
	file := flags.String("json", "", "write the verdict to this file too")
	verbose := flags.Bool("v", false, "print the schedule of faults first")
	if err := flags.Parse(args); err != nil {
		return badFlags(err)
	}
	if flags.NArg() > 0 {
		return p.fail(2, fmt.Errorf("soak takes no arguments, only flags: %q", flags.Args()))
	}
	var err error
	if c.Faults, err = soak.ParseFaults(*faults, c.Cluster); err != nil {
		return p.fail(2, err)
	}
	if c.Server, err = redisserver.Find(*binary); err != nil {
		return p.fail(1, err)
	}
	if c.Seed == 0 {
		c.Seed = uint64(time.Now().UnixNano()) % 1e9
	}
	fmt.Fprintf(p.out, "soak: %v, %d processes of %d goroutines, %d locks, seed %d, faults %s\n",
		c.Duration, c.Procs, c.Workers, c.Names, c.Seed, *faults)
	if *verbose {
		printSchedule(p.out, soak.Schedule(c.Seed, c.Duration, c.Every, c.Lease, c.Procs, c.Faults))
	}
	line := newProgress(p.err)
	c.Status = func(now soak.Status) {
		phase := now.Phase
		if phase == "" {
			phase = fmt.Sprintf("%v of %v", now.Elapsed.Round(time.Second), c.Duration)
		}
		line.show(fmt.Sprintf("%s: %s grants, %s lost, %d faults, %d violations", phase, report.Whole(now.Grants), report.Whole(now.Losses), now.Faults, now.Violations))
	}
	result, err := soak.Run(ctx, c)
	line.show("")
	if err != nil {
		return p.fail(1, err)
	}
	violations := result.Violations()
	printVerdict(p.out, result, violations)
	if *file != "" {
		if err := writeVerdict(*file, result, violations); err != nil {
			return p.fail(1, err)
		}
	}
	if len(violations) == 0 {
		return 0
	}
	if !*verbose {
		printSchedule(p.out, result.Schedule)
	}
	on := ""
	if c.Cluster {
		on = fmt.Sprintf(" -cluster -acks %d", c.Acks)
	}
	fmt.Fprintf(p.out, "the same faults again: go run ./bench soak -seed %d -d %v -procs %d -workers %d -names %d -lease %v -every %v -faults %s%s\n",
		c.Seed, c.Duration, c.Procs, c.Workers, c.Names, c.Lease, c.Every, *faults, on)
	return 1
}

func printSchedule(w io.Writer, schedule []soak.Fault) {
	fmt.Fprintln(w, "\nschedule of faults")
	for _, f := range schedule {
		fmt.Fprintln(w, " ", f)
	}
	fmt.Fprintln(w)
}

// printVerdict prints the table and the violations.
func printVerdict(w io.Writer, r *soak.Result, violations []string) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(what, format string, args ...any) { fmt.Fprintf(t, "%s\t%s\n", what, fmt.Sprintf(format, args...)) }
	row("server", "%s, %.1f s of load", r.Server, r.Seconds)
	row("grants", "%s, %s/s", report.Whole(r.Grants), report.Whole(int(r.PerSecond)))
	row("handoffs", "%s within a process, %s between processes", report.Whole(r.HandedOn), report.Whole(r.Crossed))
	row("reads", "%s", report.Whole(r.Reads))
	row("sets", "%s, of %s names", report.Whole(r.Sets), report.Whole(r.SetNames))
	row("permits", "%s in %s grants, at most %d of %d at once", report.Whole(r.Permits), report.Whole(r.PermitGrants), r.PermitsMost, r.PermitLimit)
	row("re-entries", "%s", report.Whole(r.Reentries))
	row("scripts", "%s, %.2f a grant", report.Whole(r.Scripts), float64(r.Scripts)/float64(max(1, r.Grants)))
	row("requests", "%s: %s refused, %s cancelled, %s failed for want of the server",
		report.Whole(r.Requests), report.Whole(r.Refused), report.Whole(r.Cancelled), report.Whole(r.Failed))
	row("holds lost", "%s, %s unlocks without a clear answer, %s cut off by a kill", report.Whole(r.Lost), report.Whole(r.Unclear), report.Whole(r.CutOff))
	row("losses told", "%s, %s of them before the lease was over", report.Whole(r.LossesTold), report.Whole(r.LossesEarly))
	late := func(what string, l soak.Late) {
		row(what, "p50 %.2f ms, p99 %.2f ms, at most %.2f ms, of %s", l.P50, l.P99, l.Max, report.Whole(l.N))
	}
	late("  late by", r.Late)
	late("  after a SIGSTOP", r.LateStopped)
	late("  a plain timer", r.LateTimer)
	row("faults", "%s", faultCounts(r))
	row("writes", "%s accepted, %s of them late", report.Whole(r.WritesAccepted), report.Whole(r.LateAccepted))
	row("stale writes refused", "%s", report.Whole(r.StaleRefused))
	judged := ""
	if r.Breaking {
		judged = " (not judged: the faults may lose what a server acknowledged)"
	}
	row("valid holders refused", "%d%s", r.UnjustRefusals, judged)
	row("accepted overlaps", "%d%s", r.AcceptedOverlaps, judged)
	row("belief overlaps", "%d of %s intervals, %d came too late%s", r.BeliefOverlaps, report.Whole(r.BeliefsChecked), r.BeliefsUnchecked, judged)
	row("too many permits", "%d of %s intervals, %d came too late%s", r.PermitOverruns, report.Whole(r.PermitsChecked), r.PermitsUnchecked, judged)
	row("histories", "%d ok, %d illegal, %d undecided; %s operations, %d histories shorter than 10,000%s",
		r.Legal, r.Illegal, r.Undecided, report.Whole(r.Operations), r.ShortHistories, judged)
	row("contradictions", "%d", r.Contradictions)
	row("left behind", "%d keys, %d names of permits, %d subscriptions, %d connections, %d goroutines, %d waits; at rest after %.2f s",
		len(r.Left.Keys), len(r.Left.Permits), len(r.Left.Channels), len(r.Left.Connections), r.Left.Goroutines, r.Left.Stuck, r.Left.AfterLongest.Seconds())
	t.Flush()
	for _, f := range r.Failing {
		fmt.Fprintln(w, "not done:", f)
	}
	if len(violations) == 0 {
		verdict := "no violation"
		if r.Undecided > 0 {
			verdict += fmt.Sprintf(", %d of %d histories undecided", r.Undecided, r.Histories)
		}
		fmt.Fprintln(w, "\nverdict:", verdict)
		return
	}
	fmt.Fprintln(w, "\nverdict: FAILED:", strings.Join(violations, ", "))
	for _, told := range r.Told {
		fmt.Fprintln(w, "  ", told)
	}
	for what, list := range map[string][]string{"key": r.Left.Keys, "permits": r.Left.Permits, "channel": r.Left.Channels, "connection": r.Left.Connections} {
		for _, x := range list[:min(len(list), 20)] {
			fmt.Fprintf(w, "   %s left: %q\n", what, x)
		}
	}
	if r.Stacks != "" {
		fmt.Fprintln(w, r.Stacks)
	}
}

// faultCounts lists the number of faults of each kind.
func faultCounts(r *soak.Result) string {
	total := 0
	var parts []string
	for kind, n := range r.Faults {
		total += n
		parts = append(parts, fmt.Sprintf("%s %d", kind, n))
	}
	slices.Sort(parts)
	if total == 0 {
		return "none"
	}
	return fmt.Sprintf("%d: %s", total, strings.Join(parts, ", "))
}

func writeVerdict(path string, r *soak.Result, violations []string) error {
	text, err := json.MarshalIndent(struct {
		*soak.Result
		Violations []string
	}{r, violations}, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}
