package lockmgr

import (
	"slices"
	"sync"

	"github.com/holdfast-go/holdfast/lockmgr/internal/wire"
	"github.com/holdfast-go/holdfast/notify"
)

// hubs are a manager's connections for messages: a connection to a single server, or to each master
// of a cluster that serves the slot of a watched channel. At the master itself, a message never
// crosses the cluster, and the subscribers that a script counts there include the subscribers of
// all managers.
type hubs struct {
	lanes *wire.Lanes
	open  func(master string, sharded bool) *notify.Hub

	mu      sync.Mutex
	at      map[hubKey]*notify.Hub
	stopped bool
	closing sync.WaitGroup // hubs of masters that have left
}

// A hubKey is the address of a hub's master, and the kind of its channels.
type hubKey struct {
	master  string
	sharded bool
}

func newHubs(lanes *wire.Lanes, open func(master string, sharded bool) *notify.Hub) *hubs {
	return &hubs{lanes: lanes, open: open, at: make(map[hubKey]*notify.Hub)}
}

// A listening is a watch, and the address of the watch's master.
type listening struct {
	*notify.Watch
	master string
}

// watch begins to watch a channel at the master of its slot. watch never blocks.
func (h *hubs) watch(channel string, sharded bool) listening {
	key := hubKey{h.lanes.Master(channel), sharded}
	h.mu.Lock()
	defer h.mu.Unlock()
	hub := h.at[key]
	if hub == nil {
		hub = h.open(key.master, sharded)
		if h.stopped {
			hub.Stop()
		}
		h.at[key] = hub
	}
	return listening{Watch: hub.Watch(channel), master: key.master}
}

// moved reports whether the slot of a watched channel has another master by now.
func (h *hubs) moved(w listening) bool { return h.lanes.Master(w.Channel()) != w.master }

// closeLeft closes the hubs of masters that serve no slot any more, if nobody watches a channel
// there. So hubs do not pile up as masters are replaced. A closing watch counts as open: its hub is
// closed at the next call. closeLeft never blocks. Call closeLeft after the move of watches to
// their new masters.
func (h *hubs) closeLeft() {
	masters := h.lanes.Masters()
	h.mu.Lock()
	defer h.mu.Unlock()
	for key, hub := range h.at {
		if !h.stopped && !slices.Contains(masters, key.master) && hub.Stats().Watches == 0 {
			delete(h.at, key)
			h.closing.Go(hub.Close)
		}
	}
}

// stop begins to close all hubs.
func (h *hubs) stop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stopped = true
	for _, hub := range h.at {
		hub.Stop()
	}
}

// wait waits until all hubs have ended. Call stop first.
func (h *hubs) wait() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, hub := range h.at {
		<-hub.Done()
	}
	h.closing.Wait()
}
