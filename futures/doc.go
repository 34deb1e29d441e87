// Package futures provides one-shot results. A writer resolves a Promise, and
// readers read the result from its Future.
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
// A future is settled when it has left pending. Then Done is closed, and its
// callbacks run or are dispatched. If callbacks are waiting, a value goes to them
// at once, and the future goes from pending to taken.
//
// # Contract
//
// A value has exactly one keeper, who must give it back in the end:
//
//   - The writer keeps it until Resolve reports true. If Resolve reports false, no
//     reader has seen the value or ever will.
//   - The future keeps it from then on. Cancel passes it to the Source's Drop.
//   - A reader keeps it after taking it. Result and Await take the value when they
//     return it. A callback that is registered before the future settles takes
//     the value when the future settles, even if the callback runs later. Done
//     does not take the value.
//
// If several goroutines cancel and take at the same time, one side wins: either
// every reader gets the value and no Cancel reports true, or one Cancel reports
// true and every reader gets ErrCanceled. So a reader that has not taken the value
// can call Cancel and forget the future, whatever Cancel reports.
//
// Any number of readers may read a future, any number of times. All get the same
// result. As long as nobody has taken the value, any reader can cancel the future,
// for all readers. Readers that share a future must agree which of them gives the
// value back. To stop waiting without cancelling, select on Done.
//
// Await returns the error of its context only if it has cancelled the future before
// there was a result.
//
// The writer decides what the result is. A reader decides only whether it is wanted.
// A cancelled future does not mean that the work did not happen or was undone:
// Source.Cancel only asks for that.
//
// # Who runs what
//
// The package starts no goroutine. Callbacks run oldest first, after Done is closed.
// If the Source of a future is a Dispatcher, the Dispatcher runs the callbacks,
// whichever goroutine settles the future. It decides where they run and whether
// they may block. Without a Dispatcher, callbacks run on the goroutine that settles
// the future. They must not block, because other work may wait for that goroutine. A
// callback that is registered after the future has settled runs at once, on the
// goroutine that registers it, possibly before older callbacks.
//
// The Source's Cancel and Drop run on the goroutine that cancels. Cancel runs after
// the callbacks have run or were dispatched. No mutex is held, so callbacks, Cancel
// and Drop may use this or any other future.
//
// All and Any are notified on the goroutines that settle their inputs, not by a
// Dispatcher, so their results do not wait for other callbacks. The callbacks of the
// result, and the drop function, go to the first Dispatcher among the inputs'
// Sources.
//
// # Cost
//
// A Future of a pointer or a number has 72 bytes. It is meant to be part of the
// struct of its request. A channel is made only when Done is called, or Await waits,
// before there is a result. Result and OnDone need no channel. Taking a value is one
// compare-and-swap. Only a future with callbacks uses a Dispatcher, once for all of
// them.
//
// All and Any allocate a little for each input. They give back every value that
// they do not return.
package futures
