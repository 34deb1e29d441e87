package notify

import (
	"slices"
	"strings"
	"sync"

	"github.com/holdfast-go/holdfast/futures"
)

// Reason is a set of bits. Each bit is a kind of event on a channel. One wake-up can stand for
// several events.
type Reason uint8

const (
	// ReasonConfirmed: the server has confirmed the subscription, for the first time or again.
	// Messages are delivered from now on. Earlier messages may have been missed, so the watcher
	// should check again.
	ReasonConfirmed Reason = 1 << iota
	// ReasonMessage: something was published on the channel.
	ReasonMessage
	// ReasonGap: the connection was lost, and the subscription with it. Messages may be missed
	// until the next Confirmed.
	ReasonGap
	// ReasonRefused: the server refuses to subscribe the hub's client to the channel. The hub tries
	// again, ever more rarely. [Hub.Err] returns the reason.
	ReasonRefused
)

// Has reports whether r has any of the reasons in mask.
func (r Reason) Has(mask Reason) bool { return r&mask != 0 }

// String returns the reasons' names, joined by "+".
func (r Reason) String() string {
	var names []string
	for i, name := range [...]string{"Confirmed", "Message", "Gap", "Refused"} {
		if r.Has(1 << i) {
			names = append(names, name)
		}
	}
	return strings.Join(names, "+")
}

// A Wake says why a watcher should check again. A Wake merges all events since the sequence number
// passed to [Watch.Next].
type Wake struct {
	// Seq is the number of the newest event in the wake-up. Pass Seq to the next call of Next. Seq
	// rises with every event of a Watch and is never 0.
	Seq uint64
	// Reason has a bit for every kind of event in the wake-up. Gap|Confirmed with Subscribed true
	// means that the subscription was lost and is back. Gap|Confirmed with Subscribed false means
	// that the subscription came back and was lost again.
	Reason Reason
	// Subscribed reports whether messages are delivered after the newest event, as far as the hub
	// can know.
	Subscribed bool
	// More reports whether there were several messages, if Reason has Message.
	More bool
	// Payload is the newest message, if Reason has Message. Payload is empty if the message has
	// more than 256 bytes.
	Payload string
	// Err is the reason for a Gap or a Refused: the error that ended the connection, or a
	// [RefusedError]. Err is nil if Reason has neither.
	Err error
}

// A Watch reports the events of a channel. Any goroutine may call the methods. No method blocks.
type Watch struct {
	hub     *Hub
	channel string

	// Only the hub's goroutine writes the marks and settles the waiting requests. The mutex lets
	// Next compare the number and queue a request in a single step, without a message to the hub.
	mu      sync.Mutex
	marks   marks
	waiting []*request // usually one
	closed  bool

	// due has the requests that add settles. Only the hub's goroutine uses due, and keeps due for
	// reuse.
	due []*request
}

// marks holds the sequence number of the newest event of each kind. The numbers are enough to list
// the kinds of events since any earlier number, in fixed space.
type marks struct {
	seq        uint64
	confirmed  uint64
	message    uint64
	earlier    uint64 // of the last message but one; equal to message if one event merged several
	payload    string // of message
	gap        uint64
	refused    uint64
	subscribed bool
	err        error // of the newest gap or refusal
}

// An event is what the hub passes to the watches of a channel.
type event struct {
	reason     Reason
	messages   uint64
	payload    string // of the newest message
	err        error
	subscribed bool
}

func (m *marks) add(e event) {
	m.seq++
	m.subscribed = e.subscribed
	if e.reason.Has(ReasonConfirmed) {
		m.confirmed = m.seq
	}
	if e.reason.Has(ReasonMessage) {
		m.earlier, m.message, m.payload = m.message, m.seq, e.payload
		if e.messages > 1 {
			m.earlier = m.seq
		}
	}
	if e.reason.Has(ReasonGap) {
		m.gap, m.err = m.seq, e.err
	}
	if e.reason.Has(ReasonRefused) {
		m.refused, m.err = m.seq, e.err
	}
}

// since merges all events after the given number, which must be smaller than seq.
func (m *marks) since(after uint64) Wake {
	w := Wake{Seq: m.seq, Subscribed: m.subscribed}
	if m.confirmed > after {
		w.Reason |= ReasonConfirmed
	}
	if m.message > after {
		w.Reason |= ReasonMessage
		w.More, w.Payload = m.earlier > after, m.payload
	}
	if m.gap > after {
		w.Reason |= ReasonGap
		w.Err = m.err
	}
	if m.refused > after {
		w.Reason |= ReasonRefused
		w.Err = m.err
	}
	return w
}

// A request is a waiting call of Next.
type request struct {
	futures.Promise[Wake]
	watch *Watch
	after uint64
}

// Drop does nothing: a wake-up need not be given back.
func (r *request) Drop(Wake) {}

// Cancel removes a cancelled request from the waiting requests. The future is already settled.
func (r *request) Cancel() {
	w := r.watch
	w.mu.Lock()
	defer w.mu.Unlock()
	if i := slices.Index(w.waiting, r); i >= 0 {
		w.waiting = slices.Delete(w.waiting, i, i+1)
	}
}

// Channel returns the name of the watched channel.
func (w *Watch) Channel() string { return w.channel }

// Next returns a future of the next wake-up. The future settles as soon as there is an event with a
// number greater than after, which may be at once. Pass 0 first, and later the Wake.Seq of the last
// wake-up. No event is missed between two calls, though a wake-up may merge several events.
//
// The future's callbacks usually run on the hub's goroutine, so callbacks must not block. The
// future fails with [ErrClosed] when the watch or the hub is closed. A cancelled future leaves
// nothing behind.
func (w *Watch) Next(after uint64) *futures.Future[Wake] {
	r := &request{watch: w, after: after}
	r.Bind(r)
	f := r.Future()
	w.mu.Lock()
	switch {
	case w.closed:
		w.mu.Unlock()
		r.Resolve(Wake{}, ErrClosed)
	case w.marks.seq > after:
		wake := w.marks.since(after)
		w.mu.Unlock()
		r.Resolve(wake, nil)
	default:
		w.waiting = append(w.waiting, r)
		w.mu.Unlock()
	}
	return f
}

// Close ends the watch. The waiting futures fail with [ErrClosed]. When the last watch of a channel
// is closed, the hub unsubscribes from the channel. A second call does nothing.
func (w *Watch) Close() {
	if w.shut() {
		w.hub.actor.Post(unwatch{w})
	}
}

// shut fails all waiting and later requests. shut reports whether the watch was open before.
func (w *Watch) shut() bool {
	w.mu.Lock()
	first := !w.closed
	w.closed = true
	waiting := w.waiting
	w.waiting = nil
	w.mu.Unlock()
	for _, r := range waiting {
		r.Resolve(Wake{}, ErrClosed)
	}
	return first
}

// add notes an event and settles the requests waiting for the event. add returns the number of
// settled requests. Only the hub's goroutine calls add.
func (w *Watch) add(e event) int {
	w.mu.Lock()
	w.marks.add(e)
	w.due = w.due[:0]
	later := w.waiting[:0]
	for _, r := range w.waiting {
		if r.after < w.marks.seq {
			w.due = append(w.due, r)
		} else {
			later = append(later, r)
		}
	}
	clear(w.waiting[len(later):])
	w.waiting = later
	w.mu.Unlock()
	// Without the mutex, as a callback may call Next. The marks do not change meanwhile: only the
	// hub's goroutine writes marks.
	for i, r := range w.due {
		r.Resolve(w.marks.since(r.after), nil)
		w.due[i] = nil
	}
	return len(w.due)
}
