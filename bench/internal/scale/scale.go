// Package scale measures one manager with many held locks, on one server and on a cluster.
//
// It takes all locks at once, so that most renewals are due at the same time: a tick. Beside them
// one goroutine for each server takes and gives back a lock of its own, again and again. Its waits
// during a tick and between ticks tell whether renewals hold grants up. Before that, some
// goroutines take and give back locks that nobody else wants, as fast as they can.
package scale

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/redis/rueidis"
	"golang.org/x/sync/errgroup"

	"github.com/holdfast-go/holdfast/bench/internal/clock"
	"github.com/holdfast-go/holdfast/bench/internal/measure"
	"github.com/holdfast-go/holdfast/bench/internal/server"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// Config says what is measured.
type Config struct {
	Addrs []string      // of the servers: one, or the masters of a cluster
	Locks int           // held at once
	Lease time.Duration // a tick is a third of it
	Hands int           // goroutines that take locks
	Pairs time.Duration // how long uncontended pairs are counted
}

// A Result is what came of it.
type Result struct {
	Pairs      float64 // uncontended pairs of Lock and Unlock per second
	PairClient float64 // share of one core, client and all servers
	PairServer float64

	Taking  time.Duration // to take all locks
	Tick    time.Duration // from the first renewal of a tick to the answer to the last
	Renewed int           // leases in that time
	Scripts float64       // renewal scripts that each server got, on the average
	Server  time.Duration // CPU of each server in the tick, on the average
	Client  time.Duration // CPU of this process in the tick

	Between, During Waits // of grants
	Lost            int
}

// Waits are the waits of grants.
type Waits struct {
	N             int
	P50, P99, Max time.Duration
}

func waitsOf(all []time.Duration) Waits {
	if len(all) == 0 {
		return Waits{}
	}
	slices.Sort(all)
	return Waits{len(all), all[len(all)/2], all[len(all)*99/100], all[len(all)-1]}
}

// A span is one grant.
type span struct {
	at   time.Time // of the call
	took time.Duration
}

// A meter watches the renewals of a manager.
type meter struct {
	mu      sync.Mutex
	first   time.Time
	last    time.Time
	renewed int
	lost    int
}

func (m *meter) observe(e lockmgr.Event) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch e := e.(type) {
	case lockmgr.EventRenewed:
		if m.first.IsZero() {
			m.first = e.At
		}
		m.last = e.At
		m.renewed += e.Leases
	case lockmgr.EventLost:
		m.lost++
	}
}

// begun reports whether a lock has been renewed.
func (m *meter) begun() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return !m.first.IsZero()
}

// over reports whether all locks have been renewed.
func (m *meter) over(locks int) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.renewed >= locks
}

// Run measures. It blocks until the first tick is over, which is some 40 % of the lease.
func Run(ctx context.Context, c Config) (r Result, err error) {
	var seen meter
	m, err := lockmgr.Dial(rueidis.ClientOption{InitAddress: c.Addrs}, lockmgr.Options{Lease: c.Lease, Observer: seen.observe})
	if err != nil {
		return r, err
	}
	defer func() {
		short, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		_ = m.Close(short)
	}()
	if err := r.pairs(ctx, c, m); err != nil {
		return r, err
	}
	begin := time.Now()
	if err := measure.Each(ctx, c.Hands, c.Locks, func(i int) error {
		_, err := m.Lock(ctx, "scale:"+strconv.Itoa(i))
		return err
	}); err != nil {
		return r, err
	}
	r.Taking = time.Since(begin)
	scripts := m.Stats().RenewalScripts
	var beside errgroup.Group
	beside.Go(func() error { return r.costs(ctx, c, &seen) })
	spans, err := probe(ctx, c, m, &seen)
	if err := errors.Join(err, beside.Wait()); err != nil {
		return r, err
	}
	r.tick(&seen, spans)
	r.Scripts = float64(m.Stats().RenewalScripts-scripts) / float64(len(c.Addrs))
	return r, nil
}

