package wire

import (
	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
)

var (
	rwAcquire  = newScript("readwrite_acquire")
	rwTransfer = newScript("readwrite_transfer")
	rwRenew    = newScript("readwrite_renew")
	rwRelease  = newScript("readwrite_release")
)

var _ = register(core.ReadWrite, kind{name: "read-write", channel: rwChannel, freed: "1", formats: [verbs]format{
	core.VerbAcquire: {
		write: func(e *encoder, op *core.Op, c *Command) {
			c.reset(rwAcquire)
			c.Args = append(c.Args, sideWord(op.Side))
			e.terms(op, c)
			c.Args = append(c.Args, e.want(op), tagged(op.Name))
			e.owners(op, c)
		},
		read: readAcquired,
	},
	core.VerbTransfer: {
		write: func(e *encoder, op *core.Op, c *Command) {
			c.reset(rwTransfer)
			c.Args = append(c.Args, sideWord(op.Side))
			e.terms(op, c)
			e.owners(op, c)
			c.Args = append(c.Args, tagged(op.Name))
			message := ""
			if op.Side == core.Shared {
				message = "1" // the script publishes it if the entry was a writer's
			}
			c.addChannel(ChannelOf(op.Kind, op.Name), message, countOfFirst)
		},
		read: readTransferredSide,
	},
	core.VerbRenew: renewFormat(rwRenew, joinEntry),
	core.VerbRelease: {
		write: func(e *encoder, op *core.Op, c *Command) {
			c.reset(rwRelease)
			c.Keys = append(c.Keys, op.Name)
			c.Args = append(c.Args, e.lineOfRelease(op), tagged(op.Name))
			e.others(op, c)
			c.addChannel(ChannelOf(op.Kind, op.Name), "1", countOfShared)
		},
		read: func(op *core.Op, a *Answer, r *core.Reply) bool {
			if a.is(Int) { // others still read
				r.OK, r.Subscribers = true, a.Array[0].Int
				return true
			}
			return readReleased(op, a, r)
		},
		warning: unpublished,
	},
}})

// readTransferredSide is readTransferred for a read-write lock, whose script may add that a writer
// waits.
func readTransferredSide(op *core.Op, a *Answer, r *core.Reply) bool {
	if op.Side == core.Shared && a.is(Int, Text, Int) {
		r.WriterWaits = true
		short := Answer{Kind: Int, Int: a.Array[0].Int}
		if op.Tokens > 0 {
			short = Answer{Kind: Array, Array: a.Array[:2]}
		}
		a = &short
	}
	return readTransferred(op, a, r)
}

// ModeField is the field of a read-write lock's record that says how the lock is held. A record
// without a mode belongs to another kind of lock.
const ModeField = "mode"

// WriterEnd is the end of the field of a writer, after its holder ID.
const WriterEnd = ":write"

// ForceEntries returns the command that removes the entries with the given fields from the record
// of a read-write lock. The answer is Nil if the record has none of the fields.
func ForceEntries(name string, fields []string) Command {
	c := Command{Script: rwRelease, Keys: []string{name}, Args: append([]string{"force", tagged(name)}, fields...)}
	c.addChannel(ChannelOf(core.ReadWrite, name), "1", countOfFirst)
	return c
}

// sideWord returns the scripts' word for a side.
func sideWord(s core.Side) string {
	if s == core.Shared {
		return "read"
	}
	return "write"
}

// joinEntry adds an entry to a command whose first argument is the lease of all entries.
func joinEntry(e *encoder, op *core.Op, c *Command) {
	c.leaseOnce(e, op)
	holder := e.holder(op.Number)
	c.Keys = append(c.Keys, op.Name, ownKey(core.ReadWrite, op.Side, op.Name, holder))
	c.Args = append(c.Args, sideWord(op.Side), holder)
}

// countOfShared is the count of a script that gives up an entry. If others still read, the script
// has published nothing and returns how many listen.
func countOfShared(a *Answer) (*int64, bool) {
	n, _ := countOfFirst(a)
	return n, !a.is(Int)
}
