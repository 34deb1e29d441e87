package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/bench/internal/locker"
	"github.com/holdfast-go/holdfast/bench/internal/measure"
	"github.com/holdfast-go/holdfast/bench/internal/report"
	"github.com/holdfast-go/holdfast/bench/internal/result"
	"github.com/holdfast-go/holdfast/bench/redisson"
)

// A plan describes one table: its workload and its candidates.
type plan struct {
	table      *result.Table
	spec       measure.Spec
	candidates []string
	reps       int
}

// idle returns the shortest time that a measurement can take.
func (p *plan) idle() time.Duration { return p.spec.Settle + p.spec.Warmup + p.spec.Window }

// sizes has the values of flags. The zero value of a field means the default.
type sizes struct {
	short   bool
	reps    int
	waiters int
	procs   int
	locks   int
	limit   time.Duration
	only    []string          // candidates, or tables of kinds
	java    *redisson.Program // nil: without Redisson
}

// javaWarmup is how long Redisson works at least before it is measured, in full. It goes on until
// the JVM compiles little.
const javaWarmup = 6 * time.Second

// heldFor says for how long a lock is held.
func heldFor(hold time.Duration) string {
	if hold == 0 {
		return "not held"
	}
	return fmt.Sprintf("held for %v", hold)
}

// The names of a set, in the tables of sets.
const (
	setNames      = 64
	largeSetNames = 16
)

// fairClients is how many clients the callers of fair locks are of.
const fairClients = 5

// workersAPermit is how many workers there are for each permit.
const workersAPermit = 10

// Permits that several clients share.
const (
	sharedPermits = 20
	sharedHold    = 20 * time.Millisecond
)

var commands = []string{"fanout", "processes", "uncontended", "renewal", "idle", "release", "turns", "kinds"}

// kindTables are the workloads of kinds.
var kindTables = []string{"readers", "sets", "largeset", "permits", "fair"}

