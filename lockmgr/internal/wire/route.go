package wire

import (
	"sync"
	"time"
)

// A Connection is a Server that one sender has for itself.
type Connection interface {
	Server
	// Close closes the connection. A command under way gets a failure, and may have
	// run. Close blocks for a second at most.
	Close()
}

const (
	// dedicateAfter is how many batches a sender has answered on the shared
	// connection before it opens one of its own. A manager that locks seldom needs
	// none.
	dedicateAfter = 32
	// idleTime is how often a route looks whether its connection was used. One that
	// was not is closed, since its pings cost the server more than a new one.
	idleTime = 10 * time.Second
)

// A route is the way that the batches of one sender take to the server. It leads over
// a connection of the sender's own while there is one, and else over the connection
// that all share:
//
//	shared ──32 batches answered──▶ dialling ──open──▶ own
//	  ▲                                │                │
//	  └────────── dial failed ─────────┴─ no answer, or idle
//
// The sender writes to its own connection and reads from it. On the shared one two
// goroutines of the client do that, and waking them takes a third of the time of a
// command. No command waits for a dial: the shared connection serves meanwhile.
//
// A failure closes the connection, because an answer that is late would be taken for
// the answer to the next command. The shared connection serves then. It needs no dial
// after a silence.
//
// Renewals always take the shared connection. There they share the pipeline with
// those of the other sender.
type route struct {
	shared Server
	dial   func() (Connection, error) // nil: there is the shared one only

	mu       sync.Mutex
	own      Connection // nil: none
	answered int        // batches on the shared connection since there was no other
	dialling bool
	busy     bool // a batch is under way on own
	used     bool // own was used since the idle timer last fired
	idle     *time.Timer
	closed   bool
}

// begin returns the server for the next batch.
func (r *route) begin(renews bool) Server {
	if r.dial == nil {
		return r.shared
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.own == nil || renews {
		return r.shared
	}
	r.busy, r.used = true, true
	return r.own
}

// end notes that the batch has ended. failed reports whether a command had no
// answer.
func (r *route) end(failed bool) {
	if r.dial == nil {
		return
	}
	r.mu.Lock()
	busy := r.busy
	r.busy = false
	var broken Connection
	switch {
	case failed:
		r.answered = 0
		if busy {
			broken, r.own = r.own, nil
		}
	case r.own == nil && !r.dialling && !r.closed:
		if r.answered++; r.answered >= dedicateAfter {
			r.answered, r.dialling = 0, true
			go r.open()
		}
	}
	r.mu.Unlock()
	if broken != nil {
		broken.Close()
	}
}

// open opens a connection of the sender's own.
func (r *route) open() {
	c, err := r.dial()
	r.mu.Lock()
	r.dialling = false
	wanted := err == nil && !r.closed
	if wanted {
		r.own, r.used = c, true
		if r.idle == nil {
			r.idle = time.AfterFunc(idleTime, r.closeIdle)
		} else {
			r.idle.Reset(idleTime)
		}
	}
	r.mu.Unlock()
	if err == nil && !wanted {
		c.Close()
	}
}

// closeIdle closes a connection that was not used for idleTime.
func (r *route) closeIdle() {
	r.mu.Lock()
	var unused Connection
	switch {
	case r.own == nil:
	case r.used || r.busy:
		r.used = false
		r.idle.Reset(idleTime)
	default:
		unused, r.own = r.own, nil
	}
	r.mu.Unlock()
	if unused != nil {
		unused.Close()
	}
}

// close closes the connection, also under a command. It does not wait for a dial
// under way: what that opens is closed at once.
func (r *route) close() {
	r.mu.Lock()
	c := r.own
	r.own, r.closed = nil, true
	if r.idle != nil {
		r.idle.Stop()
	}
	r.mu.Unlock()
	if c != nil {
		c.Close()
	}
}
