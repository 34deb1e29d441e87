package soak

import (
	"fmt"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/holdfast-go/holdfast/bench/internal/check"
	"github.com/holdfast-go/holdfast/bench/internal/clock"
)

const (
	historyLimit = 20 * time.Second // of the check of one history
	historyQueue = 32
	maxTold      = 50 // violations that are kept in full
)

// A judge gets the records of all workers and finds what must not be.
type judge struct {
	breaking bool

	mu       sync.Mutex
	began    int64 // an instant, to count times from
	beliefs  check.Beliefs
	permits  check.Beliefs
	writes   check.Writes
	lateness check.Lateness
	chunks   check.Chunks
	figures  map[uint32]figures // the newest of each life
	Tally

	queue   chan history
	checked sync.WaitGroup
}

type history struct {
	holds []check.Hold
	short bool
}

func newJudge(breaking bool) *judge {
	j := &judge{
		breaking: breaking, permits: check.Beliefs{Limit: permitLimit}, figures: map[uint32]figures{},
		queue: make(chan history, historyQueue), began: clock.Now(),
	}
	j.checked.Go(j.checkHistories)
	return j
}

// checkHistories runs beside the records, so that those are read in time.
func (j *judge) checkHistories() {
	for h := range j.queue {
		v := check.History(h.holds, historyLimit)
		j.mu.Lock()
		switch v.Result {
		case porcupine.Ok:
			j.Legal++
		case porcupine.Illegal:
			j.Illegal++
			j.tell(v.Violation())
		default:
			j.Undecided++
		}
		if h.short {
			j.ShortHistories++
		}
		j.Operations += 2 * v.Holds
		j.SlowestHistory = max(j.SlowestHistory, v.Took.Seconds())
		j.mu.Unlock()
	}
}

// tell keeps a violation. The mutex is held.
func (j *judge) tell(v *check.Violation) {
	if v != nil && len(j.Told) < maxTold {
		j.Told = append(j.Told, v.String())
	}
}

// ended takes a hold that has ended, or whose process has.
func (j *judge) ended(h *check.Hold) {
	j.Grants++
	if h.Shared {
		j.Reads++
	}
	switch h.How {
	case check.Lost:
		j.Lost++
	case check.Unknown:
		j.Unclear++
	case check.Open:
		j.CutOff++
	}
	if h.Permits > 0 {
		j.tell(j.permits.Add(h))
		return
	}
	j.tell(j.beliefs.Add(h))
	j.tell(j.writes.AddHold(h))
	if holds := j.chunks.Add(*h); holds != nil {
		j.send(history{holds, false})
	}
}

// send hands over a history, or gives it up when there are too many.
func (j *judge) send(h history) {
	select {
	case j.queue <- h:
	default:
		j.Undecided++
	}
}

// finish checks what is left, and waits for the results.
func (j *judge) finish() {
	j.mu.Lock()
	rest := j.chunks.Rest()
	j.mu.Unlock()
	for _, holds := range rest {
		j.queue <- history{holds, len(holds) < check.HoldsPerHistory}
	}
	close(j.queue)
	j.checked.Wait()
}

// fault counts something that must not happen.
func (j *judge) fault(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.Contradictions++
	j.tell(&check.Violation{Kind: "contradiction", Text: fmt.Sprintf(format, args...)})
}

// stopped and continued are told when a worker's process is.
func (j *judge) stopped(life uint32) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lateness.Stop(life, clock.Now())
}

func (j *judge) continued(life uint32) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lateness.Continue(life, clock.Now())
}

// A reporter is the judge's ear for one process.
type reporter struct {
	*judge
	life  uint32
	alive chan struct{}         // closed when its manager is there
	open  map[uint64]check.Hold // as they were when they were last looked at
	words *lastWords
}

func newReporter(j *judge, life uint32) *reporter {
	return &reporter{judge: j, life: life, alive: make(chan struct{}), open: map[uint64]check.Hold{}}
}

// take takes a record of the process.
func (r *reporter) take(x record) {
	if x.Fault != "" {
		r.fault("process %d: %s", r.life, x.Fault)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case x.Open != nil:
		r.open[x.Open.ID] = *x.Open
	case x.Hold != nil:
		delete(r.open, x.Hold.ID)
		r.ended(x.Hold)
	case x.Write != nil:
		r.tell(r.writes.AddWrite(x.Write))
	case x.Loss != nil:
		r.lateness.Add(*x.Loss)
	case x.Figures != nil:
		r.figures[r.life] = *x.Figures
	case x.Last != nil:
		r.words = x.Last
	case x.Ready:
		close(r.alive)
	}
}

// dead ends what the process had open when it was killed.
func (r *reporter) dead() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, h := range r.open {
		r.ended(&h)
	}
	clear(r.open)
}
