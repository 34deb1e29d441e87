// Package futures provides one-shot results. A writer resolves a Promise, and readers read the
// result from its Future.
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
// A future is settled when it has left pending. Done is closed then, and the callbacks run or are
// dispatched. If callbacks are waiting, a value goes to the callbacks at once, and the future goes
// from pending to taken.
//
// # Contract
//
// A value has a single keeper, who must give the value back in the end:
//
//   - The writer keeps the value until Resolve reports true. If Resolve reports false, no reader
//     has seen the value or ever will.
//   - The future keeps the value from then on. Cancel passes the value to the Source's Drop.
//   - A reader keeps the value after taking it. Result and Await take the value on return. A
//     callback registered before the future settles takes the value when the future settles, even
//     if the callback runs later. Done does not take the value.
//
// If several goroutines cancel and take at the same time, one side wins: either every reader gets
// the value and no Cancel reports true, or a single Cancel reports true and every reader gets
// ErrCanceled. So a reader that has not taken the value can call Cancel and forget the future,
// whatever Cancel reports.
//
// Any number of readers may read a future, any number of times. All get the same result. As long as
// nobody has taken the value, any reader can cancel the future, for all readers. Readers that share
// a future must agree who gives the value back. To stop waiting without cancelling, select on Done.
//
// Await returns the error of its context only if Await has cancelled the future before there was a
// result.
//
// The writer decides what the result is. A reader decides only whether the result is wanted. The
// work of a cancelled future may have happened all the same: Source.Cancel only asks to stop or
// undo the work.
//
// # Who runs what
//
// The package starts no goroutine. Callbacks run oldest first, after Done is closed. If the Source
// of a future is a Dispatcher, the Dispatcher runs the callbacks, whichever goroutine settles the
// future. The Dispatcher decides where callbacks run and whether callbacks may block. Without a
// Dispatcher, callbacks run on the goroutine that settles the future. There callbacks must not
// block, because other work may wait for the goroutine. A callback registered after the future has
// settled runs at once, on the goroutine that registers the callback, possibly before older
// callbacks.
//
// The Source's Cancel and Drop run on the goroutine that cancels. Cancel runs after the callbacks
// have run or were dispatched. No mutex is held, so callbacks, Cancel and Drop may use any future.
//
// All and Any are notified on the goroutines that settle their inputs, not by a Dispatcher, so
// their results do not wait for callbacks of users. The callbacks of the result, and the drop
// function, go to the first Dispatcher among the inputs' Sources.
//
// # Cost
//
// A Future of a pointer or a number has 72 bytes. A Future is meant to be part of the struct of its
// request. A channel is made only when Done is called, or Await waits, before there is a result.
// Result and OnDone need no channel. Taking a value is a compare-and-swap. Only a future with
// callbacks uses a Dispatcher, once for all callbacks.
//
// All and Any allocate a little for each input.
package futures
