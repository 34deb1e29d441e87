// Package soak runs processes of workers against a real server under random faults, and judges what
// they saw.
//
//	           schedule (seed) ──▶ faults ──▶ ┌─────────┐
//	                                 │        │ server  │ child, data kept on disk
//	                                 ▼        └─────────┘
//	┌─ parent ──────────────┐     proxies ──────▲  one for each worker process
//	│ judge: internal/check │       ▲
//	│ register (shared      │       │         ┌─ worker process ─────────────┐
//	│ memory)               │       └──────── │ one Manager, many goroutines │
//	└───────▲───────────────┘                 └──────────────────────────────┘
//	        └──── records: holds, writes, losses ────┘ pipe
//
// # What workers do
//
// Each process has one Manager that its goroutines share. Names are of two
// kinds. Hot ones are held for no time or a little; slow ones for up to some
// leases, by holders of which a part keeps the lock until it is lost, and
// writes to the register afterwards, to be refused. Requests are a mix of Lock,
// TryLock, MaxWait, FixedLease, Fenced, re-entry, and LockAsync that is cancelled at a
// random moment. Every fourth name is a fair lock; the order of its grants is not judged. Every
// second name is a read-write lock, of which two thirds of the requests are for the read
// side. Readers read the register: they must not see the
// token of a later writer while they are valid. Every hold is accounted for as package check says,
// before it is unlocked.
//
// Some goroutines ask in every second turn for a set of two to five names (LockAll),
// with sides mixed as they come. The names are those that others take singly, without the
// fair locks. The mix of ways to ask is the
// same. A granted set is one hold on each of its names: each has its own account, token
// and writes, and is checked with all other holds of its name.
//
// Some other goroutines ask in every fourth turn for one to three permits of a name of which there
// are four. There are three such names, which are no locks. Permits of the last one are kept for
// long by a few. A hold of permits has one account. Nobody gives permits back by their IDs: the
// holder would still be valid for a moment.
//
// Nobody waits for the last of the slow locks: it is only tried for, often, so that somebody is
// there the moment that it is free. Every fourth goroutine is after slow locks, the others after
// hot ones. The sets of those that are after slow locks have hot ones too, and are kept for long
// less often. A set never has the lock for which nobody waits.
//
// The register lies in a file that all processes map, so that no fault of the server reaches it.
// That file and the server's data are in memory (/dev/shm) if there is room, or where TMPDIR says:
// the server syncs each write, so a disk makes a run slower. It would not make it more severe, as a
// SIGKILL loses nothing that was written.
//
// # Faults
//
// The schedule is a function of the seed, the length, the number of processes and the kinds of
// faults: which fault, when, on whom, for how long. What the machine makes of it is not repeatable,
// so a seed repeats the blows, not the run. No two faults of the same target overlap. Faults end at
// 85 % of the time; from then on everything has to come to rest by itself.
//
// Most faults may do no harm: within these the promises of package lockmgr must hold ("all").
// Breaking ones void what those promises assume: the server forgets what it acknowledged. With one
// of them in the run exclusion is not judged, and what is told is how often the register had to
// refuse. That needs the larger token: a server that forgot the counters as well gives small
// tokens, which the register refuses for ever, and that is told too. The counter of permits that is
// forgotten is set again by the next request. One that stays while the server evicts the permits
// that are taken would be too small for ever. So after evictions the run sets these counters by
// what is taken.
//
// # Cluster
//
// With Config.Cluster the names are on a cluster of three masters with a replica each. Each worker
// process has a proxy to each node. Eight names in a row share a slot. Every second set has names
// of one slot only, the others of any. One fault of the cluster takes place at a time, and it ends
// when the cluster is whole again.
//
// An orderly failover and slots that move may do no harm. Others are breaking: a replica that is
// promoted after its master was killed or stopped may not have the newest locks. How many holders
// believed in the same lock is told then, and not judged. Config.Acks asks for replicas before each
// grant.
//
// # Verdict
//
// A run fails when check finds a violation; when a handle contradicts itself (valid after it was
// lost or unlocked, lost without an error); when a loss is told before the lease was over, although
// the server forgot nothing; when a request fails in a way that no fault explains; when a worker
// dies by itself, does not come to rest, or leaves goroutines; when keys other than counters,
// channels or connections are left after the longest lease; when not all permits are free by then,
// or a counter says something else; or when nothing was granted at all. Lateness is told, not
// judged: it depends on the machine. That of a plain timer in the same processes stands beside it.
//
// A process that is killed takes with it what it had not reported: some milliseconds of holds.
// Leaving out whole holds makes no legal history illegal.
//
// # Memory
//
// Does not grow with time: records are judged as they come, intervals of the last half minute are
// kept, and histories are checked and dropped.
//
// # The checker is checked
//
// Config.Client (HOLDFAST_SOAK_CLIENT for the command) makes the workers use a broken client, which
// must not pass:
//
//	careless    ignores losses: believes until it unlocks
//	stretched   believes for half a lease more than it should
//	doubled     takes one refused try in twenty for a grant
//	partial     asks for a set without one of its names
//	overfull    thinks that there is one permit more
//	leaky       keeps a goroutine of one lock in a hundred
//
// # Systems
//
// Needs signals and shared memory as Unix has them. Elsewhere [Run] says so.
package soak
