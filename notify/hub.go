package notify

import (
	"sync"

	"github.com/holdfast-go/holdfast/actor"
)

// A Hub owns a pub/sub connection and wakes any number of watchers when something happens on their
// channels. Any goroutine may call the methods. Only Close blocks.
type Hub struct {
	actor *actor.Actor[input]

	mu   sync.Mutex // guards seen
	seen Stats
}

// start starts a hub that uses the connections of d.
func start(d dialer, opts Options) *Hub {
	h := &Hub{}
	h.actor = actor.Start[input](newCore(h, d, opts))
	return h
}

// Watch begins to watch a channel and returns at once. The first watch of a channel subscribes to
// the channel. Further watches share the subscription. Each watch gets its own Confirmed. After
// Close of the hub, the watch fails with [ErrClosed].
//
// The caller must close the watch when the watch is not needed any more.
func (h *Hub) Watch(channel string) *Watch {
	w := &Watch{hub: h, channel: channel}
	if !h.actor.Post(watch{w}) {
		w.shut()
	}
	return w
}

// Err returns the reason why a channel may not be subscribed, or nil. While there is no connection,
// Err returns the connection's last error. With a connection, Err returns the newest [RefusedError]
// as long as the server refuses a channel. After Close, Err returns [ErrClosed]. While Err is not
// nil, watchers should poll.
func (h *Hub) Err() error { return h.Stats().Err }

// Stats returns a snapshot of the hub. The snapshot includes every event whose wake-up was
// delivered before the call.
func (h *Hub) Stats() Stats {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.seen
}

// publish makes the core's figures visible to Stats.
func (h *Hub) publish(c *core) {
	s := c.stats
	s.State, s.Err, s.Channels = c.state, c.err(), c.conn.wanted
	h.mu.Lock()
	h.seen = s
	h.mu.Unlock()
}

func (h *Hub) publishWakes(n uint64) {
	h.mu.Lock()
	h.seen.Wakes = n
	h.mu.Unlock()
}

// Stop begins to close the hub and returns at once. All watches fail with ErrClosed and the
// connection is closed. Done is closed when the hub has ended.
func (h *Hub) Stop() { h.actor.Post(closing{}) }

// Done returns a channel closed when the hub has ended: the connection is closed, and all
// goroutines have ended, except for a goroutine in a dial: see Close.
func (h *Hub) Done() <-chan struct{} { return h.actor.Done() }

// Close stops the hub and waits until the hub has ended. A second call waits too. A callback of the
// hub must not call Close, because the callback would wait for itself.
//
// Closing a connection takes a round trip, or 1 s if the server does not answer. The client cannot
// interrupt a dial, so Close does not wait for a dial: the connection is closed when the dial has
// ended. A caller that cannot wait uses Stop and Done.
func (h *Hub) Close() {
	h.Stop()
	<-h.Done()
}
