package measure

import (
	"cmp"
	"context"

	"github.com/holdfast-go/holdfast/bench/internal/result"
)

// IdleFigures are those of idle.
var IdleFigures = []result.Figure{
	{Key: "commands", Name: "commands", Unit: "/s", Better: result.Lower, Count: true, Chart: true},
	{Key: "pings", Name: "keep-alive pings", Unit: "/s", Count: true},
	{Key: "bytes", Name: "bytes", Unit: "/s", Better: result.Lower, Count: true},
	{Key: "cpu", Name: "client CPU", Unit: "% of a core", Better: result.Lower},
	{Key: "servercpu", Name: "server CPU", Unit: "% of a core", Better: result.Lower},
	{Key: "connections", Name: "connections", Count: true},
	{Key: "goroutines", Name: "goroutines", Unit: "/waiter", Better: result.Lower, Count: true},
	{Key: "heap", Name: "heap and stacks", Unit: "B/waiter", Better: result.Lower, Count: true},
}

// idle has one client hold the lock, and many callers of another wait for it.
func idle(ctx context.Context, b *bench) error {
	holder, err := b.open(ctx, 1)
	if err != nil {
		return err
	}
	h, err := holder.Lock(ctx, b.Name)
	if err != nil {
		return err
	}
	before := memory()
	waiting, leave := context.WithCancel(ctx)
	c := newCrowd(waiting, b.locker, b.Name, b.Waiters, 1, 0)
	b.onEnd = append(b.onEnd, func() {
		leave()
		c.wg.Wait()
		_ = h.Unlock(context.WithoutCancel(ctx))
	})
	if err := pause(ctx, b.Settle); err != nil {
		return err
	}
	used, err := b.lookOn(ctx, before, b.Waiters)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := cmp.Or(c.none(), c.err); err != nil {
		return err
	}
	b.values["pings"] = used.server.Calls["ping"] / used.took.Seconds()
	b.values["connections"] = used.server.Clients - 1 // the one that asks
	b.values["goroutines"] /= float64(b.Waiters)
	return nil
}
