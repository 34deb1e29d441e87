package wire

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
)

// A spread is an operation on a set whose names are in several slots of a cluster. No script may
// have keys of two slots, so the operation has a part for each slot. The core sees one operation
// and one reply.
//
//	acquire ──▶ the next parts ───────▶ all taken ──────────────────────▶ OK
//	                 ▲        │  └─────▶ one is refused ──▶ undo ───────▶ refused
//	                 └────────┘  └─────▶ one fails ───────▶ undo ───────▶ the failure
//	all taken while gathering ──▶ renew all parts: OK, or one is gone ──▶ undo ──▶ refused
//	renew, release ──▶ all parts at once ────────────────────────────────▶ one reply
//
// An acquire asks, and keeps what it gets, in the order of the slots, which is the same for all
// managers. So no two sets wait for each other. An acquire waits for nobody: a refusal ends the
// acquire. What the acquire has taken, and does not keep, is released before the reply, and its
// waiters are told. If this release is not confirmed, the reply says that the command may have run.
// The core then looks for the records as after any lost reply.
//
// A set may stand in the line of the item that refused its last try. If an earlier part refuses the
// next try, the acquire does not reach that item. So the undo also sends a release to the slot of
// that item, which leaves the line: else the line would wait for a set that waits elsewhere.
//
// An acquire that gathers keeps what it has got before the refusal. The parts have the lease of the
// gathering, also if the requested lease is shorter: else a part could end while the set waits for
// the next one, each time. When the last part is taken, renewals give all parts the requested
// lease, if it is the longer one.
//
// The lease of a set counts from the first command that was sent for the set.
type spread struct {
	of *spreads
	op *core.Op

	mu    sync.Mutex
	parts []part
	step  spreadStep
	next  int        // acquire: the first part that was not sent yet
	left  int        // replies of this step that are missing
	end   core.Reply // while undoing: the reply to give if all is undone
}

type spreadStep uint8

const (
	stepAll    spreadStep = iota // all parts of a renewal or a release
	stepTake                     // the parts of an acquire at one master
	stepExtend                   // renewals of what was gathered
	stepUndo                     // releases of what was taken, and of a line
)

// A part is what a spread does in one slot.
type part struct {
	op     core.Op
	items  []core.Item
	at     []int // the indices of the items in the set
	lane   int   // when the spread began
	reply  core.Reply
	tokens []int64 // taken by the acquire, one for each item
}

// partOf is a part by its index.
type partOf struct {
	spread *spread
	index  int
}

// inSeveralSlots reports whether the names of an operation are in several slots.
func inSeveralSlots(op *core.Op) bool {
	if len(op.Items) < 2 {
		return false
	}
	first := SlotOf(op.Items[0].Name)
	return slices.ContainsFunc(op.Items[1:], func(it core.Item) bool { return SlotOf(it.Name) != first })
}

// newSpread divides an operation into parts by slot, in the order of slots. laneOf has the number
// of the lane of each slot.
func (ss *spreads) newSpread(op *core.Op, laneOf *[Slots]uint16) *spread {
	s := &spread{of: ss, op: op}
	order := make([]int, len(op.Items))
	slots := make([]int, len(op.Items))
	for i := range op.Items {
		order[i], slots[i] = i, SlotOf(op.Items[i].Name)
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(slots[a], slots[b]) })
	for k, i := range order {
		if k == 0 || slots[i] != slots[order[k-1]] {
			s.parts = append(s.parts, part{lane: int(laneOf[slots[i]])})
		}
		p := &s.parts[len(s.parts)-1]
		p.items, p.at = append(p.items, op.Items[i]), append(p.at, i)
	}
	return s
}

// start sends the first parts. start never blocks.
func (s *spread) start() {
	s.of.add(s)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.op.Verb == core.VerbAcquire {
		s.takeNext()
		return
	}
	s.send(s.op.Verb, func(int) bool { return true })
}

// takeNext sends the acquire for the next slot. The first try of a set, which keeps nothing and
// stands in no line, sends the acquires for all next slots of one master at once.
func (s *spread) takeNext() {
	s.step = stepTake
	from := s.next
	s.next++
	for !s.op.Lined && s.next < len(s.parts) && s.parts[s.next].lane == s.parts[from].lane {
		s.next++
	}
	s.send(core.VerbAcquire, func(i int) bool { return i >= from && i < s.next })
}

// send sends operations of a verb for some parts.
func (s *spread) send(verb core.Verb, which func(i int) bool) {
	s.left = 0
	for i := range s.parts {
		p := &s.parts[i]
		if !which(i) {
			continue
		}
		s.left++ // answer waits for the mutex
		o := s.op
		p.op = core.Op{
			ID: o.ID, Kind: o.Kind, Verb: verb, Side: o.Side, Name: o.Name, Sent: o.Sent, Lease: o.Lease,
			Number: o.Number, OtherNumbers: o.OtherNumbers, Items: p.items, Set: o.Set,
			Leaves: o.Leaves || s.step == stepUndo && s.inLineUnreached(i),
		}
		switch s.step {
		case stepTake:
			p.op.Tokens, p.op.Gather, p.op.Waits, p.op.Lined, p.op.Deaf = o.Tokens, o.Gather, o.Waits, o.Lined, o.Deaf
			if o.Gather > 0 {
				p.op.Lease, p.op.Unfinished = o.Gather, true // stepExtend renews it
			}
		case stepUndo:
			// Release this number only. What earlier tries have left is the core's business.
			p.op.OtherNumbers = []uint64{o.Number}
		}
		s.of.submit(&p.op)
	}
}

