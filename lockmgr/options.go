package lockmgr

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
	"github.com/holdfast-go/holdfast/lockmgr/internal/wire"
)

// MinLease and MaxLease bound the times of FixedLease, Extend, KeepFor and MaxHold: 10 ms and 365
// days.
const (
	MinLease = 10 * time.Millisecond
	MaxLease = 365 * 24 * time.Hour
)

// Options tune a Manager. Zero is the default of each field. Dial and New refuse a negative value
// with ErrInvalidOption, unless the field's comment gives a negative value a meaning. A RetryTime,
// PassTime or Linger above MaxLease counts as MaxLease. The struct may be reused: Dial and New copy
// Options.
type Options struct {
	// Lease is the life of a record in Redis under the watchdog. The watchdog renews the record
	// about every third of Lease. When a process dies, the process's locks stay taken for up to Lease.
	// Default 30 s; at least 100 ms.
	Lease time.Duration
	// Margin is subtracted from every lease, and 1 % for clock drift. What remains is how long a
	// lock is valid. Default 2 ms; 1 to 5 ms.
	Margin time.Duration
	// CommandTimeout is how long a script may take before the outcome counts as unknown.
	// CommandTimeout must be below Lease/3. Default 2 s, or Lease/10 if less.
	CommandTimeout time.Duration
	// RetryTime is how long the server may fail to answer, or refuse for a passing reason, before
	// waiting requests fail. A command under way adds a CommandTimeout. A hanging dial adds the
	// client's dial time-out. If the server freezes while a request waits for a message, the
	// client's ConnWriteTimeout and Dialer.KeepAlive are added instead. RetryTime does not limit
	// the wait for a lock of another holder. Default 5 s.
	RetryTime time.Duration

	// PassCount and PassTime bound a run: how many grants in a row a manager makes, and for how
	// long, before other managers go first. A run goes on while no other manager is known to wait.
	// The manager asks the server at least every 8*PassCount grants. After a run the lock, or the
	// permits of a hold, go to the next manager of the line. Beside Redisson's clients, which stand
	// in no line, a manager pauses for as long as its run took, PassTime at most, or for 10 ms at
	// most if clients subscribe and none has sent a message. Once in 750 ms the pause is up to
	// 25 ms, for clients that poll, or up to 130 ms if clients subscribe, which may be far away.
	// Fair locks have no runs. Defaults 32 and 100 ms.
	PassCount int
	PassTime  time.Duration

	// Linger is how long a subscription is kept after the last waiter, so a contended lock does not
	// subscribe each time. Default 2 s; negative: not at all.
	Linger time.Duration

	// Channels says on which channels a manager of a cluster publishes and listens. Single servers
	// and the masters of Sentinels have classic channels only.
	Channels Channels

	// Replicas makes grants and renewals wait for replicas.
	Replicas Replicas

	// ConnectLater makes Dial return at once, before there is a connection: see [Dial]. New ignores
	// ConnectLater.
	ConnectLater bool

	// Prefix is put before each name that is given to the manager, unless the name begins with
	// Prefix already. So keys and channels of the locks contain Prefix, and programs with different
	// prefixes can share a server. Locks, errors and events have whole names. To share locks with
	// Redisson, give its NameMapper the same prefix.
	Prefix string

	// Process describes the manager's process to other processes: see [Holder]. Zero fields have
	// defaults. Program and Host have at most MaxProcessBytes bytes.
	Process Process
	// Anonymous keeps the manager from writing its process and the notes of its locks to the
	// server.
	Anonymous bool

	// ForgetPermits makes the last release of a Permits name remove the limit from the server,
	// unless somebody waits. Give the same limit in all processes. A limit that SetLimit or
	// AddLimit has changed stays. If the last release does not reach the server, or Return gives
	// back the last permit, the limit stays until the next release. Redisson's clients get no
	// permits of a name without a limit: do not set ForgetPermits for their names.
	ForgetPermits bool

	// MaxWaiters bounds the requests pending at the same time. MaxLocks bounds the names held or
	// waited for; as many again may be remembered for a while. Requests beyond the bounds fail with
	// ErrOverloaded. Default 1,048,576 each.
	MaxWaiters int
	MaxLocks   int

	// Logger gets lost leases, and a line when commands begin to fail, when commands no longer
	// fail, and when the subscription is cut or back: see docs/operations.md for all lines. The
	// handler runs on a goroutine of its own. Default: nothing is logged.
	Logger *slog.Logger
	// Observer is called with every event, in order and never concurrently, on a goroutine of its
	// own. A slow Observer delays nothing else: while 16,384 events wait for Observer, further
	// events are dropped, counted in Stats.DroppedEvents and reported by an EventDropped. The same
	// bound holds for the lines of a slow log handler. Observer may use the manager, except for
	// Close, which would wait for Observer. Observer must not panic.
	Observer func(Event)

	readClocks func() (awake, all time.Duration, ok bool) // of the host; tests have their own
	onBatch    func()                                     // called by the manager's goroutine before each batch; nil except in tests
}

