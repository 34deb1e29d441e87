package lockmgr

import (
	"context"
	"time"
)

// An Event is something that happened in a manager. The set may grow:
// observers should ignore types that they do not know. At is when it happened,
// which may be long before a slow observer gets it. Context is the context of
// the request: that of Lock or TryLock, or of [TraceContext]; nil without one.
type Event interface{ isEvent() }

type (
	// EventGranted: a request got its lock.
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
	// EventFailed: a request ended without a lock, or was refused at once.
	EventFailed struct {
		At      time.Time
		Context context.Context
		Name    string
		Owner   string        // as Owner.String prints it: it has no holder ID yet; empty if refused at once
		Waited  time.Duration // since the request was made
		Err     error
	}
	// EventUnlocked: a holder gave its lock back. Err is what Unlock returned. If it matches
	// ErrLeaseLost or ErrClosed, the hold was lost, and its EventLost came before.
	EventUnlocked struct {
		At      time.Time
		Context context.Context
		Name    string
		Owner   string
		Held    time.Duration // from the grant to the call of Unlock
		Took    time.Duration // from the call of Unlock to its result
		Err     error
	}
	// EventLost: a hold was lost. Err matches ErrLeaseLost or ErrClosed. The reasons are: a
	// renewal or Unlock found that the record was removed, for instance by ForceUnlock or
	// Permits.Return; the deadline passed, perhaps as planned by FixedLease or MaxHold; Close
	// ended the hold, or ended before the answer to its Unlock. Re-entries are lost with their
	// hold, and have no event of their own. Stats.Losses counts these events.
	EventLost struct {
		At      time.Time
		Context context.Context
		Name    string
		Owner   string
		Held    time.Duration // since the grant
		Err     error
	}
	// EventRefused: another manager holds the lock, or for a set another request of this
	// one may hold one of its names. Its record lives for TTL if
	// it is not renewed; a negative TTL means without end.
	EventRefused struct {
		At   time.Time
		Name string
		TTL  time.Duration
	}
	// EventReleased: the record was removed from Redis. If Err is not nil, the server refused to
	// publish that: waiters of other processes look within some 5 s.
	EventReleased struct {
		At   time.Time
		Name string
		Err  error
	}
	// EventStoodBack: after a run of Grants, this manager lets others go first.
	EventStoodBack struct {
		At     time.Time
		Name   string
		Grants int
	}
	// EventRenewed: this many leases were renewed, by commands that were answered
	// together.
	EventRenewed struct {
		At     time.Time
		Leases int
	}
	// EventRenewalFailed: renewing this many leases failed, in commands that were
	// answered together. Err is the newest error. Each is retried until its own
	// deadline.
	EventRenewalFailed struct {
		At     time.Time
		Leases int
		Err    error
	}
	// EventCommand: a command was answered, or its time-out passed.
	EventCommand struct {
		At time.Time
		// Command is the name of a script: "acquire", "transfer", "renew", "release",
		// the same with "readwrite_", "permits_" or "fair_" before it, "several_acquire",
		// "several_renew", "several_release", "force", "inspect", "permits_return",
		// "permits_limit", "permits_delete" or "permits_inspect". For a command that is
		// no script it is the first word.
		Command string
		// Names are the locks that the script is for.
		Names []string
		// Took is the time from the send to the answer. Commands that were sent
		// together have the same.
		Took time.Duration
		// Err is the error of the command as a whole. One that concerns a single
		// lock of several is in an EventCommandFailed or EventRenewalFailed.
		Err error
	}
	// EventCommandFailed: a script did not run, or may not have. Consecutive counts
	// the failures of this name since one succeeded.
	EventCommandFailed struct {
		At          time.Time
		Name        string
		Consecutive int
		Err         error
	}
	// EventReleaseGivenUp: the release of a record could not be confirmed before its lease
	// ended, or before Close gave up. Stats.Unreleased counts these events.
	EventReleaseGivenUp struct {
		At   time.Time
		Name string
		Err  error
	}
	// EventSubscription: the state of a pub/sub connection changed, as
	// notify.State prints it. There is one to each master of a cluster. Address is
	// that of the master. It is empty for a single server.
	EventSubscription struct {
		At      time.Time
		State   string
		Address string
	}
	// EventDropped: the observer was too slow, and this many events are
	// missing here.
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
