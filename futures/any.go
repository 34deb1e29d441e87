package futures

import (
	"errors"
	"sync/atomic"
)

// ErrNone is the result of Any without a future to wait for.
var ErrNone = errors.New("futures: any of none")

// Any returns a future that settles with the first of fs to succeed, or, once all have failed, with their errors joined in the order of fs.
// Any of none fails with ErrNone at once.
//
// The first success cancels what is still pending, and so does cancelling the result. A value that arrives in spite of that goes to
// drop, unless that is nil: it came second, or the result had been cancelled.
//
// The futures are Any's from here on: nobody else is to take their values, and none is to be passed twice. drop is called by whoever
// settles the future with the surplus value, and must not block.
func Any[T any](drop func(T), fs ...*Future[T]) *Future[T] {
	if len(fs) == 0 {
		var zero T
		return Ready(zero, ErrNone)
	}
	a := &anyOf[T]{
		inputs: copyInputs(fs),
		drop:   drop,
	}
	a.left.Store(int64(len(fs)))
	a.Bind(a)
	for i := range a.inputs {
		a.inputs[i].OnDone(func(v T, err error) { a.settled(i, v, err) })
	}
	return a.Future()
}

// anyOf is what the inputs' callbacks share, without a lock: see all.
type anyOf[T any] struct {
	Promise[T]
	inputs inputs[T]
	left   atomic.Int64 // inputs that have not failed
	drop   func(T)
}

func (a *anyOf[T]) settled(i int, v T, err error) {
	switch {
	case err != nil:
		a.inputs[i].failure = err
		if a.left.Add(-1) == 0 {
			a.fail()
		}
	case a.Resolve(v, nil):
		a.inputs.cancel()
	case a.drop != nil:
		a.drop(v)
	}
}

func (a *anyOf[T]) fail() {
	errs := make([]error, len(a.inputs))
	for i, in := range a.inputs {
		errs[i] = in.failure
	}
	var zero T
	a.Resolve(zero, errors.Join(errs...))
}

// Cancel is called when the result is cancelled.
func (a *anyOf[T]) Cancel() { a.inputs.cancel() }
