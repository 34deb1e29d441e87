package lockmgr

import (
	"sync"

	"github.com/holdfast-go/holdfast/lockmgr/internal/wire"
	"github.com/holdfast-go/holdfast/notify"
)

// hubs are a manager's connections for messages: one to a single server, or one to each
// master of a cluster that serves the slot of a watched channel. With one at the master
// itself, a message never crosses the cluster, and the number of subscribers that a script
// counts there includes those of all managers.
type hubs struct {
	lanes *wire.Lanes
	open  func(master string) *notify.Hub

	mu      sync.Mutex
	at      map[string]*notify.Hub // by the master's address
	stopped bool
}

func newHubs(lanes *wire.Lanes, open func(master string) *notify.Hub) *hubs {
	return &hubs{lanes: lanes, open: open, at: make(map[string]*notify.Hub)}
}

// A listening is a watch, and the address of the master at which it is.
type listening struct {
	*notify.Watch
	master string
}

// watch begins to watch a channel at the master of its slot. It never blocks.
func (h *hubs) watch(channel string) listening {
	master := h.lanes.Master(channel)
	h.mu.Lock()
	defer h.mu.Unlock()
	hub := h.at[master]
	if hub == nil {
		hub = h.open(master)
		if h.stopped {
			hub.Stop()
		}
		h.at[master] = hub
	}
	return listening{hub.Watch(channel), master}
}

// moved reports whether the slot of a watched channel has another master by now.
func (h *hubs) moved(w listening) bool { return h.lanes.Master(w.Channel()) != w.master }

// stop begins to close all hubs.
func (h *hubs) stop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stopped = true
	for _, hub := range h.at {
		hub.Stop()
	}
}

// wait waits until all hubs have ended. It must follow stop.
func (h *hubs) wait() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, hub := range h.at {
		<-hub.Done()
	}
}
