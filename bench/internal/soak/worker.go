package soak

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/bench/internal/check"
	"github.com/holdfast-go/holdfast/bench/internal/clock"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// WorkerArg is the only argument of a process that is a worker. The program (and a test binary)
// must then call [Worker] and do nothing else.
const WorkerArg = "internal-soak-worker"

const (
	flushEvery   = 5 * time.Millisecond // what a kill takes with it
	figuresEvery = 200 * time.Millisecond
	restTime     = 30 * time.Second // for requests to end once nobody makes new ones
	closeTime    = 15 * time.Second
	leakTime     = 3 * time.Second // for goroutines to end after Close
	clusterLeak  = 9 * time.Second // the same in a cluster: its client closes old connections 5 s later
	word         = "stop"          // on a worker's standard input
)

// A job is the first line to a worker.
type job struct {
	Addrs     map[string]string // of each server: that of the proxy before it
	Cluster   bool
	Acks      int
	Life      uint32 // its number among all workers of the run, from 1
	Workers   int
	Names     int
	Seed      uint64
	Registers string
	Lease     time.Duration
	Client    string
	Breaking  bool
}

// A worker is the life of one process.
type worker struct {
	job
	mgr       *lockmgr.Manager                // set before the loops begin
	manager   atomic.Pointer[lockmgr.Manager] // the same, for others
	registers *registers
	breaker   breaker
	records   *recorder
	lastHold  atomic.Uint64
	stop      chan struct{} // closed when no new requests are to be made
	closing   atomic.Bool

	counts  [counted]atomic.Uint64
	waiting atomic.Int64
}

// Worker is the life of a worker process. It returns when it was told to stop and has come to rest,
// and ends the process when its input ends before that.
func Worker(in io.Reader, out io.Writer) {
	lines := bufio.NewScanner(in)
	w := &worker{stop: make(chan struct{}), records: newRecorder()}
	if !lines.Scan() || json.Unmarshal(lines.Bytes(), &w.job) != nil {
		return
	}
	var err error
	if w.registers, err = openRegisters(w.Registers, w.Names); err != nil {
		fmt.Fprintln(os.Stderr, "soak: worker:", err)
		os.Exit(1)
	}
	defer w.registers.close()
	w.breaker = breaker{w.Client, w.Lease}
	var done atomic.Bool
	go func() {
		if lines.Scan() && lines.Text() == word {
			close(w.stop)
		}
		for lines.Scan() { // nothing more is said; the end of input is
		}
		if !done.Load() {
			os.Exit(1) // who started us is gone
		}
	}()
	flushed := make(chan struct{})
	rest := make(chan struct{})
	go w.report(out, rest, flushed)
	words := w.live()
	done.Store(true) // from here on the end of input is no emergency
	w.records.put(record{Last: &words})
	close(rest)
	<-flushed
}

// report sends records until rest is closed, and figures every now and then.
func (w *worker) report(out io.Writer, rest <-chan struct{}, flushed chan<- struct{}) {
	defer close(flushed)
	tick := time.NewTicker(flushEvery)
	defer tick.Stop()
	var told time.Time
	for {
		over := false
		select {
		case <-tick.C:
		case <-rest:
			over = true
		}
		if now := time.Now(); now.Sub(told) >= figuresEvery {
			told = now
			w.records.put(record{Figures: w.figures()})
		}
		if err := w.records.flush(out); err != nil {
			os.Exit(1) // who started us is gone
		}
		if over {
			return
		}
	}
}

func (w *worker) figures() *figures {
	var f figures
	for i := range f {
		f[i] = w.counts[i].Load()
	}
	if m := w.manager.Load(); m != nil {
		st := m.Stats()
		f[passes], f[scriptsSent] = st.Passes, st.Scripts
	}
	return &f
}

// live takes part until told to stop, and returns when all is at rest.
func (w *worker) live() lastWords {
	var words lastWords
	words.Before = runtime.NumGoroutine()
	for w.mgr == nil { // the server may be frozen, or the proxy deaf
		m, err := lockmgr.Dial(w.client(), lockmgr.Options{Lease: w.Lease, Linger: w.Lease / 5, Replicas: lockmgr.Replicas{Acks: w.Acks}})
		if err == nil {
			w.mgr = m
			w.manager.Store(m)
			break
		}
		select {
		case <-w.stop:
			words.After = words.Before
			return words
		case <-time.After(10 * time.Millisecond):
		}
	}
	w.records.put(record{Ready: true})

	var all sync.WaitGroup
	for g := range w.Workers {
		all.Go(func() { w.loop(g) })
	}
	rest := make(chan struct{})
	var beside sync.WaitGroup
	beside.Go(func() { w.timers(rest) })
	ended := make(chan struct{})
	go func() {
		all.Wait()
		close(ended)
	}()
	await := func(limit time.Duration) {
		select {
		case <-ended:
		case <-time.After(limit):
			words.Stuck = max(1, int(w.waiting.Load()))
			words.Stacks = stacks()
		}
	}
	<-w.stop
	await(restTime)
	close(rest)
	beside.Wait()
	w.closing.Store(true)
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	stats := w.mgr.Stats()
	if err := w.mgr.Close(ctx); err != nil {
		words.Close = err.Error()
	}
	cancel()
	if stats.Held > 0 && words.Stuck == 0 {
		w.fault("the manager still held %d locks when all had been unlocked", stats.Held)
	}
	await(closeTime)
	// A goroutine that is about to end is no leak.
	patience := leakTime
	if w.Cluster {
		patience = clusterLeak
	}
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		words.After = runtime.NumGoroutine()
		if words.After <= words.Before || time.Now().After(end) {
			break
		}
	}
	if words.After > words.Before && words.Stacks == "" {
		words.Stacks = stacks()
	}
	return words
}

// client returns options of a client that reaches each server through its proxy.
func (w *worker) client() rueidis.ClientOption {
	opt := rueidis.ClientOption{InitAddress: slices.Sorted(maps.Keys(w.Addrs))}
	opt.DialCtxFn = func(ctx context.Context, addr string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
		return d.DialContext(ctx, "tcp", w.Addrs[addr])
	}
	return opt
}

// timers measures how late a plain timer is in this process, as losses are measured, until there
// are no more holds.
func (w *worker) timers(rest <-chan struct{}) {
	const pause = 5 * time.Millisecond
	t := time.NewTimer(0)
	defer t.Stop()
	<-t.C
	for {
		due := clock.Now() + int64(pause)
		t.Reset(pause)
		select {
		case <-rest:
			return
		case <-t.C:
			w.records.put(record{Loss: &check.Loss{Proc: w.Life, Claim: due, Saw: clock.Now(), Timer: true}})
		}
	}
}

// fault reports something that must not happen.
func (w *worker) fault(format string, args ...any) {
	w.records.put(record{Fault: fmt.Sprintf(format, args...)})
}

func stacks() string {
	buf := make([]byte, 1<<14)
	return string(buf[:runtime.Stack(buf, true)])
}
