// Package futures has results that come later: a Promise is where one is put, a Future where it is read.
//
//	            Resolve(v, err)
//	          ┌────────────────▶ settled (v, err)
//	pending ──┤                                      either way: Done is closed, callbacks run, nothing changes any more
//	          └────────────────▶ settled (zero, ErrCanceled), and the Canceler is told
//	            Cancel, or Await when its context ends
//
// # Contract
//
// A future is settled once, by whichever of Resolve and Cancel comes first; the other one is told that it came too late. So whatever a value
// stands for is looked after by exactly one side. If Resolve reports false, the value was never seen by a reader and is the writer's to give
// back. If Cancel reports false, there is a result, and the reader has to take it. Await does that by itself: it returns a context's error
// only if its own cancel came first.
//
// A future may be read by many, any number of times. All of them get the same result, and any of them can cancel it for all. To stop waiting
// without cancelling, select on Done.
//
// The writer is authoritative for what the result is, the reader only for whether it is still wanted. That a future was cancelled does not
// mean that what it stood for did not happen or has been undone: the Canceler is the message that starts this.
//
// # Who runs what
//
// There are no goroutines here. Callbacks run on the goroutine that settles the future, oldest first, after Done is closed; then, if it was
// cancelled, the Canceler. No lock is held, so they may use this or any other future. They must not block: the goroutine may be one that
// everybody else waits for. A callback that comes when the future is settled already runs at once on the goroutine that brings it, which may be
// before older ones have had their turn.
//
// # Cost
//
// A Future is 72 bytes for a pointer or a number, and meant to lie inside of what carries the request. A channel is made when someone calls Done,
// or waits in Await, before the result is there; a future that is only polled, called back, or read later, never has one.
//
// All and Any allocate a little for each input, and have no lock: see there for what becomes of values that nobody gets.
package futures