const (
	minWatched     = 100 * time.Millisecond
	defaultTimeout = 2 * time.Second
	suspectFactor  = 2 // SuspectTime, in command time-outs
)

// Replicas says how many replicas must have the record of a lock before the lock is granted. Each
// change of the record (a renewal, an Extend, a reader who becomes the writer) counts only after as
// many replicas have the change. Without Acks a failover may lose the newest locks, because a
// server answers before its replicas know.
//
// If too few replicas have the record in time, the manager gives the lock back. The request and all
// waiting requests of the manager for the name fail with ErrReplicas. A renewal is tried again, and
// Extend waits for the new try. So locks are lost if replicas are down for longer than about half a
// lease.
//
// A failover to a server without the record loses the lock all the same. So may a failover just
// after a handoff in memory: the new master may know only the holder before. Then nobody else gets
// the lock until the record's TTL is over.
//
// Each grant that needs a command takes two more round trips. So does each renewal, for which
// nobody waits. The user needs +wait.
type Replicas struct {
	// Acks is how many replicas must have a record. Default 0: none is asked for.
	Acks int
	// Timeout is how long to wait for the replicas. A request may wait twice as long, if another
	// wait is under way. Default 1 s, or Lease/10 if less; at least 1 ms and below Lease/3.
	Timeout time.Duration
}

// Channels are the kinds of channels that the managers of a cluster use. All clients that share
// locks must have a kind in common. Clients without a common kind do not wake each other and poll
// instead. Redisson uses sharded channels since 3.22, and classic channels in earlier versions or
// with shardedSubscriptionMode OFF.
type Channels uint8

const (
	// ShardedChannels are SPUBLISH and SSUBSCRIBE: a message goes to the subscribers at the master
	// of the name. A cluster older than version 7.0 has no sharded channels; managers use classic
	// channels there.
	ShardedChannels Channels = iota
	// ClassicChannels are PUBLISH and SUBSCRIBE: a message goes to every node of the cluster. A
	// master does not know who subscribes at other nodes. So no lock is granted by message, each
	// turn ends as if others waited, and a TryLock to read may be refused beside readers of its own
	// process.
	ClassicChannels
)

// published returns the kind of channels on which scripts publish.
func (c Channels) published() wire.Channels {
	if c == ClassicChannels {
		return wire.Classic
	}
	return wire.Sharded
}

