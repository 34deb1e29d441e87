package lockmgr

import (
	"errors"
	"strings"

	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/internal/clean"
	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
	"github.com/holdfast-go/holdfast/lockmgr/internal/wire"
)

// The errors of requests and locks. The errors come wrapped: match them with errors.Is.
var (
	// ErrNotAcquired: another owner has the lock or waits for the lock, KeepFor keeps the name, or
	// too few permits are free. TryLock returns ErrNotAcquired. A wait that ran out ends with
	// ErrWaitTimeout, which matches ErrNotAcquired.
	ErrNotAcquired = core.ErrNotAcquired
	// ErrWaitTimeout: the time given by MaxWait passed before the lock came.
	ErrWaitTimeout = core.ErrWaitTimeout
	// ErrNotHeld: the handle was unlocked before.
	ErrNotHeld = core.ErrNotHeld
	// ErrLeaseLost: the lock was lost. The lease ran out before a renewal was confirmed, the fixed
	// lease or MaxHold is over, or the record was removed.
	ErrLeaseLost = core.ErrLeaseLost
	// ErrClosed: the manager is closed.
	ErrClosed = core.ErrClosed
	// ErrDeadlock: owners of the manager waited for each other in a circle, and the failed request
	// was the youngest. Or an owner asked for a set and has a name of the set in another way. See
	// DeadlockError. Each request has an owner of its own unless AsOwner or WithOwner names an
	// owner. So only requests that name the owner of their caller's hold can be in a circle.
	ErrDeadlock = core.ErrDeadlock
	// ErrOverloaded: Options.MaxWaiters or Options.MaxLocks is reached.
	ErrOverloaded = core.ErrOverloaded
	// ErrKind: the name is in use as a lock of another kind, by the same manager or another. A name
	// is a plain lock, a read-write lock ([Shared], [Exclusive]), a fair lock ([Fair]) or has
	// permits ([Permits]). For a lock, permits that this manager neither holds nor awaits are data
	// of another type: ErrWrongType.
	ErrKind = core.ErrKind
	// ErrLimit: a request wants more permits than there are. The limit on the server is lower than
	// the limit in the request, or was lowered while the request waited.
	ErrLimit = core.ErrLimit
	// ErrNotFenced: an owner asked for a token of a hold taken without Fenced: see [Fenced].
	ErrNotFenced = core.ErrNotFenced
	// ErrCanceled: the future was cancelled.
	ErrCanceled = futures.ErrCanceled

	// ErrInvalidName: a name is empty, too long, impossible to unlock on a cluster, or a key or
	// channel of another lock.
	ErrInvalidName = errors.New("lockmgr: invalid name")
	// ErrInvalidLease: a FixedLease, a KeepFor or an Extend under MinLease or over MaxLease, or a
	// MaxHold under MinLease.
	ErrInvalidLease = errors.New("lockmgr: invalid lease")
	// ErrInvalidWait: a negative wait.
	ErrInvalidWait = errors.New("lockmgr: invalid wait")
	// ErrInvalidOwner: the zero Owner, or an Owner of another manager.
	ErrInvalidOwner = errors.New("lockmgr: invalid owner")
	// ErrInvalidOption: Dial or New refused an option, the options of a request do not fit the call
	// or each other (see [LockOption]), or a method of Permits refused a number, limit or ID.
	ErrInvalidOption = errors.New("lockmgr: invalid option")
	// ErrTopology: the servers are not what the options say.
	//
	// Dial returns ErrTopology for a Sentinel without Sentinel.MasterSet or with an unknown
	// MasterSet, for a MasterSet and a server that is no Sentinel, for a database that the server
	// does not have, for several addresses of servers that are no cluster, and if as many addresses
	// belong to a second cluster as to the first. Dial and Check return ErrTopology for a server
	// that shares a cluster with other servers, if the client was made for a single server. Check
	// returns ErrTopology if a node of another cluster answers at the address of a master.
	//
	// With a client for a single server in a cluster, Lock returns ErrTopology for a name that
	// another server keeps, and LockAll for names in several slots.
	ErrTopology = errors.New("lockmgr: topology not supported")

	// ErrPermission: the server's access rules forbid a command, a key or the channel.
	ErrPermission = errors.New("lockmgr: permission denied")
	// ErrWrongType: the key holds data of another program, or permits that this manager neither
	// holds nor awaits now.
	ErrWrongType = errors.New("lockmgr: key is not a lock")
	// ErrOutOfMemory: the server has no memory for another lock. Locks held can be renewed and
	// released all the same.
	ErrOutOfMemory = errors.New("lockmgr: server out of memory")
	// ErrReplicas: fewer replicas than Options.Replicas asks for had the lock in time, and the lock
	// was given back. Or the lock was taken away earlier, for example by ForceUnlock. Or too few
	// replicas had the extension of Extend.
	ErrReplicas = errors.New("lockmgr: too few replicas")
	// ErrReadOnly: the server is a replica, or refuses writes.
	ErrReadOnly = errors.New("lockmgr: server is read-only")
	// ErrServer: the server sent a reply unknown to holdfast.
	ErrServer = errors.New("lockmgr: server error")
	// ErrUnavailable: the server can't be reached, does not answer in time, or is loading, busy or
	// without a cluster.
	ErrUnavailable = errors.New("lockmgr: server unavailable")
)

// A ServerError reports an error reply, or that no reply came.
type ServerError struct {
	// Addr is the address of the master of a cluster. Addr is empty for a single server, if the
	// error concerns several masters, or if the address is not known.
	Addr string
	// Kind is ErrPermission, ErrWrongType, ErrOutOfMemory, ErrReadOnly, ErrReplicas,
	// ErrUnavailable, ErrTopology or ErrServer.
	Kind error
	// Hint says what can be done about the error. Hint may be empty.
	Hint string
	// Err is the client's error, or says that no answer came within the command time-out.
	Err error
}

// Error puts the kind, the address, the server's words and the hint into one line. Error leaves out
// the place in a script that a server adds. U+FFFD stands for characters that can't be shown.
func (e *ServerError) Error() string {
	var b strings.Builder
	b.WriteString(e.Kind.Error())
	text := clean.Text(e.Err.Error(), clean.Most)
	if i := strings.LastIndex(text, " script: "); i > 0 && strings.Contains(text[i:], "@user_script") {
		text = text[:i]
	}
	if addr := clean.Text(e.Addr, clean.Most); addr != "" && !strings.Contains(text, addr) {
		b.WriteString(" at ")
		b.WriteString(addr)
	}
	b.WriteString(": ")
	b.WriteString(text)
	if e.Hint != "" {
		b.WriteString(" (")
		b.WriteString(e.Hint)
		b.WriteString(")")
	}
	return b.String()
}

// Unwrap lets errors.Is match both the kind and the client's error.
func (e *ServerError) Unwrap() []error { return []error{e.Kind, e.Err} }

// failureKinds has the error for each kind of failure.
var failureKinds = [...]error{
	wire.Unknown: ErrServer, wire.Unavailable: ErrUnavailable, wire.Permission: ErrPermission, wire.WrongType: ErrWrongType,
	wire.OutOfMemory: ErrOutOfMemory, wire.ReadOnly: ErrReadOnly, wire.Topology: ErrTopology, wire.TooFew: ErrReplicas,
}

// serverError returns the error for a failure, and nil for none.
func serverError(f *wire.Failure) error {
	switch {
	case f == nil:
		return nil
	case f.Kind == wire.Closed:
		return ErrClosed
	}
	return &ServerError{Addr: f.Addr, Kind: failureKinds[f.Kind], Hint: f.Hint, Err: f.Err}
}
