package wire

import (
	"crypto/subtle"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
)

var (
	fairAcquire  = newScript("fair_acquire")
	fairTransfer = newScript("fair_transfer")
	fairRelease  = newScript("fair_release")
)

var _ = register(core.Fair, kind{name: "fair", channel: ChannelPrefix, freed: "0", formats: [verbs]format{
	core.VerbAcquire:  fairFormat(fairAcquire, readFairAcquired),
	core.VerbTransfer: fairFormat(fairTransfer, readFairTransferred),
	core.VerbRelease: fairFormat(fairRelease, readFairReleased).warns(func(a *Answer) *Failure {
		if a.Kind == Array && len(a.Array) == 2 {
			return unpublished(&a.Array[1])
		}
		return nil
	}),
	core.VerbRenew: renewFormat(renew, joinFairLease),
}})

// fairFormat returns the format of a script that begins with fair.lua.
func fairFormat(s *Script, read func(*core.Op, *Answer, *core.Reply) bool) format {
	return format{
		write: func(e *encoder, op *core.Op, c *Command) {
			c.reset(s)
			c.Keys = append(c.Keys, op.Name, QueueKey(op.Name), DeadlinesKey(op.Name), waitsKey(op.Name), absentKey(op.Name), TokenKey(op.Name))
			x := op.PlaceOp
			c.Args = append(c.Args, e.manager, millis(x.Life), decimal(x.Before), flag(x.Refresh), strconv.Itoa(x.Count),
				millis(op.Lease), strconv.FormatInt(op.Tokens, 10), flag(x.Pass), decimal(op.Number), decimal(op.ID), Channel(op.Name),
				decimal(uint64(op.Sent)), millis(x.GrantLease), x.Secret, flag(x.Fenced), flag(x.Tell))
			for _, list := range [...][]uint64{op.OtherNumbers, x.Join, x.Leave} {
				c.Args = append(c.Args, strconv.Itoa(len(list)))
				for _, number := range list {
					c.Args = append(c.Args, decimal(number))
				}
			}
		},
		read: read,
	}
}

// joinFairLease is joinLease for fair locks.
func joinFairLease(e *encoder, op *core.Op, c *Command) {
	c.leaseOnce(e, op)
	c.Keys, c.Args = append(c.Keys, op.Name), append(c.Args, FairHolderID(e.manager, op.Number))
}

func readFairAcquired(op *core.Op, a *Answer, r *core.Reply) bool {
	if a.is(Int, Int) && a.Array[0].Int == 2 {
		r.TTL, r.OtherKind = ReadMillis(a.Array[1].Int), true
		return true
	}
	return readPlaced(op, a, r)
}

// readPlaced reads the answer that a lock was taken for a holder, or that others come first.
func readPlaced(op *core.Op, a *Answer, r *core.Reply) (ok bool) {
	v := a.Array
	if !a.Begins(Int, Int, Int, Int) || v[0].Int < 0 || v[0].Int > 1 {
		return false
	}
	r.OK, r.Mixed, r.Missing = v[0].Int == 1, v[2].Int == 1, v[3].Int == 1
	if !r.OK {
		r.TTL = ReadMillis(v[1].Int)
		return len(v) == 4
	}
	if v[1].Int < 0 || len(v) > 5 || (len(v) == 5) != (op.Tokens > 0) {
		return false
	}
	r.Front = uint64(v[1].Int)
	if op.Tokens == 0 {
		return true
	}
	r.Token, ok = ReadToken(v[4].Text)
	return ok
}

func readFairTransferred(op *core.Op, a *Answer, r *core.Reply) bool {
	if a.Kind == Nil { // the record is not ours any more
		return true
	}
	ok := readPlaced(op, a, r)
	r.GaveWay = !r.OK
	return ok && (r.OK || op.PlaceOp.Pass)
}

func readFairReleased(_ *core.Op, a *Answer, r *core.Reply) bool {
	if !a.is(Int) && !a.is(Int, Text) {
		return false
	}
	r.OK = a.Array[0].Int == 1
	return r.OK || a.Array[0].Int == 0
}

// ReadGrant reads a message on the channel of a manager for a lock. ReadGrant returns zero unless
// the message is a grant of the lock that was made with the manager's secret: see fair.lua.
func ReadGrant(secret, name, message string) core.Grant {
	end := strings.LastIndexByte(message, ' ')
	if secret == "" || end < 0 {
		return core.Grant{}
	}
	said, check := message[:end], message[end+1:]
	if subtle.ConstantTimeCompare([]byte(check), []byte(hashOf(secret+name+" "+said))) != 1 {
		return core.Grant{}
	}
	var v [5]uint64
	words := strings.Fields(said)
	if len(words) != len(v) {
		return core.Grant{}
	}
	for i := range v {
		n, err := strconv.ParseUint(words[i], 10, 63)
		if err != nil {
			return core.Grant{}
		}
		v[i] = n
	}
	return core.Grant{
		Number: v[0], Sent: time.Duration(v[1]),
		Elapsed: time.Duration(min(v[2], uint64(core.Forever/time.Microsecond))) * time.Microsecond,
		Lease:   ReadMillis(int64(v[3])),
		Token:   int64(v[4]),
	}
}

// A Place is one member of the queue of a fair lock.
type Place struct {
	ID   string
	Left time.Duration // until its deadline; negative if that is over
}

// ReadQueue reads the members of a queue and the milliseconds that each has left, from a part of
// the answer to Inspect.
func ReadQueue(a *Answer) (places []Place) {
	for i := 0; i+1 < len(a.Array); i += 2 {
		places = append(places, Place{a.Array[i].Text, time.Duration(a.Array[i+1].Int) * time.Millisecond})
	}
	return places
}
