package core

import "time"

// An Event is the machine's only input. The set is closed.
type Event interface{ isEvent() }

type (
	// Lock: a caller wants a lock.
	Lock struct{ Request *Request }
	// LockSet: a caller wants the locks of a set. The items are sorted by name, each name occurs
	// once, and Request.Name is the key of the set. Nobody may change Items afterwards.
	LockSet struct {
		Request *Request
		Items   []Item
	}
	// LockPermits: a caller wants Permits permits at once. Limit is how many permits the name gets
	// if the name has none yet.
	LockPermits struct {
		Request *Request
		Permits uint16
		Limit   int64
	}
	// Cancel: the caller of a pending request has left.
	Cancel struct{ Request *Request }
	// Unlock: the caller gives back one grant. The shell sends a single Unlock for each grant.
	Unlock struct{ Request *Request }
	// Untaken is an Unlock of a grant that nobody has taken, because the caller has left. The
	// KeepFor of the grant does not count. The grant may be a re-entry.
	Untaken struct{ Request *Request }
	// Sent: each operation of Ops waits at the server Op.Shard. A shell with one server sends no
	// Sent.
	Sent struct{ Ops []*Op }
	// Queued: the operation ID now waits at another server, Shard. Set is true if Name is the key
	// of a set.
	Queued struct {
		Name  string
		Set   bool
		ID    uint64
		Shard uint8
	}
	// Replies: scripts have been answered, or will never be.
	Replies struct{ Replies []Reply }
	// Wake: something happened on the channel of a name.
	Wake struct {
		Name string
		// Item is the position, from 1, of the item with the channel if Name is the key of a set.
		// Item is zero for a single name.
		Item int
		// Place is the place with the channel, for the kind Fair. Place is OwnPlace or LinePlace
		// for two channels of a line. Place is zero if the event came on the channel of the name.
		Place uint64
		// Subscribed reports whether messages are delivered from now on.
		Subscribed bool
		// Grant is the grant by message that the newest message was, or zero.
		Grant Grant
		// Confirmed reports whether the subscription was confirmed since the last Wake. Message
		// reports whether a message came since the last Wake, and More whether several came. Ours
		// reports whether the only message is of a script of this library, and Served whether that
		// script has served the line: see position.
		Confirmed, Message, More, Ours, Served bool
	}
	// Verify: check whether the entries of a name are still on the server.
	Verify struct{ Name string }
	// Prolongation: a holder wants to keep its hold for Lease from now on. Prolonged is the answer.
	Prolongation struct {
		Request *Request
		Lease   time.Duration
		Tag     any // for the shell's use

		until time.Duration
		after uint64 // the newest script when it came
	}
	// ShardGone: no script is under way at a shard, and none will be sent to the shard. The number
	// Shard may become the number of another shard.
	ShardGone struct{ Shard uint8 }
	// Tick: the instant of Machine.Next has come.
	Tick struct{}
	// Close: refuse new requests, fail the waiting requests, and give back what is held. Closed
	// follows when Close is done.
	Close struct{}
	// Abort: close without waiting for releases.
	Abort struct{}
)

func (Lock) isEvent()          {}
func (LockSet) isEvent()       {}
func (LockPermits) isEvent()   {}
func (Cancel) isEvent()        {}
func (Unlock) isEvent()        {}
func (Untaken) isEvent()       {}
func (*Sent) isEvent()         {}
func (Queued) isEvent()        {}
func (*Replies) isEvent()      {}
func (Wake) isEvent()          {}
func (Verify) isEvent()        {}
func (*Prolongation) isEvent() {}
func (ShardGone) isEvent()     {}
func (Tick) isEvent()          {}
func (Close) isEvent()         {}
func (Abort) isEvent()         {}

// A Grant is a grant by message. A script of another manager has recorded the holder Number, and
// has given the record the lease Lease. A script of this manager that was sent at the instant Sent
// had run on the same server. By the clock of the server, Elapsed has passed between the two
// scripts. Token is the fencing token that the script has taken, or zero. See grants.
type Grant struct {
	Number               uint64
	Sent, Elapsed, Lease time.Duration
	Token                int64
}

// Ran says whether a command ran.
type Ran uint8

const (
	// Maybe: the command may have run, may run later, or may never run.
	Maybe Ran = iota
	// No: the server refused the command before the command wrote anything.
	No
	// Yes: the command ran to its end, and the reply says what the command found.
	Yes
)

func (r Ran) String() string { return [...]string{"maybe", "no", "yes"}[r] }

// Verb is what an Op does.
type Verb uint8

// The verbs.
const (
	VerbNone Verb = iota
	VerbAcquire
	VerbTransfer
	VerbRelease
	VerbRenew
)

