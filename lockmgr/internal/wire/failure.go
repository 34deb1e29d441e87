package wire

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
)

// A Failure says why a command has no usable answer.
type Failure struct {
	Kind FailureKind
	Ran  core.Ran // core.No or core.Maybe
	// Final reports whether trying again soon would fail in the same way.
	Final bool
	// Elsewhere reports whether another server of the cluster would answer. If so, the command did
	// not run.
	Elsewhere bool
	// OnlyThis reports whether the failure concerns only the locks of the command: a record is in
	// trouble, or the slot is being moved or has no master. While a slot is being moved, a command
	// for fewer keys may run.
	OnlyThis bool
	// Demoted reports whether the server may have become a replica. Either the server says so, or
	// the server is loading its data, like a new replica.
	Demoted bool
	// Addr is the address of the master of a cluster that was asked, or that another master named.
	// Addr may be empty.
	Addr string
	// Hint says what can be done about the failure. Hint may be empty.
	Hint string
	// Err is the error as the client returned it. Err may be nil for Closed.
	Err error
}

// FailureKind is the class of a Failure.
type FailureKind uint8

const (
	Unknown     FailureKind = iota // the server said something that is not known here
	Unavailable                    // the server can't be reached, is silent, loading, busy or without its cluster
	Permission                     // the access rules forbid a command, a key or the channel
	WrongType                      // the key holds no lock
	OutOfMemory
	ReadOnly // a replica, or a server that refuses writes
	Topology // the name, or one of several, belongs to another server of a cluster
	TooFew   // too few replicas have what a script wrote
	Closed   // the lane was closed: the command was not sent
)

// Unanswered reports whether the failure says that the server did not answer, or could serve
// nobody. A nil Failure is an answer.
func (f *Failure) Unanswered() bool { return f != nil && f.Kind == Unavailable && !f.OnlyThis }

// at returns the failure with an address, unless the failure has an address already. A nil Failure
// stays nil.
func (f *Failure) at(addr string) *Failure {
	if f == nil || f.Addr != "" || addr == "" {
		return f
	}
	located := *f
	located.Addr = addr
	return &located
}

// General reports whether a failure may concern the connection or its server rather than a lock. A
// nil Failure is an answer.
func (f *Failure) General() bool {
	if f == nil {
		return false
	}
	switch f.Kind {
	case Permission, WrongType, OutOfMemory:
		return false
	}
	return true
}

// BadLogin reports whether the server refused the user or the password, and not just a command. A
// nil Failure is an answer.
func (f *Failure) BadLogin() bool {
	if f == nil || f.Kind != Permission || f.Err == nil {
		return false
	}
	word, _, _ := strings.Cut(f.Err.Error(), " ")
	return word == "NOAUTH" || word == "WRONGPASS" || strings.Contains(f.Err.Error(), noPassword)
}

// noPassword is in the reply to AUTH if the user has no password.
const noPassword = "without any password configured"

// A serverCode classifies an error reply by its first word.
type serverCode struct {
	kind FailureKind
	// before reports whether a server with this reply has written nothing.
	before bool
	// final reports whether a retry soon would get the same reply.
	final bool
	hint  string
}