// answer takes the reply of a part, and returns the reply to the operation once there is one.
func (s *spread) answer(index int, r *core.Reply) (end core.Reply, ended bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := &s.parts[index]
	if s.step == stepTake {
		p.tokens = r.Tokens
	}
	switch {
	case s.step != stepUndo:
		p.reply = *r
	case r.Ran != core.Yes && !s.inLineUnreached(index): // a position in a line ends by itself
		s.end = s.notUndone(s.end, r)
	}
	if s.left--; s.left > 0 {
		return end, false
	}
	switch s.step {
	case stepTake:
		return s.afterTake()
	case stepExtend:
		return s.afterExtend()
	case stepUndo:
		return s.end, true
	}
	return s.combined(), true
}

// notUndone returns the reply to give when a part could not be undone. end is the reply before.
func (s *spread) notUndone(end core.Reply, undo *core.Reply) core.Reply {
	out := core.Reply{Op: s.op, ID: s.op.ID, Ran: core.Maybe, Split: true, Shard: undo.Shard, Err: undo.Err}
	if end.Ran != core.Yes {
		out.Shard, out.Err, out.Final = end.Shard, end.Err, end.Final
	}
	return out
}

// afterTake goes on when a master has answered.
func (s *spread) afterTake() (end core.Reply, ended bool) {
	asked := s.parts[:s.next]
	refused := -1
	for i := range asked {
		switch r := &asked[i].reply; {
		case r.Ran != core.Yes:
			return s.undo(s.failure(asked, r), 0)
		case !r.OK && (refused < 0 || r.OtherKind && !asked[refused].reply.OtherKind):
			refused = i
		}
	}
	switch {
	case refused >= 0:
		r, from := &asked[refused].reply, 0
		if s.op.Gather > 0 && !r.OtherKind {
			from = refused + 1
		}
		return s.undo(s.refusal(refused, r.Item-1), from)
	case s.next < len(s.parts):
		s.takeNext()
		return end, false
	case s.op.Gather > 0:
		s.step = stepExtend
		s.send(core.VerbRenew, func(int) bool { return true })
		return end, false
	}
	return s.granted(), true
}

// undo releases what was taken, or may have been taken, of the parts from index from on, and leaves
// the line in which the set may stand if the acquire did not get there. end is the reply to give
// after the undo.
func (s *spread) undo(end core.Reply, from int) (core.Reply, bool) {
	tookAll := s.step == stepExtend // the replies are those of the renewals
	undone := func(i int) bool {
		return i >= from && (tookAll || s.parts[i].mayHaveTaken()) || s.inLineUnreached(i)
	}
	s.step, s.end = stepUndo, end
	s.send(core.VerbRelease, undone)
	return end, s.left == 0
}

// mayHaveTaken reports whether, by its reply, the acquire of a part may have taken something.
func (p *part) mayHaveTaken() bool {
	switch r := &p.reply; {
	case r.Op == nil: // the acquire was not sent
		return false
	case r.Ran == core.Yes:
		return r.OK || r.Gathered
	default:
		return r.Ran == core.Maybe
	}
}

// inLineUnreached reports whether the set may stand in a line of a part that the acquire did not
// reach.
func (s *spread) inLineUnreached(i int) bool {
	at := s.op.StandsAt
	return i >= s.next && (at == core.AnyItem || slices.Contains(s.parts[i].at, at-1))
}

// refusal returns the reply that others have an item of the part at index. item is the index of the
// item in the part. The parts before are taken.
func (s *spread) refusal(index, item int) core.Reply {
	s.op.Sent = earliest(s.parts[:s.next])
	p := &s.parts[index]
	r, got := &p.reply, p.reply.Got
	for i := range s.parts[:index] {
		got += len(s.parts[i].items)
	}
	if s.op.Gather == 0 || r.OtherKind {
		got = 0
	}
	return core.Reply{
		Op: s.op, ID: s.op.ID, Ran: core.Yes, Split: true, Shard: r.Shard,
		Item: p.at[item] + 1, TTL: r.TTL, OtherKind: r.OtherKind, Gathered: got > 0, Got: got, Outside: r.Outside,
	}
}

// failure returns the reply that a part has failed. r is the reply of that part. The operation may
// have run if a part may have run, or has run and will not be undone.
func (s *spread) failure(asked []part, r *core.Reply) core.Reply {
	s.op.Sent = earliest(asked)
	out := core.Reply{Op: s.op, ID: s.op.ID, Ran: core.No, Split: true, Shard: r.Shard, Err: r.Err, Final: r.Final, OnlyThis: r.OnlyThis}
	for i := range asked {
		if ran := asked[i].reply.Ran; ran == core.Maybe || ran == core.Yes && s.step != stepTake {
			out.Ran = core.Maybe
		}
	}
	return out
}

