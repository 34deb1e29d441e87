package actor

import "time"

// A Handler handles the messages of an actor, on the actor's goroutine. A method Stopped() of the
// Handler, if any, is called on the same goroutine as the last thing, before Done is closed.
type Handler[T any] interface {
	// Handle is called with messages in the order of their arrival. The batch is empty when an
	// alarm is due; a handler must put up with an empty batch at any time. The slice belongs to the
	// actor again as soon as Handle returns.
	//
	// The result is how long the actor may sleep if nothing arrives. A negative result means until
	// something arrives. The next call returns a new result. The first call comes with the first
	// message.
	Handle(batch []T) (next time.Duration)
}

// Actor is a goroutine that handles the messages of many goroutines. Any goroutine may call the
// methods, the handler's own included. No method blocks.
type Actor[T any] struct {
	box     mailbox[T]
	alarm   alarm
	handler Handler[T]
	done    chan struct{} // closed when run returns
}

// Start runs h on a new goroutine until Stop is called. An actor never stopped is never collected.
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

// Post leaves m in the mailbox. Post returns false once the actor was stopped: m is not handled. If
// somebody waits for an answer to m, the caller of Post must answer. The mailbox has no bound,
// because a bound would have to block or refuse. Callers limit their posts.
func (a *Actor[T]) Post(m T) bool { return a.box.put(m) }

// PostUrgent is Post for a message that overtakes ordinary messages. The message waits for at most
// one batch and for earlier urgent messages.
func (a *Actor[T]) PostUrgent(m T) bool { return a.box.putUrgent(m) }

// Stop ends the actor: accepted messages are still handled, later messages are refused, and the
// goroutine ends. Stop does not wait for the end: see Done. Further calls do nothing.
func (a *Actor[T]) Stop() { a.box.close() }

// Done is closed when the goroutine has ended: nothing of the handler runs any more.
func (a *Actor[T]) Done() <-chan struct{} { return a.done }

// maxBatch is the largest number of ordinary messages in a call of Handle. maxBatch bounds how long
// urgent messages wait.
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

// handle hands messages to the handler, maxBatch at a time. Urgent messages go first. Urgent
// messages that arrive meanwhile come between two batches.
func (a *Actor[T]) handle(urgent, messages []T) (next time.Duration) {
	if len(urgent)+len(messages) == 0 {
		return a.handler.Handle(nil) // an alarm is due
	}
	for rest := messages; ; urgent = a.box.takeUrgent() {
		if len(urgent) > 0 {
			next = a.handler.Handle(urgent)
			a.box.reuseUrgent(urgent)
		}
		if n := min(len(rest), maxBatch); n > 0 {
			next = a.handler.Handle(rest[:n])
			rest = rest[n:]
		}
		if len(rest) == 0 {
			a.box.reuse(messages)
			return next
		}
	}
}

// receive waits for messages, for next to pass, or for the end. open is false if the actor is
// stopped and nothing is left to handle.
func (a *Actor[T]) receive(next time.Duration) (urgent, messages []T, open bool) {
	urgent, messages, open = a.box.take(next != 0)
	if len(urgent)+len(messages) > 0 || !open || next == 0 {
		return urgent, messages, open
	}
	a.alarm.set(next)
	for {
		<-a.box.wake
		// The clock is read only when there is nothing else to do. If the alarm is due, the mailbox
		// still takes the goroutine for parked. A post during Handle then sends a superfluous
		// wake-up, at the cost of a turn of the loop.
		urgent, messages, open = a.box.take(true)
		if len(urgent)+len(messages) > 0 || !open || a.alarm.due() {
			return urgent, messages, open
		}
	}
}
