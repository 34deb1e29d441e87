package measure

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/bench/internal/locker"
	"github.com/holdfast-go/holdfast/bench/internal/result"
)

// FairBurstFigures are those of fairBurst.
var FairBurstFigures = []result.Figure{
	{Key: "drain", Name: "drain time", Unit: "ms", Better: result.Lower, Chart: true},
	{Key: "handoff", Name: "handoff", Unit: "µs", Better: result.Lower},
	{Key: "commands", Name: "commands", Unit: "/handoff", Better: result.Lower, Count: true, Chart: true},
	{Key: "joining", Name: "joining included", Unit: "/handoff", Better: result.Lower, Count: true},
	{Key: "disorder", Name: "out of order", Unit: "grants", Better: result.Lower, Count: true},
	{Key: "cpu", Name: "client CPU", Unit: "ms", Better: result.Lower},
	{Key: "servercpu", Name: "server CPU", Unit: "ms", Better: result.Lower},
}

// FairSteadyFigures are those of fairSteady.
var FairSteadyFigures = []result.Figure{
	{Key: "grants", Name: "grants", Unit: "/s", Better: result.Higher, Chart: true},
	{Key: "wait50", Name: "wait p50", Unit: "ms", Better: result.Lower},
	{Key: "wait99", Name: "wait p99", Unit: "ms", Better: result.Lower},
	{Key: "waitmax", Name: "longest wait", Unit: "ms", Better: result.Lower, Chart: true, Long: true},
	{Key: "commands", Name: "commands", Unit: "/grant", Better: result.Lower, Count: true, Chart: true},
	{Key: "disorder", Name: "out of order", Unit: "grants", Better: result.Lower, Count: true},
	{Key: "ordered", Name: "of so many"},
	{Key: "cpu", Name: "client CPU", Unit: "s/100k grants", Better: result.Lower},
	{Key: "servercpu", Name: "server CPU", Unit: "s/100k grants", Better: result.Lower},
}

// queuePoll is the pause between two looks at a queue.
const queuePoll = 100 * time.Microsecond

// crowdOf returns the client of each of Waiters callers. Interleaved, neighbours are of different
// clients. Else each client has a block of them.
func (b *bench) crowdOf(clients []locker.FairLocker) []locker.FairLocker {
	callers := make([]locker.FairLocker, b.Waiters)
	for i := range callers {
		if b.Interleaved {
			callers[i] = clients[i%len(clients)]
		} else {
			callers[i] = clients[i*len(clients)/b.Waiters]
		}
	}
	return callers
}

// fairBurst measures Waiters callers of Clients clients that wait for one lock, from its release
// until each has had it once. They have come to the server one after the other.
func fairBurst(ctx context.Context, b *bench) error {
	clients, err := clients[locker.FairLocker](ctx, b, b.Clients)
	if err != nil {
		return err
	}
	holder, err := b.open(ctx, b.Clients)
	if err != nil {
		return err
	}
	if b.Warm > 0 {
		some := make([]locker.FairLocker, b.Warm)
		for i := range some {
			some[i] = clients[i%len(clients)]
		}
		if _, _, err := b.burst(ctx, holder.(locker.FairLocker), b.Name+":warm-up", some, nil); err != nil {
			return fmt.Errorf("warm-up: %w", err)
		}
	}
	callers := b.crowdOf(clients)
	before, err := b.conn.Snapshot(b.Embedded)
	if err != nil {
		return err
	}
	var m *meter
	c, began, err := b.burst(ctx, holder.(locker.FairLocker), b.Name, callers, func() (err error) {
		m, err = b.start(true)
		return err
	})
	if m != nil {
		defer m.abandon()
	}
	if err != nil {
		return err
	}
	used, err := m.stop()
	if err != nil {
		return err
	}
	after, err := b.conn.Snapshot(b.Embedded)
	if err != nil {
		return err
	}
	b.drained(began, c.grants, c.ends, used)
	v, n := b.values, float64(len(c.grants))
	v["handoff"] = 1000 * v["drain"] / n
	v["joining"] = after.Since(before).Commands(b.candidate.Extra...) / n
	v["disorder"] = float64(overtaken(byTime(c.grants)))
	return nil
}

// byTime returns the callers in the order of their grants.
func byTime(grants []int64) []int {
	order := make([]int, len(grants))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int { return int(grants[i] - grants[j]) })
	return order
}

