package wire

import (
	"encoding/binary"
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
)

var (
	permitsAcquire  = newScript("permits_acquire")
	permitsTransfer = newScript("permits_transfer")
	permitsRenew    = newScript("permits_renew")
	permitsRelease  = newScript("permits_release")
	permitsReturn   = newScript("permits_return")
	permitsLimit    = newScript("permits_limit")
	permitsDelete   = newScript("permits_delete")
	permitsInspect  = newScript("permits_inspect")
)

// maxPermitOps bounds the operations for permits that share a command. Each operation costs the
// server more than an operation for a lock.
const maxPermitOps = 32

var _ = register(core.Permits, kind{name: "permits", channel: permitsChannel, formats: [verbs]format{
	core.VerbAcquire: permitsFormat(permitsAcquire, func(e *encoder, op *core.Op, c *Command) {
		c.permitKeys(op.Name)
		c.leaseOnce(e, op)
		c.managerOnce(e, 1)
		c.Args = append(c.Args, ChannelOf(core.Permits, op.Name), lineKey(op.Name), wantsKey(op.Name), decimal(op.ID), millis(op.Waits), flag(op.Deaf), strconv.Itoa(op.Permits),
			strconv.FormatInt(op.Limit, 10), millis(op.Gather), strconv.Itoa(op.Most), strconv.Itoa(1+len(op.OtherNumbers)), e.permitHolder(op.Number))
		e.otherPermits(op, c)
	}, readPermitsAcquired),
	core.VerbTransfer: permitsFormat(permitsTransfer, func(e *encoder, op *core.Op, c *Command) {
		c.permitKeys(op.Name)
		c.leaseOnce(e, op)
		c.addChannel(ChannelOf(core.Permits, op.Name), "", countOfPermits)
		c.Args = append(c.Args, wantsKey(op.Name), strconv.Itoa(op.Permits), strconv.Itoa(1+len(op.OtherNumbers)), e.permitHolder(op.Number))
		e.otherPermits(op, c)
	}, readTransferred),
	core.VerbRenew: renewFormat(permitsRenew, joinPermits).shareIf(smallEnough),
	core.VerbRelease: permitsFormat(permitsRelease, func(e *encoder, op *core.Op, c *Command) {
		c.permitKeys(op.Name)
		c.managerOnce(e, 0)
		c.addChannel(ChannelOf(core.Permits, op.Name), "1", countOfPermits)
		c.Args = append(c.Args, lineKey(op.Name), wantsKey(op.Name), decimal(op.ID), flag(op.Leaves), strconv.FormatInt(op.Limit, 10), strconv.Itoa(op.Most), strconv.Itoa(len(op.OtherNumbers)))
		e.otherPermits(op, c)
	}, readPermitsReleased).warns(func(a *Answer) *Failure {
		if a.Kind == Array && len(a.Array) == 3 {
			return unpublished(&a.Array[2])
		}
		return nil
	}),
}})

// permitsFormat returns the format of a script that serves one operation or several, and answers
// with an array.
func permitsFormat(s *Script, join func(*encoder, *core.Op, *Command), read func(*core.Op, *Answer, *core.Reply) bool) format {
	return oneOrMany(s, maxPermitOps, element, join, read).shareIf(smallEnough)
}

// mostMembers is how many members of the set an operation may look for if the operation is to share
// a command.
const mostMembers = 16

// smallEnough reports whether an operation is small enough to share a command.
func smallEnough(op *core.Op) bool { return op.Most*(1+len(op.OtherNumbers)) <= mostMembers }

// permitKeys adds the keys of a name.
func (c *Command) permitKeys(name string) {
	c.Keys = append(c.Keys, name, TakenKey(name))
}

// managerOnce adds the manager after n arguments, unless the command has more arguments already.
func (c *Command) managerOnce(e *encoder, n int) {
	if len(c.Args) == n {
		c.Args = append(c.Args, e.manager)
	}
}

func (e *encoder) otherPermits(op *core.Op, c *Command) {
	for _, o := range op.OtherNumbers {
		c.Args = append(c.Args, e.permitHolder(o))
	}
}

func joinPermits(e *encoder, op *core.Op, c *Command) {
	c.leaseOnce(e, op)
	c.permitKeys(op.Name)
	c.Args = append(c.Args, strconv.Itoa(op.Permits), e.permitHolder(op.Number))
}

func readPermitsAcquired(op *core.Op, a *Answer, r *core.Reply) bool {
	switch {
	case a.Kind == Nil:
		r.OK = true
		return true
	case a.Kind == Int:
		r.TTL = ReadMillis(a.Int)
		return true
	case a.is(Int):
		r.TTL, r.OtherKind = -1, true
		return true
	case a.is(Int, Int) && a.Array[0].Int == -2:
		r.Limit = a.Array[1].Int
		return r.Limit > 0 && r.Limit < int64(op.Permits)
	case a.is(Int, Int), op.Lined && a.is(Int, Int, Int) && a.Array[2].Int == 0:
		r.Outside = len(a.Array) == 3
		r.TTL, r.Gathered = ReadMillis(a.Array[0].Int), a.Array[1].Int == 1
		return op.Gather > 0 || r.Outside
	}
	return false
}

func readPermitsReleased(op *core.Op, a *Answer, r *core.Reply) bool {
	if a.Kind == Nil {
		return true
	}
	if !a.is(Int, Int) && !a.is(Int, Int, Text) || a.Array[0].Int < 1 {
		return false
	}
	r.OK, r.Partly = true, a.Array[0].Int < int64(op.Permits)
	r.Subscribers = a.Array[1].Int
	return true
}

