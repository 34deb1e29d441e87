package core

import (
	"fmt"
	"time"
)

// An Event is the machine's only input. The set is closed.
type Event interface{ isEvent() }

type (
	// Lock: a caller wants a lock.
	Lock struct{ Request *Request }
	// Cancel: the caller of a request that is still pending has left.
	Cancel struct{ Request *Request }
	// Unlock: the caller gives back what it was granted. The shell sends it
	// once for each grant.
	Unlock struct{ Request *Request }
	// Replies: scripts have been answered, or never will be.
	Replies struct{ Replies []Reply }
	// Renewed: a batch of renewals has been answered, or never will be. What
	// became of each lease is in Renewal.Entries.
	Renewed struct{ Renewal *Renewal }
	// Wake: something happened on the channel of a name.
	Wake struct {
		Name string
		// Subscribed is whether messages are delivered from now on.
		Subscribed bool
		// Confirmed and Message say what happened since the last Wake; More that
		// there were several messages.
		Confirmed, Message, More bool
	}
	// Verify: someone may have removed the record of a name; look.
	Verify struct{ Name string }
	// A Prolongation: a holder wants to keep what it has for Lease from now on.
	// Prolonged answers it.
	Prolongation struct {
		Request *Request
		Lease   time.Duration
		Tag     any // the shell's own

		until time.Duration
		after uint64 // the last script before it
	}
	// Tick: the instant that Next returned has come.
	Tick struct{}
	// Close: take no more requests, end those that wait, and give back what
	// is held. Closed follows when that is done.
	Close struct{}
	// Abort: do not wait for what Close waits for.
	Abort struct{}
)

func (Lock) isEvent()          {}
func (Cancel) isEvent()        {}
func (Unlock) isEvent()        {}
func (*Replies) isEvent()      {}
func (*Renewed) isEvent()      {}
func (Wake) isEvent()          {}
func (Verify) isEvent()        {}
func (*Prolongation) isEvent() {}
func (Tick) isEvent()          {}
func (Close) isEvent()         {}
func (Abort) isEvent()         {}

// Ran says what is known of a command's fate.
type Ran uint8

const (
	// Maybe: it may have run, may run later, or never.
	Maybe Ran = iota
	// No: the server refused it before it wrote anything.
	No
	// Yes: it ran to its end, and the reply says what it found.
	Yes
)

func (r Ran) String() string { return [...]string{"maybe", "no", "yes"}[r] }

// Kind is the script that an Op stands for.
type Kind uint8

// The scripts. KindRenew is not carried by an Op but by a Renewal.
const (
	KindNone Kind = iota
	KindAcquire
	KindTransfer
	KindRelease
	KindRenew
	KindLook // is there a record? It changes nothing
)

func (k Kind) String() string {
	return [...]string{"none", "acquire", "transfer", "release", "renew", "look"}[k]
}

// An Op is one script to run for one name. It belongs to the shell from the
// Run effect until the reply that carries it back, and to the core otherwise.
type Op struct {
	// ID is never used twice. A reply whose ID is not the one in flight is
	// stale.
	ID   uint64
	Kind Kind
	Name string
	// Sent is an instant before the command was handed on: a lease counts
	// from here.
	Sent  time.Duration
	Lease time.Duration
	// Owner is to be put into the record (acquire, transfer). Others are
	// further owners of this manager that the record may carry.
	Owner  uint64
	Others []uint64
	// Tokens is how many fencing tokens to take.
	Tokens int64

	lock *lock
}

// A Reply is what became of an Op.
type Reply struct {
	Op *Op
	// ID repeats Op.ID, so that a late copy of a reply is known for one even
	// after the Op was used again.
	ID  uint64
	Ran Ran
	// OK is the answer when it ran: acquired, transferred, released, there.
	OK bool
	// TTL is the remaining life of another's record, when an acquire was
	// refused; negative: it has none.
	TTL time.Duration
	// Elsewhere says that the refusing record is of a kind whose release is not
	// published on our channel.
	Elsewhere bool
	// Subscribers counts who listens on the channel (transfer, release), or
	// is negative when the server would not say.
	Subscribers int64
	// Token is the last of the tokens taken.
	Token int64
	// Err is why it did not run, or may not have; with Ran == Yes, what went
	// wrong at no cost to the lock (a release that could tell nobody).
	Err error
	// Final says that trying again soon would meet the same error.
	Final bool
}

// A Renewal is one script that renews many leases of the same length.
type Renewal struct {
	ID      uint64
	Sent    time.Duration
	Lease   time.Duration
	Entries []RenewalEntry
}

// A RenewalEntry is one lock of a Renewal. Name and Owner are the core's. Ran,
// Lost and Err are the answer: Lost, if it ran, that the record does not carry
// the owner; Err why it did not run, or may not have, and Final that trying
// again soon would meet the same error.
type RenewalEntry struct {
	Name  string
	Owner uint64

	Ran   Ran
	Lost  bool
	Final bool
	Err   error

	lock *lock
}

// An Effect is something that the machine wants done. The set is closed.
type Effect interface{ isEffect() }

type (
	// Run a script and answer with a Reply, exactly once, within the
	// command time-out.
	Run struct{ Op *Op }
	// Renew a batch and answer with a Renewed event, exactly once.
	Renew struct{ Renewal *Renewal }
	// Granted: the request holds the lock.
	Granted struct{ Request *Request }
	// Failed: the request ended without a lock.
	Failed struct {
		Request *Request
		Err     error
	}
	// Extended: the Until of a hold has moved forward.
	Extended struct{ Hold *Hold }
	// Lost: a hold ended without an unlock.
	Lost struct {
		Hold *Hold
		Err    error
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
	// Subscribe to the channel of a name, and report with Wake events.
	Subscribe struct{ Name string }
	// Unsubscribe from it.
	Unsubscribe struct{ Name string }
	// Notice is for those who watch.
	Notice struct {
		What  What
		Name  string
		Owner uint64
		N     int
		TTL   time.Duration
		Err   error
	}
	// Closed: nothing is left.
	Closed struct{}
)

func (Run) isEffect()         {}
func (Renew) isEffect()       {}
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

// What a Notice tells of.
type What uint8

// The notices.
const (
	Refused      What = iota + 1 // another manager holds the lock; TTL is its record's
	CommandError                 // a command failed; N counts the failures in a row
	BatchRenewed                 // a batch of N was renewed
	RenewError                   // a batch of N was not
	StoodBack                    // a run of N grants ended for the sake of others
	Released                     // the record is gone
	Unreleased                   // a release was given up after the lease
)

func (w What) String() string {
	if int(w) < len(whatNames) && whatNames[w] != "" {
		return whatNames[w]
	}
	return fmt.Sprintf("What(%d)", w)
}

var whatNames = [...]string{
	Refused: "refused", CommandError: "command failed", BatchRenewed: "renewed", RenewError: "renewal failed",
	StoodBack: "stood back", Released: "released", Unreleased: "release given up",
}