// complete returns o with the defaults filled in, or the error of a bad field.
func (o Options) complete() (Options, error) {
	if o.Channels > ClassicChannels {
		return o, badField("Channels", o.Channels, "ShardedChannels or ClassicChannels")
	}
	usual := core.Defaults()
	err := fill("Lease", &o.Lease, usual.Lease, minWatched, MaxLease)
	belowThird := (o.Lease/3 - 1).Truncate(time.Millisecond)
	err = cmp.Or(err, fill("Margin", &o.Margin, usual.Margin, time.Millisecond, MinLease/2))
	err = cmp.Or(err, fill("CommandTimeout", &o.CommandTimeout, min(defaultTimeout, o.Lease/10), time.Millisecond, belowThird))
	err = cmp.Or(err, fill("Replicas.Acks", &o.Replicas.Acks, 0, 0, 1<<10))
	err = cmp.Or(err, fill("Replicas.Timeout", &o.Replicas.Timeout, min(time.Second, o.Lease/10), time.Millisecond, belowThird))
	// A longer time has the same effect as MaxLease, and sums of MaxLease do not overflow.
	o.RetryTime, o.PassTime = min(o.RetryTime, MaxLease), min(o.PassTime, MaxLease)
	err = cmp.Or(err, fill("RetryTime", &o.RetryTime, usual.RetryTime, 0, MaxLease))
	err = cmp.Or(err, fill("PassTime", &o.PassTime, usual.PassTime, 0, MaxLease))
	err = cmp.Or(err, fill("PassCount", &o.PassCount, usual.PassCount, 1, 1<<20))
	err = cmp.Or(err, fill("MaxWaiters", &o.MaxWaiters, usual.MaxLocks, 1, math.MaxInt))
	err = cmp.Or(err, fill("MaxLocks", &o.MaxLocks, usual.MaxLocks, 1, math.MaxInt))
	setDefault(&o.Linger, usual.Linger)
	o.Linger = min(max(o.Linger, 0), MaxLease)
	o.Process = o.Process.complete()
	err = cmp.Or(err, checkText("Process.Program", o.Process.Program), checkText("Process.Host", o.Process.Host))
	if o.readClocks == nil {
		o.readClocks = readClocks
	}
	return o, err
}

// fill sets a zero field to the default. fill returns an error if the field is out of range.
func fill[T int | time.Duration](field string, p *T, byDefault, least, most T) error {
	setDefault(p, byDefault)
	if *p < least || *p > most {
		return badField(field, *p, fmt.Sprintf("%v to %v", least, most))
	}
	return nil
}

// checkText returns an error if a text for other processes is too long or no valid UTF-8.
func checkText(field, text string) error {
	if len(text) > MaxProcessBytes || !utf8.ValidString(text) {
		return badField(field, strconv.Quote(text), fmt.Sprintf("valid UTF-8, at most %d bytes", MaxProcessBytes))
	}
	return nil
}

func badField(field string, value any, want string) error {
	return fmt.Errorf("%w: Options.%s is %v, want %s", ErrInvalidOption, field, value, want)
}

func setDefault[T comparable](p *T, v T) {
	var zero T
	if *p == zero {
		*p = v
	}
}

// A LockOption changes a single request.
//
// A request takes each option once. Not every call takes each option, and some options are
// exclusive: docs/calls.md has the table. A request with a wrong option fails with
// ErrInvalidOption, and nothing is sent. The zero LockOption changes nothing.
type LockOption struct {
	kind  optionKind
	d     time.Duration
	owner Owner
	ctx   context.Context
	text  string
}

type optionKind uint8

const (
	optNone optionKind = iota
	optMaxWait
	optOnlyIfFree
	optFixedLease
	optMaxHold
	optKeepFor
	optTakeOver
	optAsOwner
	optFenced
	optShared
	optExclusive
	optFair
	optNote
	optTraceContext
	optWaitContext
)

// callKinds is a set of kinds of calls. Calls of the same kind take the same options.
type callKinds uint8

const (
	toLock       callKinds = 1 << iota // Lock, LockAsync and Do
	toTryLock                          // TryLock
	toLockAll                          // LockAll, LockAllAsync and DoAll
	toTryLockAll                       // TryLockAll
	toAcquire                          // Acquire, AcquireAsync and Do of Permits
	toTryAcquire                       // TryAcquire of Permits
	toLead                             // Lead and CampaignFor

	toWait  = toLock | toLockAll | toAcquire // may wait, and end before the lock is free
	toOne   = toLock | toTryLock | toLead    // take one lock
	toOwned = toLock | toTryLock | toLockAll | toTryLockAll
	toAny   = toOne | toOwned | toAcquire | toTryAcquire
)

var callNames = [...]string{"Lock", "TryLock", "LockAll", "TryLockAll", "Acquire", "TryAcquire", "Lead"}

