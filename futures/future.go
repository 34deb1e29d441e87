package futures

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
)

var (
	// ErrPending is the error of Result while there is no result.
	ErrPending = errors.New("futures: not settled yet")
	// ErrCanceled is the result of a cancelled future.
	ErrCanceled = errors.New("futures: cancelled")
)

// A Source is the origin of a future's value. A Source learns when readers do not want the value.
// The goroutine that cancels calls the methods, without a mutex held. The methods must not block.
type Source[T any] interface {
	// Cancel is called when a pending future was cancelled, after the future has settled.
	Cancel()
	// Drop is called with a value no reader has taken or will get.
	Drop(v T)
}

// An Explainer is a Source with errors of its own for a cancelled future and for an Await whose
// context has ended.
type Explainer interface {
	// Explain returns an error wrapping err. err is ErrCanceled, or the error of the ended context
	// of an Await.
	Explain(err error) error
}

// A Dispatcher is a Source that runs the callbacks of its futures. Without a Dispatcher the
// goroutine that settles a future runs the callbacks.
type Dispatcher interface {
	// Dispatch has run called once, on another goroutine, after the functions of earlier calls of
	// Dispatch. run may block. Dispatch must not.
	Dispatch(run func())
}

// Future is the read end of a one-shot result. Any number of goroutines may use a Future at once. A
// Future comes from a [Promise], from [Ready], or from [All] or [Any]. The zero Future stays
// pending until cancelled.
type Future[T any] struct {
	mu    sync.Mutex
	state atomic.Uint32 // leaves pending with mu held; see the states

	value     T
	done      chan struct{} // made by the first Done; closed and set to nil by settle
	callbacks *callback[T]  // newest first
	// source is nil without a Source, and a failure once the future has failed. A failed future
	// needs its source no more. So the two share the field, and the future is smaller.
	source Source[T]
}

// A failure is the error of a future that has failed.
type failure[T any] struct{ error }

func (failure[T]) Cancel() {}
func (failure[T]) Drop(T)  {}

// The states of a future. The value and a failure are written before the state leaves pending. The
// only later change is from offered to taken or canceled, by a compare-and-swap. In the canceled
// state the value is not read.
const (
	pending  uint32 = iota
	offered         // there is a value, which belongs to the future
	taken           // the value belongs to a reader
	failed          // there is an error, and no value
	canceled        // the result is ErrCanceled
)

type callback[T any] struct {
	fn   func(T, error)
	next *callback[T]
	own  bool // of this package: it does not block, and is never dispatched
}

