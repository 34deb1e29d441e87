package lockmgr

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
	"github.com/holdfast-go/holdfast/lockmgr/internal/wire"
)

// The shortest and the longest lease that FixedLease and Extend accept: 10 ms and
// 365 days.
const (
	MinLease = 10 * time.Millisecond
	MaxLease = 365 * 24 * time.Hour
)

// Options tune a Manager. Zero is the default of each field. Dial and New refuse
// a negative value with ErrInvalidOption, unless the field says what it means.
// The struct may be reused: they copy it.
type Options struct {
	// Lease is the life of a record in Redis under the watchdog, which
	// renews it every third of that time. It is how long a lock stays taken
	// when its process dies. Default 30 s; at least 100 ms.
	Lease time.Duration
	// Margin is subtracted from every lease, and 1 % for clock drift. What
	// remains is how long a lock is valid. Default 2 ms; 1 to 5 ms.
	Margin time.Duration
	// CommandTimeout is how long one script may take before its outcome counts
	// as unknown. It must be below Lease/3. Default 2 s, or Lease/10 if that
	// is less.
	CommandTimeout time.Duration
	// RetryTime is how long the server may fail to answer, or refuse for a
	// passing reason, before waiting requests fail. They fail within RetryTime
	// plus one CommandTimeout, plus the client's dial time-out while a dial
	// hangs. RetryTime does not limit the wait for a lock that others hold.
	// Default 5 s.
	RetryTime time.Duration

	// PassCount and PassTime bound a run: how many grants in a row this manager
	// makes, and for how long, before others go first. After a run the manager
	// stands back until the others have had the lock for as long as the run
	// took, times the number of processes that seem to want it. If it hears of
	// none, it stands back for 10 ms at most; once in 750 ms for up to 25 ms, for
	// processes that poll, and up to 130 ms, for subscribers that are far away.
	// A run goes on while no other subscriber is known, which is checked at least
	// every 8*PassCount grants. They do not concern fair locks. Defaults 32 and
	// 100 ms.
	PassCount int
	PassTime  time.Duration

	// Linger is how long a subscription is kept after its last waiter, so
	// that a contended lock does not subscribe each time. Default 2 s;
	// negative: not at all.
	Linger time.Duration

	// Channels says on which channels a manager of a cluster publishes and listens. Single
	// servers and those that Sentinels name have classic channels only.
	Channels Channels

	// Replicas makes a grant wait for replicas: see there.
	Replicas Replicas

	// Process is what others are told of the process of this manager: see [Holder]. Fields that are
	// not set have defaults. Program and Host have at most MaxProcessBytes bytes.
	Process Process
	// Anonymous keeps the manager from telling others which process it is part of, and what its
	// locks are for.
	Anonymous bool

	// MaxWaiters bounds the requests that are pending at one time. MaxLocks
	// bounds the names that are held or waited for; as many again may be
	// remembered for a while. Beyond them requests fail with ErrOverloaded.
	// Default 1,048,576 each.
	MaxWaiters int
	MaxLocks   int

	// Logger gets lost leases, and a line when commands begin to fail, when they
	// no longer fail, and when the subscription is cut or back: see
	// docs/operations.md for all lines. Its handler runs on a goroutine of its
	// own. Default: nothing is logged.
	Logger *slog.Logger
	// Observer is called with every event, in order and one at a time, on a
	// goroutine of its own. A slow one delays nothing but itself: while 16,384
	// events wait for it, further ones are dropped, counted in
	// Stats.DroppedEvents and reported by an EventDropped. The same bound holds
	// for the lines of a slow log handler. Observer may use the manager, except
	// for Close, which would wait for it. It must not panic.
	Observer func(Event)

	readClocks func() (awake, all time.Duration, ok bool) // of the host; tests have their own
	onBatch    func()                                     // called by the manager's goroutine before each batch; nil except in tests
}