// optionRules say which calls take an option, and which options an option excludes. For an option
// with a time, least and most bound the time, and err is the error of a time out of range.
var optionRules = [...]struct {
	name     string
	calls    callKinds
	excludes []optionKind
	least    time.Duration
	most     time.Duration
	err      error
}{
	optNone:         {calls: toAny},
	optMaxWait:      {"MaxWait", toWait, []optionKind{optOnlyIfFree}, 0, math.MaxInt64, ErrInvalidWait},
	optOnlyIfFree:   {name: "OnlyIfFree", calls: toAny &^ toLead, excludes: []optionKind{optMaxWait}},
	optFixedLease:   {"FixedLease", toAny, []optionKind{optMaxHold}, MinLease, MaxLease, ErrInvalidLease},
	optMaxHold:      {"MaxHold", toAny, []optionKind{optFixedLease}, MinLease, math.MaxInt64, ErrInvalidLease},
	optKeepFor:      {"KeepFor", toLock | toTryLock, []optionKind{optShared, optExclusive, optFair}, MinLease, MaxLease, ErrInvalidLease},
	optTakeOver:     {name: "TakeOver", calls: toLock | toTryLock, excludes: []optionKind{optShared, optExclusive, optFair}},
	optAsOwner:      {name: "AsOwner", calls: toOwned},
	optFenced:       {name: "Fenced", calls: toOne | toOwned},
	optShared:       {name: "Shared", calls: toOne &^ toLead, excludes: []optionKind{optExclusive, optFair, optKeepFor, optTakeOver}},
	optExclusive:    {name: "Exclusive", calls: toOne, excludes: []optionKind{optShared, optFair, optKeepFor, optTakeOver}},
	optFair:         {name: "Fair", calls: toOne, excludes: []optionKind{optShared, optExclusive, optKeepFor, optTakeOver}},
	optNote:         {name: "Note", calls: toAny},
	optTraceContext: {name: "TraceContext", calls: toAny},
	optWaitContext:  {name: "WaitContext", calls: toAny},
}

// Name returns the name of the option's function, for example "MaxWait". Name returns "" for the
// zero LockOption.
func (o LockOption) Name() string { return optionRules[o.kind].name }

// MaxWait bounds how long the request may wait, counted from the call. A request that waits longer
// fails with ErrWaitTimeout, or with ErrUnavailable if the server did not answer meanwhile, with
// ErrReadOnly if the server refused writes, or with ErrReplicas if a grant waited for replicas.
// Zero means a single try without waiting, which fails with ErrNotAcquired. A negative wait fails
// with ErrInvalidWait. Without MaxWait a request waits until granted or cancelled, or until the
// server has failed for Options.RetryTime.
func MaxWait(d time.Duration) LockOption { return LockOption{kind: optMaxWait, d: d} }

// FixedLease asks for a fixed lease, from MinLease to MaxLease: the watchdog does not renew the
// lock, and the lock is lost at the end of the lease. [Manager.Close] gives the lock back before:
// to keep the name taken, use [KeepFor]. A re-entry never shortens the hold of its owner. A
// re-entry with a longer lease, or without FixedLease, prolongs the hold until the re-entry is
// unlocked. A lease out of range fails with ErrInvalidLease.
func FixedLease(d time.Duration) LockOption { return LockOption{kind: optFixedLease, d: d} }

// AsOwner makes the request on behalf of an owner. If the owner holds the lock already, the request
// is granted at once (reentry), and the lock has to be unlocked once more. The zero Owner, or an
// Owner of another manager, fails with ErrInvalidOwner.
func AsOwner(o Owner) LockOption { return LockOption{kind: optAsOwner, owner: o} }

// Fenced asks for a fencing token with the lock: see [Lock.Token]. A re-entry into a hold without a
// token fails with ErrNotFenced. So does a request to read by an owner who writes without a token.
// An owner who reads without a token can ask for a token with a request to write. The counter of a
// name's tokens stays on the server for ever.
func Fenced() LockOption { return LockOption{kind: optFenced} }

