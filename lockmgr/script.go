package lockmgr

import (
	"crypto/sha1"
	_ "embed" // the scripts
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
)

// A script is sent by its hash. The text follows only if the server does not know
// the hash.
type script struct{ name, text, sha string }

func newScript(name, text string) *script {
	sum := sha1.Sum([]byte(text))
	return &script{name, text, hex.EncodeToString(sum[:])}
}

var (
	//go:embed script/acquire.lua
	acquireLua string
	//go:embed script/acquire_many.lua
	acquireManyLua string
	//go:embed script/transfer.lua
	transferLua string
	//go:embed script/renew.lua
	renewLua string
	//go:embed script/release.lua
	releaseLua string
	//go:embed script/release_many.lua
	releaseManyLua string
	//go:embed script/force.lua
	forceLua string
	//go:embed script/inspect.lua
	inspectLua string

	acquireScript     = newScript("acquire", acquireLua)
	acquireManyScript = newScript("acquire_many", acquireManyLua)
	transferScript    = newScript("transfer", transferLua)
	renewScript       = newScript("renew", renewLua)
	releaseScript     = newScript("release", releaseLua)
	releaseManyScript = newScript("release_many", releaseManyLua)
	forceScript       = newScript("force", forceLua)
	inspectScript     = newScript("inspect", inspectLua)
)

// A command is one call of a script, or, without a script, a command whose words
// are args.
// Keys and arguments are copied when it is built for the wire.
type command struct {
	script     *script
	keys, args []string
}

// millis rounds up: a record must not end before the lease that was asked
// for.
func millis(d time.Duration) string {
	return strconv.FormatInt(int64((d+time.Millisecond-1)/time.Millisecond), 10)
}

// ofMillis converts a server's time, which may exceed a Duration.
func ofMillis(n int64) time.Duration {
	return time.Duration(min(n, int64(core.Forever/time.Millisecond))) * time.Millisecond
}

// An encoder writes commands. The words that it makes up are parts of one long
// string, so that most commands need no memory of their own. A word keeps the
// string that it is a part of: it is for the wire, not for keeps.
type encoder struct {
	id    *identity
	chunk strings.Builder

	lease time.Duration // the last one, and its word
	word  string
}

// chunkSize is the least size of a chunk: enough for the words of some ten locks.
const chunkSize = 1 << 10

// room makes sure that n more bytes fit into the chunk, which begins a new one if
// they do not. It returns where they will be.
func (e *encoder) room(n int) (start int) {
	if e.chunk.Cap()-e.chunk.Len() < n {
		e.chunk.Reset()
		e.chunk.Grow(max(n, chunkSize))
	}
	return e.chunk.Len()
}

// field is identity.field.
func (e *encoder) field(n uint64) string {
	var digits [20]byte
	number := strconv.AppendUint(digits[:0], n, 10)
	start := e.room(len(e.id.uuid) + 1 + len(number))
	e.chunk.WriteString(e.id.uuid)
	e.chunk.WriteByte(':')
	e.chunk.Write(number)
	return e.chunk.String()[start:]
}

// channel is channelOf.
func (e *encoder) channel(name string) string {
	before, after := around(name)
	start := e.room(len(channelPrefix) + len(before) + len(name) + len(after))
	e.chunk.WriteString(channelPrefix)
	e.chunk.WriteString(before)
	e.chunk.WriteString(name)
	e.chunk.WriteString(after)
	return e.chunk.String()[start:]
}

// millis is millis. Most leases are like the one before.
func (e *encoder) millis(lease time.Duration) string {
	if lease != e.lease || e.word == "" {
		e.lease, e.word = lease, millis(lease)
	}
	return e.word
}

// op writes an op as a command. See the headers of the scripts.
func (e *encoder) op(op *core.Op, c *command) {
	c.keys = append(c.keys[:0], op.Name)
	c.args = c.args[:0]
	switch op.Kind {
	case core.KindLook:
		c.script, c.keys, c.args = nil, c.keys[:0], append(c.args, "EXISTS", op.Name)
		return
	case core.KindAcquire:
		c.script = acquireScript
	case core.KindTransfer:
		c.script = transferScript
		c.keys = append(c.keys, e.channel(op.Name))
	case core.KindRelease:
		c.script = releaseScript
		c.keys = append(c.keys, e.channel(op.Name))
	default:
		panic("lockmgr: no script for " + op.Kind.String())
	}
	if op.Kind != core.KindRelease {
		if op.Tokens > 0 {
			c.keys = append(c.keys, tokenKeyOf(op.Name))
		}
		c.args = append(c.args, e.millis(op.Lease), strconv.FormatInt(op.Tokens, 10), e.field(op.Owner))
	}
	for _, o := range op.Others {
		c.args = append(c.args, e.field(o))
	}
}