const (
	defaultLease   = 30 * time.Second
	minWatched     = 100 * time.Millisecond
	defaultBound   = 1 << 20
	recordEvery    = time.Millisecond
	backTime       = 5 * time.Millisecond
	shareEvery     = time.Second           // the longest time without a chance for a process that is not known
	blindPause     = 20 * time.Millisecond // longer than pollSoon
	farPause       = 125 * time.Millisecond
	gatherAfter    = time.Second     // see core.Config
	placeTime      = 5 * time.Second // see core.Config
	pollBlind      = time.Second
	pollSoon       = 10 * time.Millisecond
	suspectFactor  = 2 // SuspectTime, in command time-outs
	defaultLinger  = 2 * time.Second
	defaultRetry   = 5 * time.Second
	defaultTimeout = 2 * time.Second
)

// Replicas says how many replicas must have the record of a lock before the lock is granted. A
// failover that promotes one of them keeps the lock then. Without Acks a failover loses the
// locks that were granted in the moment before it, as a server answers before its replicas
// know.
//
// A lock whose record too few replicas have in time is given back, and its request fails with
// ErrReplicas. So do all requests of this manager that wait for that name.
//
// A lock that this manager passed on in memory just before the failover may be lost all the same:
// the new master may know the holder before. Nobody else gets the lock then until its TTL is over.
//
// Replicas make a loss to others rare. They do not exclude it: the server that is promoted may be
// one that did not have the record, and a lease that was renewed just before the failover may
// end up to a third of a lease earlier on the new master. The holder is told of a loss, and only
// a fencing token keeps its late writes out.
//
// Each grant that needs a command takes two more round trips, and WAIT. A lock that a manager
// passes on in memory does not, as the record is there already. The user needs +wait.
type Replicas struct {
	// Acks is how many replicas must have a record. Default 0: none is asked for.
	Acks int
	// Timeout is how long to wait for them. A request can take twice as long, as it may find a
	// wait under way. Default 1 s, or a tenth of the lease if that is less; at least 1 ms and
	// below a third of the lease.
	Timeout time.Duration
}

// Channels are the kinds of channels that the managers of a cluster use. All clients that share
// locks must have one in common. Those that have not do not wake each other: they poll.
// Redisson uses sharded channels since 3.52, and classic ones before that or with
// shardedSubscriptionMode OFF.
type Channels uint8

const (
	// ShardedChannels are SPUBLISH and SSUBSCRIBE: a message goes to those who listen at the master
	// of the name. A cluster older than version 7.0 has none; its managers use classic ones.
	ShardedChannels Channels = iota
	// ClassicChannels are PUBLISH and SUBSCRIBE: a message goes to every node of the cluster.
	ClassicChannels
	// BothChannels publishes each message twice, and listens on both. It is for the time in which
	// some clients of a fleet have sharded channels only and others classic ones only. Each wait
	// costs a command more, and each master one more connection.
	BothChannels
)

// published returns the channels that scripts publish on.
func (c Channels) published() wire.Channels {
	return [...]wire.Channels{ShardedChannels: wire.Sharded, ClassicChannels: wire.Classic, BothChannels: wire.Both}[c]
}