// closed is what Done returns for a settled future.
var closed = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// Done returns a channel closed once the future is settled. Reading the channel does not take the
// value.
func (f *Future[T]) Done() <-chan struct{} {
	if f.state.Load() != pending {
		return closed
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.state.Load() != pending {
		return closed
	}
	if f.done == nil {
		f.done = make(chan struct{})
	}
	return f.done
}

// Result returns the result of the future, or ErrPending while there is none. A returned value is
// taken: the value belongs to the caller, and Cancel can no longer give the value back. Later calls
// return the same result. Result does not block.
func (f *Future[T]) Result() (T, error) {
	for {
		switch f.state.Load() {
		case pending:
			var zero T
			return zero, ErrPending
		case offered:
			if !f.state.CompareAndSwap(offered, taken) {
				continue
			}
			return f.value, nil
		case taken:
			return f.value, nil
		case failed:
			return f.value, f.source.(failure[T]).error
		case canceled:
			var zero T
			return zero, f.explain(ErrCanceled)
		}
	}
}

// Await blocks until the future is settled or ctx ends. Await returns the result as Result does. If
// ctx ends first, Await cancels the future and returns an error that matches both ctx.Err() and
// context.Cause(ctx). If the future settles before Await can cancel, Await returns the result.
func (f *Future[T]) Await(ctx context.Context) (T, error) {
	if f.state.Load() == pending {
		if stop := ctx.Done(); stop == nil {
			<-f.Done()
		} else {
			select {
			case <-f.Done():
			case <-stop:
				if f.cancelPending() {
					var zero T
					return zero, f.explain(ended(ctx))
				}
			}
		}
	}
	return f.Result()
}

// ended returns the error of an Await that ctx ended.
func ended(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if errors.Is(cause, err) {
		return cause
	}
	return fmt.Errorf("%w: %w", err, cause)
}

// explain lets the source describe the end of a wait.
func (f *Future[T]) explain(err error) error {
	if e, ok := f.source.(Explainer); ok {
		return e.Explain(err)
	}
	return err
}

// Cancel cancels the future: Result returns ErrCanceled from then on. If the future is pending,
// Cancel calls the Source's Cancel. If the future has an untaken value, Cancel passes the value to
// the Source's Drop. Cancel reports whether the call cancelled the future. If not, the future was
// cancelled before, has failed, or the value was taken; Result shows which. A caller that has not
// taken the value has nothing to give back, whatever Cancel reports.
func (f *Future[T]) Cancel() bool {
	if f.cancelPending() {
		return true
	}
	if !f.state.CompareAndSwap(offered, canceled) {
		return false
	}
	// Nobody else reads the value now.
	v := f.value
	var zero T
	f.value = zero
	if f.source != nil {
		f.source.Drop(v)
	}
	return true
}

// cancelPending cancels the future unless the future is settled.
func (f *Future[T]) cancelPending() bool {
	if f.state.Load() != pending {
		return false
	}
	var zero T
	if !f.settle(canceled, zero, ErrCanceled) {
		return false
	}
	if f.source != nil {
		f.source.Cancel()
	}
	return true
}

// OnDone registers fn to be called once with the result. If the future is already settled, OnDone
// calls fn itself. Otherwise fn is called when the future settles: by the Source's Dispatcher, if
// any, else by the goroutine that settles the future. There fn must not block. Callbacks registered
// before the future settled are called in order. A value is taken as soon as there is a value and a
// callback is registered. The value belongs to the callbacks from then on. fn may use the future in
// any way.
func (f *Future[T]) OnDone(fn func(T, error)) { f.onDone(fn, false) }

// onDone is OnDone. If own is set, the callback belongs to package futures and is not dispatched.
func (f *Future[T]) onDone(fn func(T, error), own bool) {
	if f.state.Load() == pending {
		f.mu.Lock()
		if f.state.Load() == pending {
			f.callbacks = &callback[T]{fn, f.callbacks, own}
			f.mu.Unlock()
			return
		}
		f.mu.Unlock()
	}
	fn(f.Result())
}

// settle is the only way out of pending. A single call for a future reports true. An offered value
// with callbacks is taken before anybody can cancel the future. Callbacks run after the mutex is
// released.
func (f *Future[T]) settle(state uint32, v T, err error) bool {
	f.mu.Lock()
	if f.state.Load() != pending {
		f.mu.Unlock()
		return false
	}
	f.value = v
	todo, done, source := f.callbacks, f.done, f.source
	f.callbacks, f.done = nil, nil // a settled future may be kept for long
	switch {
	case state == failed:
		f.source = failure[T]{err}
	case state == offered && todo != nil:
		state = taken
	}
	f.state.Store(state)
	f.mu.Unlock()

	if done != nil {
		close(done)
	}
	if todo == nil {
		return true
	}
	if state == canceled {
		err = f.explain(err)
	}
	todo.run(dispatcherOf(source), v, err)
	return true
}

// run passes the result to callbacks. With a dispatcher, run calls only the callbacks of package
// futures, after dispatching the rest: own callbacks may settle further futures, whose callbacks
// come later.
func (cb *callback[T]) run(d Dispatcher, v T, err error) {
	here, there := inOrder(cb, d != nil)
	if there != nil {
		d.Dispatch(func() { there.call(v, err) })
	}
	here.call(v, err)
}

// call calls a list of callbacks.
func (cb *callback[T]) call(v T, err error) {
	for ; cb != nil; cb = cb.next {
		cb.fn(v, err)
	}
}

// inOrder reverses a list of callbacks, so that the oldest comes first. If dispatched is set, only
// the callbacks of package futures go to the list here, and the rest to the list there.
func inOrder[T any](cb *callback[T], dispatched bool) (here, there *callback[T]) {
	for cb != nil {
		next := cb.next
		if dispatched && !cb.own {
			cb.next, there = there, cb
		} else {
			cb.next, here = here, cb
		}
		cb = next
	}
	return here, there
}
