// Package renewal says which leases are due for renewal at which instant.
//
// # Why not a timer for each lease
//
// A lease that is held for long is renewed once a tick, a third of its length.
// Most locks are released long before that, and all that happens here is that an
// item is added and removed again. So adding and removing must cost next to
// nothing. In exchange, a renewal leaves up to an eighth of a tick late. Leases
// that are due about the same time then come out together, and can travel
// together.
//
// # Contract
//
// Time is cut into slots of an eighth of a tick. The ends of slots are called
// boundaries. They are the multiples of a slot's length, and items come out at
// boundaries only.
//
//	 sent                                due = sent + tick     comes out
//	  │                                          │             │
//	──┴──┬───────┬───────┬───────┬─ ... ─┬───────┴─────┬───────┬───┴──▶ instants
//	     │◀─slot▶│                                             ▲ boundary
//
// An item comes out of Due at the first boundary at or after the instant that it
// was scheduled for: never before, and less than a slot after, or when Due is
// called next. A lease is scheduled for one tick after the send of the request
// from which its time to live counts. A slot is a 24th of the lease, so its first
// renewal leaves when between 8/24 and 9/24 of the lease have passed. An item that
// is due already comes out at the next boundary. So a renewal that failed is tried
// again a slot later, ten times or more before the lease can end.
//
// Due takes items out. A lease that shall be renewed again is scheduled again when
// the renewal was answered. Until then the Map does not have it, so no second
// renewal of the same lease is sent meanwhile.
//
// # What a Map does not know
//
// The deadline up to which a lease may be trusted. It counts from the last renewal
// that was confirmed, and its owner watches it. A Map that is asked too late,
// because the process was suspended, gives out everything that was due meanwhile,
// once, and does not know that some of it is lost.
//
// A Map has no clock, goroutine or mutex. Instants are durations since an origin
// that the caller chooses, on a clock that never goes back. The same calls always
// give the same results in the same order.
//
// # How it is built
//
//	       passed         the window: 64 boundaries, eight ticks
//	          ▼
//	... ──────┼───────┬───────┬───────┬─ ... ─┬───────┐
//	              -       ●       -               ●        bits: which boundaries have items
//	                      │                       │        outside: a list of all that is due later
//	                      ▼                       ▼            │
//	                     a b c                    d            ▼
//	                                                           e
//
// Next is the first boundary whose bit is set. Each boundary in the window has a
// list of its items, in the order in which they were scheduled. All nodes of all
// lists lie in one slice, and an Entry is an index into it. So an item is added,
// removed and moved in constant time, without a search. In the steady state
// nothing is allocated. The slice has room for as many items as there ever were at
// once. When the Map is empty and had far fewer since it was last empty, the slice
// is made small again.
//
// The window moves on as boundaries pass. Items beyond it are all looked at when
// the first of them is due. That is correct for any number of them, and quick for
// few.
package renewal