// MaxHold bounds how long the watchdog keeps the lock, counted from the grant. At the bound the
// lock is lost, and the error says so. A re-entry has the bound of the hold. A d below MinLease
// fails with ErrInvalidLease.
func MaxHold(d time.Duration) LockOption { return LockOption{kind: optMaxHold, d: d} }

// KeepFor keeps the name taken for at least d from the grant on, even if the lock is unlocked, its
// manager is closed or its process ends before. So a job runs once although several processes start
// the job at about the same time:
//
//	err := mgr.Do(ctx, "nightly", job, lockmgr.OnlyIfFree(), lockmgr.KeepFor(time.Minute))
//
// Nobody gets the lock during the rest of d, neither in the same process nor in another. Waiting
// requests go on waiting. The watchdog renews the lock until Unlock, also for longer than d.
// [Manager.ForceUnlock] ends what is left of d. A lock that nobody has taken from its future, and
// that a cancel gives back, is not kept, unless the lock was lost before the cancel. The d of
// a re-entry counts from the re-entry, and never shortens the d of the hold.
//
// If the process ends within a round trip after the grant, or the server can't be reached, the name
// may be kept for two seconds only. If the record is removed, or a fixed lease ends within a round
// trip after a re-entry, the name is not kept at all.
//
// After the hold, [Manager.Inspect] and [Manager.Scan] tell who had the lock, and until when: see
// [Holder].
//
// KeepFor is for plain locks. A d below MinLease or above MaxLease fails with ErrInvalidLease.
func KeepFor(d time.Duration) LockOption { return LockOption{kind: optKeepFor, d: d} }

// TakeOver lets the request have a lock that [KeepFor] keeps for an ended hold. id is the
// [Lock.HolderID] of that hold, or the Owner of a [Holder]. So a process hands its work to another
// process, and nobody comes in between:
//
//	l, err := mgr.Lock(ctx, "order 7", lockmgr.KeepFor(10*time.Minute), lockmgr.Fenced())
//	...
//	queue.Send(l.HolderID(), l.Token())
//	l.Unlock(ctx)
//
// The other process locks with TakeOver and Fenced. If its token is larger by one, no fenced hold
// was between the two.
//
// While the name is kept for the hold, the request goes before those of other managers, but behind
// those of its own manager that have come before. If the kept time is over, or the hold has not
// ended, the request waits like any other: TakeOver never fails for its ID. A request that got the
// lock and failed after that has used the ID up, and the name is then free. An ID is no secret:
// everyone who can read the server's keys can read the ID.
//
// TakeOver is for plain locks. An empty ID, an ID of more than MaxNoteBytes bytes, and an ID with
// invalid UTF-8 fail with ErrInvalidOption.
func TakeOver(id string) LockOption {
	return LockOption{kind: optTakeOver, text: strings.TrimSuffix(id, wire.KeptSuffix)}
}

// OnlyIfFree makes the request try once, without waiting: the request fails with ErrNotAcquired if
// the lock is held or waited for. TryLock does the same.
func OnlyIfFree() LockOption { return LockOption{kind: optOnlyIfFree} }

// Note says what the lock is for, such as "invoice 42", for people who look for the holder: see
// [Manager.Inspect], [Manager.Scan] and [Manager.Locks]. Everyone who can read the server's keys
// can read the note. The note is written about a second after the grant, so a short hold costs
// nothing, and when a hold with [KeepFor] ends. A re-entry does not change the note of the hold. A
// text of more than MaxNoteBytes bytes, or with invalid UTF-8, fails with ErrInvalidOption.
func Note(text string) LockOption { return LockOption{kind: optNote, text: text} }

// TraceContext gives the request a context for Options.Observer, for example with the span of a
// tracer: see [EventGranted]. The context replaces the context of Lock or TryLock in events only:
// the request does not end with the context.
func TraceContext(ctx context.Context) LockOption { return LockOption{kind: optTraceContext, ctx: ctx} }

