package wire

import (
	"crypto/sha1"
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
)

// A Script is sent by its hash. The text follows only if the server does not know the hash.
type Script struct {
	Name, Text, sha string
	clustered       [Sharded + 1]*Script // for a node of a cluster, by the kind of channels
}

func newScript(name string) *Script {
	text := script.Text(name)
	s := &Script{Name: name, Text: text, sha: hashOf(text)}
	for channels, text := range [...]string{Classic: forClassic.Replace(text), Sharded: forSharded.Replace(text)} {
		text = onlyAt + text
		s.clustered[channels] = &Script{Name: name, Text: text, sha: hashOf(text)}
	}
	return s
}

// onlyAt makes a script do nothing at another node than the node whose ID is the last argument.
const onlyAt = "if redis.call('CLUSTER', 'MYID') ~= table.remove(ARGV) then return {err = '" + strangeNodeCode + " this is another node'} end\n"

func hashOf(text string) string {
	sum := sha1.Sum([]byte(text))
	return hex.EncodeToString(sum[:])
}

// Channels says on which channels messages are published.
type Channels uint8

const (
	Classic Channels = iota
	Sharded          // those of clusters
)

// forSharded makes a script use sharded channels. A server delivers a message on a sharded channel
// only to subscribers at the master of the channel's slot.
var forSharded = strings.NewReplacer("'PUBLISH'", "'SPUBLISH'", "'PUBSUB', 'NUMSUB'", "'PUBSUB', 'SHARDNUMSUB'")

// forClassic makes a script of a cluster take each manager of a line for one that may be deaf: see
// line.lua. A node counts the subscribers at other nodes, and those of sharded channels, as nobody.
var forClassic = strings.NewReplacer("string.find(flags, 'd')", "true")

// A Command is one call of a script for some locks, or, without a script, a command whose words are
// Args, followed by Keys and Rest. Keys and arguments are copied when the Command is built for the
// client.
type Command struct {
	Script     *Script
	Keys, Args []string
	Rest       []string

	ops       int  // how many operations share the command; zero: the core knows nothing of it
	blocks    bool // the server may answer late; the connection has no other command
	asking    bool // ASKING comes before the command
	items     int  // how many names the operation on a set has
	listeners listeners
}

// listeners says which arguments of a command are channels, and what the script does there.
type listeners struct {
	first, channels int    // the index in Args of the first channel, and how many follow each other
	message         string // what the script publishes; empty: the script only counts subscribers
	// count returns a pointer to the number of subscribers in an answer, and whether the script can
	// have published. The pointer is nil if the answer has no such number.
	count func(*Answer) (reached *int64, published bool)
}

// reset makes c a call of a script without keys and arguments.
func (c *Command) reset(s *Script) {
	*c = Command{Script: s, Keys: c.Keys[:0], Args: c.Args[:0], ops: 1}
}

// renews reports whether c is a call of a script that renews, for any kind of lock.
func (c *Command) renews() bool { return c.Script != nil && strings.HasSuffix(c.Script.Name, "renew") }

// leaseOnce adds the lease unless the command has arguments already. The lease is the first
// argument.
func (c *Command) leaseOnce(e *encoder, op *core.Op) {
	if len(c.Args) == 0 {
		c.Args = append(c.Args, e.millis(op.Lease))
	}
}

// names returns the names of the locks of a script. Each lock has the same number of keys, its name
// first. The result does not share the memory of Keys, which is reused.
func (c *Command) names() []string {
	each := len(c.Keys) / max(c.ops, c.items, 1)
	var out []string
	for i := 0; i < len(c.Keys); i += each {
		out = append(out, c.Keys[i])
	}
	return out
}

// A format says how the operations of one verb become commands, and how the answers are read.
type format struct {
	// write writes a command for one operation.
	write func(e *encoder, op *core.Op, c *Command)
	// many is the script of a command that several operations share. If many is nil, each operation
	// has a command of its own.
	many *Script
	// most is how many operations share a command at most.
	most int
	// sharable reports whether an operation may share a command. Nil: each operation may.
	sharable func(op *core.Op) bool
	// join adds an operation to a command of the script many.
	join func(e *encoder, op *core.Op, c *Command)
	// pick returns the answer to operation i of n operations with a shared command.
	pick func(a *Answer, i, n int) Answer
	// evenOne reports whether a single operation uses the script many, too.
	evenOne bool
	// read fills in the reply, and reports whether the answer has a shape that the script can
	// return.
	read func(op *core.Op, a *Answer, r *core.Reply) bool
	// warning returns the failure that an answer reports although the operation was done, or nil. A
	// nil warning: no answer reports a failure.
	warning func(a *Answer) *Failure
}

// verbs is the number of verbs, including VerbNone.
const verbs = int(core.VerbRenew) + 1

// A kind is how the operations of a kind of lock are encoded. Each kind has a file of its own,
// which registers the kind.
type kind struct {
	name    string // as users read it
	channel string // the first part of the name of its channels
	freed   string // the message that wakes all who wait
	formats [verbs]format
}

var formats [core.MostKinds]kind

func register(of core.Kind, k kind) struct{} {
	formats[of] = k
	return struct{}{}
}

// ChannelOf returns the channel of a lock of some kind.
func ChannelOf(k core.Kind, name string) string { return beside(formats[k].channel, name) }

