package futures

import (
	"errors"
	"sync/atomic"
)

// All returns a future that settles when every one of fs has settled. The result has the values in
// the order of fs. If any of fs failed, the result has a nil slice and the errors joined in the
// order of fs. Without any fs the future settles at once.
//
// The first failure cancels the pending futures. Their ErrCanceled is left out of the joined error.
// Every value that arrived is dropped before the failure is reported. A Cancel of the result also
// cancels the pending futures and drops the values, even after the result has settled, as long as
// nobody has taken the slice.
//
// A dropped value is passed to drop. If drop is nil, the value goes to the Source of its future.
// drop is called by the goroutine that settles the last of fs or cancels the result. There drop
// must not block.
//
// If Sources of fs are Dispatchers, the first Dispatcher runs drop and the callbacks of the result.
// In this case the failure may be reported before drop has run.
//
// All owns the futures from the call on: nobody else may take their values, and no future may be
// passed twice.
func All[T any](drop func(T), fs ...*Future[T]) *Future[[]T] {
	if len(fs) == 0 {
		return Ready[[]T](nil, nil)
	}
	a := &all[T]{values: make([]T, len(fs))}
	a.Bind(a)
	a.combine(drop, fs, a.settled)
	return a.Future()
}

// all is shared by the inputs' callbacks. Each callback writes only values[i] and inputs[i].failure
// of its own input. The callback that brings left to zero reads all values and failures. So no
// mutex is needed. A callback could not hold a mutex while cancelling other inputs.
type all[T any] struct {
	Promise[[]T]
	combinator[T]
	values []T
	first  atomic.Int64 // 1 + the input that failed first
}

// settled notes the result of input i.
func (a *all[T]) settled(i int, v T, err error) {
	if err == nil {
		a.values[i] = v
	} else {
		a.inputs[i].failure = err
		if a.first.CompareAndSwap(0, int64(i)+1) {
			a.Cancel()
		}
	}
	if a.left.Add(-1) == 0 {
		a.finish()
	}
}

// finish settles the result once all inputs have settled.
func (a *all[T]) finish() {
	err := a.failures()
	if err == nil && a.Resolve(a.values, nil) {
		return
	}
	a.Drop(a.values)
	a.Resolve(nil, err)
}

// Drop gives back the arrived values.
func (a *all[T]) Drop(values []T) {
	for i, v := range values {
		if in := a.inputs[i]; in.failure == nil {
			in.giveBack(v, a.drop)
		}
	}
}

// failures joins the errors of the inputs. failures leaves out the inputs cancelled because of the
// first failure.
func (a *all[T]) failures() error {
	first := int(a.first.Load()) - 1
	if first < 0 {
		return nil
	}
	var errs []error
	for i, in := range a.inputs {
		if i == first || !errors.Is(in.failure, ErrCanceled) {
			errs = append(errs, in.failure)
		}
	}
	return errors.Join(errs...)
}

// A combinator is the common part of all and anyOf.
type combinator[T any] struct {
	inputs []input[T]
	left   atomic.Int64 // inputs that have not settled, or for anyOf, not failed
	drop   func(T)
	to     Dispatcher // the first Dispatcher of an input, or nil
}

// combine makes settled get the result of each of fs. combine copies the list, so the caller may
// use fs again.
func (c *combinator[T]) combine(drop func(T), fs []*Future[T], settled func(i int, v T, err error)) {
	c.inputs = make([]input[T], len(fs))
	for i, f := range fs {
		c.inputs[i].Future = f
		if c.to == nil {
			c.to = f.dispatcher()
		}
	}
	c.drop = dispatched(c.to, drop)
	c.left.Store(int64(len(fs)))
	for i := range c.inputs {
		c.inputs[i].onDone(func(v T, err error) { settled(i, v, err) }, true)
	}
}

// dispatcher returns the Dispatcher of an input. The result settles on a goroutine that settles an
// input, so the result's callbacks must not run there either.
func (c *combinator[T]) dispatcher() Dispatcher { return c.to }

// Cancel cancels the pending inputs. Their callbacks run before Cancel returns. Arrived values are
// left to the callbacks. A Cancel of the pending result calls Cancel, too.
func (c *combinator[T]) Cancel() {
	for i := range c.inputs {
		c.inputs[i].cancelPending()
	}
}

// An input is a future of a combinator.
type input[T any] struct {
	*Future[T]
	failure error // why it has no value, or nil
}

// giveBack drops a value taken from an input.
func (in input[T]) giveBack(v T, drop func(T)) {
	switch {
	case drop != nil:
		drop(v)
	case in.source != nil:
		in.source.Drop(v)
	}
}
