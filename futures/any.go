package futures

import (
	"errors"
	"sync/atomic"
)

// ErrNone is the error of Any without a future to wait for.
var ErrNone = errors.New("futures: any of none")

// Any returns a future that settles with the value of the first of fs that succeeds. If all of fs
// fail, the future fails with their errors joined in the order of fs. Without any fs the future
// fails with ErrNone at once.
//
// The first success cancels the pending futures. A value that arrives nevertheless is dropped. A
// Cancel of the result drops every value, even after the result has settled, as long as nobody has
// taken the value.
//
// A dropped value is passed to drop. If drop is nil, the value goes to the Source of its future.
// drop is called by the goroutine that settles a future with a surplus value or cancels the result.
// There drop must not block.
//
// If Sources of fs are Dispatchers, the first Dispatcher runs drop and the callbacks of the result.
//
// Any owns the futures from the call on: nobody else may take their values, and no future may be
// passed twice.
func Any[T any](drop func(T), fs ...*Future[T]) *Future[T] {
	if len(fs) == 0 {
		var zero T
		return Ready(zero, ErrNone)
	}
	a := new(anyOf[T])
	a.Bind(a)
	a.combine(drop, fs, a.settled)
	return a.Future()
}

// anyOf is shared by the inputs' callbacks, without a mutex: see all.
type anyOf[T any] struct {
	Promise[T]
	combinator[T]
	winner atomic.Int64 // 1 + the input whose value is the result
}

// settled notes the result of input i.
func (a *anyOf[T]) settled(i int, v T, err error) {
	switch {
	case err != nil:
		a.inputs[i].failure = err
		if a.left.Add(-1) == 0 {
			a.fail()
		}
	case a.winner.CompareAndSwap(0, int64(i)+1) && a.Resolve(v, nil):
		a.Cancel()
	default:
		a.inputs[i].giveBack(v, a.drop)
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

// Drop gives back the value of the result.
func (a *anyOf[T]) Drop(v T) { a.inputs[a.winner.Load()-1].giveBack(v, a.drop) }
