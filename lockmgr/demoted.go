package lockmgr

import (
	"context"
	"sync"
	"time"
)

// A demotion handles a server that has become a replica while its connections stayed. The server's
// address may lead to the new master by now: see Dial. New connections would go there, but the
// client makes no new connection while the old connections live.
//
//	READONLY ──▶ connect once more ──▶ a master serves there ──▶ close the other connections
//	                             └───▶ a replica, or nobody ───▶ leave them
//
// While commands go on to fail, demotion connects once in redialEvery.
type demotion struct {
	conns *conns // those of the client
	// reachesMaster reports whether a new connection leads to a serving master. reachesMaster ends
	// soon after ctx.
	reachesMaster func(ctx context.Context) bool
	every         time.Duration

	ctx  context.Context // of the new connection
	stop context.CancelFunc
	wait sync.WaitGroup

	mu     sync.Mutex
	asking bool
	asked  time.Time // when the last connection was begun
}

// redialEvery is the least time between two new connections.
const redialEvery = time.Second

func newDemotion(c *conns, reachesMaster func(ctx context.Context) bool) *demotion {
	d := &demotion{conns: c, reachesMaster: reachesMaster, every: redialEvery}
	d.ctx, d.stop = context.WithCancel(context.Background())
	return d
}

// suspected is called when a server may have become a replica. suspected never blocks.
func (d *demotion) suspected() {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	if d.asking || d.ctx.Err() != nil || now.Sub(d.asked) < d.every {
		return
	}
	d.asking, d.asked = true, now
	d.wait.Go(func() {
		found := d.reachesMaster(d.ctx)
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.asking = false; found && d.ctx.Err() == nil {
			d.conns.abortAll()
		}
	})
}

// close ends the new connection, if any, and waits for the end.
func (d *demotion) close() {
	d.mu.Lock()
	d.stop()
	d.mu.Unlock()
	d.wait.Wait()
}
