package measure

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/bench/internal/locker"
	"github.com/holdfast-go/holdfast/bench/internal/result"
	"github.com/holdfast-go/holdfast/bench/internal/server"
)

// TurnsFigures are those of turns. The first process is the one that the mix names first.
var TurnsFigures = []result.Figure{
	{Key: "first", Name: "first has it", Unit: "% of taken"},
	{Key: "least", Name: "least", Unit: "% of taken", Better: result.Higher},
	{Key: "most", Name: "most", Unit: "% of taken", Better: result.Lower},
	{Key: "firstgrants", Name: "first's grants", Unit: "%"},
	{Key: "firstgap", Name: "first's longest gap", Unit: "ms", Long: true},
	{Key: "gap", Name: "longest gap", Unit: "ms", Better: result.Lower, Long: true},
	{Key: "taken", Name: "taken", Unit: "% of time"},
	{Key: "grants", Name: "grants", Unit: "/s", Better: result.Higher},
	{Key: "commands", Name: "commands", Unit: "/grant", Better: result.Lower},
}

// turns has each process of a mix take the lock again and again. Meanwhile this process asks the
// server, at random instants, whose record there is.
func turns(ctx context.Context, b *bench) error {
	all := mixes()
	i := slices.IndexFunc(all, func(m mix) bool { return m.String() == b.Candidate })
	if i < 0 {
		return fmt.Errorf("no mix %q", b.Candidate)
	}
	mix := all[i]
	conn, err := server.Dial(ctx, b.Addr)
	if err != nil {
		return err
	}
	b.conn = conn
	b.onEnd = append(b.onEnd, conn.Close)
	workers := make([]*worker, len(mix))
	owners := make([]string, len(mix))
	for i, p := range mix {
		s, err := b.turnSpec(ctx, p)
		if err != nil {
			return err
		}
		if workers[i], err = b.spawn(ctx, i+1, s); err != nil {
			return err
		}
	}
	for i, w := range workers {
		if err := w.hear(&struct{}{}); err != nil {
			return err
		}
		// It holds a lock of its own, which says who its owners are.
		if owners[i], err = b.recorded(b.ownName(i + 1)); err != nil || owners[i] == "" {
			return fmt.Errorf("process %d has no record: %w", i+1, err)
		}
	}
	tell := func(command string) error {
		for _, w := range workers {
			if err := w.tell(command); err != nil {
				return err
			}
		}
		return nil
	}
	if err := tell("go"); err != nil {
		return err
	}
	if err := pause(ctx, b.Warmup); err != nil {
		return err
	}
	var had []int
	var free int
	used, err := b.cost(false, func() (err error) {
		if err := tell("measure"); err != nil {
			return err
		}
		if had, free, err = b.sample(ctx, owners); err != nil {
			return err
		}
		return tell("stop")
	})
	if err != nil {
		return err
	}
	reports := make([]turnReport, len(workers))
	for i, w := range workers {
		if err := w.hear(&reports[i]); err != nil {
			return err
		}
	}
	b.turnFigures(had, free, reports, used)
	for i, r := range reports {
		if r.Problem != "" {
			return partial(fmt.Sprintf("process %d: %s", i+1, r.Problem))
		}
	}
	return nil
}

// turnSpec is what the worker of a process is told.
func (b *bench) turnSpec(ctx context.Context, p turnProc) (s Spec, err error) {
	s = b.Spec
	s.Candidate, s.Waiters = p.candidate, p.callers
	if p.delay > 0 {
		if s.Addr, err = b.far(ctx, p.delay); err != nil {
			return s, err
		}
	}
	if p.deaf {
		s.User = "deaf"
		if _, err := b.conn.Do("ACL", "SETUSER", s.User, "reset", "on", ">"+s.User, "~*", "&*", "+@all", "-subscribe"); err != nil {
			return s, err
		}
	}
	return s, nil
}

