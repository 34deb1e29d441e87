// Package core holds the rules of locks as a state machine that does nothing
// by itself.
//
//	step(state, event, now) → effects
//
// There is no I/O, clock, goroutine, channel or context in it. Events are
// callers' requests, replies, wake-ups and the passing of time; effects are
// scripts to run, futures to settle, channels to subscribe to. The shell
// around it, package lockmgr, only moves them. So a schedule is a list of events:
// tests can try millions of schedules by seed, and repeat each.
//
// # Words
//
//	name     what the machine knows of one key: its queue, its turns, its entries
//	entry    one thing of ours on the server that has a lease of its own: the record
//	         of an exclusive lock, the read hold that all readers of a manager share,
//	         the permits of one hold
//	hold     what one owner has in this process: one, or one of each side. Several
//	         holds may share an entry
//	set      several names that are wanted at once, all or none. It is a name of its
//	         own kind. Its items are the single names. See set.go
//	number   the part of a holder ID that the machine chooses: see below
//	kind     exclusive, read-write, several, permits, or fair. A name is of one kind while
//	         anybody wants it
//	place    where a request for a fair lock stands in the queue of the server: see line.go
//	side     how a request wants a name: alone, or shared with others
//	rules    what differs between kinds, and nothing else. They have no state
//	special  the state that only names of one kind have: a set, a pool, a line
//
// A name has one entry at first. A kind may allow it more: each has a phase, a script in
// flight and failures of its own, and all serve the queue of the name: see Several entries.
// The first entry and the first hold are parts of larger values, so that an uncontended lock
// needs no memory of its own.
//
// # Kinds
//
// A kind is one file of rules here, one file of formats and its scripts in package
// wire, one file in the model of the server, and one in the simulation. Each registers
// itself. The interface in rules.go says what each rule answers, and that in special.go what a
// kind notes about a name, and when. Both files have what most kinds do. The rules of fair locks equal
// those of exclusive locks, but managers take no turns for them. The table shows the others. If the
// record of a permit is gone, its holder gets another error.
//
//	             exclusive   permits         read-write
//	entries      1           1,024           1
//	joins        no          no              a reader joins readers
//	passes       yes         to a request    to a reader; to a writer, if no script has
//	                         for as many     let others read
//	transfers    yes         yes             yes
//	again        re-entry    not asked:      the same side: re-entry; a writer may also
//	                         requests are    read; a reader that asks to write fails, as
//	                         anonymous       it would wait for itself. One that tries once
//	                                         becomes a writer if nobody else reads
//	side         alone       alone           alone while a writer holds it, else shared
//	waitsFor     yes         no              yes; it is not asked of two that share
//	parts        no          of several      no
//	doubts       yes         no              yes
//
// A set (several) has one entry, which stands for the records of all its items. All of
// them have one number. One script changes them all. Nobody joins it. It has no transfer:
// each request for it sends an acquire and a release. An owner that has a set and asks
// for the same set re-enters.
//
// # Fair locks
//
// The server keeps the order of the waiters, so managers take no turns: the section Turns does
// not concern them. An entry passes in memory while the places of this manager are first in
// the server's queue. Otherwise a transfer asks the server. The server records the next request
// as the holder, or gives the lock back. See line.go.
//
// # Several entries
//
// Each hold of permits is an entry. Its permits share one number. So a name may have hundreds
// of entries. Some are held. For those who wait, others are asked for. How many may be asked
// for at a time is a guess at how many are free: eight at first, twice as
// many after a grant, one after a refusal. An entry that is refused goes on waiting only if
// it is the last one. When an entry is released, one that waits tries again, as what was
// released may be what it waits for.
//
// A refusal may be due to entries of this manager. Then it says nothing about the turns of
// others. All entries of a name share one run, of PassCount grants for each entry. When it is
// over, each entry is released as its hold ends, until the pause is over. Their turns count
// as one turn.
//
// The transfers of all entries fall due at the same instants, so that they share a script. An
// event about an entry leads to no work for the others that are held: see index.go.
//
// # Sets
//
// To a single name of its manager, a set is like a manager of another process, and the
// other way round. Only the server keeps them apart: it refuses the set while the name is
// held. Three functions know both: see overlap.go. Rivals counts those that wait here,
// since all names of a manager have one connection for messages, and the server counts
// it once. The search for deadlocks follows the waits between them. Verify of a name
// looks at the sets that have it.
//
// A set that waits has no record, except while it gathers: see gather.go. Such a set goes
// from waiting to releasing when its time is over. If a renewal finds that one item is
// gone, the hold is lost. Its number becomes a suspect, and a release removes the other
// records.
//
// # Reservations
//
// A request with KeepFor reserves its name: nobody gets the lock until that time has passed, even if the
// lock is unlocked, the manager is closed or the process ends before. The release of a reserved entry keeps
// the record. It gives the record a holder ID that nobody has, and sets the life of the record to the rest
// of the reservation, whatever that life was. From then on this manager treats the record as somebody else's.
//
// # The life of a record
//
// The present holds of an entry determine how long its record lives: Config.Lease, or longer because of
// a fixed lease, a prolongation or a reservation. Each of these three is a claim of one grant. A claim ends
// with its grant, except that of a reservation. If other holds of the entry go on, and the record would live
// for much longer than they need, the entry gets a new number. The transfer that writes the new number sets
// the life of the record.
//
// Only a script that replaces the number in a record shortens the life of the record. A number is
// written once, so its script shortens a life once. A late copy of the script finds its own number in the
// record, or none of the numbers that it knows, and shortens nothing. A longer lease that is wanted later
// waits until each transfer without an answer is resolved.
//
// # Who is authoritative
//
// Redis says who owns a name: a record, which is a hash at the key. That of an
// exclusive lock has one field, for the holder, and a TTL. For that of a read-write lock see
// package wire, script/readwrite_acquire.lua. The machine says which of its callers that is,
// how often it re-entered, and who is next. Ownership is trusted until an instant that counts
// from the send of the last confirmed script. After it, nobody may be told that they hold the
// lock.
//
//	until = sent + lease − 1 % − margin
//
// Only a confirmed script moves until forward. Before a script is sent that may shorten the life of the
// record, until is moved back. No script ends a record before until, so a late script can't undermine
// the trust. A fixed lease and a MaxHold end the hold earlier. If a re-entry makes its hold last
// longer, it does so until the re-entry is unlocked.
//
// # The phases of an entry
//
//	          request                  refused
//	idle ────────────────▶ asking ────────────────▶ waiting
//	 ▲                      │  ▲                     │   ▲
//	 │              granted │  └─────────────────────┘   │
//	 │                      │   message, confirmation,   │
//	 │                      │   poll, pause over         │
//	 │                      ▼     unlock, loss           │
//	 │                   passing ◀───────────── held     │
//	 │                    │   └──────────────────▲       │
//	 │    nobody is next, │     a waiter here is next    │
//	 │    or run is over  ▼                              │
//	 └──────────────── releasing ────────────────────────┘
//	   nobody waits here           others go first
//
// A grant goes through passing to held in one step. So does an unlock if the
// next waiter needs no answer first. Else the entry stays in passing until a
// transfer is answered. A release leads to asking if somebody waits here and others
// need not go first. If they must, the release leads to waiting, and so does the
// next request for an idle entry.
//
// An entry of a fair lock goes from passing to waiting if others come first.
//
// If the record is gone, held and passing lead to asking if somebody waits here,
// else to idle. If the last waiter leaves, asking and waiting lead to idle, or to
// releasing if an acquire without an answer may have left a record. A release
// that was not sent yet, or that the server refused, leads back to passing if
// somebody waits here.
//
// An entry that others share stays held while requests join it, and when a holder
// leaves it that is not the last. While somebody waits and every entry is held, a name
// that may have more entries asks for another one.
//
// A name whose entries are all idle is forgotten when its subscription has lingered,
// its suspects (below) have had their time, and others have had their turns.
//
// # One script in flight
//
// At most one script is in flight for each entry, so scripts need no order
// beside that. A lock passes from holder to holder in memory while the transfer
// that records an earlier holder is in flight. Only the newest holder is recorded
// next. A few things wait for an answer: see handoff.go.
//
// # Numbers
//
// A number is the part of a holder ID that the machine chooses. Each try of a
// request has a new one, and so has each holder that the lock passes on to. Holders
// that share an entry share its number. No number is used for a later hold, of
// whatever owner. So a script that runs late can only be about the hold that it was
// sent for: it finds another number and does nothing.
//
// The place of a request for a fair lock is the number that its hold will have. Several
// acquires may name it. If one of them may still run when the request is granted, the hold
// gets another number.
//
// A late acquire is the exception, as it finds no record. The record that it
// creates is a stray, and ends with its lease. For that reason no acquire asks for
// more than Config.Lease. A longer fixed lease is set by a renewal or a transfer once the record
// is known to be ours, and such a record is released instead of passed on. A release for a reservation
// may prolong the life of the record. So it does not name the numbers that may still become strays.
//
// # Unknown outcomes
//
// A command without an answer may have run, may run later, or never. Nothing
// bounds how late. The number that it would have recorded becomes a suspect,
// and later scripts of the name list their suspects as numbers that the record
// may carry. So a stray is taken over by the next acquire or removed by a
// release, whichever comes first. The machine looks for it until
// Config.SuspectTime is over. A record that a later run creates is not looked for,
// and expires. A record whose release got no answer is never passed on.
//
//	command    what the record may be    what happens then
//	acquire    of this number            try again with another number, naming this
//	                                     one; if nobody is left, release
//	transfer   of the old number, or     the holder stays; transfer again, naming both
//	           of the new one
//	renew      longer-lived              the deadline stays; renew again, well before
//	                                     the next tick
//	release    gone                      if somebody waits here, try, naming it; else
//	                                     release again until confirmed or expired
//	look       as before                 go on without the answer
//
// # A record in doubt
//
// A message that comes while the record is ours, and that is not of our own
// release, says that somebody may have removed the record. Only names that are subscribed
// get messages. So a message also concerns the other names of this manager that have the
// same key: sets, or the single name. If the entry is held, a
// transfer or a renewal is sent as soon as no script is in flight. If nobody holds it,
// a transfer comes before the next holder. Until a script is confirmed, the lock is
// not passed on in memory: see verify.go.
//
// A message may be late, or never come. So a record is also in doubt before its first handoff, and if the
// last script that found it was too long ago when the entry is to be passed on or shared: see unproven. This
// costs few scripts, because each new holder is recorded by a transfer in any case: it only comes before
// the handoff instead of after it. A request for a token needs a script that was sent after the request, and
// after the last hold had ended: see mayTakeToken. If the server refuses transfers, because it is out of
// memory, a renewal looks for the record instead. If no script is answered, nobody gets the entry.
//
// # Shared entries
//
// The first and the last of those that share an entry need a script. The others join
// and leave locally, unless a transfer is due or the record is in doubt: see admit in handoff.go.
// Requests are served in order, so a reader waits behind a writer of its manager. Among processes,
// readers share out time like others do: when their run is over, nobody more may join
// for PassTime, so that the entry comes free and a writer elsewhere gets a turn. If a
// reader stays longer than that, no writer can have the name, and readers may join
// again. A reader that makes one try may join even while PassTime runs, unless others are known to
// subscribe. If an answer must come before a reader may join, a reader that makes one try waits for the
// answer, too, and is not refused.
//
// A writer's entry that passes to a reader is alone on the server until a transfer has
// run, and shared from then on. So it never passes to a writer again once that transfer
// is sent.
//
// # Turns
//
// Waiters of one manager are served in order. Managers share the time for which
// they hold the lock: a run ends after PassCount grants or PassTime, and is
// followed by a pause in which others have the lock for as long as the run was,
// once for each of them that seems to want it. The pause is shorter if the lock
// is seen to be free. Scripts report the number of subscribers, which is an
// upper bound for the subscribers that want the lock. Processes that poll are
// not counted. So ShareEvery bounds how long a manager goes on without a pause
// that is long enough for them: see turns.go.
//
// # Files
//
// Step hands an event to the file of its subject, and reply an answer to that of
// its operation:
//
//	request.go   Lock, Cancel                     entry.go    the record: trusted until when
//	acquire.go   acquire, and its answers         op.go       operations, one in flight for an entry
//	handoff.go   transfer, who is next, who joins hold.go     what a holder has
//	unlock.go    Unlock, release                  wait.go     Wake, polls
//	renew.go     renew                            verify.go   Verify
//	prolong.go   Prolongation                     close.go    Close, Abort
//	claims.go    how long a record must live
//
// The state of a name is in name.go, that of an entry in entry.go, the phases are in
// phase.go, what differs between kinds is in rules.go, special.go and a file for each kind. What is
// special about a set is in set.go, and how it meets other names in overlap.go. How sets and
// requests for several permits gather is in gather.go. What a fair lock does to the queue of the
// server is in line.go. How many renewals a Tick sends is in pace.go.
// The search for owners that wait for each other is in
// deadlock.go, what the shell may ask of all holds in survey.go, and the settings in config.go. Each
// concern that only some entries have is a type and a file: retry, unknown, tokens, doubt, prolong. Only
// names that are contended have turns, in turns.go. Code that changes a name must call settle
// afterwards. Settle does what is due and sets the name's alarm: see machine.go.
//
// # Health
//
// All names on one server share one health. A cluster has several servers, its shards: a
// name is on the shard that its last reply came from, or to which an operation was sent since. A server is
// failing from the send of the first command that got no answer, or a passing error such as
// LOADING or READONLY, until a command runs or is refused for good. A request that has waited for
// Config.RetryTime meanwhile fails: see health.go. When the server is back, what has failed is
// tried again soon. A request also fails when the commands of its own name have failed
// for RetryTime, or at once if trying again makes no sense.
//
// # Failures
//
//	all stand back        each tries when it has heard nobody for its own pause
//	message lost          the poll: one alarm per name, after the TTL of the refusal,
//	                      PollMax at most
//	one item of a set,    the hold is lost, the rest is released
//	   or one of several
//	   permits is gone
//	no subscription       more frequent polls: PollSoon if few names have none,
//	                      PollBlind if many
//	subscription lost     the same; its confirmation is a wake-up
//	other kind of lock    requests fail with ErrKind
//	place lost            the request joins again at the end of the queue
//	manager dead          its places go after Config.PlaceTime
//	renewal: no record    the hold is lost at once
//	renewal fails         tried again until the deadline, then lost
//	grant too late        not handed out; the third fails the requests whose lease is
//	                      no longer
//	grant unwanted        goes to the next waiter, or is released
//	tokens refused        requests for a token fail; plain ones try without
//	handoff refused       the entry is released; if that is refused, too, requests fail
//	release failing       requests fail as above; one that tries once fails at once
//	server failing        requests and Unlocks fail after Config.RetryTime; Close waits no longer
//	                      than that
package core
