package notify

import (
	"sync"

	"github.com/holdfast-go/holdfast/actor"
)

// A Hub owns one connection for pub/sub and tells any number of watchers when
// something happens on their channels. Its methods may be called from any
// goroutine; only Close blocks.
type Hub struct {
	actor *actor.Actor[event]

	mu   sync.Mutex // guards seen
	seen Stats
}

// start begins a hub's goroutine on top of any kind of connection.
func start(d dialer, opts Options) *Hub {
	h := &Hub{}
	h.actor = actor.Start[event](newCore(h, d, opts))
	return h
}

// Watch begins to watch a channel and returns at once. The first watch of a
// channel subscribes to it, others share the subscription; each gets a
// Confirmed of its own. After Close, the watch fails with [ErrClosed].
//
// Close the watch when it is not needed any more.
func (h *Hub) Watch(channel string) *Watch {
	w := &Watch{hub: h, channel: channel}
	if !h.actor.Post(watch{w}) {
		w.shut()
	}
	return w
}

// Err returns why some channels may not be subscribed: the connection's last
// error while there is no connection, else the newest [RefusedError] while the
// server refuses any channel, else nil. After Close it returns [ErrClosed].
// While it is not nil, watchers should poll.
func (h *Hub) Err() error { return h.Stats().Err }

// Stats returns a snapshot. It is never older than a wake-up that was delivered
// before.
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

// Stop begins to close the hub and returns at once: all watches fail with
// ErrClosed, the connection is closed. Done is closed when that is over.
func (h *Hub) Stop() { h.actor.Post(closing{}) }

// Done returns a channel that is closed when the hub has ended: its connection
// is closed and its goroutines are gone, except for one in a dial: see Close.
func (h *Hub) Done() <-chan struct{} { return h.actor.Done() }

// Close stops the hub and waits until it has ended. It must not be called from
// a callback of the hub, which would wait for itself. Closing again waits too.
//
// Closing a connection takes a round trip, or 1 s if the server is silent.
// Close does not wait for a connection that is being opened, which the client
// can't interrupt: it is closed when its dial has ended. A caller that can't
// wait uses Stop and Done.
func (h *Hub) Close() {
	h.Stop()
	<-h.Done()
}