// countOfPermits is the count of a transfer or a release of permits.
func countOfPermits(a *Answer) (*int64, bool) {
	if a.Kind != Array || len(a.Array) != 1 {
		return nil, false
	}
	if a = &a.Array[0]; len(a.Array) > 1 { // a release
		a = &a.Array[1]
	}
	if a.Kind != Int {
		return nil, false
	}
	return &a.Int, true
}

// changePermits returns the command of a script that changes what the server knows of permits, and
// publishes the change.
func changePermits(s *Script, name string, args ...string) Command {
	c := Command{Script: s, Args: args}
	c.permitKeys(name)
	c.addChannel(ChannelOf(core.Permits, name), "1", countOfDone)
	return c
}

// ReturnPermits returns the command that gives permits back by the digits of their IDs.
func ReturnPermits(name string, ids []string) Command {
	c := changePermits(permitsReturn, name)
	c.Args = append(append(c.Args, lineKey(name), wantsKey(name)), ids...)
	return c
}

// LimitPermits returns the command that sets how many permits there are, or adds to the number. how
// is set or add. If the server knows no limit, n is added to limit.
func LimitPermits(name, how string, n, limit int) Command {
	return changePermits(permitsLimit, name, how, strconv.Itoa(n), strconv.Itoa(limit))
}

// DeletePermits returns the command that removes everything that the server knows of permits,
// unless a permit is taken.
func DeletePermits(name string) Command { return changePermits(permitsDelete, name) }

// mostTold is how many taken permits InspectPermits asks for at most.
const mostTold = 1000

// InspectPermits returns the command that reads the state of permits. ReadPermits reads the answer.
func InspectPermits(name string) Command {
	c := Command{Script: permitsInspect, Args: []string{strconv.Itoa(mostTold), ChannelOf(core.Permits, name), wantsKey(name)}}
	c.permitKeys(name)
	return c
}

// PermitsState is the state of permits on the server.
type PermitsState struct {
	Exists  bool
	Free    int64 // the counter: expired permits are not counted yet
	Taken   int64 // expired ones are counted
	Expired int64
	Waiting int64
	Permits []TakenPermit // some of those that have not expired
}

// A TakenPermit is a permit that a holder has.
type TakenPermit struct {
	ID  string // as it is on the server
	TTL time.Duration
}

// Text returns the ID in hexadecimal digits. Old clients of another library write digits.
func (p *TakenPermit) Text() string {
	if len(p.ID) == len(PermitID{}) {
		return hex.EncodeToString([]byte(p.ID))
	}
	return p.ID
}

// Of reports whether the permit belongs to a manager.
func (p *TakenPermit) Of(manager string) bool {
	return len(p.ID) == len(PermitID{}) && strings.HasPrefix(p.ID, string(permitOwner(manager)))
}

// Hold returns the key of the record of the process that has the permit, and the number of the
// hold. For a permit of another library there is no process record, and Hold returns empty texts.
func (p *TakenPermit) Hold() (key, number string) {
	if len(p.ID) != len(PermitID{}) {
		return "", ""
	}
	var low [8]byte
	copy(low[2:], p.ID[8:14])
	return ProcessPrefix + hex.EncodeToString([]byte(p.ID[:8])), strconv.FormatUint(binary.BigEndian.Uint64(low[:]), 10)
}

// ReadPermits reads the answer to InspectPermits. ok is false for the answer to another command.
func ReadPermits(a *Answer) (s PermitsState, ok bool) {
	v := a.Array
	if !a.Begins(Text, Int, Int, Int) || len(v)%2 != 0 {
		return s, false
	}
	if s.Exists = v[0].Text != ""; s.Exists {
		free, err := strconv.ParseInt(v[0].Text, 10, 64)
		if err != nil {
			return s, false
		}
		s.Free = free
	}
	s.Taken, s.Expired, s.Waiting = v[1].Int, v[2].Int, v[3].Int
	for i := 4; i < len(v); i += 2 {
		if v[i].Kind != Text || v[i+1].Kind != Int {
			return s, false
		}
		s.Permits = append(s.Permits, TakenPermit{v[i].Text, ReadMillis(v[i+1].Int)})
	}
	return s, true
}

// A PermitID is how the server knows a permit: 16 bytes. An ID of this library has the first eight
// bytes of the manager's UUID, six bytes of the number of the hold, and two bytes of the permit's
// position in the hold.
type PermitID [16]byte

// Permit returns the ID of permit i of hold n of a manager.
func Permit(manager string, n uint64, i int) (id PermitID) {
	copy(id[:8], permitOwner(manager))
	var low [8]byte
	binary.BigEndian.PutUint64(low[:], n)
	copy(id[8:14], low[2:])
	binary.BigEndian.PutUint16(id[14:], uint16(i))
	return id
}

// permitOwner returns the bytes with which the IDs of the manager's permits begin.
func (e *encoder) permitOwner() string {
	if e.owner == "" {
		e.owner = string(permitOwner(e.manager))
	}
	return e.owner
}

// permitHolder returns the first part of the IDs of a hold's permits: all but the position.
func (e *encoder) permitHolder(n uint64) string {
	owner := e.permitOwner()
	var low [8]byte
	binary.BigEndian.PutUint64(low[:], n)
	start := e.room(len(owner) + 6)
	e.chunk.WriteString(owner)
	e.chunk.Write(low[2:])
	return e.chunk.String()[start:]
}
