package lockmgr

import "time"

// An Event is something that happened in a manager. The set may grow:
// observers should ignore types that they do not know.
type Event interface{ isEvent() }

type (
	// Granted: a request got its lock.
	Granted struct {
		Name    string
		Owner   string // as in Redis
		Token   int64
		Passed  bool // from another owner in this manager, without Redis
		Reentry bool
	}
	// Failed: a request ended without a lock.
	Failed struct {
		Name string
		Err  error
	}
	// Unlocked: a holder gave its lock back. Err is what Unlock returned.
	Unlocked struct {
		Name  string
		Owner string
		Err   error
	}
	// Lost: a hold ended without an unlock.
	Lost struct {
		Name  string
		Owner string
		Err   error
	}
	// Refused: another manager holds the lock, for TTL longer if it does
	// not renew; negative: without end.
	Refused struct {
		Name string
		TTL  time.Duration
	}
	// Released: the record was removed from Redis.
	Released struct{ Name string }
	// StoodBack: after a run of Grants, others get their turn.
	StoodBack struct {
		Name   string
		Grants int
	}
	// Renewed: a batch of leases was renewed.
	Renewed struct{ Leases int }
	// RenewalFailed: a batch was not; it is tried again until its deadlines.
	RenewalFailed struct {
		Leases int
		Err    error
	}
	// CommandFailed: a script did not run, or may not have. InARow counts
	// the failures of this name since one succeeded.
	CommandFailed struct {
		Name   string
		InARow int
		Err    error
	}
	// ReleaseGivenUp: the release of a record could not be confirmed before
	// its lease ended.
	ReleaseGivenUp struct {
		Name string
		Err  error
	}
	// Subscription: the state of the pub/sub connection changed, as
	// notify.State prints it.
	Subscription struct{ State string }
)

func (Granted) isEvent()        {}
func (Failed) isEvent()         {}
func (Unlocked) isEvent()       {}
func (Lost) isEvent()           {}
func (Refused) isEvent()        {}
func (Released) isEvent()       {}
func (StoodBack) isEvent()      {}
func (Renewed) isEvent()        {}
func (RenewalFailed) isEvent()  {}
func (CommandFailed) isEvent()  {}
func (ReleaseGivenUp) isEvent() {}
func (Subscription) isEvent()   {}
