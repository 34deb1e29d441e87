// Package clientsim simulates the whole client by seed: real managers, with
// their lanes, notify hubs and client library, in the fake time of
// testing/synctest. The seed decides what callers do and what goes wrong. It
// holds tests only.
//
// Package sim below lockmgr simulates the core alone. That is a hundred times
// faster and repeats a run exactly, but it does not cover batches, time-outs,
// connections, futures, callbacks and Close. This package does.
//
// # The picture
//
//	callers ──▶ lockmgr.Manager ──▶ rueidis ──▶ host, connections ──▶ server
//	caller_test   real              real        network_test          server_test, keys_test
//	   │                                          ▲                   lua_test: the real scripts
//	   │ asks, answers, holds                     │ late, cut …          ▲ stops, refuses …
//	   ▼                                          └──── fault_test ──────┘
//	 book_test, watch_test: the invariants ◀──────────── troubles and excuses
//
// These are real: lockmgr, notify, futures, actor, the client library, and the
// text of the scripts, which run in a Lua interpreter. Callers use only the
// public API of lockmgr.
//
// These are models: the network and the server. The server runs one command at
// a time and needs no time for it. It knows RESP3, the commands that the
// scripts use, pub/sub, access rules for single keys, and nothing else. A
// script that uses another command gets an error that says so: add the command
// in keys_test.go. Time is that of the synctest bubble, so all clocks agree and
// computing costs no time. So quadratic run time or a growing use of memory is
// not found here.
//
// # What happens
//
// A world has two to four managers, one to nine names and half a minute to
// four minutes of life with bursts of requests. Each seed has a few kinds of
// happenings, listed in settings_test.go. Among those that go wrong:
//
//	late         the bytes of one connection to the server are held back; the client
//	             gives up the connection and tries again on another; then they arrive
//	stall, cut, partition, refuse, restart
//	             connections stand still, break, reach nothing, are refused
//	stop         the server does not run, and then runs all commands that it was sent
//	crowd        it stops just before hundreds or thousands of names are asked for
//	noperm, badkey, badcounter, foreign
//	             one name is forbidden, no lock, has a bad token counter, is taken as
//	             another kind of lock
//	nosubscribe, far
//	             one host may not subscribe, or has a round trip of more than half
//	             of a command's time-out
//	slowlog, slowobserver, slowcallback
//	             code of the user blocks for a while
//	closing, shared
//	             Close at any moment, with contexts that end soon; two managers on
//	             one client whose pool has one connection
//
// Callers lock, try, wait for a time, cancel, cancel right after the grant
// without a look at the future, use All and Any, named and adopted owners,
// re-entry, circles of two owners, fixed leases of 10 ms to a day, tokens and
// forced unlocks.
//
// # Invariants
//
//	mutual exclusion               no two locks of a name are valid at one instant
//	a valid lock is recorded       by a field of its manager, for at least as long
//	tokens rise                    over all managers
//	lost in time                   Lost is closed soon after the end of validity, never before
//	lost for a reason              a fixed lease, a fault, a forced unlock, Close
//	who hears of a loss looks      a subscribed manager notices a forced unlock at once
//	no orphans                     a record that no caller has ends within Options.Lease
//	nothing left                   at the end: no record, subscription, connection
//	goroutines                     nor any goroutine
//	told in time                   RetryTime plus CommandTimeout after the server fell silent
//	gives up in time               MaxWait and contexts are kept
//	errors tell the truth          each error is what has happened to this name and host
//	trouble stays where it is      a free name is granted at once, whatever happens to others
//	a free lock is taken           soon, if somebody waits for it
//	first come first served        within a manager
//	nobody starves                 no manager waits while others are granted a name 100 times
//	who waits is subscribed        after a while, unless it may not
//	nobody waits for ever          once faults and requests have ended
//	unlock tells a loss, close loses
//	close ends                     within RetryTime plus CommandTimeout, and within its context
//
// A forced unlock excuses the holds at the time of the call, and the commands
// that their managers had in flight. A fault excuses its host until the fault
// has ended and the host has had time to recover. Nothing excuses a late
// command: two valid locks, a lost hold or an orphan are violations however
// late it came.
//
// TestInvariants_NoticeCheats and TestInvariants_NoticeWhatNoServerCauses break each invariant, and expect
// that it notices.
//
// # Running it
//
//	go test ./internal/clientsim                                      75 seeds, seven seconds
//	go test ./internal/clientsim -run Seeds -seeds 100000 -timeout 0  an hour
//	go test ./internal/clientsim -run Seeds -v -seed 4711             one seed, with all that happens
//	go test ./internal/clientsim -run Seeds -only late,owners         these kinds in each seed
//	go test ./internal/clientsim -run Seeds -go-on                    does not stop at the first failure
//
// -off switches kinds off, -ignore invariants. A failing seed is run again
// without each of its kinds, to find those that it needs. The report shows the
// end of its trace and the command that replays it.
//
// A seed that does not end within -hang of real time ends the test binary,
// which prints the end of the trace. Then a goroutine never blocks, so the time
// of the bubble stands still: for example a manager that again and again sets
// its alarm for an instant that has passed.
//
// A seed decides all random numbers of this package, and those of managers,
// which depend on their IDs. It decides neither the order in which the
// scheduler runs goroutines that are ready at one instant, nor the jitter of
// notify. Tests run on one processor, no two packets arrive at one instant, and
// each goroutine has a generator of its own. So two runs of a seed differ
// little, and a failing seed nearly always fails again, at the same instant.
package clientsim