var serverCodes = map[string]serverCode{
	// word: kind, before, final, hint
	"NOPERM":      {Permission, false, true, "grant the user the commands, keys and channels that docs/redis.md lists; ACL LOG on the server tells which one was missing"},
	"DENIED":      {Permission, false, true, "the server is in protected mode: set a password, or protected-mode no"},
	"NOAUTH":      {Permission, true, true, "the connection is not authenticated: check the user name and password"},
	"WRONGPASS":   {Permission, true, true, "check the user name and password"},
	"WRONGTYPE":   {WrongType, true, true, "the key has data of another kind, for instance permits: choose another name"},
	"OOM":         {OutOfMemory, true, true, "raise maxmemory or free some; locks that are held can still be renewed and released"},
	"READONLY":    {ReadOnly, true, false, "the address belongs to a replica: connect to the master"},
	"MISCONF":     {ReadOnly, true, false, "the server can't save its data and refuses writes: see its log"},
	"NOREPLICAS":  {ReadOnly, true, false, "fewer replicas are connected than min-replicas-to-write asks for"},
	"LOADING":     {Unavailable, true, false, "the server is loading its data: try again later"},
	"BUSY":        {Unavailable, true, false, "a script blocks the server: SCRIPT KILL ends it"},
	"MASTERDOWN":  {Unavailable, true, false, "the replica has lost its master"},
	"CLUSTERDOWN": {Unavailable, true, false, "the cluster is down: see CLUSTER INFO, and cluster-require-full-coverage"},
	"UNBLOCKED":   {Unavailable, false, false, "the server became a replica during the command, or CLIENT UNBLOCK was called"},
	"TRYAGAIN":    {Unavailable, true, false, "the slot is being moved"},
	"CROSSSLOT":   {Topology, true, true, "the server is part of a cluster"},
	"MOVED":       {Topology, true, true, "another server of the cluster keeps this name"},
	"ASK":         {Topology, true, true, "another server of the cluster gets this name"},
}

// codeOf returns the code of an error reply. known is false if no code fits.
func codeOf(word, text string) (code serverCode, known bool) {
	if code, known = serverCodes[word]; known {
		return code, true
	}
	switch {
	case strings.Contains(text, "max number of clients"):
		return serverCode{Unavailable, false, false, "raise maxclients, or close connections: CLIENT LIST shows them"}, true
	case strings.Contains(text, noPassword):
		return serverCodes["WRONGPASS"], true
	case strings.Contains(text, waitAtReplica):
		return serverCodes["READONLY"], true
	case deniedInScript(text):
		return serverCodes["NOPERM"], true
	case strings.Contains(text, "while the cluster is down"), strings.Contains(text, "while cluster is down"):
		// With cluster-allow-reads-when-down, a script runs until its first write.
		return serverCodes["CLUSTERDOWN"], true
	}
	return code, false
}

// serverFailure classifies the text of an error reply. An error that may come after a script's
// first write gets core.Maybe.
func serverFailure(err error, text string) *Failure {
	word, _, _ := strings.Cut(text, " ")
	if word == strangeNodeCode {
		return StrangeNode
	}
	code, known := codeOf(word, text)
	if !known {
		return unknownFailure(err, text)
	}
	f := &Failure{Kind: code.kind, Ran: core.Maybe, Final: code.final, Hint: code.hint, Err: err}
	if code.before || word == "NOPERM" && !strings.Contains(text, "script") {
		f.Ran = core.No // a NOPERM that names no script denied the EVALSHA itself
	}
	f.Elsewhere = word == "MOVED" || word == "ASK"
	f.OnlyThis = word == "TRYAGAIN"
	f.Demoted = slices.Contains([]string{"READONLY", "MASTERDOWN", "LOADING", "UNBLOCKED"}, word) || strings.Contains(text, waitAtReplica)
	if strings.Contains(text, "Hash slot not served") {
		f.OnlyThis, f.Hint = true, HintUnserved
	}
	return f
}

// unknownFailure classifies the text of an error reply without a code.
func unknownFailure(err error, text string) *Failure {
	f := &Failure{Kind: Unknown, Ran: core.Maybe, Final: true, Err: err}
	switch {
	case strings.Contains(text, "access a non local key"), strings.Contains(text, "undeclared keys were accessed during rehashing"):
		// A key that is not among the KEYS is at the other master. Scripts fail before they write
		// the record, except the script with halfDone in its error.
		f = &Failure{Kind: Unavailable, Ran: core.No, OnlyThis: true, Hint: "the slot is being moved", Err: err}
		if strings.Contains(text, halfDone) {
			f.Ran = core.Maybe
		}
	case strings.Contains(text, "not an integer"):
		f.Hint = "the token counter is no number: set redisson_lock_token:{NAME} to the largest token that was given"
	case strings.Contains(text, "unknown command"), strings.Contains(text, "unsupported command"):
		f.Hint = "the server does not know the command: it may be a proxy, too old, or no Redis or Valkey server"
	}
	return f
}

