package notify

import (
	"slices"
	"strings"
	"sync"

	"github.com/holdfast-go/holdfast/futures"
)

// Reason says what happened on a channel. Reasons are bits: one wake-up can
// stand for several events.
type Reason uint8

const (
	// ReasonConfirmed: the server has confirmed the subscription, for the first time
	// or again. Messages are delivered from now on; those before may have been
	// missed, so look once.
	ReasonConfirmed Reason = 1 << iota
	// ReasonMessage: something was published on the channel.
	ReasonMessage
	// ReasonGap: the subscription was lost with the connection. Messages may be
	// missed until the next Confirmed.
	ReasonGap
	// ReasonRefused: the server does not let this client subscribe to the channel.
	// The hub tries again, ever more rarely; [Hub.Err] returns the reason.
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

// A Wake says why a watcher should look again. It merges everything that happened
// since the sequence number that was given to [Watch.Next].
type Wake struct {
	// Seq numbers the newest event in this wake-up. Give it to the next Next.
	// It rises with every event of one Watch and is never 0.
	Seq uint64
	// Reason has every kind of event since then. Gap|Confirmed means that the
	// subscription was lost and is back, if Subscribed, or that it came back
	// and was lost again, if not.
	Reason Reason
	// Subscribed reports whether messages are delivered after all these events,
	// as far as the hub can know.
	Subscribed bool
	// Payload is the first 64 bytes of a message, if Reason has Message. More:
	// there were other messages since, whose payloads are lost.
	Payload string
	More    bool
	// Err is why, if Reason has Gap or Refused: how the connection ended, or a
	// [RefusedError].
	Err error
}

// A Watch reports the events of one channel. Its methods may be called from any
// goroutine and none of them blocks.
type Watch struct {
	hub     *Hub
	channel string

	// Only the hub's goroutine writes the marks and settles the requests that
	// wait for them. The mutex lets Next compare and queue up in one step,
	// without a message to the hub.
	mu      sync.Mutex
	marks   marks
	waiting []*request // usually one
	closed  bool

	due []*request // of the hub's goroutine: what add settles, kept for reuse
}

// marks holds the sequence number of the newest event of each kind. From these it
// can list the kinds of events since any earlier number, in fixed space.
type marks struct {
	seq        uint64
	confirmed  uint64
	message    uint64
	earlier    uint64 // the message event before; message if one event stood for several
	gap        uint64
	refused    uint64
	subscribed bool
	payload    string
	err        error // of the newest gap or refusal
}

// A change is one event, as the hub tells it to the watches of a channel.
type change struct {
	reason     Reason
	messages   uint64
	payload    string
	err        error
	subscribed bool
}

func (m *marks) add(e change) {
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

// since merges all events after the given number. It must be smaller than seq.
func (m *marks) since(after uint64) Wake {
	w := Wake{Seq: m.seq, Subscribed: m.subscribed}
	if m.confirmed > after {
		w.Reason |= ReasonConfirmed
	}
	if m.message > after {
		w.Reason |= ReasonMessage
		w.Payload, w.More = m.payload, m.earlier > after
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

// A request is one call of Next that waits.
type request struct {
	futures.Promise[Wake]
	watch *Watch
	after uint64
}

// Drop does nothing: a wake-up need not be given back.
func (r *request) Drop(Wake) {}

// Cancel takes a cancelled request out of the line. The future is settled
// already.
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

// Next returns a future of the next wake-up: it is settled as soon as something
// has happened after event number after, which may be at once. Start with 0 and
// pass on Wake.Seq. Then no event is missed between two calls, though many may
// come as one.
//
// The future's callbacks usually run on the hub's goroutine, so they must not
// block. It fails with [ErrClosed] when the watch or the hub is closed, and can
// be cancelled, which leaves nothing behind.
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

// Close ends the watch and fails its waiting requests with [ErrClosed]. When the
// last watch of a channel is closed, the hub unsubscribes. Closing again does
// nothing.
func (w *Watch) Close() {
	if w.shut() {
		w.hub.actor.Post(unwatch{w})
	}
}

// shut fails all waiting and later requests. It reports whether it was the
// first to do so.
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

// add notes an event and settles the requests that waited for it. It returns
// their number. Only the hub's goroutine calls it.
func (w *Watch) add(e change) int {
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
	// Without the mutex, as a callback may call Next. The marks do not change
	// meanwhile: only this goroutine writes them.
	for i, r := range w.due {
		r.Resolve(w.marks.since(r.after), nil)
		w.due[i] = nil
	}
	return len(w.due)
}
