// Package sim runs several lock managers against a server that runs the real scripts, in simulated
// time, and lets things go wrong. One seed is one run: it decides the configuration, what callers
// do, and which faults happen, so every run can be repeated exactly. Millions of runs take minutes.
//
//	callers          managers                network             server
//	caller.go        node.go                 network.go          sim/server
//	 lock, re-enter,  mailbox, timer,   Run   lost, late, slow,   keys with an end,
//	 hold, cancel, ─▶ own clock,       ────▶  refused, held   ──▶ a clock that lags,
//	 unlock, verify   internal/core    ◀────                  ◀── channels
//	      ▲              │    ▲              pubsub.go
//	      └──────────────┘    └──────────────  gaps, lost, late, twice, merged, garbage
//	          granted, lost                  late.go
//	                                          commands that run after their time-out
//	                                         fault.go, trouble.go
//	                                          restarts, silence, FLUSHALL, DEL, PERSIST,
//	                                          wrong types, refusals, pauses, crashes, Close
//
// A small substitute takes the place of the shell and keeps the shell's promises. The core gets one
// event at a time, and one event for replies that are queued together. It gets a Tick when Next has
// come, and an Unlock for a grant whose caller has left. Each command gets one answer within its
// time-out. Copies of the answer may come later, and the core must ignore them.
//
// # Kinds
//
// The file of a kind says what is checked of its commands, whom a record names, which
// holds may be valid together, how requests want a name, and what its worlds have and
// lack: kind.go has the exclusive
// lock, readwrite.go the read-write lock, permits.go permits, fair.go the fair lock,
// several.go the set of names. In a run of one of the others than the last, all locks are of
// that kind. In a run of fair locks, threads of Redisson may wait in the same queues. In a run of sets
// there are single names of either kind, and some sets of them: callers want the single names and the
// sets, with the same owners. The invariants below are those of all kinds; how long a run of grants may
// be is checked in runs of the exclusive lock only.
//
// A set is a lockName with parts, and each part is a single name and a side. It has no record. What
// a hold of it rests on is checked in the record of each part, and its holds count among those of
// each part. A manager has one connection for messages: what is wanted for several locks at once is
// subscribed to once, and each of them gets the message.
//
// # The server
//
// Package wire encodes each operation and reads the answer, as in the library, and the scripts are
// those of the library: see sim/server. They run on the keys of package luaserver in no time. The
// checks read these keys. Each operation is a command of its own: the scripts that several
// operations share are not covered here. The classic channels are used, also in a cluster.
//
// # Shards
//
// With Options.Shards a world is a cluster of two or three shards, each of which serves some
// of the names. All locks of a run are of one kind; sets are not among them. Each fault of
// the server hits one shard. A name may move to another shard (MoveSlot): its subscriptions
// end, and what is sent to the old shard is refused and sent on, until the manager knows the
// new layout. A replica may take over without the last writes (Failover): names whose keys
// differ count as lost, and for the others all invariants hold as before. A manager may forget
// a shard that serves no name (ShardGone); what moves there later finds a new shard with the same
// number. In some calm worlds one shard is stopped now and then (settings.hangs), and names on the others must
// not notice. The lanes between core and shards are those of package wire, which is tested
// by itself.
//
// # What is assumed
//
// Invariants are checked at the true time, which no manager knows. The simulation assumes what the
// lock assumes: clocks run at speeds within 1 % of the server's; the server's clock lags behind the
// true time by less than Margin; leases are whole milliseconds. Nothing is assumed of how late a
// command may run. Holders from before a loss of data (FLUSHALL, a DEL by hand, an eviction, a
// forced unlock, a restart that lost data) can't know of it at once. So such a holder and a holder
// from after the loss may both be valid.
//
// # Late commands
//
// A command whose manager was told of a time-out may run at any later time: a fraction of a round
// trip later, minutes later, during a later hold of the same name or owner, or just before the end
// of the run. It runs alone, or together with other commands that one connection held back
// (HoldBack): all of them have timed out, and run in their order after newer ones on another
// connection. A server that was stopped (Silence) runs the commands that it was sent meanwhile.
// Each command runs once at most; its retry is another command.
//
// A late acquire may take a lock that nobody wants any more. Its record, a stray, may refuse its
// own manager and may be left at the end, but for Config.Lease at most.
//
// # Invariants
//
// Always:
//
//	mutual exclusion             no two holds of a name are valid at one true time, nor of two
//	                             sets with a name in common
//	until the record ends        a valid hold rests on a record of its own, which lasts longer;
//	                             that of a set on one for each name
//	until the lease ends         a fixed lease is not exceeded
//	no release of a valid hold   not even by an earlier command that runs late
//	kept                         what KeepFor reserves is neither removed nor passed on before its
//	                             end, if the server keeps the record. The release alone sees to
//	                             that. What nobody has taken is not kept
//	deadline from the send       the instant from which a lease counts is never later than the send
//	lost in time, too soon       Lost comes with the first Tick after the deadline, or when a
//	                             script said so, not before, and once
//	a refusal is a loss          at once
//	extended                     only for a hold that has not ended. A deadline moves back only as
//	                             far as those who hold the lock need it
//	one answer                   each request ends once, each Unlock is answered once; that of a
//	                             set fails if its release finds some names only
//	gives up in time             with the first Tick after the end of the wait
//	nobody waits for ever        once faults and new requests have stopped
//	nothing left                 then: no key, subscription, alarm, name, command
//	own record known             a manager is not refused because of a record that it left
//	                             behind itself, unless a late acquire made it
//	a number is used once        no two acquires name the same new owner; no command makes an
//	                             owner of a number that an earlier one removes; no two holds
//	                             share a number
//	an acquire asks for Lease at most
//	                             a longer fixed lease is set by a renewal when the acquire is
//	                             confirmed
//	all or nothing               a try of a set gets all its names or none; one that is
//	                             refused keeps names only if it gathers, and until it ends
//	first come, first served     a grant of a fair lock comes before those of all that came later into
//	                             the queue of the server, those of Redisson among them
//	gathers for GatherTime at most
//	                             from the first try that keeps something until it is given back; a set
//	                             for 1024 times that, from the newest item on
//	a late command costs at most Lease
//	                             a record that it leaves without a holder ends that soon
//	told in time                 while no command succeeds, a wait ends within RetryTime (or a
//	                             time-out, if that is longer) plus a time-out, a single try
//	                             within a time-out, Close within RetryTime plus a time-out
//	trouble stays where it is    a bad token counter fails fenced requests only; a lease that
//	                             is shorter than a round trip fails its own request only; a
//	                             name that is refused costs no other name its lease; a
//	                             request fails because of its own shard, not of another
//	a message is looked into     once a holder has heard that an administrator removed its
//	                             lock, it passes the lock on only after a later command has
//	                             confirmed the record, unless it has looked for it three times in a
//	                             row already
//	order                        waiters of a manager and name are served in their order
//	bounded run                  grants in a row, once others are known to wait
//	tokens                       rise in the order of the grants, over all managers, for each
//	                             name of a set, too
//	re-entry                     shares token and deadline; no owner waits for itself
//	deadlock                     a circle of owners ends at once: its youngest request fails;
//	                             owners of anonymous holds that other requests name count;
//	                             an owner that has a name waits for no set with that name
//	one script in flight         for a name and manager
//	bounded work                 one event causes at most one script for a name; replies alone
//	                             do not cause script after script; after a Tick, Next lies in
//	                             the future
//	subscriptions, close         each ends once; Closed comes once, and leaves nothing
//	panic                        never
//
// In calm worlds, a quarter of the seeds, where nothing goes wrong and polls are too far off to
// help (in some of them, an administrator removes locks):
//
//	a message is looked into     a command is sent at once, also to verify a name of a set, and for a set
//	                             or a name if only another name of the manager hears of it
//	no lost wake-up              a free lock that somebody waits for is taken soon; a set is free
//	                             if all its names are
//	nothing left                 a record that nobody wants is removed soon
//	bounded run, others first    managers that wait get their turn
//	a place is kept              a live waiter stays in the queue, and its deadline is beyond what those
//	                             before it may take off
//	lost too soon                a hold is lost only if its lease ended
//	no longer than needed        a record lives for as long as those need it who hold it now
//
// # Running it
//
//	go test ./lockmgr/internal/sim                        some seconds of seeds
//	go test ./lockmgr/internal/sim -run Seeds_Shards      clusters; Seeds_KeepFor, Seeds_Fair and so on: the others
//	go test ./internal/mutants -mutants -v                the mutants, of the core and of all else
//	go test ./lockmgr/internal/sim -run Seeds -seeds 145000 -timeout 0   a million, 145,000 of each kind; an hour on two cores
//	go test ./lockmgr/internal/sim -run Seeds -seed 4711  one seed, with all that happens
//	go test ./lockmgr/internal/sim -run Seeds -v -digest  the digest stays the same if a change of the code changes no behaviour
//	go test ./lockmgr/internal/sim -run Seeds -survey     count the violated invariants of all seeds
//	go test ./lockmgr/internal/sim -run Seeds -ignore "told in time,tokens"  do not stop at these
//
// A failing seed is made smaller first: kinds of faults that it does not need are switched off
// (-off), and it ends as early as it can (-events). The report shows the smaller run, and the
// command that replays it.
//
// A case that never happens proves nothing. So the default run fails if a kind of fault, an effect,
// a way to end or a transition of phases happens fewer than ten times. TestMutants of
// internal/mutants takes the rules of the core away, one at a time, and expects a violation each
// time.
package sim