// granted returns the reply that all parts are taken.
func (s *spread) granted() core.Reply {
	s.op.Sent = earliest(s.parts)
	out := core.Reply{Op: s.op, ID: s.op.ID, Ran: core.Yes, OK: true, Split: true, Shard: s.parts[0].reply.Shard}
	if s.op.Tokens > 0 {
		out.Tokens = make([]int64, len(s.op.Items))
		for i := range s.parts {
			for k, at := range s.parts[i].at {
				out.Tokens[at] = s.parts[i].tokens[k]
			}
		}
		out.Token = out.Tokens[0]
	}
	return out
}

// afterExtend goes on after the renewals of what was gathered. A part that was gone by then counts
// as refused: that part and all later parts are given back, and the next try, which follows at
// once, takes them again. The reply says Gathered even if no part is left: else the core would
// begin the time of the gathering anew, for ever if the lease is too short for the server.
func (s *spread) afterExtend() (end core.Reply, ended bool) {
	gone := -1
	for i := range s.parts {
		switch r := &s.parts[i].reply; {
		case r.Ran != core.Yes:
			out := s.failure(s.parts, r)
			out.Ran = core.Maybe // the acquires have run
			return out, true
		case !r.OK && gone < 0:
			gone = i
		}
	}
	if gone < 0 {
		return s.granted(), true
	}
	out := s.refusal(gone, 0)
	out.Gathered, out.TTL = true, time.Millisecond
	return s.undo(out, gone)
}

// combined returns the reply to a renewal or a release.
func (s *spread) combined() core.Reply {
	s.op.Sent = earliest(s.parts)
	out := core.Reply{Op: s.op, ID: s.op.ID, Ran: core.Yes, Split: true, Shard: s.parts[0].reply.Shard, Subscribers: -1}
	all, some := true, false
	var failed *core.Reply
	for i := range s.parts {
		r := &s.parts[i].reply
		if r.Ran != core.Yes {
			if failed == nil || r.Final && !failed.Final {
				failed = r
			}
			continue
		}
		all, some = all && r.OK, some || r.OK
		out.Partly = out.Partly || r.Partly
		out.Subscribers = max(out.Subscribers, r.Subscribers)
		out.HandedOn = out.HandedOn || r.HandedOn
		out.Err = cmp.Or(out.Err, r.Err)
	}
	switch lost := s.op.Verb == core.VerbRenew && !all; {
	case failed != nil && !lost: // a lost part counts more than a failed part
		return s.failure(s.parts, failed)
	case s.op.Verb == core.VerbRenew:
		out.OK, out.Subscribers = all, 0
	default:
		out.OK = some
		out.Partly = some && (out.Partly || !all)
	}
	return out
}

// earliest returns an instant before the first command of the parts was sent.
func earliest(parts []part) time.Duration {
	at := parts[0].op.Sent
	for i := range parts {
		at = min(at, parts[i].op.Sent)
	}
	return at
}

// spreads are all spreads under way.
type spreads struct {
	// submit queues a part on the lane of its slot. submit must not block.
	submit func(*core.Op)
	// pass takes all replies except the replies of parts. pass is the Post of the manager.
	pass func(*core.Replies)

	mu    sync.Mutex
	parts map[*core.Op]partOf
	count atomic.Int32 // the length of parts
}

// add makes post look for the replies of a spread.
func (ss *spreads) add(s *spread) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if ss.parts == nil {
		ss.parts = make(map[*core.Op]partOf)
	}
	for i := range s.parts {
		ss.parts[&s.parts[i].op] = partOf{s, i}
	}
	ss.count.Store(int32(len(ss.parts)))
}

// remove makes post look for the replies of a spread no longer.
func (ss *spreads) remove(s *spread) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	for i := range s.parts {
		delete(ss.parts, &s.parts[i].op)
	}
	ss.count.Store(int32(len(ss.parts)))
}

// post is the Post of the lanes of a cluster. post keeps the replies of parts, and passes on the
// other replies, and the replies to spreads that have ended.
func (ss *spreads) post(replies *core.Replies) {
	if ss.count.Load() == 0 {
		ss.pass(replies)
		return
	}
	var ends []core.Reply
	replies.Replies = slices.DeleteFunc(replies.Replies, func(r core.Reply) bool {
		ss.mu.Lock()
		p, known := ss.parts[r.Op]
		ss.mu.Unlock()
		if !known {
			return false
		}
		if end, ended := p.spread.answer(p.index, &r); ended {
			ss.remove(p.spread)
			ends = append(ends, end)
		}
		return true
	})
	replies.Replies = append(replies.Replies, ends...)
	if len(replies.Replies) == 0 {
		Recycle(replies)
		return
	}
	ss.pass(replies)
}
