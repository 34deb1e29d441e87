package wire

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
)

var (
	// Acquire is the script that Check loads.
	Acquire     = newScript("acquire")
	acquireMany = newScript("acquire_many")
	transfer    = newScript("transfer")
	renew       = newScript("renew")
	release     = newScript("release")
	releaseMany = newScript("release_many")
	reserve     = newScript("reserve")
	force       = newScript("force")
	inspect     = newScript("inspect")
)

// maxShared bounds the locks that share an acquire or a release, and maxRenewed the leases that
// share a renewal. A renewal costs the server less. Larger bounds would gain little, and a command
// would occupy the server for a millisecond or more.
const (
	maxShared  = 64
	maxRenewed = 128
)

// KeptSuffix is the end of the holder ID of an ended hold whose record stays: see reserve.lua.
const KeptSuffix = ":kept"

var _ = register(core.Exclusive, kind{name: "plain", channel: ChannelPrefix, freed: "0", formats: [verbs]format{
	core.VerbAcquire: {
		write: func(e *encoder, op *core.Op, c *Command) {
			c.reset(Acquire)
			e.terms(op, c)
			c.Args = append(c.Args, e.want(op))
			e.owners(op, c)
			if op.TakeOver != "" {
				c.Args = append(c.Args, op.TakeOver+KeptSuffix)
			}
		},
		many: acquireMany, most: maxShared, pick: element,
		sharable: func(op *core.Op) bool {
			return op.Tokens == 0 && len(op.OtherNumbers) == 0 && !op.Lined && op.TakeOver == ""
		},
		join: joinLease,
		read: readAcquired,
	},
	core.VerbTransfer: {
		write: func(e *encoder, op *core.Op, c *Command) {
			c.reset(transfer)
			e.terms(op, c)
			e.owners(op, c)
			c.addChannel(e.channel(op.Name), "", countOfFirst)
		},
		read: readTransferred,
	},
	core.VerbRenew: renewFormat(renew, joinLease),
	core.VerbRelease: {
		write: func(e *encoder, op *core.Op, c *Command) {
			c.reset(release)
			c.Keys = append(c.Keys, op.Name)
			if op.Reserve > 0 {
				c.Script, c.Args = reserve, append(c.Args, millis(op.Reserve), cmp.Or(op.Words, "1"), e.holder(op.KeptAs)+KeptSuffix)
			} else {
				c.Args = append(c.Args, e.lineOfRelease(op))
			}
			e.others(op, c)
			c.addChannel(e.channel(op.Name), "0", countOfFirst)
		},
		many: releaseMany, most: maxShared, pick: element,
		sharable: func(op *core.Op) bool { return len(op.OtherNumbers) == 1 && op.Reserve == 0 && !op.Leaves && !op.Lined },
		join: func(e *encoder, op *core.Op, c *Command) {
			c.Keys, c.Args = append(c.Keys, op.Name), append(c.Args, e.holder(op.OtherNumbers[0]), e.channel(op.Name))
		},
		read:    readReleased,
		warning: unpublished,
	},
}})

// renewFormat returns the format of a script that renews one lease or several.
func renewFormat(s *Script, join func(*encoder, *core.Op, *Command)) format {
	return oneOrMany(s, maxRenewed, exception, join, readRenewed)
}

// terms writes the key, the lease and the number of tokens of an acquire or a transfer, and the key
// of the token counter if the operation asks for tokens.
func (e *encoder) terms(op *core.Op, c *Command) {
	c.Keys = append(c.Keys, op.Name)
	if op.Tokens > 0 {
		c.Keys = append(c.Keys, TokenKey(op.Name))
	}
	c.Args = append(c.Args, e.millis(op.Lease), strconv.FormatInt(op.Tokens, 10))
}

// want returns what the manager wants of the line: see line.lua.
func (e *encoder) want(op *core.Op) string {
	if !op.Lined {
		return ""
	}
	words := []string{e.inLine(op), decimal(op.ID), millis(op.Waits), ""}
	if op.Deaf {
		words[3] = "d"
	}
	if x := op.PlaceOp; x != nil && x.Secret != "" {
		words = append(words, decimal(x.Join[0]), decimal(uint64(op.Sent)), millis(x.GrantLease), x.Secret, flag(x.Fenced))
	}
	return strings.Join(words, " ")
}

// lineOfRelease returns the first argument of a release: "manager id" to leave the line, what want
// returns to join the line, or nothing.
func (e *encoder) lineOfRelease(op *core.Op) string {
	if !op.Leaves {
		return e.want(op)
	}
	return e.inLine(op) + " " + decimal(op.ID)
}

// inLine returns the ID under which the manager stands in the line, or a set of the manager.
func (e *encoder) inLine(op *core.Op) string {
	if op.Set == 0 {
		return e.manager
	}
	return HolderID(e.manager, op.Set)
}

// owners writes the new owner, and the other owners that the record may carry.
func (e *encoder) owners(op *core.Op, c *Command) {
	c.Args = append(c.Args, e.holder(op.Number))
	e.others(op, c)
}

func (e *encoder) others(op *core.Op, c *Command) {
	for _, o := range op.OtherNumbers {
		c.Args = append(c.Args, e.holder(o))
	}
}

// joinLease adds a lock to a command whose first argument is the lease of all locks.
func joinLease(e *encoder, op *core.Op, c *Command) {
	c.leaseOnce(e, op)
	c.Keys, c.Args = append(c.Keys, op.Name), append(c.Args, e.holder(op.Number))
}

