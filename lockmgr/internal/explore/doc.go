// Package explore goes through every schedule of a small world: two managers
// with the real core, the model of the server, one name, up to three requests.
// Package sim draws schedules by seed from large worlds. This package leaves
// nothing to chance, and finds the shortest path to what it finds.
//
//	scene.go   who wants the lock, and the bounds       scenes.go  those of go test
//	world.go   a state, and what a script or an effect does to it
//	choice.go  what can happen next, and the fair schedule
//	check.go   the invariants
//	fold.go    which states are the same                copy.go    deep copies
//	search.go  the search, liveness, replay             trace.go   events and effects in words
//
// # A state
//
// A state is two machines, the server, the requests, and what is under way:
// commands and replies, SUBSCRIBE and UNSUBSCRIBE, confirmations and messages.
// In each state these choices are there, as far as the bounds allow:
//
//	a request       is made, cancelled, given back
//	a command       runs, is refused for now or for good, is given up by its manager
//	a late command  runs, at any time after it was given up, or never
//	a reply         arrives, arrives and will come again, is lost
//	a message       arrives, arrives and will come again, is lost; its connection is lost
//	a manager       does what is due, is closed
//	the record      is removed by force
//	time            passes
//
// Time has no steps of its own. It passes to the next instant that matters: that
// for which a manager asks, the time-out of a command, the end of the record. It
// passes over nothing: while a command, a message or a Tick waits, it passes only
// as a fault (slow, pause), and never over a time-out. All clocks show the same.
//
// # What is folded
//
// States with equal digests are one. A digest is made by reflection over all
// fields of the core, so it survives new and renamed fields. In it
//
//   - the managers have no names: two that have changed places are one state;
//   - numbers of holds are renamed by their order of appearance, IDs of scripts
//     by their rank, tokens count from the server's counter;
//   - instants count from now, and lengths of time are rounded to powers of two;
//     what is past for more than five seconds has been so for ever;
//   - counters, pools and the generator of jitter are left out.
//
// Rounding and jitter make this fold a coarse one: it may hide a state that
// differs in lengths of time only. It never invents one. Each path that is
// reported is a run of the real core, and is made again before it is reported.
//
// # The bounds
//
// Bounds.Faults is the most faults in a path, Bounds.Each the most of each kind.
// Bounds.Detours is the most choices that are not what the fair schedule does
// next. With d detours and no other bound on depth, all schedules that differ
// from the fair one at d places are walked to their end, with the requests made
// at all times. Without a bound on detours, all schedules are.
//
// A search is whole if it ended because there was nothing new. Otherwise
// Bounds.States or Bounds.Depth has ended it, and the states on its edge are
// only followed by the fair schedule.
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
//	order                             waiters of a manager are served as they came
//	one answer                        for each request and each Unlock
//	a number is used once             as an owner, and never after a command that removes it
//	an acquire asks for Lease at most
//	own record known                  a manager is not kept out by what it left behind itself
//	a late command costs at most Lease
//	removed, not left to expire       a record of ours that nobody holds
//	no lost wake-up                   a free lock is taken soon by those who wait
//	a message is looked into          a lock that was removed by force is not passed on before a
//	                                  command has found the record
//	one script in flight, bounded work, subscriptions, close, re-entry, panic
//
// From every state the fair schedule is run, in which nothing more goes wrong:
// what is under way arrives, callers give back what they hold, time passes only
// when nothing else is left to do, commands that were given up never run. It must
// come to an end (nobody waits for ever), with every request answered and no
// name, alarm, subscription or record left (nothing left). Its choices are
// choices of the search too, so most of this costs one number a state.
//
// # What it does not do
//
// One name, so no deadlocks and no batches. No clocks that differ, no stale
// clock of the server, no crash, no loss of data but by force, no server that
// fails for RetryTime, and no shares of several processes in many turns: these
// are package sim's.
//
// # Running it
//
//	go test ./lockmgr/internal/explore                                   all scenes, ten seconds
//	go test ./lockmgr/internal/explore -v -run Scenes/three -detours 4   further: minutes
//	go test ./lockmgr/internal/explore -v -run 'Scenes/two_m' -detours 0 no bound on detours
//	go test ./lockmgr/internal/explore -v -faults 2 -states 10000000 -timeout 0
//	go test ./lockmgr/internal/explore -v -run Scenes/one_m -path '0.0.0 4.0.0'  one path, told in full
package explore
