package lockmgr

import (
	"errors"
	"strings"

	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
)

// The errors that requests and locks end with. They come wrapped: match them with
// errors.Is.
var (
	// ErrNotAcquired: the lock is held by another owner. It is the reason of
	// TryLock; a wait that ran out has ErrWaitTimeout, which matches it.
	ErrNotAcquired = core.ErrNotAcquired
	// ErrWaitTimeout: the time given by MaxWait passed before the lock came.
	ErrWaitTimeout = core.ErrWaitTimeout
	// ErrNotHeld: the handle was unlocked before.
	ErrNotHeld = core.ErrNotHeld
	// ErrLeaseLost: the lock was lost. Its lease ran out before a renewal was
	// confirmed, its fixed lease or MaxHold is over, or its record was removed.
	ErrLeaseLost = core.ErrLeaseLost
	// ErrClosed: the manager is closed.
	ErrClosed = core.ErrClosed
	// ErrDeadlock: owners of this manager waited for each other in a circle,
	// and this was the youngest of their requests. See DeadlockError.
	ErrDeadlock = core.ErrDeadlock
	// ErrOverloaded: Options.MaxWaiters or Options.MaxLocks is reached.
	ErrOverloaded = core.ErrOverloaded
	// ErrNotFenced: a re-entry asked for a token, and its hold was taken
	// without Fenced.
	ErrNotFenced = core.ErrNotFenced
	// ErrCanceled: the future was cancelled.
	ErrCanceled = futures.ErrCanceled

	// ErrInvalidName: a name that is empty, too long, impossible to unlock on
	// a cluster, or a key or channel of another lock.
	ErrInvalidName = errors.New("lockmgr: invalid name")
	// ErrInvalidLease: a FixedLease or Extend under MinLease or over MaxLease,
	// or a MaxHold under MinLease.
	ErrInvalidLease = errors.New("lockmgr: invalid lease")
	// ErrInvalidWait: a negative wait.
	ErrInvalidWait = errors.New("lockmgr: invalid wait")
	// ErrInvalidOwner: the zero Owner, or one of another manager.
	ErrInvalidOwner = errors.New("lockmgr: invalid owner")
	// ErrInvalidOption: Dial or New refused an option.
	ErrInvalidOption = errors.New("lockmgr: invalid option")
	// ErrTopology: the client or the server belongs to a cluster or Sentinel,
	// which this package does not support. Dial and New return it for a client
	// of that kind, Dial and Check for a server, and Lock for a name that
	// another server of a cluster keeps.
	ErrTopology = errors.New("lockmgr: topology not supported")

	// ErrPermission: the server's access rules forbid a command, a key or
	// the channel.
	ErrPermission = errors.New("lockmgr: permission denied")
	// ErrWrongType: the key holds something that is not a lock.
	ErrWrongType = errors.New("lockmgr: key is not a lock")
	// ErrOutOfMemory: the server has no memory for another lock. Locks that
	// are held can be renewed and released all the same.
	ErrOutOfMemory = errors.New("lockmgr: server out of memory")
	// ErrReadOnly: the server is a replica, or refuses writes.
	ErrReadOnly = errors.New("lockmgr: server is read-only")
	// ErrServer: the server replied something that this package does not know.
	ErrServer = errors.New("lockmgr: server error")
	// ErrUnavailable: the server can't be reached, does not answer in time,
	// or is loading, busy or without its cluster.
	ErrUnavailable = errors.New("lockmgr: server unavailable")
)

// A ServerError reports an error reply, or that no reply came.
type ServerError struct {
	// Kind is one of ErrPermission, ErrWrongType, ErrOutOfMemory,
	// ErrReadOnly, ErrUnavailable, ErrTopology and ErrServer.
	Kind error
	// Hint says what can be done about it. It may be empty.
	Hint string
	// Err is the error as the client returned it.
	Err error
}

// Error puts the kind, the server's words and the hint into one line.
func (e *ServerError) Error() string {
	var b strings.Builder
	b.WriteString(e.Kind.Error())
	b.WriteString(": ")
	b.WriteString(e.Err.Error())
	if e.Hint != "" {
		b.WriteString(" (")
		b.WriteString(e.Hint)
		b.WriteString(")")
	}
	return b.String()
}

// Unwrap lets errors.Is match both the kind and the client's error.
func (e *ServerError) Unwrap() []error { return []error{e.Kind, e.Err} }

// A serverCode classifies an error reply by its first word.
type serverCode struct {
	kind error
	// before: the server replies so before it writes anything.
	before bool
	// final: a retry soon would get the same answer.
	final bool
	hint  string
}

var serverCodes = map[string]serverCode{
	"NOPERM":      {ErrPermission, false, true, "grant the user the commands, keys and channels that the README lists; ACL LOG on the server tells which one was missing"},
	"NOAUTH":      {ErrPermission, true, true, "the connection is not authenticated: check the user name and password"},
	"WRONGPASS":   {ErrPermission, true, true, "check the user name and password"},
	"WRONGTYPE":   {ErrWrongType, true, true, "something else uses this key: choose another name for the lock, or remove the key"},
	"OOM":         {ErrOutOfMemory, true, true, "raise maxmemory or free some; locks that are held can still be renewed and released"},
	"READONLY":    {ErrReadOnly, true, false, "the address belongs to a replica: connect to the primary"},
	"MISCONF":     {ErrReadOnly, true, false, "the server can't save its data and refuses writes: see its log"},
	"NOREPLICAS":  {ErrReadOnly, true, false, "fewer replicas are connected than min-replicas-to-write asks for"},
	"LOADING":     {ErrUnavailable, true, false, "the server is loading its data: try again later"},
	"BUSY":        {ErrUnavailable, true, false, "a script blocks the server: SCRIPT KILL ends it"},
	"MASTERDOWN":  {ErrUnavailable, true, false, "the replica has lost its primary"},
	"CLUSTERDOWN": {ErrUnavailable, true, false, "the cluster does not serve this slot"},
	"TRYAGAIN":    {ErrUnavailable, true, false, "the slot is being moved"},
	"CROSSSLOT":   {ErrTopology, true, true, "the server is part of a cluster"},
	"MOVED":       {ErrTopology, true, true, "another server of the cluster keeps this name"},
	"ASK":         {ErrTopology, true, true, "another server of the cluster gets this name"},
}

// readServerError classifies the text of an error reply. An error raised
// within a script by a command that is not known to fail first may have left
// the script half done.
func readServerError(err error, text string) (ran core.Ran, final bool, typed error) {
	word, _, _ := strings.Cut(text, " ")
	code, known := serverCodes[word]
	if !known && deniedInScript(text) {
		code, known = serverCodes["NOPERM"], true
	}
	if !known {
		return core.Maybe, true, &ServerError{Kind: ErrServer, Err: err}
	}
	if code.before || word == "NOPERM" && !strings.Contains(text, "script") {
		ran = core.No // a NOPERM that is not a script's denied the script itself
	}
	return ran, code.final, &ServerError{Kind: code.kind, Hint: code.hint, Err: err}
}

// deniedInScript reports whether an error text is a NOPERM for a command that a
// script calls. Redis 7.0 names neither the command nor the key; from 7.2 on, and
// in Valkey, the text says more.
func deniedInScript(text string) bool {
	for _, phrase := range []string{
		"ACL failure in script",
		"can't run this command",
		"can't access at least one of the keys",
		"can't publish to the channel",
	} {
		if strings.Contains(text, phrase) {
			return true
		}
	}
	return false
}
