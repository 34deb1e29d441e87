package soak

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/faultproxy"
)

const (
	registersFile = "registers"
	readyTime     = 30 * time.Second
	endTime       = restTime + 2*closeTime + clusterLeak + 10*time.Second // for a worker to come to rest
)

// A Status is how a run goes.
type Status struct {
	Phase      string
	Elapsed    time.Duration
	Grants     int
	Losses     int
	Faults     int
	Violations int
	Overlaps   int // of beliefs, judged or not
	Overruns   int // of permits, judged or not
}

// A run is what Run works with.
type run struct {
	Config
	dir       string
	fleet     *fleet
	proxies   [][]*faultproxy.Proxy // of each worker process, one to each server
	registers *registers
	judge     *judge
	lives     atomic.Uint32
	targets   []sync.Mutex // the server's, then those of the slots: one fault at a time

	mu        sync.Mutex
	procs     []*proc
	inflicted map[string]int // faults by kind
	blows     map[string]int // what they hit
	failed    []string       // faults that could not be done
}

// Run blocks until the run is over: at the end of its time, or early when ctx ends. The result is
// nil only if the run could not take place at all; whether all was well is for [Result.Violations]
// to say. Nothing is left behind.
func Run(ctx context.Context, c Config) (*Result, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	r, end, err := prepare(c)
	defer end()
	if err != nil {
		return nil, err
	}
	return r.all(ctx)
}

// prepare makes the surroundings of a run, and what ends them again.
func prepare(c Config) (r *run, end func(), err error) {
	r = &run{Config: c, inflicted: map[string]int{}, blows: map[string]int{}, targets: make([]sync.Mutex, c.Procs+1)}
	var ends []func()
	end = func() {
		for _, f := range slices.Backward(ends) {
			f()
		}
	}
	if !supported {
		return nil, end, fmt.Errorf("soak: needs the signals of a Unix system: %w", errors.ErrUnsupported)
	}
	if r.dir, err = os.MkdirTemp(fastDir(), "holdfast-soak-"); err != nil {
		return nil, end, err
	}
	ends = append(ends, func() { os.RemoveAll(r.dir) })
	r.fleet, err = startFleet(c, r.dir)
	ends = append(ends, r.fleet.kill)
	if err != nil {
		return nil, end, err
	}
	if r.registers, err = openRegisters(filepath.Join(r.dir, registersFile), c.Names); err != nil {
		return nil, end, err
	}
	ends = append(ends, r.registers.close)
	s := &stage{}
	ends = append(ends, s.end)
	for range c.Procs {
		list, err := proxies(s, r.fleet.nodes)
		if err != nil {
			return nil, end, err
		}
		r.proxies = append(r.proxies, list)
	}
	r.judge = newJudge(c.breaking())
	return r, end, nil
}

// all is the run, once its surroundings are there.
func (run *run) all(ctx context.Context) (*Result, error) {
	err := run.begin(ctx)
	schedule := Schedule(run.Seed, run.Duration, run.Every, run.Lease, run.Procs, run.Faults)
	began := time.Now()
	if err == nil {
		run.load(ctx, schedule, began)
	}
	took := time.Since(began)
	run.status("coming to rest", took)
	run.rest(err != nil)
	if err != nil {
		run.judge.finish()
		return nil, err
	}
	left := run.left()
	run.status("checking histories", took)
	run.judge.finish()
	return run.result(schedule, took, left), nil
}

// addrs returns the addresses by which the worker process of a slot reaches each server.
func (run *run) addrs(slot int) map[string]string {
	addrs := map[string]string{}
	for i, p := range run.proxies[slot] {
		addrs[run.fleet.nodes[i].Addr()] = p.Addr()
	}
	return addrs
}

// begin starts the workers and waits until all are ready.
func (run *run) begin(ctx context.Context) error {
	for slot := range run.Procs {
		p, err := run.spawn(slot)
		if err != nil {
			return err
		}
		run.procs = append(run.procs, p)
	}
	late := time.After(readyTime)
	for _, p := range run.procs {
		select {
		case <-p.report.alive:
		case <-p.read:
			return fmt.Errorf("soak: a worker ended before it was ready")
		case <-late:
			return fmt.Errorf("soak: the workers were not ready within %v", readyTime)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// load carries out the schedule, and returns when the time is over and all faults have ended.
func (run *run) load(ctx context.Context, schedule []Fault, began time.Time) {
	over, cancel := context.WithTimeout(ctx, run.Duration)
	defer cancel()
	var faults sync.WaitGroup
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	next := time.NewTimer(0)
	defer next.Stop()
	for {
		wait := run.Duration
		if len(schedule) > 0 {
			wait = schedule[0].At - time.Since(began)
		}
		next.Reset(max(0, wait))
		select {
		case <-over.Done():
			run.status("healing", time.Since(began))
			faults.Wait()
			return
		case <-tick.C:
			run.status("", time.Since(began))
		case <-next.C:
			if len(schedule) == 0 {
				continue
			}
			f := schedule[0]
			schedule = schedule[1:]
			faults.Go(func() { run.count(f, over.Done()) })
		}
	}
}

// count inflicts a fault, and counts it. On a slow machine the one before may still be under way, a
// restart for instance: then this one comes later.
func (run *run) count(f Fault, stop <-chan struct{}) {
	target := &run.targets[f.Slot+1]
	target.Lock()
	defer target.Unlock()
	blows, err := run.inflict(f, stop)
	run.mu.Lock()
	defer run.mu.Unlock()
	run.inflicted[f.Kind]++
	run.blows[f.Kind] += blows
	if err != nil {
		run.failed = append(run.failed, fmt.Sprintf("%v: %v", f, err))
	}
}

// rest heals what is broken, and has all workers come to rest. With abandon it ends them at once.
func (run *run) rest(abandon bool) {
	run.mu.Lock()
	defer run.mu.Unlock()
	for _, list := range run.proxies {
		for _, p := range list {
			p.Heal()
		}
	}
	if abandon {
		for _, p := range run.procs {
			p.kill()
		}
		return
	}
	for _, p := range run.procs {
		p.stop()
	}
	giveUp := make(chan struct{})
	late := time.AfterFunc(endTime, func() { close(giveUp) })
	defer late.Stop()
	for _, p := range run.procs {
		if err := p.await(giveUp); err != nil {
			run.judge.fault("process %d %v", p.life, err)
		}
		p.report.dead()
	}
}

// status tells how it goes.
func (run *run) status(phase string, elapsed time.Duration) {
	if run.Status == nil {
		return
	}
	j := run.judge
	s := Status{Phase: phase, Elapsed: elapsed}
	run.mu.Lock()
	for _, n := range run.inflicted {
		s.Faults += n
	}
	run.mu.Unlock()
	j.mu.Lock()
	s.Grants, s.Losses, s.Violations = j.Grants, j.Lost, j.violations()
	s.Overlaps, s.Overruns = j.beliefs.Overlaps, j.permits.Overlaps
	j.mu.Unlock()
	run.Status(s)
}