// complete returns o with its defaults filled in, or the error of a bad field.
func (o Options) complete() (Options, error) {
	bad := func(field string, value any, want string) (Options, error) {
		return o, fmt.Errorf("%w: Options.%s is %v, want %s", ErrInvalidOption, field, value, want)
	}
	if o.Channels > BothChannels {
		return bad("Channels", o.Channels, "ShardedChannels, ClassicChannels or BothChannels")
	}
	setDefault(&o.Lease, defaultLease)
	if o.Lease < minWatched || o.Lease > MaxLease {
		return bad("Lease", o.Lease, "100ms to a year")
	}
	setDefault(&o.Margin, 2*time.Millisecond)
	if o.Margin < time.Millisecond || o.Margin > MinLease/2 {
		return bad("Margin", o.Margin, "1ms to 5ms")
	}
	setDefault(&o.CommandTimeout, min(defaultTimeout, o.Lease/10))
	if o.CommandTimeout < time.Millisecond || o.CommandTimeout >= o.Lease/3 {
		return bad("CommandTimeout", o.CommandTimeout, "1ms to below a third of the lease")
	}
	if o.Replicas.Acks < 0 || o.Replicas.Acks > 1<<10 {
		return bad("Replicas.Acks", o.Replicas.Acks, "0 to 1,024")
	}
	setDefault(&o.Replicas.Timeout, min(time.Second, o.Lease/10))
	if o.Replicas.Timeout < time.Millisecond || o.Replicas.Timeout >= o.Lease/3 {
		return bad("Replicas.Timeout", o.Replicas.Timeout, "1ms to below a third of the lease")
	}
	setDefault(&o.RetryTime, defaultRetry)
	if o.RetryTime < 0 {
		return bad("RetryTime", o.RetryTime, "a time that is not negative")
	}
	setDefault(&o.PassCount, 32)
	if o.PassCount < 1 || o.PassCount > 1<<20 {
		return bad("PassCount", o.PassCount, "1 to 1,048,576")
	}
	setDefault(&o.PassTime, 100*time.Millisecond)
	if o.PassTime < 0 {
		return bad("PassTime", o.PassTime, "a time that is not negative")
	}
	for field, text := range map[string]string{"Program": o.Process.Program, "Host": o.Process.Host} {
		if len(text) > MaxProcessBytes || !utf8.ValidString(text) {
			return bad("Process."+field, strconv.Quote(text), fmt.Sprintf("valid UTF-8, at most %d bytes", MaxProcessBytes))
		}
	}
	o.Process = o.Process.complete()
	setDefault(&o.Linger, defaultLinger)
	o.Linger = max(o.Linger, 0)
	setDefault(&o.MaxWaiters, defaultBound)
	setDefault(&o.MaxLocks, defaultBound)
	if o.MaxWaiters < 1 {
		return bad("MaxWaiters", o.MaxWaiters, "1 or more")
	}
	if o.MaxLocks < 1 {
		return bad("MaxLocks", o.MaxLocks, "1 or more")
	}
	if o.readClocks == nil {
		o.readClocks = readClocks
	}
	return o, nil
}

func setDefault[T comparable](p *T, v T) {
	var zero T
	if *p == zero {
		*p = v
	}
}

// A LockOption changes one request.
type LockOption struct {
	kind  optionKind
	d     time.Duration
	owner Owner
	ctx   context.Context
	side  core.Side
	note  string
}

type optionKind uint8

const (
	optWait optionKind = iota + 1
	optLease
	optOwner
	optFenced
	optMaxHold
	optTrace
	optSide
	optFair
	optKeep
	optNote
)

// MaxWait bounds how long the request may wait, counted from the call. After
// that it fails with ErrWaitTimeout, or with ErrUnavailable if the server did
// not answer meanwhile, or with ErrReplicas if a grant waited for replicas. Zero means one try and no
// waiting, which fails with ErrNotAcquired. A negative wait fails with ErrInvalidWait. Without MaxWait a
// request waits until it is granted or cancelled, or the server has failed for Options.RetryTime.
func MaxWait(d time.Duration) LockOption { return LockOption{kind: optWait, d: d} }

// FixedLease asks for a fixed lease, from MinLease to MaxLease: the watchdog does
// not renew it, and the lock is lost at its end. A re-entry never shortens
// what its owner holds; a longer lease prolongs it. A lease out of range fails
// with ErrInvalidLease.
func FixedLease(d time.Duration) LockOption { return LockOption{kind: optLease, d: d} }

// AsOwner makes the request on behalf of an owner. If the owner holds the lock
// already, it is granted at once (reentry) and has to be unlocked once more.
// The zero Owner, or one of another manager, fails with ErrInvalidOwner.
func AsOwner(o Owner) LockOption { return LockOption{kind: optOwner, owner: o} }

// Fenced asks for a fencing token with the lock: see [Lock.Token]. A re-entry into
// a hold that was taken without it fails with ErrNotFenced. The other side of a
// read-write lock is no re-entry: it is a grant of its own, which has a token only if
// its own request asks for one.
func Fenced() LockOption { return LockOption{kind: optFenced} }

// MaxHold bounds how long the watchdog keeps the lock, counted from its grant. Then
// the lock is lost, with an error that says so. A re-entry has the bound of its
// hold. A d below MinLease fails with ErrInvalidLease. MaxHold has no effect
// together with FixedLease.
func MaxHold(d time.Duration) LockOption { return LockOption{kind: optMaxHold, d: d} }