// sample asks for the record at random instants, about every millisecond, and returns how often it
// was each process', and how often there was none.
func (b *bench) sample(ctx context.Context, owners []string) (had []int, free int, err error) {
	rng := rand.New(rand.NewPCG(b.Seed, 0))
	had = make([]int, len(owners))
	some := false // else the window is short for this machine
	for end := time.Now().Add(b.Window); !some || time.Now().Before(end); {
		owner, err := b.recorded(b.Name)
		if err != nil {
			return nil, 0, err
		}
		switch i := slices.Index(owners, owner); {
		case i >= 0:
			had[i]++
			some = true
		case owner == "":
			free++
		default:
			return nil, 0, fmt.Errorf("a stranger holds the lock: %s", owner)
		}
		if err := pause(ctx, 500*time.Microsecond+time.Duration(rng.Int64N(int64(time.Millisecond)))); err != nil {
			return nil, 0, err
		}
	}
	return had, free, nil
}

// recorded is the owner that a record carries, without its number.
func (b *bench) recorded(name string) (string, error) {
	owner, err := b.conn.Do("HRANDFIELD", name)
	owner, _, _ = strings.Cut(owner, ":")
	return owner, err
}

func (b *bench) turnFigures(had []int, free int, reports []turnReport, used cost) {
	v := b.values
	taken := 0
	for _, n := range had {
		taken += n
	}
	grants := 0
	var gap time.Duration
	for _, r := range reports {
		grants += r.Grants
		gap = max(gap, r.Gap)
	}
	part := func(n, of int) float64 { return 100 * float64(n) / float64(max(of, 1)) }
	v["first"], v["least"], v["most"] = part(had[0], taken), part(slices.Min(had), taken), part(slices.Max(had), taken)
	v["firstgrants"], v["firstgap"], v["gap"] = part(reports[0].Grants, grants), ms(reports[0].Gap), ms(gap)
	v["taken"] = part(taken, taken+free)
	v["grants"] = float64(grants) / used.took.Seconds()
	v["commands"] = used.server.Commands("del") / float64(max(grants, 1))
}

// A turnReport is what a process says of its callers.
type turnReport struct {
	Grants  int
	Gap     time.Duration // the longest wait without a grant for any caller
	Problem string
}

func (b *bench) ownName(number int) string { return fmt.Sprintf("%s:process:%d", b.Name, number) }

// turnTaker is the worker's side.
func (b *bench) turnTaker(ctx context.Context, number int, commands <-chan string, answer *json.Encoder) error {
	own, err := b.locker.Lock(ctx, b.ownName(number))
	if err != nil {
		return err
	}
	if err := answer.Encode(struct{}{}); err != nil {
		return err
	}
	g := &gaps{}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for {
		select {
		case c := <-commands:
			switch c {
			case "go":
				if err := own.Unlock(ctx); err != nil {
					return err
				}
				for range b.Waiters {
					go g.take(ctx, b.locker, b.Name, b.Hold)
				}
			case "measure":
				g.reset()
			case "stop":
				return answer.Encode(g.report())
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// gaps measures the callers of one process.
type gaps struct {
	mu      sync.Mutex
	waiting int
	since   time.Time // the last grant, or when the first began to wait
	turnReport
}

// take takes the lock again and again until ctx ends.
func (g *gaps) take(ctx context.Context, l locker.Locker, name string, hold time.Duration) {
	for {
		g.asks()
		h, err := l.Lock(ctx, name)
		if err == nil {
			g.granted()
			if hold > 0 {
				time.Sleep(hold)
			}
			err = h.Unlock(ctx)
		}
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			g.fail(err)
			return
		}
	}
}

func (g *gaps) asks() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.waiting++; g.waiting == 1 {
		g.since = time.Now()
	}
}

func (g *gaps) granted() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting--
	now := time.Now()
	g.Gap = max(g.Gap, now.Sub(g.since))
	g.since = now
	g.Grants++
}

func (g *gaps) fail(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.Problem = err.Error()
}

// reset begins to measure.
func (g *gaps) reset() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.Grants, g.Gap, g.since = 0, 0, time.Now()
}

func (g *gaps) report() turnReport {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.waiting > 0 {
		g.Gap = max(g.Gap, time.Since(g.since))
	}
	return g.turnReport
}
