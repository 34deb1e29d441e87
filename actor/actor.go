package actor

import "time"

// Handler is what an actor's goroutine runs. If it also has a method Stopped(), that is called on the same goroutine as the last thing,
// before Done is closed.
type Handler[T any] interface {
	// Handle is called with all that arrived since the last call, in order of arrival. The batch is empty when an alarm is due; a handler
	// must put up with an empty batch at any time. The slice belongs to the actor again as soon as Handle returns.
	//
	// The result says how long the actor may sleep if nothing arrives: negative, until something does; zero, not at all. It is a
	// promise for this one sleep: whatever the next call returns takes its place. The first call comes with the first message.
	Handle(batch []T) (next time.Duration)
}

// Actor is one goroutine that handles what many others post to it. All methods may be called from any goroutine, the handler's own
// included, and none of them blocks.
type Actor[T any] struct {
	box     mailbox[T]
	alarm   alarm
	handler Handler[T]
	done    chan struct{} // closed when run returns
}

// Start runs h on a goroutine of its own until Stop is called. An actor that is never stopped is never collected.
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

// Post leaves m in the mailbox. It reports false once the actor was stopped: m is not handled then, and whoever waits for an answer to it
// must be told by the caller. The mailbox has no bound, because a bound would have to block or refuse; callers limit what they post.
func (a *Actor[T]) Post(m T) bool { return a.box.put(m) }

// PostBatch leaves all of ms in the mailbox, next to one another and in order, or none of them when the actor was stopped. The slice is
// copied. It costs one lock and at most one wake-up, however long ms is.
func (a *Actor[T]) PostBatch(ms []T) bool { return a.box.putAll(ms) }

// Stop ends the actor: what was accepted before is still handled, what comes after is refused, then the goroutine ends. It does not wait for
// that, see Done. Further calls do nothing.
func (a *Actor[T]) Stop() { a.box.close() }

// Done is closed when the goroutine has ended: nothing of the handler runs any more.
func (a *Actor[T]) Done() <-chan struct{} { return a.done }

func (a *Actor[T]) run() {
	defer close(a.done)
	next := time.Duration(-1)
	for {
		batch, open := a.receive(next)
		if !open {
			break
		}
		next = a.handler.Handle(batch)
		a.box.reuse(batch)
	}
	a.alarm.stop()
	if s, ok := a.handler.(interface{ Stopped() }); ok {
		s.Stopped()
	}
}

// receive waits for messages, for next to pass, or for the end: stopped, and nothing left to handle (open is false then).
func (a *Actor[T]) receive(next time.Duration) (batch []T, open bool) {
	batch, open = a.box.take(next != 0)
	if len(batch) > 0 || !open || next == 0 {
		return batch, open
	}
	a.alarm.set(next)
	for {
		<-a.box.wake
		// The clock is read only when there is nothing else to do. The mailbox then still believes that this goroutine is parked, and
		// a post during Handle sends one wake-up too many, which costs one turn of this loop.
		batch, open = a.box.take(true)
		if len(batch) > 0 || !open || a.alarm.due() {
			return batch, open
		}
	}
}
