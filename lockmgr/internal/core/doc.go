// Package core holds the rules of locks as a state machine that does nothing by itself.
//
//	step(state, event, now) → effects
//
// The machine has no I/O, clock, goroutine, channel or context. Events are callers' requests,
// replies, wake-ups and the passing of time. Effects are scripts to run, futures to settle,
// channels to subscribe to. The shell around the machine, package lockmgr, only moves events and
// effects. So a schedule is a list of events: tests can try millions of schedules by seed, and
// repeat each.
//
// # Words
//
//	name     what the machine knows of one key: its queue, its run, its entries
//	entry    something of ours on the server with a lease of its own: the record
//	         of an exclusive lock, the read hold that all readers of a manager share,
//	         the permits of one hold
//	hold     what one owner has in this process: a single hold, or a hold of each side.
//	         Several holds may share an entry
//	set      several names that are wanted at once, all or none. A set is a name of a kind
//	         of its own. The items of a set are the single names. See set.go
//	number   the part of a holder ID that the machine chooses: see below
//	kind     exclusive, read-write, several, permits, or fair. A name keeps its kind while
//	         anybody wants the name
//	line     on the server, the managers, and sets, that wait for a plain or read-write lock, or for
//	         permits: see position. Example: A has the lock, and B and C stand in the line
//	place    the number of a future hold. Each request for a fair lock has a place in the queue of
//	         the server: see places.go. For other locks, a manager in the line has one: see
//	         position. Example: the place of B is 7
//	turn     what the first of the line gets: the lock for a run, or two seconds in which to ask.
//	         Example: B hangs, and two seconds after B was told, C has its turn
//	grant by message
//	         a script records a place as the holder, and a message tells the manager: see grants.
//	         Example: the release of A records 7, and B sends no command
//	provisional lease
//	         the first lease of a grant by message: Config.GrantLease. Example: if the renewals of
//	         B fail, the record of 7 ends after two seconds
//	run      a row of grants of this manager: see Runs
//	outsider a foreign client, which stands in no line. Example: one of Redisson
//	side     how a request wants a name: alone, or shared with others
//	rules    what differs between kinds, and nothing else. Rules have no state
//	special  the state that only names of one kind have, such as a set, a pool, the places
//
// A name has one entry at first. A name of permits may have more. Each entry has a phase, a
// script in flight and failures of its own, and all entries serve the queue of the name: see
// Several entries. The first entry is a part of the name, and a hold a part of its request. What
// an uncontended lock does not need is apart: the details of a name, and the upkeep of an entry.
//
// # Kinds
//
// A kind is a file of rules here, and a file of formats and its scripts in package wire. The
// interface in rules.go says what each rule answers. The interface in special.go says what a kind
// notes about a name, and when. Both files have what most kinds do. The rules of fair locks equal
// the rules of exclusive locks. The table shows the remaining kinds. If the record of a permit is
// gone, its holder gets an error of its own: see rules.goneErr.
//
//	             exclusive   permits         read-write
//	index        no          1,024 entries   no
//	joins        no          no              a reader joins readers
//	passes       yes         to a request    to a reader; to a writer, if no script has
//	                         for as many     let others read
//	transfers    yes         yes             yes
//	again        re-entry    not asked:      the same side: re-entry; a writer may also
//	                         requests are    read; a reader that asks to write fails, as
//	                         anonymous       it would wait for itself. One that tries once
//	                                         becomes a writer if nobody else reads
//	side         alone       alone           alone while a writer holds it, else shared
//	parts        no          of several      no
//	doubts       yes         no              yes
//
// A set (several) has one entry, which stands for the records of all items. All records have the
// same number. One script changes all records. Nobody joins a set. There is no transfer: each
// request for the set sends an acquire and a release. An owner that has a set and asks for the same
// set re-enters.
//
// # Fair locks
//
// The server keeps the order of the waiters, so there are no runs. An entry passes in memory while
// the places of this manager are first in the server's queue. Otherwise a transfer asks the server.
// The server records the next request as the holder, or takes the lock back. Then the first place
// of another manager is granted the lock by message, so that nobody asks, or is told that the lock
// is free. See places.go.
//
// # Several entries
//
// Each hold of permits is an entry. The permits of an entry share one number. So a name may have
// hundreds of entries. Some entries are held, and more entries are asked for if requests wait. How
// many may be asked for at a time is a guess at how many permits are free: eight at first, twice as
// many after a grant, one after a refusal. A refused entry goes on waiting only if no further entry
// is asking, waiting or passing. The server keeps the managers that wait in a line, and tells them
// when permits are for them. While others wait, each entry is released after PassCount grants or
// PassTime: see runOver.
//
// The transfers of all entries fall due at the same instants, so that they share a script. An event
// about an entry leads to no work for other held entries: see index.go.
//
// # Sets
//
// To a single name of its manager, a set is like another manager: the set stands in the line under
// an ID of its own. Only the server keeps set and name apart: the server refuses the set while the
// name is held. overlaps finds the names and sets with an item in common: see overlap.go. The
// search for deadlocks follows the waits between sets and names. Verify of a name looks at the sets
// that have the name.
//
// A set that was refused gathers: it stands in the line of the first item that it can't have, and
// keeps the items before: see gather.go. A gathering set goes from waiting to releasing when the
// time of gathering is over. If a renewal finds that an item is gone, the hold is lost. The set's
// number becomes a suspect (see Unknown outcomes), and a release removes the records that are left.
//
// # Reservations
//
// A request with KeepFor reserves its name: nobody gets the lock until KeepFor has passed, even if
// the lock is unlocked, the manager is closed or the process ends before. The release of a reserved
// entry keeps the record. The release gives the record a holder ID that nobody has, with a text of
// the shell about the ended hold. The release also sets the life of the record to the rest of the
// reservation, whatever the life was. From then on this manager treats the record as somebody
// else's.
//
// # The life of a record
//
// The present holds of an entry determine how long its record lives: Config.Lease, or longer
// because of a fixed lease, a prolongation or a reservation. Each of the three is a claim of one
// grant. A claim ends with its grant, except a reservation. If further holds of the entry go on,
// and the record would live for much longer than the holds need, the entry gets a new number. The
// transfer that writes the new number sets the life of the record.
//
// Only a script that replaces the number in a record shortens the life of the record. A number is
// written once, so its script shortens a life once. A late copy of the script finds its own number
// in the record, or no number that the script knows, and shortens nothing. A longer lease that is
// wanted later waits until each transfer without an answer is resolved.
//
// # Who is authoritative
//
// Redis says who owns a name, by a record: a hash at the key. The record of an exclusive lock has
// one field, for the holder, and a TTL. For the record of a read-write lock see
// internal/script/readwrite_acquire.lua. The machine says which caller is the holder, how often the
// holder re-entered, and who is next. Ownership is trusted until an instant that counts from the
// send of the last confirmed script. After the instant, nobody may be told that they hold the lock.
//
//	until = sent + lease − 1 % − margin
//
// Only a confirmed script moves until forward. Before a script is sent that may shorten the life of
// the record, until is moved back. No script ends a record before until, so a late script can't
// undermine the trust. A fixed lease and a MaxHold end the hold earlier. A re-entry may make its
// hold last longer, until the re-entry is unlocked.
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
// A grant goes through passing to held in one step. So does an unlock if the next waiter needs no
// answer first. Otherwise the entry stays in passing until a transfer is answered. A release leads
// to asking if somebody waits here. During a pause for outsiders, or if the release has joined the
// line, the release leads to waiting instead, and so does a request for an idle entry. If the grant
// has come before the answer to the release, the release leads to passing.
//
// An entry of a fair lock goes from passing to waiting if others come first.
//
// If the record is gone, held and passing lead to asking if somebody waits here, else to idle. If
// the last waiter leaves, asking and waiting lead to idle, or to releasing if an acquire without an
// answer may have left a record. A release that was not sent yet, or that the server refused, leads
// back to passing if somebody waits here.
//
// A shared entry stays held while requests join, and when a holder other than the last leaves.
// While somebody waits and every entry is held, a name that may have more entries asks for another.
//
// A name whose entries are all idle is forgotten when its subscription has lingered, and its
// suspects (below) have had their time.
//
// # One script in flight
//
// At most one script is in flight for each entry, so scripts need no further order. A lock passes
// from holder to holder in memory while the transfer that records an earlier holder is in flight.
// Only the newest holder is recorded next. A few things wait for an answer: see handoff.go.
//
// # Numbers
//
// A number is the part of a holder ID that the machine chooses. Each try of a request has a new
// number, and so has each holder that the lock passes on to. Holders that share an entry share its
// number. No number is used for a later hold, of whatever owner. So a script that runs late can
// only be about the hold that the script was sent for: the script finds another number and does
// nothing.
//
// A late acquire is the exception, because it finds no record. The late acquire creates a record,
// called a stray, which ends with its lease. For this reason no acquire asks for more than
// Config.Lease. A renewal or a transfer sets a longer fixed lease once the record is known to be
// ours. A record with a longer lease is released instead of passed on. A release for a reservation
// may prolong the life of the record, and a late copy of the release would prolong a stray's. So
// the release does not name the numbers that may still become strays.
//
// The place of a request for a fair lock is the number of the future hold. Several acquires may
// name the place. If an acquire may still run when the request is granted, the hold gets another
// number.
//
// # Unknown outcomes
//
// A command without an answer may have run, may run later, or never. Nothing bounds how late. The
// number that the command would have recorded becomes a suspect. Later scripts of the name list the
// suspects as numbers that the record may carry. So a stray is taken over by the next acquire or
// removed by a release, whichever comes first. The machine looks for a stray until
// Config.SuspectTime is over. If the command runs after that, nobody looks for the record, and the
// record expires. A record whose release got no answer is never passed on.
//
//	command    what the record may be    what happens then
//	acquire    of this number            try again with another number, naming the
//	                                     first; if nobody is left, release
//	transfer   of the old number, or     the holder stays; transfer again, naming both
//	           of the new one
//	renew      longer-lived              the deadline stays; renew again, well before
//	                                     the next tick
//	release    gone                      if somebody waits here, try, naming it; else
//	                                     release again until confirmed or expired
//
// # A record in doubt
//
// A script serves the line: the script grants the lock to those who come next, or tells them. While
// the record is ours, a message of a script that has served no line says that somebody may have
// removed the record: a forced unlock, or a client of Redisson. Other names of this manager may
// have the same key: sets, or the single name. The message concerns these names, too, because they
// may not be subscribed. If the entry is held, a transfer or a renewal is sent as soon as no script
// is in flight. If nobody holds the entry, a transfer comes before the next holder. Until a script
// is confirmed, the lock is not passed on in memory: see verify.go.
//
// A message may be late, or never come. So a record is also in doubt before its first handoff, and
// if the last script that found the record was too long ago when the entry is to be passed on or
// shared: see unproven. The doubt costs few scripts, because a transfer records each new holder in
// any case: the transfer only comes before the handoff instead of after the handoff. A request for
// a token needs a script that was sent after the request, and after the last hold had ended: see
// mayTakeToken. If no script is answered, nobody gets the entry.
//
// # Shared entries
//
// Of the holders that share an entry, the first and the last need a script. All holders in between
// join and leave locally, unless a transfer is due or the record is in doubt: see admit in
// share.go. Requests are served in order, so a reader waits behind a writer of its manager. While
// a writer of another manager waits in the line, the server refuses readers of managers that have
// no entry. Every transfer of readers reports the writer.
//
// Once a run has lasted PassTime, a transfer comes before a further reader. If others wait, nobody
// joins for another PassTime, 100 ms at most. So the entry may come free. If a reader stays for
// longer, the next transfer looks again, and readers may join if no writer waits. A reader that
// makes one try may join even while nobody else may, unless others are known to subscribe. If an
// answer must come before a reader may join, a reader that makes one try waits for the answer, too,
// and is not refused.
//
// A writer's entry that passes to a reader is alone on the server until a transfer has run, and
// shared from then on. So the entry never passes to a writer again once the transfer is sent.
//
// # Runs
//
// Waiters of one manager are served in order. A run of a manager ends after PassCount grants or
// PassTime, if others wait. The server keeps the managers that wait in a line. The release that
// ends the run grants the lock to the first of them, or tells the first that the lock or a permit
// is free. The release of a lock also joins the line behind the others, for a first request that
// wants the lock alone, or for one that is likely to come: see early.go. Otherwise the next acquire
// joins.
//
// Outsiders stand in no line. A manager that has heard them lately pauses after a run for as long
// as the run was, PassTime at most: see outsiders. Scripts report how many clients subscribe that
// stand in no line. If some do, and none was heard lately, a run ends with a short pause.
//
// Processes that poll are not counted. So ShareEvery bounds how long a manager goes on without a
// pause that is long enough for pollers. A request that tries once asks in that pause, too: a
// refusal would say that others have the lock.
//
// # Where to begin
//
// A lock that nobody contends for takes this way: Lock, serve, ask, acquired, passOn, grant; then
// unlock, passOn, release, released, rest. passOn decides what becomes of an entry without a hold,
// and settle does what is due after each event. The name of such a lock has no details: code that
// asks for details, upkeep, index or position is about contention and failures. Four parts of it
// can be read alone: scripts without an answer (unknown.go), records in doubt (doubt.go,
// verify.go), the line (position.go, grants.go, early.go), and the clients beside the line
// (outsiders.go, run.go).
//
// # Files
//
// A file calls only files of its own list and of the lists below. A call through an interface is a
// call of rules.go or special.go. A test in internal/archtest checks this, and names the
// exceptions.
//
// The first list is what the shell calls. Step hands an event to the file of its subject:
//
//	step.go       Step, Next, Tick
//	survey.go     what the shell may ask of all holds
//
// The second list decides what becomes of requests and entries. These files send scripts, and call
// one another. reply hands an answer to the file of its operation:
//
//	lock.go       Lock, Cancel
//	unlock.go     Unlock, release
//	prolong.go    Prolongation
//	verify.go     Verify, records in doubt
//	wait.go       Wake, subscriptions, polls
//	close.go      Close, Abort
//	health.go     Sent, Queued, ShardGone, servers that fail
//	acquire.go    acquire, and its answers
//	handoff.go    who is next
//	transfer.go   transfer, and its answers
//	share.go      who joins a held entry
//	renew.go      renew
//	failure.go    who fails after a failed script
//	once.go       requests that try once
//	upgrade.go    readers that become the writer
//	held.go       grants, re-entries, losses, and the scripts that a held entry needs
//	rest.go       how a name rests, and is forgotten
//	deadlock.go   the search for owners that wait for each other
//	op.go         operations, one in flight for an entry
//	settle.go     what is due for a name and its entries
//
// The third list has the kinds: what differs between kinds, and what a name knows of others that
// want the same:
//
//	exclusive.go  the rules of exclusive locks
//	readwrite.go  the rules of read-write locks
//	several.go    the rules of sets
//	permits.go    the rules of permits, and their pool
//	fair.go       the rules of fair locks
//	places.go     what a fair lock does to the queue of the server
//	set.go        what is special about a set
//	overlap.go    how a set meets other names
//	gather.go     how sets and requests for several permits gather
//	position.go   the line of the managers that wait
//	early.go      the releases that join the line
//	run.go        the run of a contended name: when it ends, and what follows
//	outsiders.go  the clients beside the line
//	grants.go     the grants by message
//
// The fourth list is what the machine knows of names, entries, holds and requests. These files send
// no scripts:
//
//	name.go       the state of a name
//	index.go      the entries of a name that may have several
//	entry.go      the state of an entry: trusted until when
//	phase.go      the phases of an entry
//	hold.go       what a holder has, and the list of the holds of an entry
//	request.go    what a request wants, and the queue of a name
//	claims.go     how long a record must live
//	extend.go     renewals that the watchdog does not send
//	unknown.go    what scripts without an answer may have done
//	tokens.go     the unused fencing tokens of an entry
//	special.go    the state that only names of one kind have
//
// The last list is what all files above need:
//
//	rules.go      the interface of the kinds, and the rules that most have
//	doubt.go      whether a record may be gone
//	retry.go      the pauses after failures
//	pace.go       how many renewals a Tick sends
//	machine.go    Machine, its counters, and how effects are emitted
//	alarm.go      a heap of instants
//	event.go      the events and effects
//	config.go     the settings
//	errors.go     the errors
//
// Code that changes a name must call settle or settleEntry afterwards. settle does what is due for
// the entries and for the name, and sets the name's alarm: see settle.go. A predicate, such as
// mayGather, changes nothing. What must be brought up to date before a predicate is asked has a
// function of its own, such as advanceOutsiders.
//
// # Health
//
// All names on one server share one health. A cluster has several servers, its shards: a name is on
// the shard of its last reply, or on the shard to which an operation was sent since. A server is
// failing from the send of the first command that got no answer, or a passing error such as LOADING
// or READONLY, until a command runs or is refused for good. A request that has waited for
// Config.RetryTime meanwhile fails: see health.go. When the server is back, what has failed is
// tried again soon. A request also fails when the commands of its own name have failed for
// RetryTime, or at once if trying again makes no sense.
//
// # Failures
//
//	all managers pause    each tries when it has heard no outsider for BackTime
//	message lost          the poll: one alarm per name, after the TTL of the refusal,
//	                      PollMax at most
//	an item of a set,     the hold is lost, the rest is released
//	   or a permit of
//	   several is gone
//	no subscription       more frequent polls: PollSoon if few names have none,
//	                      PollBlind if many
//	subscription lost     the same; its confirmation is a wake-up
//	other kind of lock    requests fail with ErrKind
//	place lost            the request joins again at the end of the queue
//	position lost         the manager joins the line with its next try, after lookAgain at most
//	grant lost            the next try finds the record, which lives for GrantLease
//	line not joined       the manager is one of the clients that stand in no line: see position
//	manager dead          its places go after Config.PlaceTime
//	renewal: no record    the hold is lost at once
//	renewal fails         tried again until the deadline, then lost
//	grant too late        not handed out; the third fails the requests with
//	                      the same lease or a shorter one
//	grant unwanted        goes to the next waiter, or is released. The next release joins the
//	                      line only for a request that waits
//	tokens refused        requests for a token fail; plain requests try without
//	handoff refused       the entry is released; if the release is refused, too, requests fail
//	release failing       requests fail as above; a request with Once set fails at once
//	server failing        requests and Unlocks fail after Config.RetryTime; Close waits no longer
package core