// WaitContext ends the request when ctx ends before the grant, with the error of a call whose own
// context has ended. After the grant ctx has no effect. So a process that is told to stop ends its
// waits, and finishes its work:
//
//	err := mgr.Do(context.Background(), "orders:42", work, lockmgr.WaitContext(stopping))
//
// A Lead with WaitContext that leads when ctx ends goes on leading, and does not campaign again.
func WaitContext(ctx context.Context) LockOption { return LockOption{kind: optWaitContext, ctx: ctx} }

// waitContextOf returns the context of WaitContext, or context.Background.
func waitContextOf(opts []LockOption) context.Context {
	for _, o := range opts {
		if o.kind == optWaitContext && o.ctx != nil {
			return o.ctx
		}
	}
	return context.Background()
}

// Shared asks for the read side of a read-write lock. Any number of owners can have the read side
// at a time, in all processes, while nobody has the write side: see [Exclusive].
//
// All readers of a manager share an entry in Redis, so only the first and the last reader need a
// command. A reader waits behind a waiting writer of the same manager, even if other owners read.
// While a writer of another manager waits, no further reader is granted, so the writer gets the
// lock when the holds of the readers have ended. A writer that has given up has the same effect for
// 3 s more. An owner of the write side gets the read side at once, and keeps the read side after
// unlocking the write side: other owners can read soon after.
//
// For the token of a reader with Fenced see [Lock.Token]. A request for a name in use as another
// kind of lock fails with [ErrKind].
func Shared() LockOption { return LockOption{kind: optShared} }

// Exclusive asks for the write side of a read-write lock: see [Shared]. A single owner has the
// write side, while nobody reads.
//
// An owner who reads can get the write side as well, if nobody else reads in any process:
//
//	w, err := mgr.TryLock(ctx, name, lockmgr.Exclusive(), lockmgr.AsOwner(read.Owner()))
//
// Such a request goes before waiting writers. If somebody else reads, TryLock fails with
// ErrNotAcquired. Then unlock the read side, Lock the write side, and read your data again. A
// reader's request that may wait, by Lock or by a MaxWait above zero, fails with ErrDeadlock at
// once: the reader would wait for itself.
//
// An owner of both sides who unlocks the write side goes on reading. Other owners can read as soon
// as Redis knows of the unlock, perhaps some milliseconds after Unlock returned.
func Exclusive() LockOption { return LockOption{kind: optExclusive} }

// Fair asks for a fair lock. Requests are granted in the order in which they arrive at the server,
// from all processes, and from clients of Redisson's fair lock. An unlock in one process is the
// grant in the next: a handoff costs one command. A handoff costs a second one after handoffs
// within a process, with Options.Replicas, and from or to a client of Redisson. A lock that was
// handed over by one command has a deadline of two seconds until its first renewal, which comes
// after a quarter of a second.
//
// A waiting request has a place in a queue on the server. The manager keeps its places by a command
// about once a second for each name. The command costs the server about 5 ms for 1,000 places, so
// no more than some thousand requests should wait for the same name. If the manager can't reach the
// server for five seconds, its requests may join again at the end.
//
// A dead manager delays the requests behind its places for up to five seconds, usually for two. A
// dead client of Redisson delays the requests behind its place for its own wait, 5 min by default.
// A request that does not wait, of TryLock or with MaxWait(0), fails if anybody waits.
//
// [Manager.ForceUnlock] tells only the first in the queue. The holder learns of its loss at its
// next renewal, or within about a second if requests of its manager wait.
//
// Do not use both "a" and "{a}" as fair locks: the two share a queue, as with Redisson. A request
// for a name held as a plain lock fails with ErrKind, and the other way round. A record of Redisson
// does not show the kind: if Redisson and holdfast disagree, the two exclude each other, but keep
// no order, and notice a release late.
func Fair() LockOption { return LockOption{kind: optFair} }

