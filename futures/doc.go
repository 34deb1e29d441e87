// Package futures provides results that come later. A result is written to a
// Promise and read from its Future.
//
//	                                     Result, Await, OnDone
//	          Resolve(v, nil)           ┌──────────────────────▶ taken: v, for good
//	         ┌──────────────▶ offered ──┤
//	         │                 (v)      └──────────────────────▶ canceled: ErrCanceled
//	         │                           Cancel ─▶ Source.Drop(v)
//	pending ─┤
//	         │ Resolve(_, err)
//	         ├──────────────▶ failed: err, for good
//	         │
//	         │ Cancel, or Await when its context ends
//	         └──────────────▶ canceled: ErrCanceled
//	           ─▶ Source.Cancel()
//
// A future is settled when it has left pending: Done is closed, and callbacks run
// or are dispatched. A value that meets waiting callbacks goes to them, past
// offered.
//
// # Contract
//
// A value has exactly one keeper, who must give it back in the end:
//
//   - The writer, until Resolve reports true. If Resolve reports false, no reader
//     has seen the value or ever will.
//   - The future, from then on. Cancel gives the value to the Source's Drop.
//   - The reader that takes it: by a Result or an Await that returns it, or by a
//     callback of OnDone. A callback that was registered before takes the value
//     as the future settles, even if it runs later. Done takes nothing.
//
// If several goroutines cancel and take at the same time, exactly one side wins:
// either every reader gets the value and no Cancel reports true, or one Cancel
// reports true and every reader gets ErrCanceled. A reader that has not taken the
// value can therefore leave by Cancel and forget the future, whatever Cancel
// reports.
//
// Any number of readers may read a future, any number of times. All get the
// same result, and any of them can cancel it for all, as long as nobody has
// taken it. Readers that share a future agree among themselves which of them
// gives the value back. To stop waiting without cancelling, select on Done.
//
// Await returns the error of its context only if it has cancelled the future
// before there was a result.
//
// The writer decides what the result is, a reader only whether it is wanted. A
// cancelled future does not mean that the work did not happen or is undone:
// Source.Cancel only asks for that.
//
// # Who runs what
//
// There are no goroutines here. Callbacks run oldest first, after Done is
// closed. A future whose Source is a Dispatcher gives them to it, whichever
// goroutine settles the future. The Dispatcher decides where they run and
// whether they may block. Other callbacks run on the goroutine that settles the
// future. They must not block, since other work may wait for that goroutine. A
// callback that is registered when the future is settled runs at once on the
// goroutine that registers it, possibly before older ones.
//
// The Source's Cancel and Drop run on the goroutine that cancels, Cancel after
// the callbacks have run or were dispatched. No mutex is held, so all of them
// may use this or any other future.
//
// All and Any are notified on the goroutines that settle their inputs, not by a
// Dispatcher: their results do not wait for callbacks. The callbacks of the result,
// and the drop function, go to the first Dispatcher among the inputs' Sources.
//
// # Cost
//
// A Future of a pointer or a number has 72 bytes, and is meant to be part of
// the struct of its request. A channel is made when someone calls Done, or
// waits in Await, before there is a result; a future that is only polled,
// called back, or read later, never has one. Taking a value is one
// compare-and-swap. Only a future with callbacks uses a Dispatcher, once for
// all of them.
//
// All and Any allocate a little for each input. They give back what they do not
// return.
package futures
