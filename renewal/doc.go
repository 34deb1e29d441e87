// Package renewal says which leases are due for renewal at which instant.
//
// # Why not a timer for each lease
//
// A tick is a third of a lease. A lease is renewed once a tick. Most locks are
// released long before their first tick: the Map then only adds an item and
// removes it again. So adding and removing must cost next to nothing. In
// exchange, a renewal may be sent up to an eighth of a tick late. Leases that are
// due at about the same time then come out together, and can be renewed by one
// command.
//
// # Contract
//
// Time is divided into slots of an eighth of a tick. The ends of slots are called
// boundaries. They are the multiples of a slot's length. Items come out only at
// boundaries.
//
//	 sent                                due = sent + tick     comes out
//	  │                                          │             │
//	──┴──┬───────┬───────┬───────┬─ ... ─┬───────┴─────┬───────┬───┴──▶ instants
//	     │◀─slot▶│                                             ▲ boundary
//
// Due returns an item at the first boundary at or after the instant for which it
// was scheduled: never earlier, and less than a slot later, or at the next call of
// Due. A lease is scheduled for one tick after the send of the command from which
// its TTL counts. A slot is a 24th of the lease, so the first renewal is sent when
// between 8/24 and 9/24 of the lease have passed. An item that is already due comes
// out at the next boundary. So a failed renewal is tried again a slot later, ten
// times or more before the lease can end.
//
// Due removes the items that it returns. The caller schedules a lease again when
// its renewal was answered. Until then the lease is not in the Map, so no second
// renewal of the same lease is sent meanwhile.
//
// # What a Map does not know
//
// A Map does not know the deadline up to which a lease is trusted. The deadline
// counts from the last confirmed renewal, and the Map's caller watches it. If Due
// is called too late, because the process was suspended, it returns everything
// that was due meanwhile, once. The Map does not know that some of these leases
// are lost.
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
//	              -       ●       -               ●        ●: it has items
//	                      │                       │        outside: the rest
//	                      ▼                       ▼            │
//	                     a b c                    d            ▼
//	                                                           e
//
// Each boundary in the window has a bit, which is set while it has items, and a
// list of its items, in the order in which they were scheduled. Next returns the
// first boundary whose bit is set. All nodes of all lists are in one slice, and an
// Entry is an index into it. So an item is added, removed and moved in constant
// time, without a search. In the steady state nothing is allocated. The slice has
// room for the largest number of items that the Map has had. It is made small again
// when the Map is empty, if far fewer items were in it since it was last empty.
//
// The window moves on as boundaries pass. The items outside of it are in one more
// list. When the first of them is due, all of them are looked at. That is correct
// for any number of items, and fast for few.
package renewal