func (v Verb) String() string {
	return [...]string{"none", "acquire", "transfer", "release", "renew"}[v]
}

// An Op is one script to run for one entry. The Op belongs to the shell from the Run effect until
// the reply carries the Op back, and to the core otherwise.
type Op struct {
	// ID is never used twice. A reply is stale unless ID is the ID of the script in flight.
	ID   uint64
	Kind Kind
	Verb Verb
	Side Side
	Name string
	// Sent is an instant before the command was sent. A lease counts from it.
	Sent  time.Duration
	Lease time.Duration
	// Number is the number to be recorded by an acquire or a transfer, or to be looked for by a
	// renewal. OtherNumbers are more numbers of this manager that the record may carry.
	Number       uint64
	OtherNumbers []uint64
	// Tokens is how many fencing tokens to take.
	Tokens int64
	// Items are the items of a set, for the kind Several. For a set, Tokens counts the tokens of
	// each item.
	Items []Item
	// Gather is for how long an acquire keeps the free items of a set, or the free permits, if
	// others hold the rest. Zero means: the acquire keeps nothing.
	Gather time.Duration
	// Unfinished is set by the shell in an acquire whose lease the shell will renew before the
	// reply. The core leaves Unfinished false.
	Unfinished bool
	// Reserve is for how long the record stays after a release, or zero.
	Reserve time.Duration
	// Reserver is the first request of the hold that has asked for Reserve, until the reply. Words
	// is what the shell says of the hold in the record that stays, or "".
	Reserver *Request
	Words    string
	// KeptAs is the number of that hold: the record may carry another number of the entry.
	KeptAs uint64
	// TakeOver is the holder ID of an ended hold, or "". An acquire also replaces the record that
	// has stayed of that hold.
	TakeOver string
	// Permits is how many permits the entry has or is to get, for the kind Permits. Most is the
	// largest number of permits that any of the numbers may have. Limit is how many permits the
	// name gets if the name has none yet. A release removes the counter if Limit permits are free.
	// Zero keeps the counter: see Config.ForgetPermits.
	Permits, Most int
	Limit         int64
	// Lined is set in an acquire that joins the line if refused and leaves it if granted, and in a
	// release that joins the line if others come next. Leaves is set in a release that leaves the
	// line. Waits is for how long the server remembers a position that the operation has joined.
	// Zero means that the operation does not join. Deaf is set if messages may not be delivered or
	// counted.
	Lined, Leaves, Deaf bool
	Waits               time.Duration
	// Set is the number under which a set stands in the lines, for the kind Several. StandsAt is
	// the item in whose line the set may stand when a try begins: its position from 1, zero, or
	// AnyItem.
	Set      uint64
	StandsAt int
	// PlaceOp is what the operation does to places in the queue, for the kind Fair. For the kinds
	// Exclusive and ReadWrite PlaceOp has the number of the next hold in Join, and what is for
	// grants by message. Else PlaceOp is nil.
	PlaceOp *PlaceOp
	// Shard is the number of the server at which the operation waits, or NoShard. A shell with
	// several servers sets Shard before it sends Sent.
	Shard uint8

	entry     *entry
	byMessage bool // not sent: stands for a grant by message, see takeGrant
	// onlyAcquire is set if no other acquire of the name was in flight. If the operation is
	// granted, the manager has left the line: no other acquire can have joined again.
	onlyAcquire bool
}

