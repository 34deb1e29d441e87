// Package interop tests holdfast against a real Redisson. It has no code of its own besides the
// tests; README.md says how to run them and what they have shown.
//
// # The parts
//
//	go test ──▶ redis-server, one for each Redisson version
//	   │            ▲
//	   ├── holdfast ┘ ▲
//	   │              │
//	   └── agent: a JVM with Redisson clients ── one Java thread for each owner
//
// The agent is the Maven project in agent/. It takes locks as it is told, line by line. The tests
// drive both sides and look at the records with a connection of their own. Each test runs once for
// each version of Redisson, as a subtest.
//
// # Life of the children
//
// A version's server and its agent start with the first test of that version and serve all others,
// which use names of their own. TestMain stops them. The tests of killed processes start another
// agent, or this test binary as a child. Each test in a cluster starts a cluster for each version
// and kind of channels. It uses the agent of the version.
//
// Every child is stopped by its process ID. On Linux the kernel also kills it when the test binary
// dies. An agent ends as well when its standard input does. All listen on or connect to 127.0.0.1
// only.
//
// Tests that mostly wait run with both versions at a time: see together. So do the failovers of a
// cluster.
//
// # The build
//
// The first test of a version builds the agent with Maven, into agent/target/VERSION, unless that
// folder was built from the same sources before. Maven runs offline first, and with its
// repositories if that fails.
//
// # The protocol
//
// A command is one line of JSON on the agent's standard input, an answer is one line on its
// standard output:
//
//	{"id":7,"op":"lock","client":"java","thread":"a","kind":"lock","name":"orders:42","lease":3000}
//	{"id":7}
//	{"id":8,"op":"unlock","client":"java","thread":"b","kind":"lock","name":"orders:42"}
//	{"id":8,"error":"IllegalMonitorStateException","message":"attempt to unlock lock, not locked by ..."}
//
// Each thread that commands name is a Java thread with a queue of its own, as a Redisson owner is a
// client and a thread. Its commands run in order; those of different threads overlap, and the
// answers come as commands end. The first line of an agent is {"id":0,"value":"ready"}. Lines that
// it cannot read are reported on standard error and have no answer.
//
// The commands are:
//
//	open         a Redisson client for port, or for the cluster with ports, whose
//	             channels are classic if told so; watchdog (lockWatchdogTimeout, ms),
//	             fairWait (fairLockWaitTimeout, ms), codec (a class) and prefix (a
//	             NameMapper's) if given. The value is the client's UUID
//	close        shut it down
//	lock         lock(), or lock(lease)
//	tryLock      tryLock(), or tryLock(wait, lease) if wait is given
//	unlock, forceUnlock, isLocked, isHeld, holdCount, ttl
//	owner        the owner as Redisson writes it: "<uuid>:<thread id>"
//	token        of a fenced lock
//	interrupt    the thread, now
//	state        of the thread, now, as Thread.getState has it
//	count        add one to counter, by GET and SET
//	grants       lock and unlock again and again with threads threads for hold µs,
//	             until counter is limit, millis have passed, or each thread had
//	             times grants; see Load.Report. wait and lease count if positive.
//	             With readers, those of the kind read look whether somebody writes.
//	             Those of the kind semaphore count what is taken: see PermitTurn
//
// kind is lock, fair, nonReentrantFair (not in 3.16.8), read, write, spin, fenced (not in 3.16.8),
// multi (with names) or semaphore, which is RPermitExpirableSemaphore. The value of lock is then
// the permit, which unlock gives back. A semaphore has more commands:
//
//	acquire, tryAcquire  permits permits, one by default; wait and lease are those
//	                     of a lock. The value has their IDs; it is empty if a try
//	                     failed. lease has no end if it is negative, or without wait
//	release, tryRelease  the permits ids; tryRelease tells how many
//	trySetPermits        to permits, if there are none
//	addPermits           permits more
//	available            how many are free
//	extend               the newest of lock, by lease
//	setPermits, acquired, permits (how many there are), leaseTime (of ids)
//	                     not in 3.16.8, which takes and gives back only one at a time
//
// # Failures
//
// Without HOLDFAST_INTEROP=1 all tests are skipped. With it, a missing java, mvn or redis-server, a
// failed build and an agent that does not start are failures, and fail each test of the version. A
// command that is not answered within its time fails its test with the last lines of the agent's
// standard error.
package interop
