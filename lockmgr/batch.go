package lockmgr

import (
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
)

// A batch is the commands for a slice of tasks. Plain acquires and releases are
// merged into one multi-lock script, because a server spends more time on taking
// in a command than on a lock: one call for many locks costs it half. Every other
// task has a command of its own.
//
// The memory of a batch is reused for the next one.
type batch struct {
	encoder
	tasks    []task
	parts    []part // of tasks, in the same order
	commands []command
	answers  []answer

	acquires, releases shared

	// apart gives each lock a command of its own. It is set when the server has
	// refused a script because its keys are in several slots.
	apart bool
}

// A part is where the answer to a task is.
type part struct {
	command int
	index   int // within the command's answer; alone if that is the answer
	each    int // the number of commands of a split renewal, one for each lease; else 0
}

const alone = -1

// maxShared is the most locks that share a command. More would gain little, and
// would occupy the server for longer than a fraction of a millisecond.
const maxShared = 64

// shared is the command that the next plain task of a kind can join.
type shared struct {
	command int // none if negative
	first   int // the task that opened it
	n       int
	lease   time.Duration
}

func newBatch(id *identity) *batch {
	return &batch{encoder: encoder{id: id}, commands: make([]command, 0, maxBatch), answers: make([]answer, 0, maxBatch)}
}

// build writes the commands for b.tasks, which are sent no earlier than now.
func (b *batch) build(now time.Duration) {
	b.commands, b.parts = b.commands[:0], b.parts[:0]
	b.acquires.command, b.releases.command = -1, -1
	for i, t := range b.tasks {
		switch {
		case t.op != nil:
			t.op.Sent = now
			b.op(i, t.op)
		case t.renewal != nil:
			t.renewal.Sent = now
			if b.apart && len(t.renewal.Entries) > 1 {
				b.parts = append(b.parts, b.renewEach(t.renewal))
			} else {
				b.encoder.renewal(t.renewal, b.open(alone))
			}
		default:
			c := b.open(alone) // its memory is the batch's, not the caller's
			c.script = t.call.command.script
			c.keys, c.args = append(c.keys[:0], t.call.command.keys...), append(c.args[:0], t.call.command.args...)
		}
	}
	b.close(&b.acquires, acquireScript)
	b.close(&b.releases, releaseScript)
	b.answers = b.answers[:0]
	b.makeAnswers()
}

// makeAnswers makes room for an answer to each command.
func (b *batch) makeAnswers() {
	for len(b.answers) < len(b.commands) {
		b.answers = append(b.answers, answer{})
	}
}

// open adds a command for the next task.
func (b *batch) open(index int) *command {
	b.parts = append(b.parts, part{command: len(b.commands), index: index})
	return b.add()
}

// add appends a command, which reuses the memory of one of a former batch.
func (b *batch) add() *command {
	n := len(b.commands)
	if n == cap(b.commands) {
		b.commands = append(b.commands, command{})
	}
	b.commands = b.commands[:n+1]
	return &b.commands[n]
}

// renewEach adds a command for each lease of a renewal.
func (b *batch) renewEach(r *core.Renewal) part {
	p := part{command: len(b.commands), index: alone, each: len(r.Entries)}
	for i := range r.Entries {
		b.encoder.renewal(&core.Renewal{Lease: r.Lease, Entries: r.Entries[i : i+1]}, b.add())
	}
	return p
}

// op adds op, the op of task i, to a command.
func (b *batch) op(i int, op *core.Op) {
	switch {
	case b.apart:
		b.encoder.op(op, b.open(alone))
	case op.Kind == core.KindAcquire && op.Tokens == 0 && len(op.Others) == 0:
		c := b.join(&b.acquires, i, op.Lease, acquireManyScript, acquireScript)
		if len(c.args) == 0 {
			c.args = append(c.args, b.millis(op.Lease))
		}
		c.keys, c.args = append(c.keys, op.Name), append(c.args, b.field(op.Owner))
	case op.Kind == core.KindRelease && len(op.Others) == 1:
		c := b.join(&b.releases, i, 0, releaseManyScript, releaseScript)
		c.keys, c.args = append(c.keys, op.Name, b.channel(op.Name)), append(c.args, b.field(op.Others[0]))
	default:
		b.encoder.op(op, b.open(alone))
	}
}