// KeepFor keeps the name taken for at least d from the grant on, even if the lock is unlocked,
// its manager is closed or its process ends before. So a job that several processes start at
// about the same time runs once:
//
//	err := mgr.Do(ctx, "nightly", job, lockmgr.OnlyIfFree(), lockmgr.KeepFor(time.Minute))
//
// Unlock then leaves the record on the server for the rest of d, and nobody gets the lock
// meanwhile, neither in this process nor in another. Requests that wait go on waiting. The
// watchdog renews the lock until Unlock, also for longer than d. [Manager.ForceUnlock] ends
// what is left of d. A lock that a future gives back because nobody has taken it is not kept. A
// re-entry may lengthen d, and never shortens it.
//
// If the process ends within a round trip after the grant, or the server can't be reached, the
// name may be kept for Options.Lease only. If the record is removed, or the server loses data,
// it is not kept at all. A lock that ends by FixedLease or MaxHold is kept.
//
// d is from MinLease to MaxLease; otherwise the request fails with ErrInvalidLease. KeepFor is for
// plain locks: with Shared, Exclusive, Fair, for a Set and for permits it fails with
// ErrInvalidOption.
func KeepFor(d time.Duration) LockOption { return LockOption{kind: optKeep, d: d} }

// OnlyIfFree makes the request try once, without waiting: it fails with ErrNotAcquired if the lock
// is held or waited for. It is the same as MaxWait(0), and what TryLock does.
func OnlyIfFree() LockOption { return MaxWait(0) }

// Note says what the lock is for, such as "invoice 42", for people who look who holds it: see
// [Manager.Inspect], [Manager.Scan] and [Manager.Locks]. Everyone who can read the server's keys can
// read it. It is written about a second after the grant, so that a lock which is held for a short
// time costs nothing. A re-entry does not change the note of its hold. A text of more than
// MaxNoteBytes bytes, or one that is no valid UTF-8, fails with ErrInvalidOption.
func Note(text string) LockOption { return LockOption{kind: optNote, note: text} }

// TraceContext gives the request a context for Options.Observer, such as one
// with the span of a tracer: see [EventGranted]. It replaces the context of Lock
// or TryLock in events only: the request does not end with it.
func TraceContext(ctx context.Context) LockOption { return LockOption{kind: optTrace, ctx: ctx} }

// Shared asks for the read side of a read-write lock. Any number of owners can have it
// at a time, in all processes, while nobody has the other side: see [Exclusive].
//
// All readers of one manager share one entry in Redis, so that only the first of them
// and the last one need a command. A reader waits behind a writer of its manager that
// waits, even if others read. An owner that has the other side gets this one at once,
// and keeps it when it unlocks the other: others can read soon after.
//
// A token that a reader asks for with Fenced is no smaller than that of the last
// writer, and smaller than that of the next.
//
// If a request has both Shared and Exclusive, the last of them counts.
//
// A name is a plain lock, a read-write lock or a fair lock. A request for a name that is in
// use as another kind, by this manager or by others, fails with ErrKind.
func Shared() LockOption { return LockOption{kind: optSide, side: core.Shared} }

// Exclusive asks for the write side of a read-write lock: see [Shared]. One owner has
// it, while nobody reads.
//
// An owner that reads can get this side as well, if nobody else reads in any process:
//
//	w, err := mgr.TryLock(ctx, name, lockmgr.Exclusive(), lockmgr.AsOwner(read.Owner()))
//
// It goes before writers that wait. If somebody else reads, TryLock fails with
// ErrNotAcquired. Then unlock the read side, Lock the write side, and look again at what
// you have read. A request of a reader that may wait, by Lock or by a MaxWait above
// zero, fails with ErrDeadlock at once: it would wait for itself.
//
// An owner that has both sides and unlocks the write side goes on reading. Others can read as
// soon as Redis knows that, which may be some milliseconds after Unlock returned.
//
// Without Shared or Exclusive a request is for a plain lock, which is another kind.
func Exclusive() LockOption { return LockOption{kind: optSide, side: core.Alone} }