// waitAtReplica is in the error of WAIT at a replica.
const waitAtReplica = "WAIT cannot be used with replica"

// hintSilent is the hint of a failure because no answer came.
const hintSilent = "is the server overloaded, stopped or cut off, or was this process paused?"

// HintUnserved is the hint of a failure for a slot without a master.
const HintUnserved = "no master of the cluster serves the slot of this name"

// A HangUp is the error of a connection on which the server said nothing, a single error, or
// anything but the protocol of Redis.
type HangUp struct {
	Said    string // the error, or the beginning of something else; empty: nothing
	Foreign bool   // Said is not the protocol of Redis
	Err     error  // how the connection ended
}

func (h *HangUp) Error() string {
	switch {
	case h.Foreign:
		return fmt.Sprintf("the server said %q, which is not the protocol of Redis", h.Said)
	case h.Said == "":
		return fmt.Sprintf("the server ended the connection before it said anything: %v", h.Err)
	}
	return fmt.Sprintf("the server said %q and ended the connection", h.Said)
}

func (h *HangUp) Unwrap() error { return h.Err }

// MostSaid is how many bytes of what a server said first are looked at.
const MostSaid = 512

// ReadHangUp reads what a server said before it ended a new connection. ReadHangUp returns nil
// unless the server said nothing, a single error, or anything but the protocol of Redis.
func ReadHangUp(said []byte) *HangUp {
	switch {
	case len(said) == 0:
		return &HangUp{}
	case !strings.ContainsRune("+-:$*_,#!=(%~>|", rune(said[0])):
		line, _, _ := strings.Cut(string(said[:min(len(said), 64)]), "\r\n")
		return &HangUp{Said: line, Foreign: true}
	case said[0] != '-':
		return nil
	}
	line, rest, _ := strings.Cut(string(said[1:]), "\r\n")
	if rest != "" {
		return nil
	}
	return &HangUp{Said: line}
}

// failure classifies the end of the connection.
func (h *HangUp) failure(err error) *Failure {
	f := &Failure{Kind: Unavailable, Ran: core.Maybe, Err: err}
	switch {
	case h.Foreign && h.Said != "" && (h.Said[0] == 0x15 || h.Said[0] == 0x16): // a record of TLS
		f.Hint = "the server expects TLS"
	case h.Foreign:
		f.Hint = "is this the address of a Redis or Valkey server?"
	case refusesTLS(h.Err):
		f.Hint = hintRefusesTLS
	case h.Said == "":
		f.Hint = "does the server expect TLS, is it a proxy that does not know HELLO, such as twemproxy, or has it too many connections?"
	default:
		f = serverFailure(err, h.Said)
		if f.Kind == Unknown && f.Hint == "" {
			f.Kind, f.Final = Unavailable, false
		}
	}
	return f
}

// refusesTLS reports whether an error is what the other side of a connection says to end TLS. With
// TLS 1.3 that comes after the dial.
func refusesTLS(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "remote error"
}

const hintRefusesTLS = "does the server want a certificate of the client, or another one?"

// halfDone is in the error of several_release.lua if the script has released some locks.
const halfDone = "others were released"

// deniedInScript reports whether an error text is a NOPERM for a command that a script calls. Redis
// 7.0 names neither the command nor the key; from 7.2 on, and in Valkey, the text says more.
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

// textError is an error that a script caught and returned as a text.
type textError string

func (e textError) Error() string { return string(e) }

// strangeNodeCode begins the error of a script that was sent to the wrong node.
const strangeNodeCode = "ELSEWHERE"

// StrangeNode is the failure of a command for a master at whose address another node answers.
var StrangeNode = &Failure{
	Kind: Unavailable, Ran: core.No, Err: errors.New("another node answers at the address of this master"),
	Hint: "give each node of a cluster an address that no other cluster uses; CLUSTER FORGET removes a node that is gone",
}
