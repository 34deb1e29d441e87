// Package measure runs one workload on one candidate, once.
//
// Each measurement gets a process of its own (see the program around this package), so that heap,
// goroutines and CPU are those of the candidate alone, and a candidate that hangs can be ended.
// What is random comes from Spec.Seed.
package measure

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/holdfast-go/holdfast/bench/internal/locker"
	"github.com/holdfast-go/holdfast/bench/internal/server"
)

// A Spec says what to measure. Only what the workload knows of is read.
type Spec struct {
	Workload  string
	Candidate string
	Addr      string
	Seed      uint64
	Limit     time.Duration // the measurement gives up after this time
	// Name is that of the one lock that many want, and the others' begin with it. Run draws one:
	// what a client of another measurement still sends then concerns no lock of this one.
	Name string

	Waiters    int           // callers that want one lock
	Clients    int           // of fair: that they are of; of readers: 2 if the writer has its own
	Warm       int           // as many want another one before that
	Turns      int           // how often each wants it; zero: once
	Procs      int           // processes that they are in
	Goroutines int           // each with a name of its own, or a set
	Locks      int           // held at a time; of sets: names of each
	Permits    int           // how many there are
	Callers    []int         // of permits: of each of several clients; none: Waiters of one
	Rounds     int           // at most
	Hold       time.Duration // what a holder sleeps
	Pause      time.Duration // what a caller sleeps between two turns, on average; half of that to half as much again
	Settle     time.Duration // from the last caller's start until all wait; of kinds: between two writes, or two large sets, on average
	Warmup     time.Duration // left out
	Window     time.Duration // what is measured
	Lease      time.Duration // zero: the candidate's default
	User       string        // of the server, see [locker.Config]
	Delay      time.Duration // of the way to the server and of the way back
	// Interleaved is set if the callers of all clients come in turn, and not those of each client
	// in a block.
	Interleaved bool
	// Java, ClassPath and JavaWarmup are for a candidate that is measured in a JVM: the binary, the
	// program, and for how long it warms up at least. It may take five times as long.
	Java, ClassPath string
	JavaWarmup      time.Duration
}

// A Measure is what came of it.
type Measure struct {
	Values  map[string]float64
	Problem string // why the values are missing or partial
}

// Workloads by their names.
var workloads = map[string]func(context.Context, *bench) error{
	"fanout":      fanout,
	"processes":   processes,
	"uncontended": uncontended,
	"renewal":     renewal,
	"idle":        idle,
	"release":     release,
	"readers":     readers,
	"sets":        sets,
	"largeset":    largeSet,
	"permits":     permits,
	"fair":        fair,
}

// bench is what a workload has at hand.
type bench struct {
	Spec
	candidate locker.Candidate
	locker    locker.Locker
	conn      *server.Conn // nil without a server
	values    map[string]float64
	asks      []int64 // of processes: see crowd
	onEnd     []func()
}

// Run measures. The clean-up ends what the measurement started; a process that is about to end need
// not call it, and a candidate that hangs may never return from it.
func Run(ctx context.Context, s Spec) (m Measure, cleanup func()) {
	ctx, cancel := context.WithTimeout(ctx, s.Limit)
	s.Name = fmt.Sprintf("holdfast:bench:%x", rand.Uint64())
	b := &bench{Spec: s, values: map[string]float64{}}
	cleanup = func() {
		cancel()
		for i := len(b.onEnd) - 1; i >= 0; i-- {
			b.onEnd[i]()
		}
	}
	err := b.run(ctx)
	if err != nil {
		m.Problem = err.Error()
		if errors.Is(err, context.DeadlineExceeded) {
			m.Problem = fmt.Sprintf("stopped by the watchdog after %v", s.Limit)
		}
		var p partial
		if errors.As(err, &p) {
			m.Problem = p.Error()
		}
	}
	m.Values = b.values
	return m, cleanup
}

func (b *bench) run(ctx context.Context) error {
	if b.Workload == "turns" {
		return turns(ctx, b) // its candidate is a mix of several
	}
	c, ok := locker.ByName(b.Candidate)
	if !ok {
		return fmt.Errorf("no candidate %q", b.Candidate)
	}
	f := workloads[b.Workload]
	if f == nil {
		return fmt.Errorf("no workload %q", b.Workload)
	}
	b.candidate = c
	if c.NeedsServer {
		conn, err := server.Dial(ctx, b.Addr)
		if err != nil {
			return err
		}
		b.conn = conn
		b.onEnd = append(b.onEnd, conn.Close)
	}
	var err error
	if b.Delay > 0 {
		if b.Addr, err = b.far(ctx, b.Delay); err != nil {
			return err
		}
	}
	if c.Java {
		return b.inJava(ctx)
	}
	if b.locker, err = b.open(ctx, 0); err != nil {
		return err
	}
	return f(ctx, b)
}

// open makes a client. Each of a run has a number, so that their random parts differ.
func (b *bench) open(ctx context.Context, number int) (locker.Locker, error) {
	c := locker.Config{Addr: b.Addr, Lease: b.Lease, Seed: b.Seed + uint64(number)<<32, Renew: b.Workload == "renewal", User: b.User}
	l, err := b.candidate.Open(ctx, c)
	if err != nil {
		return nil, err
	}
	b.onEnd = append(b.onEnd, l.Close)
	return l, nil
}

// clients opens n clients. The first is the one that is open.
func clients[L locker.Locker](ctx context.Context, b *bench, n int) ([]L, error) {
	all := []L{b.locker.(L)}
	for i := 1; i < n; i++ {
		l, err := b.open(ctx, i)
		if err != nil {
			return nil, err
		}
		all = append(all, l.(L))
	}
	return all, nil
}

// A partial result: it says how far a candidate came.
type partial string

func (p partial) Error() string { return string(p) }

func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
func us(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
