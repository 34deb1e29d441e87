package measure

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/bench/internal/clock"
	"github.com/holdfast-go/holdfast/bench/internal/locker"
	"github.com/holdfast-go/holdfast/bench/internal/result"
)

// ShareFigures are those of processes or clients that want equally much.
var ShareFigures = []result.Figure{
	{Key: "least", Name: "least share", Unit: "% of fair", Better: result.Higher, Chart: true, Long: true},
	{Key: "most", Name: "largest share", Unit: "% of fair", Better: result.Lower, Long: true},
}

// ProcessesFigures are those of processes.
var ProcessesFigures = append(slices.Concat(FanoutFigures, ShareFigures),
	result.Figure{Key: "streak", Name: "longest streak", Unit: "grants", Better: result.Lower, Count: true, Chart: true, Long: true},
)

// TakingTurnsFigures are those of processes with one caller each. The holding times decide the
// drain time, so the charts show other figures.
var TakingTurnsFigures = chart(append(slices.Clone(ProcessesFigures),
	result.Figure{Key: "across", Name: "to another process", Unit: "/s", Better: result.Higher},
	result.Figure{Key: "crossed", Name: "to another process", Unit: "% of grants", Better: result.Higher},
), "waitmax", "commands", "across")

// chart returns figures with charts of some of them only.
func chart(figures []result.Figure, keys ...string) []result.Figure {
	figures = slices.Clone(figures)
	for i := range figures {
		figures[i].Chart = slices.Contains(keys, figures[i].Key)
	}
	return figures
}

// A crowdReport is what a worker says of its callers.
type crowdReport struct {
	Asks, Grants, Ends []int64
	Twice              bool
	Problem            string
	CPU                time.Duration
	Heap               float64
	Goroutines         float64
}

// work is the worker's side of a workload.
func (b *bench) work(ctx context.Context, number int, commands <-chan string, answer *json.Encoder) error {
	if b.Workload == relaying {
		return b.relay(ctx, answer)
	}
	c, ok := locker.ByName(b.Candidate)
	if !ok {
		return fmt.Errorf("no candidate %q", b.Candidate)
	}
	b.candidate = c
	l, err := b.open(ctx, number)
	if err != nil {
		return err
	}
	b.locker = l
	switch b.Workload {
	case "release":
		return b.taker(ctx, commands, answer)
	case "turns":
		return b.turnTaker(ctx, number, commands, answer)
	}
	if err := b.warm(ctx, number); err != nil {
		return err
	}
	crowd := emptyCrowd(b.Waiters/b.Procs, b.Turns, b.Hold, func(ctx context.Context, _ int) (locker.Held, error) { return l.Lock(ctx, b.Name) })
	crowd.pause = b.Pause
	for i := range b.Waiters / b.Procs {
		crowd.start(ctx, i)
	}
	if err := pause(ctx, b.Settle); err != nil {
		return err
	}
	var waited error
	used, err := b.cost(true, func() error {
		if err := answer.Encode(struct{}{}); err != nil {
			return err
		}
		waited = crowd.wait(ctx)
		return nil
	})
	if err != nil {
		return err
	}
	report := crowdReport{
		Asks: crowd.asks, Grants: crowd.grants, Ends: crowd.ends, Twice: crowd.twice.Load(),
		CPU: used.cpu, Heap: used.heap, Goroutines: used.goroutines,
	}
	if waited != nil {
		report.Problem = waited.Error()
	}
	return answer.Encode(report)
}

// processes has the callers wait in several processes. This one holds the lock until all wait, and
// takes no further part.
func processes(ctx context.Context, b *bench) error {
	h, err := b.locker.Lock(ctx, b.Name)
	if err != nil {
		return err
	}
	// The watchdog of the workers comes first, so that they can say how far they came.
	patience := b.Limit
	b.Limit -= min(b.Limit/4, 3*time.Second)
	defer func() { b.Limit = patience }()
	workers := make([]*worker, b.Procs)
	for i := range workers {
		if workers[i], err = b.spawn(ctx, i+1, b.Spec); err != nil {
			return err
		}
	}
	for _, w := range workers {
		if err := w.hear(&struct{}{}); err != nil {
			return err
		}
	}
	var began int64
	reports := make([]crowdReport, len(workers))
	used, err := b.cost(false, func() error {
		began = clock.Now()
		if err := h.Unlock(ctx); err != nil {
			return err
		}
		for i, w := range workers {
			if err := w.hear(&reports[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	var order []grant
	var grants, ends []int64
	var problem string
	for i, r := range reports {
		if r.Problem != "" {
			problem = r.Problem
		}
		used.cpu += r.CPU
		used.heap, used.goroutines = max(used.heap, r.Heap), max(used.goroutines, r.Goroutines)
		ends = append(ends, r.Ends...)
		b.asks = append(b.asks, r.Asks...)
		grants = append(grants, r.Grants...)
		for _, at := range r.Grants {
			if at != 0 {
				order = append(order, grant{at, i})
			}
		}
	}
	if problem != "" {
		if n := b.Procs * (b.Waiters / b.Procs) * max(b.Turns, 1); len(order) < n {
			problem = fmt.Sprintf("stopped by the watchdog: %d of %d granted", len(order), n)
		}
		return partial(problem)
	}
	b.drained(began, grants, ends, used)
	s := judge(order, b.Procs)
	v := b.values
	v["least"], v["most"], v["streak"] = 100*s.least, 100*s.most, float64(s.streak)
	v["across"], v["crossed"] = s.across, 100*s.crossed
	return nil
}

// A grant is a moment and the process that was granted the lock.
type grant struct {
	at   int64
	proc int
}

// shares tell how fairly grants went around.
type shares struct {
	least, most float64 // of the fair share, while all had waiters enough
	streak      int     // the most in a row of one process, while another waited
	across      float64 // grants a second to another process than the one before
	crossed     float64 // the part of the grants that went to another process
}

// judge puts the grants in order. All but the streak is of the first half: in the end each process
// has had as many as it asked for.
func judge(order []grant, procs int) shares {
	slices.SortFunc(order, func(a, b grant) int { return int(a.at - b.at) })
	left := make([]int, procs)
	for _, g := range order {
		left[g.proc]++
	}
	first, half, across := order[:len(order)/2], make([]int, procs), 0
	for i, g := range first {
		half[g.proc]++
		if i > 0 && g.proc != first[i-1].proc {
			across++
		}
	}
	fair := float64(len(first)) / float64(procs)
	s := shares{least: float64(slices.Min(half)) / fair, most: float64(slices.Max(half)) / fair}
	if n := len(first) - 1; n > 0 {
		s.across = float64(across) / time.Duration(first[n].at-first[0].at).Seconds()
		s.crossed = float64(across) / float64(n)
	}
	run, last := 0, -1
	for _, g := range order {
		others := false
		for p, n := range left {
			others = others || p != g.proc && n > 0
		}
		left[g.proc]--
		if g.proc != last {
			run, last = 0, g.proc
		}
		if run++; others {
			s.streak = max(s.streak, run)
		}
	}
	return s
}
