package main

import (
	"errors"
	"flag"
	"fmt"

	"github.com/holdfast-go/holdfast/bench/internal/locker"
	"github.com/holdfast-go/holdfast/bench/internal/report"
	"github.com/holdfast-go/holdfast/bench/internal/result"
)

// compare prints what changed between two runs. It returns 1 if holdfast became worse.
func (p program) compare(args []string) int {
	flags := flag.NewFlagSet("bench compare", flag.ContinueOnError)
	flags.SetOutput(p.err)
	threshold := flags.Float64("threshold", 0.15, "changes up to this share are none")
	all := flags.Bool("all", false, "list what stayed the same too")
	flags.Usage = func() {
		fmt.Fprintln(p.err, "usage: go run ./bench compare [flags] OLD.json NEW.json")
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); err != nil {
		return badFlags(err)
	}
	if flags.NArg() != 2 {
		flags.Usage()
		return 2
	}
	before, err := result.Read(flags.Arg(0))
	if err == nil {
		var after *result.Run
		if after, err = result.Read(flags.Arg(1)); err == nil {
			return p.verdict(before, after, *threshold, *all)
		}
	}
	return p.fail(2, err)
}

func (p program) verdict(before, after *result.Run, threshold float64, all bool) int {
	changes := result.Compare(before, after, string(locker.Holdfast), threshold)
	if len(changes) == 0 {
		return p.fail(2, errors.New("the two runs have nothing in common"))
	}
	if before.Server != after.Server || before.Machine.CPU != after.Machine.CPU || before.Machine.Cores != after.Machine.Cores {
		fmt.Fprintf(p.out, "note: %s on %d cores, then %s on %d: figures of time are corrected by what the other candidates saw\n",
			before.Server, before.Machine.Cores, after.Server, after.Machine.Cores)
	}
	count := map[result.Verdict]int{}
	for _, c := range changes {
		if count[c.Verdict]++; c.Verdict == result.Same && !all {
			continue
		}
		text := fmt.Sprintf("%-6s  %s: %s", c.Verdict, c.Table, c.Figure.Name)
		if c.Verdict == result.Gone {
			fmt.Fprintf(p.out, "%s: was %s %s, has no value now\n", text, report.Number(c.Old.Median), c.Figure.Unit)
			continue
		}
		text += fmt.Sprintf(": %s %s -> %s %s %s", report.Number(c.Old.Median), report.Spread(c.Old),
			report.Number(c.New.Median), report.Spread(c.New), c.Figure.Unit)
		text += ", " + report.Ratio(c.Factor)
		if c.Machine != 1 {
			text += fmt.Sprintf(" after the others' %s", report.Ratio(c.Machine))
		}
		fmt.Fprintln(p.out, text)
	}
	fmt.Fprintf(p.out, "%d figures: %d worse, %d gone, %d better, %d unsure, %d the same\n", len(changes),
		count[result.Worse], count[result.Gone], count[result.Gain], count[result.Unsure], count[result.Same])
	if count[result.Worse]+count[result.Gone] > 0 {
		return 1
	}
	return 0
}

// render prints the tables of an earlier run and writes its report.
func (p program) render(args []string) int {
	if len(args) != 2 {
		fmt.Fprintln(p.err, "usage: go run ./bench report RESULTS.json DIR")
		return 2
	}
	run, err := result.Read(args[0])
	if err == nil {
		report.Busy(p.out, run.Machine)
		for _, t := range run.Tables {
			report.Text(p.out, t)
		}
		err = write(args[1], run)
	}
	if err != nil {
		return p.fail(1, err)
	}
	return 0
}
