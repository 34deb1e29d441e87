package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/bench/internal/locker"
	"github.com/holdfast-go/holdfast/bench/internal/measure"
	"github.com/holdfast-go/holdfast/bench/internal/result"
	"github.com/holdfast-go/holdfast/bench/internal/server"
)

// measureArg is the first argument of a process that is one measurement.
const measureArg = "internal-measure"

// A runner turns plans into tables.
type runner struct {
	server   *server.Server
	seed     uint64
	progress progress
	warmup   bool // begin each table with a measurement that does not count
	total    int  // measurements
	done     int  // of these
	began    time.Time
	measure  func(context.Context, measure.Spec) measure.Measure
}

// A candidate has only slowReps repetitions if it fails, or takes longer than the planned time plus
// slow. Its figures are so far from the others' that more repetitions are not needed.
const (
	slow     = 6 * time.Second
	slowReps = 2
)

// javaStart is how long a JVM may take to start on a busy machine, and to do the rounds of its
// warm-up that it has begun.
const javaStart = 30 * time.Second

// run runs all candidates of a plan in turn, once for each repetition. When ctx ends, it returns
// early with the samples that it has.
func (r *runner) run(ctx context.Context, p *plan) error {
	lame := map[string]bool{}
	for _, name := range p.candidates {
		c, _ := locker.ByName(name)
		if slices.Contains(measure.MixNames(), name) {
			c.Kind = locker.Holdfast
		}
		p.table.Rows = append(p.table.Rows, &result.Row{Candidate: name, Kind: string(c.Kind), About: c.About})
	}
	defer p.table.Finish(string(locker.Holdfast))
	if r.warmup && len(p.candidates) > 0 {
		if _, err := r.one(ctx, p, p.candidates[0], 0); err != nil {
			return err
		}
	}
	for rep := range p.reps {
		for i, name := range p.candidates {
			r.done++
			if rep >= slowReps && lame[name] {
				continue
			}
			r.progress.show(fmt.Sprintf("%d of %d after %v: %s %s", r.done, r.total, time.Since(r.began).Round(time.Second), p.spec.Workload, name))
			began := time.Now()
			s, err := r.one(ctx, p, name, rep)
			if err != nil {
				return err
			}
			row := p.table.Rows[i]
			row.Samples = append(row.Samples, s)
			c, _ := locker.ByName(name)
			lame[name] = s.Problem != "" || time.Since(began) > p.idle()+slow && !c.Java // a JVM needs that to start and to warm up
		}
	}
	return nil
}

func (r *runner) one(ctx context.Context, p *plan, candidate string, rep int) (result.Sample, error) {
	if err := ctx.Err(); err != nil {
		return result.Sample{}, err
	}
	if err := flush(ctx, r.server.Addr()); err != nil {
		return result.Sample{}, fmt.Errorf("the server is gone: %w", err)
	}
	s := p.spec
	if c, _ := locker.ByName(candidate); c.Java {
		s.Limit += 5*s.JavaWarmup + javaStart
	}
	s.Candidate, s.Addr = candidate, r.server.Addr()
	s.Seed = r.seed + uint64(rep) // the same for all candidates of a repetition
	m := r.measure(ctx, s)
	if err := ctx.Err(); err != nil {
		return result.Sample{}, err
	}
	return result.Sample{Rep: rep, Values: m.Values, Problem: m.Problem}, nil
}

func flush(ctx context.Context, addr string) error {
	c, err := server.Dial(ctx, addr)
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := c.Do("FLUSHALL"); err != nil {
		return err
	}
	_, err = c.Do("SCRIPT", "FLUSH")
	return err
}

// inChild runs a measurement in its own process. The measurement has its own time limit. A process
// that goes on after that is killed.
func inChild(ctx context.Context, s measure.Spec) measure.Measure {
	failed := func(err error) measure.Measure { return measure.Measure{Problem: err.Error()} }
	self, err := os.Executable()
	if err != nil {
		return failed(err)
	}
	ctx, cancel := context.WithTimeout(ctx, s.Limit+5*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, self, measureArg)
	cmd.WaitDelay = time.Second // its workers hold the same pipes
	in, err := cmd.StdinPipe()
	if err != nil {
		return failed(err)
	}
	defer in.Close() // only now: the child ends with it
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Start(); err != nil {
		return failed(err)
	}
	if err := json.NewEncoder(in).Encode(s); err != nil {
		_ = cmd.Process.Kill()
	}
	waited := cmd.Wait()
	var m measure.Measure
	if err := json.Unmarshal(out.Bytes(), &m); err == nil {
		return m
	}
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		m.Problem = fmt.Sprintf("hung: killed after %v", s.Limit+5*time.Second)
	case errs.Len() > 0:
		m.Problem, _, _ = strings.Cut(errs.String(), "\n")
	default:
		m.Problem = fmt.Sprintf("the measurement's process failed: %v", waited)
	}
	return m
}

// measureMain is the main function of such a process. It does not wait for the candidate to clean
// up, because the process ends.
func measureMain(in io.Reader, out io.Writer) int {
	d := json.NewDecoder(in)
	var s measure.Spec
	if err := d.Decode(&s); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	go func() {
		_, _ = io.Copy(io.Discard, in)
		os.Exit(3) // the parent has gone
	}()
	m, _ := measure.Run(context.Background(), s)
	if err := json.NewEncoder(out).Encode(m); err != nil {
		return 2
	}
	return 0
}

// inProcess runs a measurement in this process, for tests.
func inProcess(ctx context.Context, s measure.Spec) measure.Measure {
	m, cleanup := measure.Run(ctx, s)
	cleanup()
	return m
}
