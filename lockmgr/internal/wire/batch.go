package wire

import (
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
)

// maxBatch bounds the tasks of a batch of anything but renewals. Larger batches gain no throughput
// and make each answer wait for the last answer.
const maxBatch = 256

// A batch is the commands for a slice of tasks. The next batch reuses the memory.
type batch struct {
	encoder
	tasks    []task
	commands []Command
	answers  []Answer
	picked   Answer // see answer

	open [core.MostKinds][verbs]shared

	// apart gives each lock a command of its own. apart is set when the server has refused a script
	// because the keys are in several slots.
	apart bool

	// slots has the commands that the next operation of a slot can join. slots is nil unless only
	// locks of one slot may share a command.
	slots map[inSlot]shared
}

// shared is the command that the next operation of a verb can join.
type shared struct {
	at    int // the index of the command; negative: none
	first int // the index of the task that opened the command
	lease time.Duration
}

// inSlot says which operations can share a command in a cluster.
type inSlot struct {
	kind core.Kind
	verb core.Verb
	slot uint16
}

// newBatch returns the batch of a lane.
func newBatch(cfg *Config) *batch {
	b := &batch{
		encoder:  encoder{manager: cfg.Manager},
		commands: make([]Command, 0, maxBatch), answers: make([]Answer, 0, maxBatch),
	}
	switch {
	case cfg.clustered && cfg.detour:
		b.apart = true // the slot of each command may have moved on
	case cfg.clustered:
		b.slots = make(map[inSlot]shared)
	}
	return b
}

// build writes the commands for b.tasks, which are sent no earlier than now.
func (b *batch) build(now time.Duration) {
	b.commands, b.answers = b.commands[:0], b.answers[:0]
	for kind := range b.open {
		for verb := range b.open[kind] {
			b.open[kind][verb].at = -1
		}
	}
	clear(b.slots)
	for i := range b.tasks {
		t := &b.tasks[i]
		switch {
		case t.op == nil:
			c := b.add(t)
			c.reset(t.call.command.Script) // its memory is the batch's, not the caller's
			c.Keys, c.Args = append(c.Keys, t.call.command.Keys...), append(c.Args, t.call.command.Args...)
			c.Rest, c.listeners = t.call.command.Rest, t.call.command.listeners
			c.ops = 0
		case !b.apart && formatOf(t.op).shares(t.op):
			t.op.Sent = now
			if b.slots != nil {
				b.joinSlot(i)
			} else {
				b.join(i)
			}
		default:
			t.op.Sent = now
			b.single(t)
		}
	}
	for kind := range b.open {
		for verb := range b.open[kind] {
			b.close(&b.open[kind][verb])
		}
	}
	b.makeAnswers()
}

// makeAnswers makes room for an answer to each command.
func (b *batch) makeAnswers() {
	b.answers = append(b.answers, make([]Answer, len(b.commands)-len(b.answers))...)
}

// add adds a command for a task. add reuses the memory of a command of a former batch.
func (b *batch) add(t *task) *Command {
	n := len(b.commands)
	if n == cap(b.commands) {
		b.commands = append(b.commands, Command{})
	}
	b.commands = b.commands[:n+1]
	t.at, t.index = n, alone
	return &b.commands[n]
}

// single gives an operation a command of its own.
func (b *batch) single(t *task) {
	f := formatOf(t.op)
	f.write(&b.encoder, t.op, b.add(t))
	if f.evenOne {
		t.index = 0
	}
}

// join adds the operation of task i to the command for its verb and lease, or opens a command.
func (b *batch) join(i int) {
	t := &b.tasks[i]
	f, s := formatOf(t.op), &b.open[t.op.Kind][t.op.Verb]
	if s.at >= 0 && !b.fits(s, t.op) {
		b.close(s)
	}
	if s.at < 0 {
		b.add(t).reset(f.many)
		b.commands[t.at].ops = 0
		*s = shared{at: t.at, first: i, lease: t.op.Lease}
	}
	c := &b.commands[s.at]
	t.at, t.index = s.at, c.ops
	f.join(&b.encoder, t.op, c)
	c.ops++
}

// fits reports whether an operation can join a command of its verb.
func (b *batch) fits(s *shared, op *core.Op) bool {
	return b.commands[s.at].ops < formatOf(op).most && s.lease == op.Lease
}