// A wish holds the arguments of a request.
type wish struct {
	name     string // of a set: the text of its items
	call     callKinds
	opts     []LockOption
	fault    error         // why the name, the set or the permits are refused; nil: they are not
	wait     time.Duration // negative: for ever
	lease    time.Duration // zero: watched
	hold     time.Duration // MaxHold; zero: no bound
	keep     time.Duration // KeepFor; zero: not at all
	note     string        // Note
	takeOver string        // TakeOver
	owner    Owner
	fenced   bool
	kind     core.Kind
	side     core.Side
	items    []core.Item     // of a set
	ctx      context.Context // for the observer
	waitCtx  context.Context // WaitContext; nil: none

	permits uint16 // how many, for the kind Permits
	limit   int64  // how many there are if the server knows no limit
}

// wishFor returns the wish of a call. apply applies the options.
func wishFor(call callKinds, name string, fault error, opts []LockOption) wish {
	w := wish{name: name, call: call, opts: opts, fault: fault, fenced: call == toLead}
	if call&(toWait|toLead) != 0 {
		w.wait = -1
	}
	return w
}

// useOwner takes the owner of a context, if the context has an owner and the call takes owners.
func (w *wish) useOwner(ctx context.Context) error {
	if o, ok := ownerFrom(ctx); ok && w.call&toOwned != 0 {
		if w.owner = o; o.of == nil {
			return fmt.Errorf("%w: the zero Owner", ErrInvalidOwner)
		}
	}
	return nil
}

// apply changes the wish by its options, or returns the error of a bad option.
func (w *wish) apply(id *identity) error {
	for i, o := range w.opts {
		if err := o.check(w.call, w.opts[:i]); err != nil {
			return err
		}
		switch o.kind {
		case optMaxWait:
			w.wait = o.d
		case optOnlyIfFree:
			w.wait = 0
		case optFixedLease:
			w.lease = o.d
		case optMaxHold:
			w.hold = o.d
		case optKeepFor:
			w.keep = o.d
		case optTakeOver:
			w.takeOver = o.text
		case optAsOwner:
			w.owner = o.owner
		case optFenced:
			w.fenced = true
		case optShared:
			w.kind, w.side = core.ReadWrite, core.Shared
		case optExclusive:
			w.kind, w.side = core.ReadWrite, core.Alone
		case optFair:
			w.kind = core.Fair
		case optNote:
			w.note = o.text
		case optTraceContext:
			w.ctx = o.ctx
		case optWaitContext:
			w.waitCtx = o.ctx
		}
	}
	if w.owner.of != nil && w.owner.of != id {
		return fmt.Errorf("%w: %v belongs to another manager", ErrInvalidOwner, w.owner)
	}
	return nil
}

// check returns an error if the call does not take the option, if an option in before excludes the
// option, or if the option's value is bad.
func (o LockOption) check(call callKinds, before []LockOption) error {
	rule := &optionRules[o.kind]
	if rule.calls&call == 0 {
		return fmt.Errorf("%w: %s does not take %s", ErrInvalidOption, callNames[bits.TrailingZeros8(uint8(call))], rule.name)
	}
	for _, other := range before {
		switch {
		case other.kind == o.kind && o.kind != optNone:
			return fmt.Errorf("%w: %s is given twice", ErrInvalidOption, rule.name)
		case slices.Contains(rule.excludes, other.kind):
			return fmt.Errorf("%w: %s and %s can't be combined", ErrInvalidOption, other.Name(), rule.name)
		}
	}
	switch {
	case o.d < rule.least:
		return fmt.Errorf("%w: %s is %v, want at least %v", rule.err, rule.name, o.d, rule.least)
	case o.d > rule.most:
		return fmt.Errorf("%w: %s is %v, want at most %v", rule.err, rule.name, o.d, rule.most)
	case o.kind == optAsOwner && o.owner.of == nil:
		return fmt.Errorf("%w: the zero Owner", ErrInvalidOwner)
	case o.kind == optTakeOver && o.text == "":
		return fmt.Errorf("%w: TakeOver of an empty ID", ErrInvalidOption)
	case len(o.text) > MaxNoteBytes || !utf8.ValidString(o.text):
		return fmt.Errorf("%w: a text of %d bytes for %s: want valid UTF-8, at most %d bytes", ErrInvalidOption, len(o.text), rule.name, MaxNoteBytes)
	}
	return nil
}
