package measure

import (
	"context"
	"errors"
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
		h, c, err := b.queueUp(ctx, holder.(locker.FairLocker), b.Name+":warm-up", some)
		if err == nil {
			err = errors.Join(h.Unlock(ctx), c.wait(ctx))
		}
		if err != nil {
			return fmt.Errorf("warm-up: %w", err)
		}
	}
	callers := b.crowdOf(clients)
	before, err := b.conn.Snapshot()
	if err != nil {
		return err
	}
	h, c, err := b.queueUp(ctx, holder.(locker.FairLocker), b.Name, callers)
	if err != nil {
		return err
	}
	if err := b.drain(ctx, h, c); err != nil {
		return err
	}
	after, err := b.conn.Snapshot()
	if err != nil {
		return err
	}
	v, n := b.values, float64(len(c.grants))
	v["handoff"] = 1000 * v["drain"] / n
	v["joining"] = after.Since(before).Commands(b.candidate.Extra...) / n
	v["disorder"] = float64(disorder(c.grants))
	return nil
}

// queueUp has a holder hold name, and returns when the callers wait for it. Each of them begins
// when the one before waits.
func (b *bench) queueUp(ctx context.Context, holder locker.FairLocker, name string, callers []locker.FairLocker) (h locker.Held, c *crowd, err error) {
	if h, err = holder.LockFair(ctx, name); err != nil {
		return nil, nil, err
	}
	c = emptyCrowd(len(callers), 1, 0, func(ctx context.Context, i int) (locker.Held, error) { return callers[i].LockFair(ctx, name) })
	for i := range callers {
		c.start(ctx, i)
		for {
			n, err := b.waiting(name, callers)
			if err != nil {
				return nil, nil, err
			}
			if n > i {
				break
			}
			if err := pause(ctx, queuePoll); err != nil {
				return nil, nil, partial(fmt.Sprintf("stopped by the watchdog: %d of %d wait", n, len(callers)))
			}
		}
	}
	return h, c, pause(ctx, b.Settle)
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

// disorder returns how many callers had the lock before one that had come earlier. grants are in
// the order in which the callers have come.
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