// Fair asks for a fair lock. Requests are granted in the order in which they arrive at the
// server, from all processes, and from clients of Redisson's fair lock. A manager sends its new
// requests together. If the next request is one of another process, a handoff costs two
// commands and a message.
//
// A request that waits has a place in a queue on the server. Its manager keeps the place,
// however long the request waits: while some wait, it sends a command about once a second for
// each name. That command costs the server about 5 ms for 1,000 places, so no more than some
// thousand requests should wait for one name. If the manager can't reach the server for five
// seconds, its requests may lose their places and join again at the end.
//
// A manager that has died delays those behind its places for 5 s at most. A client of Redisson
// that has died delays them for its own wait, which is 5 min by default.
//
// A request that does not wait, of TryLock or with MaxWait(0), fails if anybody waits. Places of
// a manager that has died count until then.
//
// [Manager.ForceUnlock] tells only the first in the queue. The holder learns of its loss at its
// next renewal, or within about a second if requests of its manager wait.
//
// Do not use both "a" and "{a}" as fair locks: the two share a queue, as with Redisson.
//
// A name is either a fair lock or a plain one. The scripts do not check which of the two a
// record is: do not use one name as both in different processes. Fair can't be combined with
// Shared or Exclusive.
func Fair() LockOption { return LockOption{kind: optFair} }

// A wish holds the options of one request.
type wish struct {
	wait   time.Duration // negative: for ever
	lease  time.Duration // zero: watched
	hold   time.Duration // MaxHold; zero: no bound
	keep   time.Duration // KeepFor; zero: not at all
	note   string        // Note
	owner  Owner
	fenced bool
	kind   core.Kind
	side   core.Side
	items  []core.Item     // of a set
	ctx    context.Context // for the observer

	permits uint16 // how many, for the kind Permits
	limit   int64  // how many there are if the server knows no limit
}

// useOwner takes the owner of a context, if it has one.
func (w *wish) useOwner(ctx context.Context) error {
	if o, ok := ownerFrom(ctx); ok {
		if w.owner = o; o.of == nil {
			return fmt.Errorf("%w: the zero Owner", ErrInvalidOwner)
		}
	}
	return nil
}

func (w *wish) apply(id *identity, opts []LockOption) error {
	var sided, ordered bool
	for _, o := range opts {
		switch o.kind {
		case optWait:
			if o.d < 0 {
				return fmt.Errorf("%w: %v", ErrInvalidWait, o.d)
			}
			w.wait = o.d
		case optLease:
			if o.d < MinLease || o.d > MaxLease {
				return fmt.Errorf("%w: %v is not within %v and %v", ErrInvalidLease, o.d, MinLease, MaxLease)
			}
			w.lease = o.d
		case optOwner:
			w.owner = o.owner
			if o.owner.of == nil {
				return fmt.Errorf("%w: the zero Owner", ErrInvalidOwner)
			}
		case optFenced:
			w.fenced = true
		case optMaxHold:
			if o.d < MinLease {
				return fmt.Errorf("%w: MaxHold is %v, less than %v", ErrInvalidLease, o.d, MinLease)
			}
			w.hold = o.d
		case optKeep:
			if o.d < MinLease || o.d > MaxLease {
				return fmt.Errorf("%w: KeepFor is %v, not within %v and %v", ErrInvalidLease, o.d, MinLease, MaxLease)
			}
			w.keep = o.d
		case optNote:
			if len(o.note) > MaxNoteBytes || !utf8.ValidString(o.note) {
				return fmt.Errorf("%w: a Note of %d bytes: want valid UTF-8, at most %d bytes", ErrInvalidOption, len(o.note), MaxNoteBytes)
			}
			w.note = o.note
		case optTrace:
			w.ctx = o.ctx
		case optSide:
			w.kind, w.side = core.ReadWrite, o.side
			sided = true
		case optFair:
			w.kind = core.Fair
			ordered = true
		}
	}
	if sided && ordered {
		return fmt.Errorf("%w: Fair can't be combined with Shared or Exclusive", ErrInvalidOption)
	}
	if w.keep > 0 && (sided || ordered) {
		return fmt.Errorf("%w: KeepFor is for plain locks", ErrInvalidOption)
	}
	if w.owner.of != nil && w.owner.of != id {
		return fmt.Errorf("%w: %v belongs to another manager", ErrInvalidOwner, w.owner)
	}
	return nil
}