// joinSlot is join for a server that wants the keys of a command in one slot. Most operations are
// alone in their slot, so the first gets a command of its own, which the second makes a shared
// command.
func (b *batch) joinSlot(i int) {
	t := &b.tasks[i]
	f := formatOf(t.op)
	key := inSlot{t.op.Kind, t.op.Verb, uint16(SlotOf(t.op.Name))}
	s, open := b.slots[key]
	if !open || !b.fits(&s, t.op) {
		b.single(t)
		b.slots[key] = shared{at: t.at, first: i, lease: t.op.Lease}
		return
	}
	c := &b.commands[s.at]
	if c.ops == 1 {
		first := &b.tasks[s.first]
		c.reset(f.many)
		f.join(&b.encoder, first.op, c)
		first.index = 0
	}
	t.at, t.index = s.at, c.ops
	f.join(&b.encoder, t.op, c)
	c.ops++
}

// close ends a shared command. A command with a single operation gets the script for a single lock.
func (b *batch) close(s *shared) {
	if s.at < 0 {
		return
	}
	t := &b.tasks[s.first]
	if f := formatOf(t.op); b.commands[s.at].ops == 1 && !f.evenOne {
		f.write(&b.encoder, t.op, &b.commands[s.at])
		t.index = alone
	}
	s.at = -1
}

// split adds a command for each lock of a shared command that was refused as a whole and did not
// run. The reason may be the name of a single lock, which is forbidden, or that the names are in
// several slots of a cluster, or in a slot that is being moved. split also adds a release of each
// name of a set if a name is forbidden. While a slot is being moved, the release of a set stays
// whole, because only its answer says that a name was lost. split reports whether it added any
// command. The answers to all other commands stay.
func (b *batch) split() bool {
	before := len(b.commands)
	for i := range b.tasks {
		t := &b.tasks[i]
		switch c := &b.commands[t.at]; {
		case !b.refused(t.at):
		case c.ops > 1:
			if b.slots == nil && b.answers[t.at].Failure.Kind == Topology {
				b.apart = true // from now on: the server refuses commands with keys of several slots
			}
			b.single(t)
		case c.items > 1 && t.op.Verb == core.VerbRelease && b.answers[t.at].Failure.Kind == Permission:
			b.releaseEach(t)
		}
	}
	b.makeAnswers()
	return len(b.commands) > before
}

// releaseEach adds a release of each name of a set. Nobody reads the answers to these releases, so
// the release of the set becomes a failure that may have run.
func (b *batch) releaseEach(t *task) {
	f := *b.answers[t.at].Failure
	f.Ran = core.Maybe
	b.answers[t.at] = f.Answer()
	for i := range t.op.Items {
		part := *t.op
		part.Items = t.op.Items[i : i+1]
		b.single(&task{op: &part})
	}
}

// refused reports whether a command did not run for a reason that may concern a single lock of the
// command. Failures for any other reason concern the server.
func (b *batch) refused(at int) bool {
	f := b.answers[at].Failure
	if f == nil || f.Ran != core.No {
		return false
	}
	if b.slots != nil { // all keys of the command are at the same master
		return f.Kind == Permission || f.OnlyThis
	}
	return f.Kind == Topology || f.Kind == Permission
}

// answer returns the server's answer to a task, which is good until the next call.
func (b *batch) answer(t *task) *Answer {
	if t.index == alone {
		return &b.answers[t.at]
	}
	b.picked = formatOf(t.op).pick(&b.answers[t.at], t.index, b.commands[t.at].ops)
	return &b.picked
}

// renews reports whether the tasks of a batch are renewals.
func (b *batch) renews() bool { return b.tasks[0].op != nil && b.tasks[0].op.Verb == core.VerbRenew }

// healthy reports whether no failure of a batch may concern more than one lock.
func (b *batch) healthy() bool {
	for i := range b.answers {
		if b.answers[i].Failure.General() {
			return false
		}
	}
	return true
}

// demoted reports whether an answer says that the server may have become a replica.
func (b *batch) demoted() bool {
	return slices.ContainsFunc(b.answers, func(a Answer) bool { return a.Failure != nil && a.Failure.Demoted })
}

// clear drops the references of a batch to its tasks and answers, and memory that only many
// renewals at once need.
func (b *batch) clear() {
	clear(b.tasks)
	clear(b.answers)
	if cap(b.tasks) > 4*maxBatch {
		b.tasks = nil
	}
	if cap(b.commands) > 4*maxBatch { // many were split
		b.commands, b.answers = make([]Command, 0, maxBatch), make([]Answer, 0, maxBatch)
	}
	b.picked = Answer{}
}
