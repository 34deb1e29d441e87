package measure

import (
	"context"
	"fmt"
	"os/exec"
	"time"

	"github.com/holdfast-go/holdfast/bench/redisson"
)

// A javaReport is what the program in Java says of a workload: see package redisson. Times are in
// nanoseconds of its own clock.
type javaReport struct {
	Problem      string
	CPU          time.Duration
	Began        int64
	Grants, Ends []int64       // of a crowd
	Took         time.Duration // of all others
	Pairs        float64
	P50, P99     time.Duration
	Heap         float64 // bytes a lock
}

// inJava runs a workload in a JVM.
func (b *bench) inJava(ctx context.Context) error {
	w, err := b.spawnJava(ctx)
	if err != nil {
		return err
	}
	hear := func(answer any) error {
		err := w.hear(answer)
		if err != nil && ctx.Err() != nil {
			return ctx.Err() // the JVM was killed
		}
		return err
	}
	if err := hear(&struct{}{}); err != nil {
		return err
	}
	used, err := b.cost(false, func() error {
		if err := w.tell("go"); err != nil {
			return err
		}
		return hear(&struct{}{})
	})
	if err != nil {
		return err
	}
	var r javaReport
	if err := hear(&r); err != nil {
		return err
	}
	if r.Problem != "" {
		return partial(r.Problem)
	}
	used.cpu = r.CPU
	v := b.values
	n := 0.0 // by which commands are divided
	switch b.Workload {
	case "fanout", "fair":
		n = float64(len(r.Grants))
		b.drained(r.Began, r.Grants, r.Ends, used)
		delete(v, "heap")
		delete(v, "goroutines")
		if b.Workload == "fair" {
			v["handoff"] = 1000 * v["drain"] / n
			v["disorder"] = float64(disorder(r.Grants))
		}
	case "uncontended":
		n = r.Pairs
		v["pairs"] = n / r.Took.Seconds()
		v["p50"], v["p99"] = us(r.P50), us(r.P99)
		b.serverFigures(used, n)
		b.secondsOf(used, n)
	case "renewal":
		n = r.Took.Seconds()
		b.perSecond(used, n)
		v["heap"] = r.Heap
		if err := b.allHeld(); err != nil {
			return err
		}
	}
	// A client deletes the latch of each unlock by DEL. The script of the unlock calls DEL too, and
	// SET, which nothing else calls.
	v["commands"] = (used.server.Commands("del") - used.server.Calls["set"]) / n
	return nil
}

// spawnJava starts the program.
func (b *bench) spawnJava(ctx context.Context) (*worker, error) {
	interleaved := 0
	if b.Interleaved {
		interleaved = 1
	}
	args := []string{"-Xmx1g", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", b.ClassPath, redisson.Main,
		"workload=" + b.Workload, "addr=" + b.Addr, "name=" + b.Name}
	for _, p := range []struct {
		key   string
		value int64
	}{
		{"waiters", int64(b.Waiters)},
		{"clients", int64(b.Clients)},
		{"interleaved", int64(interleaved)},
		{"goroutines", int64(b.Goroutines)},
		{"locks", int64(b.Locks)},
		{"hold", b.Hold.Milliseconds()},
		{"settle", b.Settle.Milliseconds()},
		{"warm", b.JavaWarmup.Milliseconds()},
		{"window", b.Window.Milliseconds()},
		{"lease", b.Lease.Milliseconds()},
	} {
		args = append(args, fmt.Sprintf("%s=%d", p.key, p.value))
	}
	return b.child(ctx, func(ctx context.Context) *exec.Cmd { return exec.CommandContext(ctx, b.Java, args...) })
}
