package actor

import "time"

// Handler is what an actor's goroutine runs. If it also has a method Stopped(),
// that is called on the same goroutine as the last thing, before Done is closed.
type Handler[T any] interface {
	// Handle is called with messages in the order of their arrival. The batch is
	// empty when an alarm is due; a handler must put up with an empty batch at any
	// time. The slice belongs to the actor again as soon as Handle returns.
	//
	// The result says how long the actor may sleep if nothing arrives: negative,
	// until something does; zero, not at all. It holds for this one sleep: the
	// result of the next call takes its place. The first call comes with the first
	// message.
	Handle(batch []T) (next time.Duration)
}

// Actor is one goroutine that handles what many others post to it. All methods may
// be called from any goroutine, the handler's own included, and none of them
// blocks.
type Actor[T any] struct {
	box     mailbox[T]
	alarm   alarm
	handler Handler[T]
	done    chan struct{} // closed when run returns
}

// Start runs h on a goroutine of its own until Stop is called. An actor that is
// never stopped is never collected.
func Start[T any](h Handler[T]) *Actor[T] {
	a := &Actor[T]{
		handler: h,
		done:    make(chan struct{}),
	}
	a.box.wake = make(chan struct{}, 1)
	a.alarm = alarm{origin: time.Now(), wake: a.box.signal}
	go a.run()
	return a
}

// Post leaves m in the mailbox. It returns false once the actor was stopped: m is
// not handled then. If somebody waits for an answer to m, the caller of Post must
// answer. The mailbox has no bound, because a bound would have to block or refuse.
// Callers limit what they post.
func (a *Actor[T]) Post(m T) bool { return a.box.put(m) }

// PostUrgent is Post for a message that overtakes others. It waits for at most one
// batch and for the urgent messages before it.
func (a *Actor[T]) PostUrgent(m T) bool { return a.box.putUrgent(m) }

// Stop ends the actor: what was accepted before is still handled, what comes after
// is refused, then the goroutine ends. Stop does not wait for that: see Done.
// Further calls do nothing.
func (a *Actor[T]) Stop() { a.box.close() }

// Done is closed when the goroutine has ended: nothing of the handler runs any
// more.
func (a *Actor[T]) Done() <-chan struct{} { return a.done }

// maxBatch is the most messages of one call of Handle, but for urgent ones. It
// bounds how long these wait.
const maxBatch = 256

func (a *Actor[T]) run() {
	defer close(a.done)
	next := time.Duration(-1)
	for {
		urgent, messages, open := a.receive(next)
		if !open {
			break
		}
		next = a.handle(urgent, messages)
	}
	a.alarm.stop()
	if s, ok := a.handler.(interface{ Stopped() }); ok {
		s.Stopped()
	}
}

// handle hands messages to the handler, maxBatch at a time. Urgent ones go first,
// and those that arrive meanwhile come between two batches.
func (a *Actor[T]) handle(urgent, messages []T) (next time.Duration) {
	rest := messages
	for first := true; first || len(rest) > 0; first = false {
		if len(urgent) > 0 {
			next = a.handler.Handle(urgent)
			a.box.reuseUrgent(urgent)
		}
		n := min(len(rest), maxBatch)
		if n > 0 || len(urgent) == 0 {
			next = a.handler.Handle(rest[:n])
		}
		if rest = rest[n:]; len(rest) > 0 {
			urgent = a.box.takeUrgent()
		}
	}
	a.box.reuse(messages)
	return next
}

// receive waits for messages, for next to pass, or for the end: stopped, and
// nothing left to handle (open is false then).
func (a *Actor[T]) receive(next time.Duration) (urgent, messages []T, open bool) {
	urgent, messages, open = a.box.take(next != 0)
	if len(urgent)+len(messages) > 0 || !open || next == 0 {
		return urgent, messages, open
	}
	a.alarm.set(next)
	for {
		<-a.box.wake
		// The clock is read only when there is nothing else to do. The mailbox then
		// still believes that this goroutine is parked, and a post during Handle
		// sends one wake-up too many, which costs one turn of this loop.
		urgent, messages, open = a.box.take(true)
		if len(urgent)+len(messages) > 0 || !open || a.alarm.due() {
			return urgent, messages, open
		}
	}
}
