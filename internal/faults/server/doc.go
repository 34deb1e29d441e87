// Package server tests lock managers, from outside, against what real servers, their administrators
// and whole processes do. It has no code of its own: the tests are the package.
//
// # Contract
//
// Every test begins with real redis-server or valkey-server children, the real client and the real
// manager; only public names of package lockmgr are used. A test does to them what a fault does,
// and then checks three things:
//
//  1. What is promised while the fault lasts. No holder believes in its lock
//     after its deadline, and none is told of a loss before it without a
//     reason. Nobody gets a lock that another one may believe to hold.
//  2. What is promised for the time after it. A record that is gone is noticed
//     within 40 % of Options.Lease, whoever waits is served, the server has no
//     key left.
//  3. What the holder is told: why it was lost. A lock that was lost at its
//     deadline and one whose record is gone are different stories, and each
//     test names its own.
//
// The server is authoritative for what a record is, the holder's clock for how long it may rely on
// it. A test therefore reads both, and never one for the other.
//
// # Faults
//
//	file                   what happens
//	connections_test.go    either connection of a waiter is killed, and the lock unlocked in the gap
//	restart_test.go        the server restarts with or without its data
//	failover_test.go       a replica that lacks the lock takes over
//	memory_test.go         the server has no memory left
//	records_test.go        records are removed, evicted, overwritten, made to live for ever, by hand or by a clock that jumps
//	stall_test.go          the server stands still for longer than a lease
//	refusal_test.go        it refuses every script for a time, or the user's rights are taken away
//	flood_test.go          there are very many messages on the channel, or very strange ones
//	pause_test.go          a process that holds a lock is stopped for longer than its lease
//	crash_test.go          a process that holds a lock is killed while many processes wait
//	fair_test.go           many wait for a fair lock whose queue is written by hand
//
// What a server may say to one request, and which rights which script needs, is tested in package
// lockmgr itself.
//
// # Time
//
// Deadlines and the time within which a loss is noticed are part of the contract, so they are
// bounded here: from below exactly, as too early is never right, and from above with more than a
// second to spare for a machine that is busy. All else waits for events. Leases that must not be
// lost are so long that a test binary may stand still for seconds.
//
// Where a process has to be stopped or killed, the test binary starts itself as a child
// (child_test.go).
//
// # Figures
//
// By default every fault happens a few times. These flags make it happen more often, and -v shows
// the figures:
//
//	go test ./internal/faults/server -v -run 'Connection/^pubsub$' -gaps 200
//	go test ./internal/faults/server -v -run WakesUp -pauses 20
//	go test ./internal/faults/server -v -run KilledHolder -waiters 1000
//	go test ./internal/faults/server -v -run Flood -flood 1000000
//	go test ./internal/faults/server -v -run WithoutMemory -locks 5000
//
// # Failures of the tests themselves
//
// A child that can't go on says why and ends, which fails its test. Children and servers die with
// the test binary. A binary that is short of processors for more than about four seconds may lose a
// lock for which the test has no explanation; the figures that it logs show how far the machine was
// behind.
package server
