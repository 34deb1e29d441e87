package soak

import (
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/bench/internal/check"
)

// A Result is what came of a run.
type Result struct {
	Server   string
	Seed     uint64
	Client   string `json:",omitempty"`
	Seconds  float64
	Procs    int
	Workers  int
	Names    int
	Lease    string
	Breaking bool // exclusion was not judged

	Tally
	Requests           int
	Sets, SetNames     int // granted sets, and their names
	PermitGrants       int
	Permits            int // of these grants
	PerSecond          float64
	HandedOn           int // within a process, without asking Redis first
	Crossed            int // from one process to another
	Reentries          int
	Scripts            int // sent by all managers
	Refused, Cancelled int // requests
	Failed             int // for want of the server
	LossesTold         int // to holders that watched for it
	LossesEarly        int // of these, before the claim was over, as when the record was removed

	Late        Late // losses, after the claim's end
	LateStopped Late // those of processes that were stopped meanwhile, from where they went on
	LateTimer   Late // plain timers of the same processes, for comparison

	Faults  map[string]int // by kind
	Blows   map[string]int // what they hit: connections, replies, messages
	Failing []string       // faults that could not be done

	WritesAccepted   int
	StaleRefused     int
	LateAccepted     int // nobody newer had written yet
	AcceptedOverlaps int
	UnjustRefusals   int

	BeliefsChecked, BeliefsUnchecked, BeliefOverlaps int

	PermitLimit                                      int // of each name of permits
	PermitsMost                                      int // of one name, held at once
	PermitsChecked, PermitsUnchecked, PermitOverruns int

	Histories int

	Left     Leftovers
	Stacks   string `json:",omitempty"`
	Schedule []Fault
}

// A Tally is what the judge counts itself.
type Tally struct {
	Grants  int // a granted set counts as a grant of each of its names
	Reads   int // of these grants, those of the read side of read-write locks
	Lost    int // holds that ended by a loss
	Unclear int // holds whose unlock had no clear answer
	CutOff  int // holds that were seen open when their process was killed

	Legal, Illegal, Undecided int // histories
	ShortHistories            int // of these, with fewer operations
	Operations                int
	SlowestHistory            float64 // s

	Contradictions int
	Told           []string // the first violations, in full
}

// Late is how late things were, in milliseconds.
type Late struct {
	N             int
	P50, P99, Max float64
}

func lateOf(d *check.Delays) Late {
	ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	return Late{int(d.N()), ms(d.Quantile(0.5)), ms(d.Quantile(0.99)), ms(d.Max)}
}

// violations counts what checkers found so far. The mutex is held.
func (j *judge) violations() int {
	n := j.Contradictions
	if !j.breaking {
		n += j.beliefs.Overlaps + j.permits.Overlaps + j.writes.Overlaps + j.writes.Unjust + j.Illegal + j.lateness.Early
	}
	return n
}

func (run *run) result(schedule []Fault, took time.Duration, left Leftovers) *Result {
	j := run.judge
	j.mu.Lock()
	defer j.mu.Unlock()
	var f figures
	for _, g := range j.figures {
		for i, n := range g {
			f[i] += n
		}
	}
	return &Result{
		Server: run.fleet.name(), Seed: run.Seed, Client: run.Client, Seconds: took.Seconds(),
		Procs: run.Procs, Workers: run.Workers, Names: run.Names, Lease: run.Lease.String(), Breaking: j.breaking,
		Tally: j.Tally, Requests: int(f[requests]), Sets: int(f[sets]), SetNames: int(f[setNames]), PermitGrants: int(f[permitGrants]), Permits: int(f[permitsGranted]), PerSecond: float64(j.Grants) / took.Seconds(),
		HandedOn: int(f[passes]), Crossed: j.beliefs.Crossed, Reentries: int(f[reentries]), Scripts: int(f[scriptsSent]),
		Refused: int(f[refused]), Cancelled: int(f[cancelled]), Failed: int(f[failed]),
		LossesTold: int(j.lateness.Running.N()+j.lateness.Stopped.N()) + j.lateness.Early, LossesEarly: j.lateness.Early,
		Late: lateOf(&j.lateness.Running), LateStopped: lateOf(&j.lateness.Stopped), LateTimer: lateOf(&j.lateness.Timers),
		Faults: run.inflicted, Blows: run.blows, Failing: run.failed,
		WritesAccepted: j.writes.Accepted, StaleRefused: j.writes.Refused, LateAccepted: j.writes.LateAccepted,
		AcceptedOverlaps: j.writes.Overlaps, UnjustRefusals: j.writes.Unjust,
		BeliefsChecked: j.beliefs.Checked, BeliefsUnchecked: j.beliefs.Unchecked, BeliefOverlaps: j.beliefs.Overlaps,
		PermitLimit: j.permits.Limit, PermitsMost: j.permits.Most,
		PermitsChecked: j.permits.Checked, PermitsUnchecked: j.permits.Unchecked, PermitOverruns: j.permits.Overlaps,
		Histories: j.Legal + j.Illegal + j.Undecided,
		Left:      left, Stacks: left.goroutineText, Schedule: schedule,
	}
}

// Violations says what was wrong, a line each. None means that all was well.
func (r *Result) Violations() []string {
	var out []string
	count := func(n int, what string) {
		if n > 0 {
			out = append(out, fmt.Sprintf("%d %s", n, what))
		}
	}
	if r.Grants == 0 {
		out = append(out, "nothing was granted")
	}
	if !r.Breaking {
		count(r.BeliefOverlaps, "belief overlaps")
		count(r.PermitOverruns, "times more permits than there are")
		count(r.AcceptedOverlaps, "accepted overlaps")
		count(r.UnjustRefusals, "writes of valid holders refused")
		count(r.Illegal, "illegal histories")
		count(r.LossesEarly, "losses told before the lease was over")
	}
	count(r.Contradictions, "contradictions")
	count(r.Left.Stuck, "requests that did not end")
	count(r.Left.Goroutines, "goroutines left")
	count(len(r.Left.Keys), "keys left")
	count(len(r.Left.Permits), "names of which not all permits are free")
	count(len(r.Left.Channels), "subscriptions left")
	count(len(r.Left.Connections), "connections left")
	if r.Left.Problem != "" {
		out = append(out, "the server could not be asked what is left: "+r.Left.Problem)
	}
	return out
}
