package wire

import (
	"context"
	"sync"
	"time"
)

// A Deadline makes a context for each round trip. A Deadline reuses a context that has not ended,
// because a new context costs more than a batch of one command.
type Deadline struct {
	parent  context.Context
	timeout time.Duration
	current *trip
}

// NewDeadline returns a Deadline for round trips that take no longer than a time-out.
func NewDeadline(parent context.Context, timeout time.Duration) *Deadline {
	return &Deadline{parent: parent, timeout: timeout}
}

// Start returns a context that ends after the time-out, or with the parent. The context of the call
// before must not be used any more: each round trip has a time-out of its own.
func (d *Deadline) Start() context.Context {
	d.finish()
	if d.current == nil {
		d.current = &trip{done: make(chan struct{})}
		d.current.timer = time.AfterFunc(d.timeout, d.current.end)
		d.current.unbind = context.AfterFunc(d.parent, d.current.end)
	} else {
		d.current.timer.Reset(d.timeout)
	}
	d.current.running = true
	return d.current
}

// StartTimed is Start for a connection that one goroutine owns. The context reports its
// deadline, so that the client waits on the connection itself and closes the connection at the
// deadline.
func (d *Deadline) StartTimed() context.Context {
	d.Start()
	d.current.at = time.Now().Add(d.timeout)
	return timedTrip{d.current}
}

// finish ends a round trip. The next Start may use the context again. If no round trip follows,
// Close must be called, unless the parent ends.
func (d *Deadline) finish() {
	if d.current == nil || !d.current.running {
		return
	}
	d.current.running = false
	if !d.current.timer.Stop() || d.current.Err() != nil {
		d.current.unbind()
		d.current = nil // it has ended, or is about to
	}
}

// Close releases what d keeps in its parent. The context of the last round trip must not be used
// any more.
func (d *Deadline) Close() {
	d.finish()
	if d.current != nil {
		d.current.unbind()
		d.current = nil
	}
}

// StartOnce returns a context for one round trip, as Start does. end must be called after the round
// trip.
func StartOnce(parent context.Context, timeout time.Duration) (ctx context.Context, end func()) {
	d := NewDeadline(parent, timeout)
	return d.Start(), d.Close
}

// A trip is the context of a round trip. The method Deadline reports no deadline, because
// some clients close their connection when a deadline passes.
type trip struct {
	timer   *time.Timer
	running bool      // between Start and finish
	at      time.Time // the deadline, if it is reported
	unbind  func() bool
	once    sync.Once
	done    chan struct{}
}

func (t *trip) end() { t.once.Do(func() { close(t.done) }) }

func (t *trip) Deadline() (time.Time, bool) { return time.Time{}, false }
func (t *trip) Value(any) any               { return nil }
func (t *trip) Done() <-chan struct{}       { return t.done }

// Err is DeadlineExceeded also if the parent has ended, because nobody reads the error in this
// case.
func (t *trip) Err() error {
	select {
	case <-t.done:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// A timedTrip is a trip that reports its deadline.
type timedTrip struct{ *trip }

func (t timedTrip) Deadline() (time.Time, bool) { return t.at, true }