// element is the pick of a script that returns an array with one answer for each lock. An array of
// another length is a Failure.
func element(a *Answer, i, n int) Answer {
	if a.Kind == Failed {
		return *a
	}
	if a.Kind != Array || len(a.Array) != n {
		return a.Unexpected().Answer()
	}
	return a.Array[i]
}

// exception is the pick of a renewal, whose script returns only the leases that it did not renew.
// exception returns 1 for a renewed lease and 0 for a lost lease.
func exception(a *Answer, i, n int) Answer {
	if a.Kind == Failed {
		return *a
	}
	if a.Kind != Array {
		return a.Unexpected().Answer()
	}
	out := Answer{Kind: Int, Int: 1}
	last := 0
	for j := range a.Array {
		position, text, ok := a.Array[j].readException()
		if !ok || position <= last || position > n {
			return a.Array[j].Unexpected().Answer()
		}
		last = position
		switch {
		case position != i+1:
		case text == "":
			out = Answer{Kind: Int}
		default:
			out = serverFailure(textError(text), text).Answer()
		}
	}
	return out
}

// readException reads the position of a lease, counted from 1, and the text of its error. The text
// is empty for a lost lease.
func (a *Answer) readException() (position int, text string, ok bool) {
	switch {
	case a.Kind == Int:
		return int(a.Int), "", true
	case a.is(Int, Text) && a.Array[1].Text != "":
		return int(a.Array[0].Int), a.Array[1].Text, true
	}
	return 0, "", false
}

func readRenewed(_ *core.Op, a *Answer, r *core.Reply) bool {
	r.OK = a.Int == 1
	return a.Kind == Int
}

// readAcquired accepts a token if and only if tokens were asked for. Without a token the core would
// ask again for ever.
func readAcquired(op *core.Op, a *Answer, r *core.Reply) (ok bool) {
	switch a.Kind {
	case Nil:
		r.OK = op.Tokens == 0
		return r.OK
	case Text:
		r.Token, ok = ReadToken(a.Text)
		r.OK = ok && op.Tokens > 0
		return r.OK
	case Int:
		r.TTL = ReadMillis(a.Int)
		return true
	case Array: // a record of another kind of lock, or the manager can't stand in the line
		r.OtherKind, r.Outside = a.is(Int), op.Lined && a.is(Int, Int)
		if !r.OtherKind && !r.Outside {
			return false
		}
		r.TTL = ReadMillis(a.Array[0].Int)
		return true
	}
	return false
}

func readTransferred(op *core.Op, a *Answer, r *core.Reply) (ok bool) {
	switch {
	case a.Kind == Nil: // the record is not ours any more
		return true
	case a.is() && op.Kind == core.ReadWrite && op.Side == core.Alone:
		r.Kept = true
		return true
	case a.Kind == Int && op.Tokens == 0:
		r.OK, r.Subscribers = true, a.Int
		return true
	case op.Tokens > 0 && a.is(Int, Text):
		r.OK, r.Subscribers = true, a.Array[0].Int
		r.Token, ok = ReadToken(a.Array[1].Text)
		return ok
	}
	return false
}

func readReleased(op *core.Op, a *Answer, r *core.Reply) bool {
	if a.is(Int, Int) || a.is(Text, Int) { // the first manager of the line was granted the lock, or told
		r.HandedOn, r.Joined = true, a.Array[1].Int == 2
		a = &a.Array[0]
	}
	switch a.Kind {
	case Nil: // there was no record of ours
		return true
	case Int:
		r.OK, r.Subscribers = true, a.Int
		return true
	case Text: // released, but the message was not published
		r.OK, r.Subscribers = true, -1
		return strings.Contains(a.Text, " ") // an error of a server has several words
	}
	return false
}

// unpublished returns why the message of a release could not be published, or nil.
func unpublished(a *Answer) *Failure {
	if a.is(Text, Int) {
		a = &a.Array[0]
	}
	if a.Kind != Text {
		return nil
	}
	return serverFailure(textError(a.Text), a.Text)
}

// Inspect returns the command that reads a lock's record, the number of subscribers of the lock's
// channel, the queue of a fair lock and, if asked for, the token counter. The lock may be of any
// kind.
func Inspect(name string, token bool) Command {
	c := Command{Script: inspect, Keys: []string{name}}
	if token {
		c.Keys = append(c.Keys, TokenKey(name))
	}
	for _, kind := range [...]core.Kind{core.Exclusive, core.ReadWrite} { // a fair lock has the channel of a plain lock
		c.Args = append(c.Args, ChannelOf(kind, name))
	}
	c.Args = append(c.Args, QueueKey(name), DeadlinesKey(name))
	return c
}

// Force returns the command that removes a lock's record if the record has exactly the given
// fields, or has the given fields and more than 1,000 in all.
func Force(kind core.Kind, name string, fields []string) Command {
	c := Command{Script: force, Keys: []string{name}, Args: []string{"00" + formats[kind].freed}}
	if kind == core.Fair {
		c.Keys, c.Args = append(c.Keys, QueueKey(name)), append(c.Args, ChannelOf(kind, name))
	} else {
		c.addChannel(ChannelOf(kind, name), formats[kind].freed, countOfDone)
	}
	c.Args = append(c.Args, fields...)
	return c
}

// MostText is how long a text may be if Inspect is to return the whole text. The script inspect has
// the same number.
const MostText = 256