// renewal writes a batch of renewals as one command.
func (e *encoder) renewal(r *core.Renewal, c *command) {
	c.script = renewScript
	c.keys, c.args = c.keys[:0], append(c.args[:0], e.millis(r.Lease))
	for i := range r.Entries {
		c.keys = append(c.keys, r.Entries[i].Name)
		c.args = append(c.args, e.field(r.Entries[i].Owner))
	}
}

// An answer is what a script returned, free of the client's types.
type answer struct {
	kind  answerKind
	n     int64
	text  string
	array []answer

	ran   core.Ran
	final bool
	err   error
}

type answerKind uint8

const (
	answerNil answerKind = iota
	answerInt
	answerText
	answerArray
	answerError
)

// reply reads an answer to an op.
func (a *answer) reply(op *core.Op) core.Reply {
	r := core.Reply{Op: op, ID: op.ID, Ran: core.Yes}
	if a.kind == answerError {
		if op.Kind != core.KindAcquire && op.Tokens == 0 && errors.Is(a.err, ErrWrongType) {
			return r // the key holds no lock, so none of ours
		}
		r.Ran, r.Final, r.Err = a.ran, a.final, a.err
		return r
	}
	ok := true
	switch op.Kind {
	case core.KindAcquire:
		// An answer must have tokens if they were asked for, and only then:
		// without them the core would ask for ever.
		switch a.kind {
		case answerNil:
			r.OK, ok = true, op.Tokens == 0
		case answerText:
			r.OK = true
			r.Token, ok = readToken(a.text)
			ok = ok && op.Tokens > 0
		case answerInt:
			r.TTL = ofMillis(a.n)
		case answerArray: // the same, of a record of another kind of lock
			if ok = len(a.array) == 1 && a.array[0].kind == answerInt; ok {
				r.TTL, r.Elsewhere = ofMillis(a.array[0].n), true
			}
		default:
			ok = false
		}
	case core.KindLook:
		r.OK, ok = a.n > 0, a.kind == answerInt
	case core.KindTransfer:
		switch {
		case a.kind == answerNil:
		case a.kind == answerInt && op.Tokens == 0:
			r.OK, r.Subscribers = true, a.n
		case a.kind == answerArray && op.Tokens > 0 && len(a.array) == 2 && a.array[0].kind == answerInt:
			r.OK, r.Subscribers = true, a.array[0].n
			r.Token, ok = readToken(a.array[1].text)
		default:
			ok = false
		}
	case core.KindRelease:
		switch a.kind {
		case answerNil:
		case answerInt:
			r.OK, r.Subscribers = true, a.n
		case answerText: // released, but nobody was told
			r.OK, r.Subscribers = true, -1
			_, _, r.Err = readServerError(textError(a.text), a.text)
		default:
			ok = false
		}
	}
	if !ok {
		return core.Reply{Op: op, ID: op.ID, Ran: core.Maybe, Final: true, Err: errShape(a)}
	}
	return r
}

// renewed reads an answer to a batch of renewals.
func (a *answer) renewed(r *core.Renewal) *core.Renewed {
	all := func(ran core.Ran, final bool, err error) {
		for i := range r.Entries {
			e := &r.Entries[i]
			e.Ran, e.Lost, e.Final, e.Err = ran, false, final, err
		}
	}
	switch a.kind {
	case answerError:
		all(a.ran, a.final, a.err)
	case answerArray:
		all(core.Yes, false, nil)
		last := 0
		for _, x := range a.array {
			n, text, ok := x.exception()
			if !ok || n <= last || n > len(r.Entries) {
				all(core.Maybe, true, errShape(a))
				break
			}
			last = n
			if e := &r.Entries[n-1]; text == "" {
				e.Lost = true
			} else {
				e.Ran, e.Final, e.Err = readServerError(textError(text), text)
			}
		}
	default:
		all(core.Maybe, true, errShape(a))
	}
	return &core.Renewed{Renewal: r}
}

// exception reads one element of the reply to a renewal: the position of a
// lease, which counts from 1, and the error that it met, if it is not lost.
func (a *answer) exception() (position int, text string, ok bool) {
	switch {
	case a.kind == answerInt:
		return int(a.n), "", true
	case a.kind == answerArray && len(a.array) == 2 && a.array[0].kind == answerInt && a.array[1].kind == answerText && a.array[1].text != "":
		return int(a.array[0].n), a.array[1].text, true
	}
	return 0, "", false
}

func readToken(text string) (int64, bool) {
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil && n > 0
}

type textError string

func (e textError) Error() string { return string(e) }

func errShape(a *answer) error {
	return &ServerError{Kind: ErrServer, Err: fmt.Errorf("unexpected reply %q (kind %d, %d)", a.text, a.kind, a.n), Hint: "is this a Redis or Valkey server, and does nothing between rewrite replies?"}
}
