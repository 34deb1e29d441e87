// Package core holds the rules of a lock as a state machine that does nothing
// by itself.
//
//	step(state, event, now) → effects
//
// There is no I/O, clock, goroutine, channel or context in it. Events are
// callers' requests, replies, wake-ups and the passing of time; effects are
// scripts to run, futures to settle, channels to subscribe to. The shell
// around it, package lockmgr, only moves them. So a schedule is a list of
// events, millions of which can be tried by seed, and every one of them again.
//
// # Who is authoritative
//
// Redis says who owns a name: a record (a hash at the key, one field for the
// owner, with a TTL). The machine says which of its callers that is, how often
// it re-entered, and who is next. Between the two stands trust: until an
// instant that counts from the send of the last confirmed script, the record
// is ours; after it, nobody may be told that they hold the lock.
//
//	until = sent + lease − 1 % − margin
//
// Only a confirmed script moves it, only forward, and no script ever shortens
// the life of a record, so one that runs late can't undermine it.
//
// # The states of a name
//
//	           request                 refused, no message
//	 idle ───────────────▶ asking ──────────────────────▶ waiting
//	  ▲                    │   ▲                             │
//	  │             granted│   └─────────────────────────────┘
//	  │                    ▼        message, confirmation, poll
//	  │   unlock,       ┌─ held ◀───────────┐
//	  │   nobody waits  │   │ unlock,       │ at once, or when a
//	  │                 │   ▼ others wait   │ transfer was answered
//	  │                 │  passing ─────────┘
//	  │                 ▼   │ the run is over
//	  └──── releasing ◀─────┘
//	gone, or confirmed
//
// Losing the record leads from held and passing to asking if somebody waits
// here, else to idle. A name that is idle is forgotten, once its subscription
// has lingered and its suspects (below) are cleared up.
//
// # One script in flight
//
// At most one script is in flight for each name, so scripts need no order
// beside that. Whatever can't wait for its answer does not: a lock passes from
// holder to holder in memory while the transfer that records it is under way,
// and only the newest holder is recorded next.
//
// # Unknown outcomes
//
// A command without an answer may have run, may run later, or never. The
// owners it named become suspects for a time: every script of the name lists
// them, as owners that the record may carry, so a stray record is taken over
// by the next acquire or removed by the next release, whichever comes first.
// Nobody else is recorded under a suspect's number. A record that was removed
// at an unknown time is never passed on.
//
//	command    may have run, no answer       then
//	acquire    the record may be ours        ask again, naming it; nobody left: release
//	transfer   it carries the old or new     holder stays; transfer again, naming both
//	renew      it may live longer            deadline stays; renew again next slot
//	release    it may be gone                release again until confirmed or expired
//
// # Fairness
//
// Waiters of one manager are served in order. Managers take turns: a run of
// grants in one manager is bounded by number and time, unless it is known that
// nobody else waits, and ends with a release and a pause in which the others are
// first. How many wait is what scripts report of the channel's subscribers. As
// these need not wait, each manager finds out how many runs of others it has to
// let go by before its own turn.
//
// # Failures
//
//	all stand back        each for its own time, 10 ms at most
//	message lost          the poll: one timer a name, at the TTL that the refusal told
//	subscription lost     polls come closer; its confirmation is a wake-up
//	renewal refused       the hold is lost at once
//	renewal unanswered    tried again until the deadline, then lost
//	grant too late        not handed out: it counts as a failed try
//	grant unwanted        goes to the next waiter, or is released
//	server failing        those who wait are told after Config.RetryTime
package core