// plans returns the tables of a sub-command.
func (z sizes) plans(command string) []*plan {
	waiters, procs := cmp.Or(z.waiters, pick(z, 1000, 200)), cmp.Or(z.procs, 4)
	reps := cmp.Or(z.reps, pick(z, 5, 1))
	limit := cmp.Or(z.limit, pick(z, 40*time.Second, 10*time.Second))
	settle := pick(z, time.Second, 400*time.Millisecond)
	warmup := pick(z, 500*time.Millisecond, 150*time.Millisecond)
	warm := pick(z, 100, 10)
	lockers := locker.Names(locker.Holdfast, locker.Waker, locker.Peer)

	var java []string // candidates
	var program redisson.Program
	if z.java != nil {
		java, program = []string{locker.Redisson.Name}, *z.java
	}
	var out []*plan
	add := func(id, title, about string, figures []result.Figure, s measure.Spec, candidates ...string) *result.Table {
		s.Workload, s.Limit = cmp.Or(s.Workload, command), limit
		s.Java, s.ClassPath, s.JavaWarmup = program.Java, program.ClassPath, pick(z, javaWarmup, time.Second)
		p := &plan{spec: s, reps: reps}
		if command == "renewal" || command == "idle" || command == "release" {
			p.reps = min(reps, 3) // long, and mostly counts
		}
		if s.Delay > 0 {
			p.reps = min(reps, 3) // many, and the delay is most of each
		}
		if command == "turns" || s.Hold >= sharedHold {
			p.reps = cmp.Or(z.reps, 1) // longer still, and each adds up many turns
		}
		if z.short {
			figures = slices.DeleteFunc(slices.Clone(figures), func(f result.Figure) bool { return f.Long })
		}
		p.table = &result.Table{ID: id, Title: title, About: about, Figures: figures}
		for _, c := range candidates {
			if len(z.only) == 0 || slices.Contains(z.only, c) || slices.Contains(z.only, s.Workload) {
				p.candidates = append(p.candidates, c)
			}
		}
		if len(p.candidates) > 0 {
			out = append(out, p)
		}
		return p.table
	}
	ask := func(t *result.Table, figure, question string, against ...string) {
		t.Questions = append(t.Questions, result.Question{Question: question, Figure: figure, Against: against})
	}
	switch command {
	case "fanout":
		for _, hold := range []time.Duration{0, time.Millisecond} {
			t := add(fmt.Sprintf("fanout/waiters=%d/hold=%v", waiters, hold),
				fmt.Sprintf("%s waiters in one process, %s", report.Whole(waiters), heldFor(hold)),
				"Somebody holds the lock, all others wait for it. Measured from its release until each has had it once.",
				measure.FanoutFigures, measure.Spec{Waiters: waiters, Warm: warm, Hold: hold, Settle: settle},
				slices.Concat(lockers, java, []string{"sync.Mutex"})...)
			if hold == 0 {
				ask(t, "drain", fmt.Sprintf("%s waiters in one process: time until each has had the lock", report.Whole(waiters)))
				ask(t, "commands", "the same: commands for each handoff")
			}
		}
	case "processes":
		t := add(fmt.Sprintf("processes/waiters=%d/procs=%d", waiters, procs),
			fmt.Sprintf("%s waiters in %d processes", report.Whole(waiters), procs),
			"The same over real processes, held for no time. CPU is that of all processes; heap and goroutines are the largest process'.",
			measure.ProcessesFigures, measure.Spec{Waiters: waiters, Warm: warm, Procs: procs, Settle: settle}, lockers...)
		ask(t, "drain", fmt.Sprintf("%s waiters in %d processes: time until each has had the lock", report.Whole(waiters), procs))
		few, turns := 10*procs, waiters/(10*procs)
		add(fmt.Sprintf("processes/waiters=%d/turns=%d/procs=%d", few, turns, procs),
			fmt.Sprintf("%d callers in %d processes, %d turns each", few, procs, turns),
			"As many handoffs, but each caller comes back for more: what the shares are when the contention lasts.",
			measure.ProcessesFigures, measure.Spec{Waiters: few, Warm: warm, Turns: turns, Procs: procs, Settle: settle}, lockers...)
		for _, g := range []struct {
			procs, turns int
			hold, pause  time.Duration
		}{{3, 100, 5 * time.Millisecond, 0}, {2, 300, time.Millisecond, 0}, {2, pick(z, 3000, 100), 0, 0}, {3, 100, 5 * time.Millisecond, 30 * time.Millisecond}} {
			id := fmt.Sprintf("processes/waiters=%d/turns=%d/procs=%d/hold=%v", g.procs, g.turns, g.procs, g.hold)
			title := fmt.Sprintf("%d processes with one caller each, %d turns, %s", g.procs, g.turns, heldFor(g.hold))
			question := fmt.Sprintf("%d processes with one caller each, %s", g.procs, heldFor(g.hold))
			if g.pause > 0 {
				id, title = fmt.Sprintf("%s/pause=%v", id, g.pause), fmt.Sprintf("%s, with pauses of some %v", title, g.pause)
				question += ", now and then"
			}
			t := add(id, title,
				"What a service with a few replicas does: nobody in the caller's own process waits, so each handoff is to another one. A wait begins with the unlock before, or with the end of the pause after that.",
				measure.TakingTurnsFigures, measure.Spec{Waiters: g.procs, Warm: warm, Turns: g.turns, Procs: g.procs, Hold: g.hold, Pause: g.pause, Settle: settle},
				append(lockers, "raw handover")...)
			if g.hold > 0 {
				ask(t, "waitmax", question+": longest wait")
			}
		}
	case "uncontended":
		for _, delay := range pick(z, []time.Duration{0, 250 * time.Microsecond, 2500 * time.Microsecond}, []time.Duration{0}) {
			id, curve, about, figures := "uncontended", "Nobody waits", "Lock and unlock in a loop.", measure.UncontendedFigures
			goroutines := pick(z, []int{1, 2, 4, 8, 16, 64, 256, 1024}, []int{1, 4, 16, 256})
			who := slices.Concat(locker.Names(locker.Holdfast, locker.Peer), java, []string{"raw batches", "raw Do", "2 x PING"})
			if delay > 0 {
				who = slices.DeleteFunc(who, func(c string) bool { return slices.Contains(java, c) }) // it would warm up for each
				id = fmt.Sprintf("uncontended/link=%v", 2*delay)
				curve = fmt.Sprintf("Nobody waits, a round trip takes %v", 2*delay)
				about += " A relay is on the way to the server, which passes all on after half of that time."
				figures, goroutines = figures[:slices.IndexFunc(figures, func(f result.Figure) bool { return f.Key == "commands" })], []int{1, 4, 16, 64, 256}
			}
			for _, g := range goroutines {
				callers := "1 goroutine"
				if g > 1 {
					callers = fmt.Sprintf("%d goroutines, each with a name of its own", g)
				}
				t := add(fmt.Sprintf("%s/goroutines=%d", id, g), curve+": "+callers, about, figures,
					measure.Spec{Goroutines: g, Delay: delay, Warmup: warmup, Window: pick(z, 2*time.Second, 300*time.Millisecond)},
					who...)
				t.Point = &result.Point{Curve: curve, Over: "goroutines", At: float64(g)}
				switch {
				case delay > 0:
				case g == 1:
					ask(t, "p50", "one goroutine, nobody waits: time of a lock and unlock")
				case g == 4, g == 256:
					ask(t, "pairs", callers+": locks and unlocks a second")
				}
			}
		}
	case "renewal":
		numbers := []int{10_000, 100_000}
		if z.short {
			numbers = []int{2000}
		}
		if z.locks > 0 {
			numbers = []int{z.locks}
		}
		for _, n := range numbers {
			who := locker.Names(locker.Holdfast, locker.Peer)
			if n > 20_000 {
				// The others have a goroutine a lock, at the same cost each.
				who = []string{"holdfast", "rueidislock tuned", "bsm/redislock"}
			} else {
				// Tuned or not is a matter of waiting, and nobody waits.
				who = slices.DeleteFunc(who, func(s string) bool { return s == "redsync tuned" || s == "bsm/redislock tuned" })
				who = append(who, java...)
			}
			lease := pick(z, 9*time.Second, 3*time.Second)
			t := add(fmt.Sprintf("renewal/locks=%d", n),
				fmt.Sprintf("%s locks are held and kept", report.Whole(n)),
				fmt.Sprintf("The lease is %v for all. Redsync and bsm/redislock do not renew by themselves: a goroutine beside each lock does so every third of the lease, as their documentation shows.", lease),
				// Each lease is renewed about eight times in the window. A smaller number would
				// depend on where the window begins.
				measure.RenewalFigures, measure.Spec{Locks: n, Lease: lease, Window: pick(z, 3*lease, lease)}, who...)
			if n <= 20_000 {
				ask(t, "commands", report.Whole(n)+" held locks: commands a second to keep them")
			}
		}
	case "idle":
		add(fmt.Sprintf("idle/waiters=%d", waiters),
			fmt.Sprintf("%s waiters on a lock that is held", report.Whole(waiters)),
			"Another client holds it, and nothing happens. Commands include the renewals of the holder; keep-alive pings of idle connections are counted apart.",
			measure.IdleFigures, measure.Spec{Waiters: waiters, Settle: 2 * settle, Window: pick(z, 4*time.Second, time.Second)}, lockers...)
	case "release":
		t := add("release", "From an unlock in one process to the grant in another",
			"One waiter. Round trips are PINGs over a bare connection, sent between the rounds.",
			measure.ReleaseFigures, measure.Spec{Rounds: pick(z, 300, 60), Window: pick(z, 4*time.Second, time.Second)}, append(lockers, "raw handover")...)
		ask(t, "p50", "from an unlock in one process to the grant in another")
	case "kinds":
		every := pick(z, time.Second, 100*time.Millisecond)
		for _, hold := range []time.Duration{0, time.Millisecond} {
			add(fmt.Sprintf("kinds/readers=%d/hold=%v", waiters, hold),
				fmt.Sprintf("%s readers again and again, %s, and a writer every %v", report.Whole(waiters), heldFor(hold), every),
				"All in one process. A read is over when its unlock is answered. The row of holdfast is Shared and Exclusive.",
				measure.ReadersFigures,
				measure.Spec{Workload: "readers", Waiters: waiters, Hold: hold, Settle: every, Warmup: warmup, Window: pick(z, 5*time.Second, 500*time.Millisecond)},
				locker.Names(locker.Holdfast, locker.ReadWrite)...)
		}
		type group struct {
			readers int
			hold    time.Duration
		}
		for _, g := range pick(z, []group{{4, time.Second}, {8, 250 * time.Millisecond}, {32, 200 * time.Millisecond}}, []group{{8, 250 * time.Millisecond}}) {
			t := add(fmt.Sprintf("kinds/readers=%d/hold=%v/apart", g.readers, g.hold),
				fmt.Sprintf("%d readers again and again, %s, and a writer of another client now and then", g.readers, heldFor(g.hold)),
				"The writer pauses for about a hold. Its longest wait may be one that is not over at the end: one that gets nothing waits all the time.",
				measure.WriterFigures,
				measure.Spec{Workload: "readers", Waiters: g.readers, Clients: 2, Hold: g.hold, Settle: g.hold, Warmup: g.hold, Window: pick(z, max(6*g.hold, 3*time.Second), 1500*time.Millisecond)},
				locker.Names(locker.Holdfast, locker.ReadWrite)...)
			if g.readers == 8 {
				ask(t, "holdsmax", "a writer beside 8 readers of another client: its longest wait, in holds", "one hold a reader")
			}
		}
		for _, g := range []int{1, 16} {
			add(fmt.Sprintf("kinds/sets=%d/names=%d", g, setNames),
				fmt.Sprintf("Several names at once: %d goroutines, each with %d names of its own", g, setNames),
				"Lock all names of the set and unlock them, in a loop. Nobody waits. The row of holdfast is LockAll, that of bsm/redislock ObtainMulti.",
				measure.SetsFigures,
				measure.Spec{Workload: "sets", Goroutines: g, Locks: setNames, Warmup: warmup, Window: pick(z, 2*time.Second, 300*time.Millisecond)},
				append(locker.Names(locker.Holdfast, locker.Several), "bsm/redislock")...)
		}
		add(fmt.Sprintf("kinds/largeset=%d", largeSetNames),
			fmt.Sprintf("A large set among small ones: %d names, all of them again and again", largeSetNames),
			"Each name is taken by two clients with two callers each, and held for 1 ms. A third client takes all names at once, holds them for 1 ms and pauses for about 10 ms. Its longest wait may be one that is not over at the end.",
			measure.LargeSetFigures,
			measure.Spec{Workload: "largeset", Locks: largeSetNames, Hold: time.Millisecond, Settle: 10 * time.Millisecond, Warmup: warmup, Window: pick(z, 10*time.Second, 3*time.Second)},
			"holdfast")
		permits := max(1, waiters/workersAPermit)
		for _, hold := range []time.Duration{0, time.Millisecond} {
			t := add(fmt.Sprintf("kinds/permits=%d/workers=%d/hold=%v", permits, waiters, hold),
				fmt.Sprintf("%s permits for %s workers again and again, %s", report.Whole(permits), report.Whole(waiters), heldFor(hold)),
				"All in one process, each worker wants one permit. The row of holdfast is Permits. The longest wait may be one that is not over at the end.",
				measure.PermitsFigures,
				measure.Spec{Workload: "permits", Waiters: waiters, Permits: permits, Hold: hold, Warmup: warmup, Window: pick(z, 5*time.Second, 500*time.Millisecond)},
				locker.Names(locker.Holdfast, locker.Permit)...)
			if hold == 0 {
				ask(t, "grants", fmt.Sprintf("%s permits for %s workers: grants a second", report.Whole(permits), report.Whole(waiters)), locker.Names(locker.Permit)...)
			}
		}
		for _, callers := range pick(z, [][]int{{100, 1}, {100, 5}, {100, 100}, {25, 25, 25, 25}}, [][]int{{100, 1}, {25, 25, 25, 25}}) {
			name := strings.Trim(strings.ReplaceAll(fmt.Sprint(callers), " ", "+"), "[]")
			figures := measure.SharedPermitsFigures
			if slices.Min(callers) == slices.Max(callers) {
				figures = slices.Concat(figures, measure.ShareFigures)
			}
			t := add(fmt.Sprintf("kinds/permits=%d/clients=%s/hold=%v", sharedPermits, name, sharedHold),
				fmt.Sprintf("%d permits for %s callers of %d clients again and again, %s", sharedPermits, name, len(callers), heldFor(sharedHold)),
				"All in one process. In use is the mean over time. The longest wait may be one that is not over at the end.",
				figures,
				measure.Spec{Workload: "permits", Callers: callers, Permits: sharedPermits, Hold: sharedHold, Warmup: pick(z, time.Second, 150*time.Millisecond), Window: pick(z, 3*time.Second, 500*time.Millisecond)},
				locker.Names(locker.Holdfast, locker.Permit)...)
			if len(callers) > 2 {
				ask(t, "inuse", fmt.Sprintf("%d permits shared by %d clients: in use, on average", sharedPermits, len(callers)), locker.Names(locker.Permit)...)
			}
		}
		callers := max(1, cmp.Or(z.waiters, pick(z, 500, 100))/fairClients)
		for _, order := range []string{"in blocks", "interleaved"} {
			about := "The callers of a client have come to the server together, so most handoffs are within a client."
			if order == "interleaved" {
				about = "The callers of all clients have come to the server in turn, so each handoff is from one client to the next."
			}
			t := add(fmt.Sprintf("kinds/fair=%d/clients=%d/%s", fairClients*callers, fairClients, strings.ReplaceAll(order, " ", "-")),
				fmt.Sprintf("A fair lock for %s waiters of %d clients, %s", report.Whole(fairClients*callers), fairClients, order),
				about+" Another client holds the lock until all wait. Measured from its release until each has had it once, for no time. A grant is out of order if somebody who came earlier has it later. The row of holdfast is the fair lock.",
				measure.FairFigures,
				measure.Spec{Workload: "fair", Waiters: fairClients * callers, Clients: fairClients, Interleaved: order == "interleaved", Warm: warm, Settle: settle},
				append(locker.Names(locker.Holdfast, locker.Fair), java...)...)
			if order == "in blocks" {
				ask(t, "drain", fmt.Sprintf("fair lock, %s waiters of %d clients: time until each has had it", report.Whole(fairClients*callers), fairClients),
					"one channel a waiter", locker.Redisson.Name)
			}
		}
	case "turns":
		for _, hold := range []time.Duration{0, time.Millisecond, 10 * time.Millisecond} {
			add(fmt.Sprintf("turns/hold=%v", hold),
				fmt.Sprintf("Processes that take turns, each caller again and again, %s", heldFor(hold)),
				"Callers of each process, which runs holdfast if nothing else is said. Whose record there is was asked of the server at random instants.",
				measure.TurnsFigures, measure.Spec{Hold: hold, Warmup: pick(z, 500*time.Millisecond, 200*time.Millisecond), Window: pick(z, 5*time.Second, 2*time.Second)},
				measure.MixNames()...)
		}
	}
	return out
}

// wantsRedisson reports whether a command would measure Redisson if it was there.
func (z sizes) wantsRedisson(command string) bool {
	z.java = &redisson.Program{}
	for _, c := range commands {
		if command != "all" && command != c {
			continue
		}
		for _, p := range z.plans(c) {
			if slices.Contains(p.candidates, locker.Redisson.Name) {
				return true
			}
		}
	}
	return false
}

func pick[T any](z sizes, full, short T) T {
	if z.short {
		return short
	}
	return full
}
