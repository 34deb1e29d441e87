package lockmgr

import (
	"context"
	"time"
)

// An Event is something that happened in a manager. The set may grow: observers should ignore
// unknown types. At is the time of the event. A slow observer may get the event long after At.
// Context is the context of the request, from Lock, TryLock or [TraceContext]; nil without a
// context.
type Event interface{ isEvent() }

type (
	// EventGranted: a request got the lock.
	EventGranted struct {
		At      time.Time
		Context context.Context
		Name    string
		Owner   string // as Lock.HolderID returns it
		Token   int64  // as Lock.Token returns it: zero for a set
		Passed  bool   // from another owner of this manager, in memory
		Reentry bool
		Waited  time.Duration // since the request was made
	}
	// EventFailed: a request ended without a lock, or was refused at once. Err is the error that
	// the caller got, or ErrCanceled if the future was cancelled.
	EventFailed struct {
		At      time.Time
		Context context.Context
		Name    string
		Owner   string        // as Owner.String prints it: it has no holder ID yet; empty if refused at once
		Waited  time.Duration // since the request was made
		Err     error
	}
	// EventUnlocked: a holder gave a lock back. Err is the result of Unlock. If Err matches
	// ErrLeaseLost or ErrClosed, the hold was lost, and the EventLost of the hold came before.
	EventUnlocked struct {
		At      time.Time
		Context context.Context
		Name    string
		Owner   string
		Held    time.Duration // from the grant to the call of Unlock
		Took    time.Duration // from the call of Unlock to its result
		Err     error
	}
	// EventLost: a hold was lost. Err matches ErrLeaseLost or ErrClosed. The reasons are: a renewal
	// or Unlock found that the record was removed, for instance by ForceUnlock or Permits.Return;
	// the deadline passed, perhaps as planned by FixedLease or MaxHold; Close ended the hold, or
	// ended before the answer to the Unlock of the hold. Re-entries are lost with their hold,
	// without an event of their own. Stats.Losses counts the events.
	EventLost struct {
		At      time.Time
		Context context.Context
		Name    string
		Owner   string
		Held    time.Duration // since the grant
		Err     error
	}
	// EventRefused: another manager holds the lock, or for a set, another request of the same
	// manager may hold a name of the set. The record lives for TTL if not renewed; a negative TTL
	// means without end.
	EventRefused struct {
		At   time.Time
		Name string
		TTL  time.Duration
	}
	// EventReleased: the record was removed from Redis. If Err is not nil, the server refused to
	// publish the release, or to serve the queue of a fair lock: waiters of other processes look
	// within some 5 s.
	EventReleased struct {
		At   time.Time
		Name string
		Err  error
	}
	// EventStoodBack: after a run of Grants, the manager lets other processes go first.
	EventStoodBack struct {
		At     time.Time
		Name   string
		Grants int
	}
	// EventRenewed: Leases leases were renewed, by commands answered together.
	EventRenewed struct {
		At     time.Time
		Leases int
	}
	// EventRenewalFailed: renewing Leases leases failed, in commands answered together. Err is the
	// newest error. Each renewal is retried until the deadline of the lease.
	EventRenewalFailed struct {
		At     time.Time
		Leases int
		Err    error
	}
	// EventCommand: a command was answered, or the time-out passed.
	EventCommand struct {
		At time.Time
		// Command is the name of a script: "acquire", "transfer", "renew", "release", the same with
		// "readwrite_", "permits_" or "fair_" before it, "reserve", "several_acquire",
		// "several_renew", "several_release", "force", "inspect", "permits_return",
		// "permits_limit", "permits_delete" or "permits_inspect". For a command that is no script,
		// Command is the first word.
		Command string
		// Names are the locks of the script.
		Names []string
		// Took is the time from the send to the answer. Commands sent together have the same Took.
		Took time.Duration
		// Err is the error of the command as a whole. The error of a single lock among several is
		// in an EventCommandFailed or EventRenewalFailed.
		Err error
	}
	// EventCommandFailed: a script did not run, or may not have run. Consecutive counts the
	// failures of the name since the last success.
	EventCommandFailed struct {
		At          time.Time
		Name        string
		Consecutive int
		Err         error
	}
	// EventReleaseGivenUp: the release of a record could not be confirmed before the lease ended,
	// or before Close gave up. Stats.Unreleased counts the events.
	EventReleaseGivenUp struct {
		At   time.Time
		Name string
		Err  error
	}
	// EventSubscription: the state of a pub/sub connection changed, as notify.State prints it.
	// There is a connection to each master of a cluster. Address is the address of the master, and
	// empty for a single server.
	EventSubscription struct {
		At      time.Time
		State   string
		Address string
	}
	// EventDropped: the observer was too slow, and Events events are missing here.
	EventDropped struct {
		At     time.Time
		Events uint64
	}
)

func (EventGranted) isEvent()        {}
func (EventFailed) isEvent()         {}
func (EventUnlocked) isEvent()       {}
func (EventLost) isEvent()           {}
func (EventRefused) isEvent()        {}
func (EventReleased) isEvent()       {}
func (EventStoodBack) isEvent()      {}
func (EventRenewed) isEvent()        {}
func (EventRenewalFailed) isEvent()  {}
func (EventCommand) isEvent()        {}
func (EventCommandFailed) isEvent()  {}
func (EventReleaseGivenUp) isEvent() {}
func (EventSubscription) isEvent()   {}
func (EventDropped) isEvent()        {}