func decimal(n uint64) string { return strconv.FormatUint(n, 10) }

func flag(is bool) string {
	if is {
		return "1"
	}
	return "0"
}

// OwnChannel returns the channel that wakes the waiters of a manager, or of a set, for a name of
// which the server keeps the order.
func OwnChannel(k core.Kind, manager, name string) string { return ChannelOf(k, name) + ":" + manager }

// LineChannel returns the channel by which the server counts the managers that may stand in the
// line of a name. No message is published there.
func LineChannel(k core.Kind, name string) string { return ChannelOf(k, name) + ":line" }

// KindName returns the name of a kind of lock.
func KindName(k core.Kind) string { return formats[k].name }

// formatOf returns the format of an operation.
func formatOf(op *core.Op) *format { return &formats[op.Kind].formats[op.Verb] }

// shares reports whether an operation may share a command.
func (f *format) shares(op *core.Op) bool {
	return f.many != nil && (f.sharable == nil || f.sharable(op))
}

// oneOrMany returns the format of a script that serves one operation or several.
func oneOrMany(
	s *Script, most int, pick func(a *Answer, i, n int) Answer,
	join func(*encoder, *core.Op, *Command), read func(*core.Op, *Answer, *core.Reply) bool,
) format {
	return format{
		write: func(e *encoder, op *core.Op, c *Command) {
			c.reset(s)
			join(e, op, c)
		},
		many: s, most: most, evenOne: true, pick: pick, join: join, read: read,
	}
}

func (f format) shareIf(sharable func(op *core.Op) bool) format {
	f.sharable = sharable
	return f
}

func (f format) warns(warning func(a *Answer) *Failure) format {
	f.warning = warning
	return f
}

// An encoder writes commands. The encoder composes words as substrings of one chunk, so that most
// commands allocate nothing. A word keeps its whole chunk in memory, so words must not be stored
// for long.
type encoder struct {
	manager string // the first part of holder IDs
	owner   string // the first part of the IDs of permits, or empty before the first use
	chunk   strings.Builder

	lease time.Duration // the last argument of the method millis
	word  string        // its last result
}

// chunkSize is the least size of a chunk: enough for the words of some ten locks.
const chunkSize = 1 << 10

// room makes sure that n more bytes fit into the chunk. Without enough room, room begins a new
// chunk. room returns the offset of the n bytes.
func (e *encoder) room(n int) (start int) {
	if e.chunk.Cap()-e.chunk.Len() < n {
		e.chunk.Reset()
		e.chunk.Grow(max(n, chunkSize))
	}
	return e.chunk.Len()
}

// holder returns HolderID(e.manager, n).
func (e *encoder) holder(n uint64) string {
	var digits [20]byte
	number := strconv.AppendUint(digits[:0], n, 10)
	start := e.room(len(e.manager) + 1 + len(number))
	e.chunk.WriteString(e.manager)
	e.chunk.WriteByte(':')
	e.chunk.Write(number)
	return e.chunk.String()[start:]
}

// channel returns Channel(name).
func (e *encoder) channel(name string) string {
	before, after := around(name)
	start := e.room(len(ChannelPrefix) + len(before) + len(name) + len(after))
	e.chunk.WriteString(ChannelPrefix)
	e.chunk.WriteString(before)
	e.chunk.WriteString(name)
	e.chunk.WriteString(after)
	return e.chunk.String()[start:]
}

// millis returns millis(lease). millis keeps the last result, because most leases are equal.
func (e *encoder) millis(lease time.Duration) string {
	if lease != e.lease || e.word == "" {
		e.lease, e.word = lease, millis(lease)
	}
	return e.word
}

// millis rounds up: a record must not end before the lease that was asked for.
func millis(d time.Duration) string {
	return strconv.FormatInt(int64((d+time.Millisecond-1)/time.Millisecond), 10)
}

// Encode returns an operation of a manager as a command of its own.
func Encode(manager string, op *core.Op) (c Command) {
	e := encoder{manager: manager}
	formatOf(op).write(&e, op, &c)
	return c
}

// Decode reads the answer to an operation with a command of its own. fail makes the error of the
// reply from a failure, and nil from nil.
func Decode(op *core.Op, a *Answer, fail func(*Failure) error) (r core.Reply) {
	if f := formatOf(op); f.evenOne {
		one := f.pick(a, 0, 1)
		a = &one
	}
	decode(op, a, &r, fail)
	return r
}

// decode fills in the reply to an operation.
func decode(op *core.Op, a *Answer, r *core.Reply, fail func(*Failure) error) {
	*r = core.Reply{Op: op, ID: op.ID, Ran: core.Yes}
	format, f := formatOf(op), a.Failure
	switch {
	case a.Kind != Failed:
		if format.read(op, a, r) {
			if format.warning != nil {
				r.Err = fail(format.warning(a))
			}
			return
		}
		f = a.Unexpected()
	case op.Verb != core.VerbAcquire && op.Tokens == 0 && f.Kind == WrongType && op.Kind != core.Fair:
		return // no token counter and no queue can be of the wrong type, so the key holds no lock
	}
	*r = core.Reply{Op: op, ID: op.ID, Ran: f.Ran, Final: f.Final, OnlyThis: f.OnlyThis, Err: fail(f)}
}
