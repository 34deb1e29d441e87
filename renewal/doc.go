// Package renewal says which leases are due for renewal when, and how those that are due become batches.
//
// # Why not a timer for each lease
//
// A lease that is held for long is renewed once a tick, a third of its time to live. Most leases never live that long: the lock is released
// a moment after it was taken, and all that its entry here ever does is to be added and removed again. So these two must cost next to nothing,
// and that they do is worth some slack in when exactly a renewal is sent. The slack makes batches, too: leases that are due about the same
// time are renewed by one request.
//
// # Contract
//
// Time is cut into slots of an eighth of a tick. Slots end at boundaries, the multiples of their length, and items come out at boundaries only.
//
//	 sent                                                      due = sent + tick     comes out
//	  │                                                                │             │
//	──┴──┬───────┬───────┬───────┬───────┬───────┬───────┬───────┬─────┴─┬───────┬───┴──▶ instants
//	     │◀─slot▶│                                                       ▲ boundary
//
// An item comes out of Due at the first boundary at or after the instant that it was scheduled for: never before, and less than a slot after
// (or when Due is called next). The instant to schedule a lease for is one tick after the request was sent from which its time to live counts.
// With slots of a 24th of the lease, its first renewal then leaves when between 8/24 and 9/24 of the lease have passed. An item that is
// due already comes out at the next boundary after now. So a renewal that failed is tried again a slot later, ten times or more before
// the lease can end, without a loop that spins.
//
// Due takes items out. One that shall be renewed again is scheduled again, once the renewal was answered. As long as it was not, it is nowhere in
// the Map, so no second renewal of the same lease is sent meanwhile.
//
// # What is not its business
//
// The deadline up to which a lease may be trusted. It counts from the last renewal that was confirmed, moves whenever one is, and is watched by
// whoever vouches for the lease. A Map that is asked too late, because the process was suspended, gives out everything that was due
// meanwhile, once, and does not know that some of it is lost.
//
// There is no clock, goroutine or lock in here. Instants are durations since an origin that the caller chooses, on a clock that never goes
// back. The same calls always give the same results in the same order.
//
// # How it is built
//
//	       passed         the window: 64 boundaries, eight ticks
//	          ▼
//	... ──────┼───────┬───────┬───────┬─ ... ─┬───────┐
//	              -       ●       -               ●        bits: which boundaries have items; the first one set is Next
//	                      │                       │        outside: a list of all that is due later
//	                      ▼                       ▼            │
//	                     a b c                    d            ▼
//	                                                           e
//
// Each boundary in the window has a list of its items, in the order in which they were scheduled. All nodes of all lists lie in one slice; an Entry
// is an index into it. So an item is added, removed and moved in constant time, without a search, and in the steady state nothing is allocated. The
// slice has room for as many items as there ever were at once; when the Map is empty and had far fewer since it was last, it starts small again.
//
// The window moves on as boundaries pass. Items that it does not reach are looked at when the first of them is due, which is correct for
// any number of them, and quick as long as they are few.
package renewal