// costs reads the CPU time that the tick takes.
func (r *Result) costs(ctx context.Context, c Config, seen *meter) error {
	deadline := time.Now().Add(c.Lease)
	until := func(f func() bool) error {
		for !f() {
			if time.Now().After(deadline) || ctx.Err() != nil {
				return errors.New("not all leases were renewed in time")
			}
			time.Sleep(time.Millisecond)
		}
		return nil
	}
	if err := until(seen.begun); err != nil {
		return err
	}
	client := clock.CPU()
	before, err := snapshots(ctx, c.Addrs)
	if err != nil {
		return err
	}
	if err := until(func() bool { return seen.over(c.Locks) }); err != nil {
		return err
	}
	r.Client = clock.CPU() - client
	after, err := snapshots(ctx, c.Addrs)
	for i := range after {
		r.Server += after[i].Since(before[i]).CPU / time.Duration(len(after))
	}
	return err
}

// pairs counts uncontended pairs of all goroutines.
func (r *Result) pairs(ctx context.Context, c Config, m *lockmgr.Manager) error {
	before, err := snapshots(ctx, c.Addrs)
	if err != nil {
		return err
	}
	begin, cpu, total := time.Now(), clock.CPU(), make([]int, c.Hands)
	err = measure.Each(ctx, c.Hands, c.Hands, func(i int) error {
		name := "pair:" + strconv.Itoa(i)
		for time.Since(begin) < c.Pairs {
			l, err := m.Lock(ctx, name)
			if err != nil {
				return err
			}
			if err := l.Unlock(ctx); err != nil {
				return err
			}
			total[i]++
		}
		return nil
	})
	if err != nil {
		return err
	}
	took := time.Since(begin).Seconds()
	for _, n := range total {
		r.Pairs += float64(n) / took
	}
	r.PairClient = (clock.CPU() - cpu).Seconds() / took
	after, err := snapshots(ctx, c.Addrs)
	for i := range after {
		r.PairServer += after[i].Since(before[i]).CPU.Seconds() / took
	}
	return err
}

// probe takes and gives back a lock on each server until all leases have been renewed, and half a
// second longer.
func probe(ctx context.Context, c Config, m *lockmgr.Manager, seen *meter) (all []span, err error) {
	var mu sync.Mutex
	deadline := time.Now().Add(c.Lease)
	err = measure.Each(ctx, len(c.Addrs), len(c.Addrs), func(i int) error {
		var own []span
		name := "probe:" + strconv.Itoa(i)
		var end time.Time
		for end.IsZero() || time.Now().Before(end) {
			begin := time.Now()
			l, err := m.Lock(ctx, name)
			if err != nil {
				return err
			}
			own = append(own, span{begin, time.Since(begin)})
			if err := l.Unlock(ctx); err != nil {
				return err
			}
			time.Sleep(time.Millisecond)
			switch {
			case end.IsZero() && seen.over(c.Locks):
				end = time.Now().Add(500 * time.Millisecond)
			case time.Now().After(deadline):
				return fmt.Errorf("not all leases were renewed within %v", c.Lease)
			}
		}
		mu.Lock()
		defer mu.Unlock()
		all = append(all, own...)
		return nil
	})
	return all, err
}

// tick tells the grants during the tick from those between ticks. The first answer of a tick comes
// a little after its first renewal was sent.
func (r *Result) tick(seen *meter, spans []span) {
	seen.mu.Lock()
	defer seen.mu.Unlock()
	const before = 20 * time.Millisecond
	first := seen.first.Add(-before)
	var during, between []time.Duration
	for _, s := range spans {
		if s.at.Add(s.took).After(first) && s.at.Before(seen.last) {
			during = append(during, s.took)
		} else {
			between = append(between, s.took)
		}
	}
	r.Tick, r.Renewed, r.Lost = seen.last.Sub(seen.first), seen.renewed, seen.lost
	r.During, r.Between = waitsOf(during), waitsOf(between)
}

func snapshots(ctx context.Context, addrs []string) (all []server.Snapshot, err error) {
	for _, addr := range addrs {
		conn, err := server.Dial(ctx, addr)
		if err != nil {
			return nil, err
		}
		defer conn.Close()
		s, err := conn.Snapshot()
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}
