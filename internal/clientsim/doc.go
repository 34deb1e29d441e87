// Package clientsim simulates the whole client by seed: real managers, with their lanes, notify
// hubs and client library, in the fake time of testing/synctest. The seed decides what callers do
// and what goes wrong. It holds tests only.
//
// # The picture
//
//	callers ──▶ lockmgr.Manager ──▶ rueidis ──▶ host, connections ──▶ server
//	caller_test   real              real        network_test          server_test, keys_test
//	   │                                          ▲                   internal/luaserver: the real scripts
//	   │ asks, answers, holds                     │ late, cut …          ▲ stops, refuses …
//	   ▼                                          └──── fault_test ──────┘
//	 promises_test, watch_test: the oracles ◀──────────── troubles and excuses
//
// These are real: lockmgr, notify, futures, actor, the client library, and the text of the scripts,
// which run in a Lua interpreter. Callers use only the public API of lockmgr.
//
// These are models: the network and the servers. A server runs one command at a time and needs no
// time for it. It knows RESP3, the commands that the scripts use, pub/sub, WAIT, access rules for
// single keys, and nothing else. A script that uses another command gets an error that says so: add
// the command in package luaserver. There is one server or a cluster of two masters, each with
// replicas or without: cluster_test.go. Time is that of the synctest bubble, so computing costs no
// time, and quadratic run time or a growing use of memory is not found here. All hosts have one
// clock. The servers' clocks run up to 1 % faster or slower.
//
// # Features, and where they meet
//
// Faults live where two features meet. features_test.go lists the features: kinds of locks, ways of
// a grant, options, ways of an end, who else is there, topology, trouble. Each request notes the
// features that it has met: not what was switched on in its world, but for example that its lock
// was passed on in memory, or that the server ran one of its commands after its connection was
// closed. Two features meet in a request that has met both, or in two requests that want one name
// at one time. A table counts in how many runs each pair has met, and which oracles have looked at
// such a request. With 10,000 seeds and more, TestSeeds fails if no run has met a pair, unless a
// list says why it can't be met.
//
// Nothing draws these yet: a stranger that has a place at the head of a fair queue, a host that is
// suspended. Lead is drawn only with options that it refuses.
//
// # What happens
//
// A world has two to four managers, one to nine names of one kind each, and ten to ninety seconds
// of life with bursts of requests. Each seed has a few kinds of happenings: what goes wrong, and
// what callers do beyond Lock and Unlock. settings_test.go lists them.
//
// Callers lock, try, wait for a time or until another context ends, cancel, cancel right after the
// grant without a look at the future, use Do, Extend, All and Any, named and adopted owners,
// re-entry, upgrades, circles of two owners, fixed leases of 10 ms to a day, KeepFor, MaxHold,
// tokens, forced unlocks, limits of permits, Inspect, Scan, Explain, and options that contradict
// each other.
//
// # Promptness
//
// A manager that misses that something is free tries again after one second or more. That breaks no
// promise. So TestPrompt has a walk of its own: without faults it asks, cancels and unlocks, often
// while scripts are in flight. Then it checks for each waiting request whether a hold or another
// request may stand in its way. Of requests that stand in one another's way, one must have been
// granted if nobody holds a name.
//
// # Oracles
//
// Each promise of docs/guarantees.md has one oracle or several: promise1 checks the first promise,
// promise6a a part of the sixth. A test compares them with the page.
//
//	1        no two valid locks of a name that exclude each other, nor too many permits
//	2a, 2b   a forced unlock is noticed by a manager that is subscribed, at once, and by all
//	         at their next renewal; no lock is passed on, or joined, long after its record has gone,
//	         and none that is fenced or passed on for the first time if nobody has looked for the record
//	3a, 3b   a valid lock has a record that lives as long, and Inspect finds the record; it is lost
//	         for a reason only
//	4        no later hold has the ID of an earlier one
//	5        tokens rise over all managers, also after a forced unlock
//	6a to 6c Lost is closed soon after the deadline, never before; Unlock tells a loss; Close loses
//	7a, 7b   what a killed process had is free after its lease; a record lives no longer than
//	         those who hold it want
//	8a to 8c MaxWait and contexts are kept; a record that nobody wants ends with the lease;
//	         at the end no key, subscription, connection and goroutine is left, and before that no
//	         manager counts a request or a hold
//	9a, 9b   RetryTime plus CommandTimeout after the server fell silent all are told; Close ends
//	10       a free name is granted at once, whatever happens to others
//	11a, 11b KeepFor keeps a name from others, and a request that nobody took keeps nothing
//	12a, 12b replicas have the record of a lock that is granted, for as long as it is valid
//	13a, 13b each error is what has happened; a request that stands in a line is not refused for
//	         want of memory; options that contradict each other are refused
//	14a to e a free lock is granted, in order, without starvation, to all in the end; who waits
//	         is subscribed
//
// A forced unlock excuses the holds at the time of the call, and the commands that their managers
// had in flight, but no token. A failover excuses what its new master did not know, unless the
// managers wait for replicas. A fault excuses its host until the fault has ended and the host has
// had time to recover. Nothing excuses a late command: two valid locks, a lost hold or an orphan
// are violations however late it came.
//
// TestOracles_NoticeCheats and TestOracles_NoticeWhatNoServerCauses break each promise, and expect
// that its oracle notices.
//
// # Running it
//
//	go test ./internal/clientsim                                      60 seeds, seven seconds
//	go test ./internal/clientsim -run Seeds -seeds 100000 -timeout 0  an hour on two cores
//	go test ./internal/clientsim -run Seeds -v -pairs                 prints the table
//	go test ./internal/clientsim -run Seeds -v -seed 4711             one seed, with all that happens
//	go test ./internal/clientsim -run Seeds -only late,owners         these kinds in each seed
//	go test ./internal/clientsim -run Seeds -go-on                    does not stop at the first failure
//
// -off switches kinds off, -ignore oracles. A failing seed is run again without each of its kinds,
// to find those that it needs. The report shows the end of its trace and the command that replays
// it. 1,000 seeds and more run in as many processes as the machine has processors.
//
// A seed that does not end within -hang of real time ends the test binary, which prints the end of
// the trace. Then a goroutine never blocks, so the time of the bubble stands still: for example a
// manager that again and again sets its alarm for an instant that has passed.
//
// A seed decides all random numbers of this package, and those of managers, which depend on their
// IDs. It decides neither the order in which the scheduler runs goroutines that are ready at one
// instant, nor the jitter of notify. Tests run on one processor, no two packets arrive at one
// instant, and each goroutine has a generator of its own. So two runs of a seed differ little, and
// a failing seed nearly always fails again, at the same instant.
package clientsim
