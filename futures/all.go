package futures

import (
	"errors"
	"sync/atomic"
)

// All returns a future that settles when every one of fs has settled: with the values in the order of fs (zero for one that failed), and with
// the errors joined in the same order. All of none settles at once.
//
// The first failure cancels what is still pending; the ErrCanceled that come of it are left out of the joined error. Values that arrived are
// in the slice even if there is an error, so that the caller can give them back. Cancelling the result cancels what is pending as well;
// nobody sees the values then, and each that arrived before or in spite of it goes to drop, unless that is nil.
//
// The futures are All's from here on: nobody else is to take their values, and none is to be passed twice. drop is called by whoever
// settles the last of fs, and must not block.
func All[T any](drop func(T), fs ...*Future[T]) *Future[[]T] {
	if len(fs) == 0 {
		return Ready[[]T](nil, nil)
	}
	a := &all[T]{
		inputs: copyInputs(fs),
		values: make([]T, len(fs)),
		drop:   drop,
	}
	a.left.Store(int64(len(fs)))
	a.Bind(a)
	for i := range a.inputs {
		a.inputs[i].OnDone(func(v T, err error) { a.settled(i, v, err) })
	}
	return a.Future()
}

// all is what the inputs' callbacks share. Each writes values[i] and inputs[i].failure of its own input only; the one that brings left to
// zero reads them all. So there is no lock, which a callback could not hold anyway while it cancels other inputs.
type all[T any] struct {
	Promise[[]T]
	inputs inputs[T]
	values []T
	left   atomic.Int64
	first  atomic.Int64 // 1 + the input that failed first
	drop   func(T)
}

func (a *all[T]) settled(i int, v T, err error) {
	if err == nil {
		a.values[i] = v
	} else {
		a.inputs[i].failure = err
		if a.first.CompareAndSwap(0, int64(i)+1) {
			a.inputs.cancel()
		}
	}
	if a.left.Add(-1) == 0 {
		a.finish()
	}
}

func (a *all[T]) finish() {
	if a.Resolve(a.values, a.failures()) || a.drop == nil {
		return
	}
	for i, v := range a.values {
		if a.inputs[i].failure == nil {
			a.drop(v)
		}
	}
}

// failures joins what went wrong. Once one input has failed, that others were cancelled says nothing any more.
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

// Cancel is called when the result is cancelled.
func (a *all[T]) Cancel() { a.inputs.cancel() }

// inputs are the futures that a combinator waits for.
type inputs[T any] []input[T]

type input[T any] struct {
	*Future[T]
	failure error // why it has no value
}

// copyInputs copies the list, so that the caller may use its slice again.
func copyInputs[T any](fs []*Future[T]) inputs[T] {
	in := make(inputs[T], len(fs))
	for i, f := range fs {
		in[i].Future = f
	}
	return in
}

// cancel cancels what is pending. The callbacks of these inputs run before it returns.
func (in inputs[T]) cancel() {
	for i := range in {
		in[i].Cancel()
	}
}
