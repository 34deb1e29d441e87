package futures

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
)

var (
	// ErrPending is what Result says before there is a result.
	ErrPending = errors.New("futures: not settled yet")
	// ErrCanceled is the result of a future that was cancelled.
	ErrCanceled = errors.New("futures: cancelled")
)

// Canceler is told that a pending future was cancelled by its reader, once the future is settled. It is called without any lock held, on
// the goroutine that cancelled, and must not block.
type Canceler interface{ Cancel() }

// Future is the read end of a result that comes later. Any number of goroutines may use it at once. It comes from a [Promise], from [Ready]
// or a combinator; a zero Future stays pending until it is cancelled.
type Future[T any] struct {
	mu      sync.Mutex
	settled atomic.Bool // set with mu held, after value and err, which never change again

	value T
	err   error

	done      chan struct{} // made when first asked for; closed, and let go, by whoever settles
	callbacks *callback[T]  // newest first
	canceler  Canceler
}

type callback[T any] struct {
	fn   func(T, error)
	next *callback[T]
}

// closed is the Done of every future that was settled before anybody asked for one.
var closed = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// Done returns a channel that is closed once the future is settled.
func (f *Future[T]) Done() <-chan struct{} {
	if f.settled.Load() {
		return closed
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.settled.Load() {
		return closed
	}
	if f.done == nil {
		f.done = make(chan struct{})
	}
	return f.done
}

// Result returns what the future was settled with, ErrPending while it is not. It does not block.
func (f *Future[T]) Result() (T, error) {
	if !f.settled.Load() {
		var zero T
		return zero, ErrPending
	}
	return f.value, f.err
}

// Await blocks until the future is settled or ctx ends. If ctx ends first, Await cancels the future and returns an error that matches both
// ctx.Err() and context.Cause(ctx). A result that was there before that, even if ctx had ended already, is returned: it would be lost
// otherwise.
func (f *Future[T]) Await(ctx context.Context) (T, error) {
	if f.settled.Load() {
		return f.value, f.err
	}
	if stop := ctx.Done(); stop == nil {
		<-f.Done()
	} else {
		select {
		case <-f.Done():
		case <-stop:
			if f.Cancel() {
				var zero T
				return zero, ended(ctx)
			}
		}
	}
	return f.value, f.err
}

// ended is the error of an Await that was cut short by ctx.
func ended(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if errors.Is(cause, err) {
		return cause
	}
	return fmt.Errorf("%w: %w", err, cause)
}

// Cancel settles a pending future with ErrCanceled and then tells its Canceler. It reports whether this call did it: false means that there
// is a result, and that somebody has to look after it.
func (f *Future[T]) Cancel() bool {
	var zero T
	c, ok := f.settle(zero, ErrCanceled)
	if ok && c != nil {
		c.Cancel()
	}
	return ok
}

// OnDone has fn called once with the result: by the goroutine that settles the future, or at once if it is settled. What was registered
// before the future was settled is called in that order. fn must not block; it may use the future in any way.
func (f *Future[T]) OnDone(fn func(T, error)) {
	if !f.settled.Load() {
		f.mu.Lock()
		if !f.settled.Load() {
			f.callbacks = &callback[T]{fn, f.callbacks}
			f.mu.Unlock()
			return
		}
		f.mu.Unlock()
	}
	fn(f.value, f.err)
}

// settle is the only way from pending to settled. Exactly one call for a future reports true; it also gets the Canceler, which the future
// forgets. Everything that may run foreign code happens after the lock is released.
func (f *Future[T]) settle(v T, err error) (Canceler, bool) {
	f.mu.Lock()
	if f.settled.Load() {
		f.mu.Unlock()
		return nil, false
	}
	f.value, f.err = v, err
	todo, c, done := f.callbacks, f.canceler, f.done
	f.callbacks, f.canceler, f.done = nil, nil, nil // a settled future may be kept for long
	f.settled.Store(true)
	f.mu.Unlock()

	if done != nil {
		close(done)
	}
	for cb := inOrder(todo); cb != nil; cb = cb.next {
		cb.fn(v, err)
	}
	return c, true
}

// inOrder turns the list of callbacks round, so that the oldest comes first.
func inOrder[T any](cb *callback[T]) *callback[T] {
	var first *callback[T]
	for cb != nil {
		next := cb.next
		cb.next, first = first, cb
		cb = next
	}
	return first
}
