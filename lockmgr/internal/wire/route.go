package wire

import (
	"sync"
	"time"
)

const (
	// dedicateAfter is how many batches in quick succession the server answers on the shared
	// connection before a sender opens a connection of its own. A manager that locks seldom needs
	// none.
	dedicateAfter = 32
	// longestPause is the longest pause after which a connection is used again. After a longer
	// pause the connection may be dead, and the client's ping may be under way on the connection.
	longestPause = 250 * time.Millisecond
	// idleTime is how often a route looks whether its connection was used. The route closes an
	// unused connection.
	idleTime = time.Second
	// oldest is how long a connection is used. A new connection has new credentials, and leads to
	// the server that the address means by then.
	oldest = time.Minute
	// dialPause is the least time between two dials. Each failed dial doubles the pause, up to
	// mostDialPause.
	dialPause     = time.Second
	mostDialPause = 5 * time.Minute
)

// A route is the way that the batches of one sender take to the server. The way leads over a
// connection of the sender's own while there is one, and otherwise over the shared connection:
//
//	shared ──32 batches answered──▶ dialling ──open──▶ own
//	  ▲                                │                │ a failure that may concern
//	  └────────── dial failed ─────────┴────────────────┘ all, a pause, or a minute
//
// The sender itself writes to its own connection and reads from it. On the shared connection two
// goroutines of the client write and read, and waking both takes a quarter of the time of a
// command. No command waits for a dial, or for a connection to be closed: the shared connection
// serves meanwhile.
//
// Renewals take the shared connection.
type route struct {
	shared   Server
	dial     func() (Connection, error) // nil: there is the shared one only
	maxPause time.Duration              // at most longestPause

	background sync.WaitGroup // dials, and connections that are being closed

	mu       sync.Mutex
	own      Connection    // nil: none
	opened   time.Duration // when own was opened, by the clock of begin and end
	ended    time.Duration // when the last batch ended
	answered int           // batches on the shared connection, each soon after the one before
	dialAt   time.Duration // the next dial comes no earlier
	failed   int           // dials that have failed in a row
	dialling bool
	busy     bool // a batch is under way on own
	used     bool // own was used since the idle timer last fired
	idle     *time.Timer
	closed   bool
}

// begin returns the server for the next batch.
func (r *route) begin(now time.Duration) Server {
	if r.dial == nil {
		return r.shared
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	stale := now-r.ended > r.maxPause
	if stale {
		r.answered = 0
	}
	switch {
	case r.own == nil:
		return r.shared
	case stale, now-r.opened > oldest:
		r.drop()
		return r.shared
	}
	r.busy, r.used = true, true
	return r.own
}

// end notes that the batch of begin has ended. healthy reports whether no failure may concern more
// than one lock: see Failure.General.
func (r *route) end(now time.Duration, healthy bool) {
	if r.dial == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = now
	busy := r.busy
	r.busy = false
	switch {
	case !healthy:
		r.answered = 0
		if busy && r.own != nil {
			r.drop()
		}
	case r.own == nil && !r.closed:
		r.answered++
		if r.answered >= dedicateAfter && !r.dialling && now >= r.dialAt {
			r.answered, r.dialling = 0, true
			r.background.Go(func() { r.open(now) })
		}
	}
}

// drop gives the connection up and closes it in the background. The mutex is held.
func (r *route) drop() {
	c := r.own
	r.own = nil
	r.background.Go(c.Close)
}

// open opens a connection of the sender's own. now is when the route decided to.
func (r *route) open(now time.Duration) {
	c, err := r.dial()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dialling = false
	if err != nil {
		r.failed++
	} else {
		r.failed = 0
	}
	r.dialAt = now + min(dialPause<<min(r.failed, 10), mostDialPause)
	switch {
	case err != nil:
	case r.closed:
		r.background.Go(c.Close)
	default:
		r.own, r.opened, r.used = c, now, true
		if r.idle == nil {
			r.idle = time.AfterFunc(idleTime, r.dropIdle)
		} else {
			r.idle.Reset(idleTime)
		}
	}
}

// dropIdle gives up a connection that was not used for idleTime.
func (r *route) dropIdle() {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.own == nil:
	case r.used || r.busy:
		r.used = false
		r.idle.Reset(idleTime)
	default:
		r.drop()
	}
}

// close closes the connection, also under a command. close does not block.
func (r *route) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	if r.idle != nil {
		r.idle.Stop()
	}
	if r.own != nil {
		r.drop()
	}
}

// wait waits until nothing of the route is left. wait must follow close. A dial under way ends with
// the dial time-out of the client.
func (r *route) wait() { r.background.Wait() }