// join returns the command that a plain task shares with earlier ones, or a new
// one that others can join.
func (b *batch) join(s *shared, i int, lease time.Duration, many, one *script) *command {
	if s.command >= 0 && (s.n == maxShared || s.lease != lease) {
		b.close(s, one)
	}
	if s.command < 0 {
		*s = shared{command: len(b.commands), first: i, lease: lease}
		c := b.open(0)
		c.script, c.keys, c.args = many, c.keys[:0], c.args[:0]
	} else {
		b.parts = append(b.parts, part{command: s.command, index: s.n})
	}
	s.n++
	return &b.commands[s.command]
}

// close ends a shared command. If it has one task only, that task gets the script
// for a single lock.
func (b *batch) close(s *shared, one *script) {
	if s.command >= 0 && s.n == 1 {
		c := &b.commands[s.command]
		b.encoder.op(b.tasks[s.first].op, c)
		b.parts[s.first].index = alone
	}
	s.command = -1
}

// split adds a command for each lock of a shared command that was refused as a
// whole and did not run. The name of one lock may be the reason: it is
// forbidden, or the names are in several slots of a cluster. It reports whether
// it added any. The other answers stay.
func (b *batch) split() bool {
	before := len(b.commands)
	for i, t := range b.tasks {
		p := &b.parts[i]
		several := p.index != alone || t.renewal != nil && p.each == 0 && len(t.renewal.Entries) > 1
		if !several || !b.refused(p.command) {
			continue
		}
		if t.renewal != nil {
			*p = b.renewEach(t.renewal)
			continue
		}
		*p = part{command: len(b.commands), index: alone}
		b.encoder.op(t.op, b.add())
	}
	b.makeAnswers()
	return len(b.commands) > before
}

// refused reports whether a command did not run for a reason that may concern one
// of its locks only. Other errors concern the server.
func (b *batch) refused(command int) bool {
	a := &b.answers[command]
	if a.kind != answerError || a.ran != core.No {
		return false
	}
	if errors.Is(a.err, ErrTopology) {
		b.apart = true
		return true
	}
	return errors.Is(a.err, ErrPermission)
}

// answer returns the server's answer to task i.
func (b *batch) answer(i int) answer {
	p := b.parts[i]
	a := b.answers[p.command]
	if p.index == alone || a.kind == answerError {
		return a
	}
	// A reply that is too short or too long can't be assigned to the locks.
	if n := b.sharers(p.command); a.kind != answerArray || len(a.array) != n {
		return answer{kind: answerError, ran: core.Maybe, final: true, err: errShape(&a)}
	}
	return a.array[p.index]
}

// renewed reads the answer to task i, a renewal.
func (b *batch) renewed(i int) *core.Renewed {
	r, p := b.tasks[i].renewal, b.parts[i]
	if p.each == 0 {
		a := b.answer(i)
		return a.renewed(r)
	}
	for j := range r.Entries {
		one := core.Renewal{Entries: r.Entries[j : j+1]}
		b.answers[p.command+j].renewed(&one)
	}
	return &core.Renewed{Renewal: r}
}

// sharers returns how many tasks share a command.
func (b *batch) sharers(command int) int {
	c := &b.commands[command]
	if c.script == acquireManyScript {
		return len(c.keys)
	}
	return len(c.args)
}

// refuse answers all commands with an error, unsent.
func (b *batch) refuse(err error) {
	for i := range b.answers {
		b.answers[i] = answer{kind: answerError, ran: core.No, final: true, err: err}
	}
}

// clear drops the references of a batch to its tasks and answers.
func (b *batch) clear() {
	clear(b.tasks)
	clear(b.answers)
	if cap(b.commands) > 4*maxBatch { // renewals were split
		b.commands, b.answers = make([]command, 0, maxBatch), make([]answer, 0, maxBatch)
	}
}
