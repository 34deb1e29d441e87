package measure

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/bench/internal/locker"
	"github.com/holdfast-go/holdfast/bench/internal/result"
)

// FairFigures are those of fair.
var FairFigures = []result.Figure{
	{Key: "drain", Name: "drain time", Unit: "ms", Better: result.Lower, Chart: true},
	{Key: "handoff", Name: "handoff", Unit: "µs", Better: result.Lower},
	{Key: "commands", Name: "commands", Unit: "/handoff", Better: result.Lower, Count: true, Chart: true},
	{Key: "joining", Name: "joining included", Unit: "/handoff", Better: result.Lower, Count: true},
	{Key: "disorder", Name: "out of order", Unit: "grants", Better: result.Lower, Count: true},
	{Key: "cpu", Name: "client CPU", Unit: "ms", Better: result.Lower},
	{Key: "servercpu", Name: "server CPU", Unit: "ms", Better: result.Lower},
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

// fair measures Waiters callers of Clients clients that wait for one lock, from its release
// until each has had it once. They have come to the server one after the other.
func fair(ctx context.Context, b *bench) error {
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
	before, err := b.conn.Snapshot()
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
	after, err := b.conn.Snapshot()
	if err != nil {
		return err
	}
	b.drained(began, c.grants, c.ends, used)
	v, n := b.values, float64(len(c.grants))
	v["handoff"] = 1000 * v["drain"] / n
	v["joining"] = after.Since(before).Commands(b.candidate.Extra...) / n
	v["disorder"] = float64(disorder(c.grants))
	return nil
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

// disorder returns how many callers had the lock before one that had come earlier. grants are in the
// order in which the callers have come.
func disorder(grants []int64) (n int) {
	var last int64
	for _, at := range grants {
		if at < last {
			n++
		}
		last = max(last, at)
	}
	return n
}
