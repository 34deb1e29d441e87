// Package explore goes through every schedule of a small world: two managers
// with the real core, the model of the server, one name, up to three requests.
// Package sim draws schedules of large worlds at random. This package tries all
// schedules, and finds the shortest path to a violation.
//
//	scene.go   requests and bounds                      scenes.go  the scenes of go test
//	world.go   a state, and what a script or an effect does to it
//	choice.go  what can happen next, and the fair schedule
//	check.go   the invariants
//	fold.go    digests: which states are the same       copy.go    deep copies
//	search.go  the search, liveness, replay             set.go     the digests of the states found
//	trace.go   events and effects as text
//
// # A state
//
// A state is two machines, the server, the requests, and everything under way:
// commands and replies, SUBSCRIBE and UNSUBSCRIBE, confirmations and messages.
// In each state there are these choices, as far as the bounds allow:
//
//	a request       is made, cancelled, its lock unlocked
//	a command       runs, is refused for now or for good, is given up by its manager
//	a late command  runs, at any time after it was given up, or never
//	a reply         arrives, arrives and will come again, is lost
//	a message       arrives, arrives and will come again, is lost; its connection is lost
//	a manager       does what is due, is closed
//	the record      is removed by force
//	time            passes
//
// Time passes in one step to the next instant that matters: one for which a manager
// asks, the time-out of a command, or the end of the record. While a command, a
// message or a Tick is under way, time passes only as a fault (slow, pause). It never
// passes a time-out before the command has ended. All clocks show the same time.
//
// # What is folded
//
// States with equal digests count as one state. A digest is made by reflection over
// all fields of the core, so it needs no change for new or renamed fields. In it
//
//   - the managers have no names, so that two states are one if they differ by an
//     exchange of the managers;
//   - numbers of holds are renamed by their order of appearance, IDs of scripts
//     by their rank, tokens count from the server's counter;
//   - instants count from now, and lengths of time are rounded to powers of two;
//     all instants more than five seconds ago are equal;
//   - counters, pools and the generator of jitter are left out, and the pace of
//     renewals, which matters only to more than sixteen leases.
//
// Because of rounding and jitter, the search may miss a state that differs in
// lengths of time only. It never reports a state that cannot be: each path that is
// reported is a run of the real core, and is made again before it is reported.
//
// A state that has the digest of another by accident is missed, too. A digest has 128
// bits. If it is as good as a random number, the probability that this happens at all
// among 10⁷ states is below 10⁻²⁴.
//
// # Memory
//
// The search goes through the states level by level: those that are one choice away
// from the first state, then those that are two choices away, and so on. It keeps
// about 40 bytes of a state: the digest, the state before it, the choice that leads
// from there. It keeps the worlds of the newest level only, and only if there are at
// most 20,000. It makes the worlds of a larger level again, by the choices that lead
// there. This doubles the time.
//
// # The bounds
//
// Bounds.Faults is the most faults in a path, Bounds.Each the most of each kind.
// Bounds.Detours is the most choices that are not what the fair schedule does
// next. With d detours and no other bound on depth, the search follows all schedules
// that differ from the fair one at d places to their end, with the requests made at
// all times. Without a bound on detours it follows all schedules.
//
// A search is whole if it ended because there were no new states. Otherwise
// Bounds.States or Bounds.Depth has ended it, and only the fair schedule is run from
// the states that were not expanded.
//
// # Invariants
//
// In every state, or at every choice that they are about:
//
//	mutual exclusion                  one hold is valid at most
//	until the record ends             a valid hold rests on a record of its manager, which lasts longer
//	a record is no longer than its lease
//	                                  unless something went wrong
//	until the lease ends, a grant is valid, lost in time, lost too soon, lost once, extended
//	tokens                            rise in the order of the grants, over both managers
//	order                             waiters of a manager are served in their order
//	one answer                        for each request and each Unlock
//	a loss is told                    also one that an Unlock finds
//	a number is used once             as an owner, and never after a command that removes it
//	an acquire asks for Lease at most
//	own record known                  a manager is not refused because of a record that it
//	                                  left behind itself
//	a late command costs at most Lease
//	removed, not left to expire       a manager's record that no caller holds
//	no lost wake-up                   a free lock is taken soon by those who wait
//	a message is looked into          a lock that was removed by force is not passed on before a
//	                                  command has found the record
//	one script in flight, bounded work, subscriptions, close, re-entry, panic
//
// From every state the fair schedule is run, in which nothing more goes wrong:
// everything under way arrives, callers unlock, time passes only when nothing else is
// left to do, commands that were given up never run. It must come to an end (nobody
// waits for ever), with every request answered and no name, alarm, subscription or
// record left (nothing left). Its choices are choices of the search, too, so most of
// this costs one number for each state.
//
// # What it does not do
//
// There is one name, so there are no deadlocks and no batches. Package sim has clocks
// that differ, a stale clock of the server, crashes, other losses of data than by
// force, and servers that fail for RetryTime. Its package turns measures how processes
// share a lock.
//
// # Running it
//
//	go test ./lockmgr/internal/explore                                   a part of each scene
//	HOLDFAST_THOROUGH=1 go test ./lockmgr/internal/explore               all scenes, ten seconds
//	go test ./lockmgr/internal/explore -v -run Scenes/three -detours 4   more schedules: two minutes
//	go test ./lockmgr/internal/explore -v -run Scenes/three -detours 7 -timeout 0
//	                                                                     15,087,957 states: 13 minutes of one core, 2.1 GB
//	go test ./lockmgr/internal/explore -v -run 'Scenes/two_m' -detours 0 no bound on detours
//	go test ./lockmgr/internal/explore -v -faults 2 -states 10000000 -timeout 0
//	go test ./lockmgr/internal/explore -v -run Scenes/one_m -path '0.0.0 4.0.0'  one path, with all events
package explore