// burst has a holder hold name until the callers wait for it, each of whom begins when the one
// before waits. It calls ready, releases the lock and returns when all have had it.
func (b *bench) burst(ctx context.Context, holder locker.FairLocker, name string, callers []locker.FairLocker, ready func() error) (c *crowd, began int64, err error) {
	h, err := holder.LockFair(ctx, name)
	if err != nil {
		return nil, 0, err
	}
	c = emptyCrowd(len(callers), 1, 0, func(ctx context.Context, i int) (locker.Held, error) { return callers[i].LockFair(ctx, name) })
	for i := range callers {
		c.start(ctx, i)
		for {
			n, err := b.waiting(name, callers)
			if err != nil {
				return nil, 0, err
			}
			if n > i {
				break
			}
			if err := pause(ctx, queuePoll); err != nil {
				return nil, 0, partial(fmt.Sprintf("stopped by the watchdog: %d of %d wait", n, len(callers)))
			}
		}
	}
	if err := pause(ctx, b.Settle); err != nil {
		return nil, 0, err
	}
	if n := c.granted.Load(); n > 0 {
		return nil, 0, partial(fmt.Sprintf("%d were granted a lock that is held", n))
	}
	if ready != nil {
		if err := ready(); err != nil {
			return nil, 0, err
		}
	}
	began = clock()
	if err := h.Unlock(ctx); err != nil {
		return nil, 0, err
	}
	return c, began, c.wait(ctx)
}

// A waitCounter is a client whose waiters are in no queue on the server. It counts them.
type waitCounter interface{ Waiting() int }

// waiting returns how many callers wait for a name, by the server's queue if there is one.
func (b *bench) waiting(name string, callers []locker.FairLocker) (n int, err error) {
	seen := map[locker.FairLocker]bool{}
	for _, l := range callers {
		if c, ok := l.(waitCounter); ok && !seen[l] {
			seen[l] = true
			n += c.Waiting()
		}
	}
	if len(seen) > 0 {
		return n, nil
	}
	text, err := b.conn.Do("LLEN", locker.QueueKey(name))
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(text)
}

// fairSteady measures Waiters callers of Clients clients that take one lock again and again. After
// that it counts the grants out of order in a run of its own.
func fairSteady(ctx context.Context, b *bench) error {
	clients, err := clients[locker.FairLocker](ctx, b, b.Clients)
	if err != nil {
		return err
	}
	callers := b.crowdOf(clients)
	if _, err := b.grants(ctx, func(ctx context.Context, i int) (locker.Held, error) {
		return callers[i].LockFair(ctx, b.Name)
	}); err != nil {
		return err
	}
	if _, ok := b.locker.(waitCounter); ok || b.Embedded {
		return nil // there is no queue on the server, or it has no MONITOR
	}
	return b.order(ctx, clients)
}

// The run that is not timed: as many callers of each client at most, with as many turns.
const (
	orderCallers = 40
	orderTurns   = 10
)

// order fills in how many grants were out of order. The callers of some clients take a lock, each
// for some turns. Whoever has it notes its ID before the unlock, so the notes are in the order of
// the grants. The order of arrival is that in which the server has carried out the commands, as
// seen by another connection.
func (b *bench) order(ctx context.Context, clients []locker.FairLocker) error {
	name := b.Name + ":order"
	w, err := watchArrivals(ctx, b.Addr, name)
	if err != nil {
		return err
	}
	defer w.close()
	var mu sync.Mutex
	var grants []string
	n := min(b.Waiters/len(clients), orderCallers) * len(clients)
	c := emptyCrowd(n, orderTurns, 0, func(ctx context.Context, i int) (locker.Held, error) {
		h, err := clients[i%len(clients)].LockFair(ctx, name)
		if err != nil {
			return nil, err
		}
		mu.Lock()
		grants = append(grants, h.(locker.Placed).HolderID())
		mu.Unlock()
		return h, nil
	})
	for i := range n {
		c.start(ctx, i)
	}
	if err := c.wait(ctx); err != nil {
		return err
	}
	arrivals, err := w.all()
	if err != nil {
		return err
	}
	disorder, err := outOfOrder(arrivals, grants)
	b.values["disorder"], b.values["ordered"] = float64(disorder), float64(len(grants))
	return err
}

// outOfOrder returns how many grants came before that of somebody who had arrived earlier.
func outOfOrder(arrivals, grants []string) (int, error) {
	at := map[string]int{}
	for i, id := range arrivals {
		if _, twice := at[id]; !twice {
			at[id] = i
		}
	}
	order := make([]int, 0, len(grants))
	for _, id := range grants {
		i, ok := at[id]
		if !ok {
			return 0, errors.New("a grant to somebody who has not arrived: " + id)
		}
		order = append(order, i)
	}
	return overtaken(order), nil
}

// overtaken returns how many numbers have a smaller one behind them.
func overtaken(order []int) (n int) {
	least := len(order) + 1<<30
	for _, x := range slices.Backward(order) {
		if x > least {
			n++
		}
		least = min(least, x)
	}
	return n
}
