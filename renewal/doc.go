// Package renewal says which leases are due for renewal at which instant.
//
// # Why not a timer for each lease
//
// A tick is a third of a lease. A lease is renewed once a tick. Most locks are released long before
// their first tick: the Map only adds and removes an item. So adding and removing must cost next to
// nothing. In exchange, a renewal may be sent up to an eighth of a tick late. Leases due at about
// the same time come out together, and a single command can renew all of them.
//
// # Contract
//
// Time is divided into slots of an eighth of a tick. The ends of slots are called boundaries.
// Boundaries are the multiples of a slot's length. Items come out only at boundaries.
//
//	 sent                                due = sent + tick     comes out
//	  │                                          │             │
//	──┴──┬───────┬───────┬───────┬─ ... ─┬───────┴─────┬───────┬───┴──▶ instants
//	     │◀─slot▶│                                             ▲ boundary
//
// Due returns an item at the first boundary at or after the scheduled instant: never earlier, and
// less than a slot later, or at the next call of Due. A lease is scheduled for a tick after the
// send of the command from which the lease's TTL counts. A slot is a 24th of the lease, so the
// first renewal is sent when between 8/24 and 9/24 of the lease have passed. An overdue item comes
// out at the next boundary. So a failed renewal is tried again a slot later, ten times or more
// before the lease can end.
//
// Due removes the returned items. The caller schedules a lease again when the renewal was answered.
// Meanwhile the lease is not in the Map, so no second renewal of the same lease is sent.
//
// # What a Map does not know
//
// A Map does not know the deadline up to which a lease is trusted. The deadline counts from the
// last confirmed renewal, and the Map's caller watches it. If Due is called too late, because the
// process was suspended, Due returns everything due meanwhile, once. The Map does not know of lost
// leases.
//
// A Map has no clock, goroutine or mutex. Instants are durations since an origin that the caller
// chooses, on a clock that never goes back. The same calls always give the same results in the same
// order.
//
// # How it is built
//
//	       passed         the window: 64 boundaries, eight ticks
//	          ▼
//	... ──────┼───────┬───────┬───────┬─ ... ─┬───────┐
//	              -       ●       -               ●        ●: it has items
//	                      │                       │        outside: the rest
//	                      ▼                       ▼            │
//	                     a b c                    d            ▼
//	                                                           e
//
// Each boundary in the window has a list of items, in the order of scheduling, and a bit, set while
// the list has items. Next returns the first boundary whose bit is set. All nodes of all lists are
// in a single slice, and an Entry is an index into the slice. So an item is added, removed and
// moved in constant time, without a search. In the steady state nothing is allocated. The slice has
// room for the largest number of items that the Map has had. An empty Map makes the slice small
// again, if the Map had far fewer items since it was last empty.
//
// The window moves on as boundaries pass. The items outside of the window are in a further list.
// When the first item outside is due, the Map looks at all items outside, at a cost that suits few
// items.
package renewal
