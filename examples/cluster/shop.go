package main

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/rediscluster"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// A shop has a customer for each master of the beginning, who takes and gives back a lock of that
// master again and again. The masters do not share a queue or a connection, so one that is killed
// delays its own customer only.
type shop struct{ customers []*customer }

// A customer notes how long the slowest grant took since somebody asked.
type customer struct {
	mu      sync.Mutex
	slowest time.Duration
	since   time.Time // when the pending request was made; zero if none is
}

// openShop starts the customers. stop ends them and waits for them.
func (s *story) openShop() (sh *shop, stop func()) {
	sh = &shop{}
	ctx, cancel := context.WithCancel(s.ctx)
	var all sync.WaitGroup
	for _, name := range s.namesOfAllMasters() {
		c := &customer{}
		sh.customers = append(sh.customers, c)
		all.Go(func() { c.shop(ctx, s.mgr, name) })
	}
	return sh, func() { cancel(); all.Wait() }
}

// namesOfAllMasters returns the name of a lock for each master.
func (s *story) namesOfAllMasters() (names []string) {
	seen := map[rediscluster.Child]bool{}
	for i := 0; len(names) < masters; i++ {
		name := "till:" + strconv.Itoa(i)
		if owner := s.nodes.Owner(name); !seen[owner] {
			seen[owner], names = true, append(names, name)
		}
	}
	return names
}

// shop takes and gives back a lock until ctx ends. A request that fails is made again: the master
// may have been killed.
func (c *customer) shop(ctx context.Context, mgr *lockmgr.Manager, name string) {
	for ctx.Err() == nil {
		c.asks()
		if l, err := mgr.Lock(ctx, name); err == nil {
			c.served()
			_ = l.Unlock(context.WithoutCancel(ctx)) // one that is lost needs no unlock
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Millisecond):
		}
	}
}

func (c *customer) asks() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.since.IsZero() {
		c.since = time.Now()
	}
}

func (c *customer) served() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.slowest, c.since = max(c.slowest, time.Since(c.since)), time.Time{}
}

// report returns how long the slowest grant took since the last report, or how long one has been
// waited for.
func (c *customer) report() (d time.Duration, waits bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	d, c.slowest = c.slowest, 0
	if !c.since.IsZero() && time.Since(c.since) > max(d, 100*time.Millisecond) {
		return time.Since(c.since), true
	}
	return d, false
}

// report tells how long the slowest grant of each customer took since the last report.
func (s *shop) report() string {
	var words []string
	for _, c := range s.customers {
		d, waits := c.report()
		text := strconv.FormatFloat(float64(d)/float64(time.Millisecond), 'f', 1, 64) + " ms"
		if waits {
			text = "none for " + strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + " s"
		}
		words = append(words, text)
	}
	return strings.Join(words, ", ")
}
