package wire

import (
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
)

// A Server runs commands. Redis is one.
type Server interface {
	// Exec runs the commands in one batch and fills in an answer for each. Each round trip begins
	// with d.Start, which gives the round trip its time-out. A command without an answer may
	// have run.
	Exec(d *Deadline, commands []Command, answers []Answer)
}

// A Connection is a Server for the use of one sender only.
type Connection interface {
	Server
	// Close closes the connection. A command under way gets a failure, and may have run. Close
	// blocks for a second or more if the server is silent.
	Close()
}

// Config is what a lane needs of its manager.
type Config struct {
	// Manager is the first part of the manager's holder IDs.
	Manager string
	// Server is shared by the senders.
	Server Server
	// Dedicate opens a connection for one sender, and blocks for as long as a dial. If Dedicate is
	// nil, the senders have Server only.
	Dedicate func() (Connection, error)
	// KeepAlive is the pause after which the client pings a connection. Zero or negative: the
	// client does not ping.
	KeepAlive time.Duration
	// Timeout is how long a round trip may take.
	Timeout time.Duration
	// Now is the manager's clock.
	Now func() time.Duration
	// Post takes the replies of a batch. Post must not block. The event is given back by Recycle.
	Post func(*core.Replies)
	// Error makes the error of a reply from a failure, and nil from nil.
	Error func(*Failure) error
	// Observe is called for each command that was answered or timed out. Observe must not block.
	// Observe may be nil.
	Observe func(*Observed)

	// Demoted is called when an answer says that the server may have become a replica. Demoted must
	// not block. Demoted may be nil.
	Demoted func()

	// Replicas says how many replicas must confirm an operation. If Replicas.Acks is zero, no
	// replica is asked.
	Replicas Replicas

	// Lanes sets troubles, and the fields below for a lane to a master of a cluster.

	troubles  *slotTroubles
	group     group  // nil: a single server
	redirects bool   // a command for a slot of another master goes to the group
	shard     uint8  // the number of its shard
	clustered bool   // the locks that share a command must be in one slot
	detour    bool   // the lane is for refused commands: Server finds the master of each
	named     Server // of a detour lane: the node that the refusals name; nil: none is named
	where     string // the address of the master, or of named
}

// A group is what a lane to one of several masters needs of the others: see Lanes. No method
// blocks.
type group interface {
	// LookSoon makes the group look at the layout soon.
	LookSoon()
	// redirect takes a task that the master at the address asked has refused with f, because
	// another master serves the slot. redirect returns false after Close.
	redirect(t task, f *Failure, asked string) bool
}

// suspectLayout notes that a command has failed for a reason that may concern other locks.
func (c *Config) suspectLayout() {
	if c.group != nil {
		c.group.LookSoon()
	}
}

// noteSlots notes the end of an operation, for the waits in the operation's slots: several of a set
// at a single server. f is nil if the operation was answered.
func (c *Config) noteSlots(op *core.Op, f *Failure) {
	t := c.troubles
	if t == nil || f == nil && t.none() {
		return
	}
	f = f.at(c.where)
	t.note(SlotOf(keyOf(op)), c.Now(), f, c.detour)
	for i := 1; i < len(op.Items); i++ {
		t.note(SlotOf(op.Items[i].Name), c.Now(), f, c.detour)
	}
}

// passesOn reports whether a command with an answer is to be sent to another server.
func (c *Config) passesOn(a *Answer) bool {
	return c.redirects && a.Failure != nil && a.Failure.Elsewhere
}

// Replicas says how many replicas must have a record, and how long to wait for the replicas: see
// confirmer.
type Replicas struct {
	Acks    int
	Timeout time.Duration
}

// Observed is a command that was answered, or whose time-out has passed.
type Observed struct {
	// Command is the name of the script without the suffix "_many", or the first word of a command
	// that is no script.
	Command string
	Names   []string // of the locks that the script is for
	Took    time.Duration
	Failure *Failure // of the command as a whole
}

// repliesPool holds handled events.
var repliesPool = sync.Pool{New: func() any { return new(core.Replies) }}

// Recycle takes back an event of Config.Post. Nobody may use the event afterwards.
func Recycle(r *core.Replies) {
	clear(r.Replies)
	r.Replies = r.Replies[:0]
	repliesPool.Put(r)
}