// A Reply is the outcome of an Op.
type Reply struct {
	Op *Op
	// ID repeats Op.ID, so that a late copy of a reply is recognized even after the Op was reused.
	ID  uint64
	Ran Ran
	// Shard is the number of the server that sent the reply, of the servers of a cluster. Shard is
	// zero for a single server, and never NoShard. Shards with the same number share a health.
	Shard uint8
	// OK is the answer of a command that ran: whether the command acquired, transferred, released,
	// renewed, or found a record.
	OK bool
	// TTL is the remaining life of the record that refused an acquire. TTL is negative if the
	// record does not expire.
	TTL time.Duration
	// OtherKind is set if an acquire was refused by a record of another kind of lock.
	OtherKind bool
	// Limit is how many permits there are, if an acquire was refused because it asked for more.
	// Otherwise Limit is zero.
	Limit int64
	// Kept is set if a transfer to the side Alone changed nothing, because others share the record.
	Kept bool
	// WriterWaits is set if a writer of another process waits for the readers to leave.
	WriterWaits bool
	// Outside is set if an acquire was refused, and its manager could not join the line.
	Outside bool
	// HandedOn is set if a release has granted the lock to a manager of the line, or if managers
	// that stand in the line come next.
	HandedOn bool
	// Joined is set if the manager of the release has joined the line behind them.
	Joined bool
	// Item is the position, from 1, of the item of a set that others have.
	Item int
	// Front, Mixed and Missing are answers about the queue of a lock of kind Fair. Front is the
	// last of the manager's places that are first in the queue without a gap, or zero. Mixed is set
	// if clients take part that know only the channels of single places. Missing is set if the
	// queue lacks a place that the queue should have.
	Front          uint64
	Mixed, Missing bool
	// GaveWay is set if a transfer has given the lock back because others come first.
	GaveWay bool
	// Split is set if several commands carried out the operation. Any of the commands may run late
	// although another was seen to have run.
	Split bool
	// Gathered is set if a refused try has kept a part: see Op.Gather. Got is how many items of a
	// set.
	Gathered bool
	Got      int
	// Partly is set if a release found the records of some items of a set only, or some of the
	// permits only.
	Partly bool
	// Subscribers is, for a release or a transfer, the number of clients that subscribe and stand
	// in no line. A transfer also counts the managers in the line. Subscribers is negative if the
	// server refused to tell the number.
	Subscribers int64
	// Token is the largest of the tokens taken. For a set, Token is the token of the first item,
	// and Tokens has the tokens of all items.
	Token  int64
	Tokens []int64
	// Err is why the command did not run, or may not have. With Ran == Yes, Err does not concern
	// the lock: a release could not publish its message.
	Err error
	// Final is set if trying again soon would meet the same error.
	Final bool
	// OnlyThis is set if the server has answered, and the error concerns this command only. The
	// command may succeed later.
	OnlyThis bool
}

// An Effect is something to be done for the machine. The set is closed.
type Effect interface{ isEffect() }

type (
	// Run an operation and answer with a Reply, exactly once.
	Run struct{ Op *Op }
	// Tokens are the fencing tokens of the items of a set. Tokens come before the Granted of the
	// same request.
	Tokens struct {
		Request *Request
		Tokens  []int64
	}
	// Granted: the request has a hold.
	Granted struct{ Request *Request }
	// Failed: the request has ended without a hold.
	Failed struct {
		Request *Request
		Err     error
	}
	// Extended: the Until of a hold has changed. Until has become later, or earlier because a claim
	// has ended: see claim. If Until has become earlier, Extended comes before the script that
	// shortens the life of the record.
	Extended struct{ Hold *Hold }
	// Lost: a hold ended without an unlock, or the Unlock of the hold found the loss. In the second
	// case, an Unlocked whose error matches ErrLeaseLost or ErrClosed follows.
	Lost struct {
		Hold *Hold
		Err  error
	}
	// Prolonged answers a Prolongation.
	Prolonged struct {
		Prolongation *Prolongation
		Err          error
	}
	// Unlocked answers an Unlock event.
	Unlocked struct {
		Request *Request
		Err     error
	}
	// Subscribe to the channel of a name, or to the channels of all items of a set, and report with
	// Wake events. Place says which channel: see Wake. Set is the number of the set in the lines,
	// with OwnPlace.
	Subscribe struct {
		Name  string
		Kind  Kind
		Items []Item
		Place uint64
		Set   uint64
	}
	// Unsubscribe ends what Subscribe began.
	Unsubscribe Subscribe
	// Notice carries an event for the observer and the log.
	Notice struct {
		What What
		Name string
		Set  bool // Name is the key of a set
		N    int
		TTL  time.Duration
		Err  error
	}
	// Closed: no name is left. Unreleased is the newest release that was given up, or the zero
	// value.
	Closed struct{ Unreleased Unconfirmed }
	// Unconfirmed is a release that was given up.
	Unconfirmed struct {
		Name string
		Set  bool  // Name is the key of a set
		Err  error // why the release had failed, or nil
	}
)

func (Run) isEffect()         {}
func (Tokens) isEffect()      {}
func (Granted) isEffect()     {}
func (Failed) isEffect()      {}
func (Extended) isEffect()    {}
func (Lost) isEffect()        {}
func (Prolonged) isEffect()   {}
func (Unlocked) isEffect()    {}
func (Subscribe) isEffect()   {}
func (Unsubscribe) isEffect() {}
func (*Notice) isEffect()     {}
func (Closed) isEffect()      {}

// What is the kind of a Notice.
type What uint8

// The notices.
const (
	Refused       What = iota + 1 // another manager has the name; TTL is that of its record
	CommandError                  // a command failed; N counts the failures in a row
	LeasesRenewed                 // N leases were renewed, by the replies of one event
	RenewError                    // renewing N leases failed, by the replies of one event
	StoodBack                     // a run of N grants has ended, and others go first
	Released                      // a release has removed a record
	Unreleased                    // a release was given up: record expired, or closing
	Outside                       // a try could not join the line
)
