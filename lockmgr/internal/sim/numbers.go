package sim

import (
	"maps"
	"slices"

	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
)

// numbers are the numbers of holds that a manager's commands have named. As a command may run at
// any time, each number must stand for one hold, and no command may record a number that an earlier
// command removes.
type numbers struct {
	acquired map[uint64]uint64   // by number: the ID of the acquire that recorded it
	spent    []map[uint64]uint64 // by name and number: the ID of the first command that removes it
	held     map[uint64]bool     // the numbers of granted holds
	shared   map[uint64]uint64   // by number: the ID of a command that removes it to let others in
	sides    map[uint64]core.Side
	of       map[uint64]*lockName // by number: what it was made for
}

func (s *numbers) init(names int) {
	s.acquired, s.held, s.shared, s.sides = map[uint64]uint64{}, map[uint64]bool{}, map[uint64]uint64{}, map[uint64]core.Side{}
	s.of = map[uint64]*lockName{}
	s.spent = make([]map[uint64]uint64, names)
	for i := range s.spent {
		s.spent[i] = map[uint64]uint64{}
	}
}

// checkNumbers checks the numbers that a command names. A number is the owner of one acquire only,
// and of no command after one that removes it.
func (n *node) checkNumbers(l *lockName, op *core.Op) {
	const rule = "a number is used once"
	s, w := &n.numbers, n.w
	if w.madeFor != nil {
		n.checkMaker(l, op)
	}
	if op.Number != 0 && op.Verb != core.VerbRenew {
		if by, is := s.spent[l.index][op.Number]; is {
			w.violated(rule, "%s: %s #%d of %s makes %d the owner, and #%d removes it", n.label, op.Verb, op.ID, l.key, op.Number, by)
		}
	}
	if op.Verb == core.VerbAcquire && l.kind != core.Fair { // a place keeps its number
		if by, is := s.acquired[op.Number]; is {
			w.violated(rule, "%s: acquire #%d of %s makes %d the owner, as acquire #%d does", n.label, op.ID, l.key, op.Number, by)
		}
		s.acquired[op.Number] = op.ID
	}
	for _, o := range op.OtherNumbers {
		if _, is := s.spent[l.index][o]; !is {
			s.spent[l.index][o] = op.ID
		}
	}
	n.checkSides(l, op)
	if op.Verb == core.VerbAcquire && op.Lease > w.set.core.Lease {
		w.violated("an acquire asks for Lease at most", "%s: %s #%d of %s asks for %v", n.label, op.Verb, op.ID, l.key, op.Lease)
	}
}

// checkMaker checks that a number is one of a single name, or of one set.
func (n *node) checkMaker(l *lockName, op *core.Op) {
	for _, o := range append([]uint64{op.Number}, op.OtherNumbers...) {
		if of, is := n.numbers.of[o]; is && of != l {
			n.w.violated("a number is used once", "%s: %s #%d of %s names %d, which is one of %s", n.label, op.Verb, op.ID, l.key, o, of.key)
		}
		if o != 0 {
			n.numbers.of[o] = l
		}
	}
}

// checkHolder checks that a new hold has a new number, or that of those whose entry it shares: of
// other readers, or of its own owner.
func (n *node) checkHolder(h *hold) {
	shares := slices.ContainsFunc(n.held, func(o *hold) bool {
		return o.name == h.name && (h.sideOf() == core.Shared || o.core.Request.Owner() == h.core.Request.Owner())
	})
	if n.numbers.held[h.core.Number] && !shares {
		n.w.violated("a number is used once", "%s: %s has the number of an earlier hold", n.label, h)
	}
	n.numbers.held[h.core.Number] = true
}

// checkSides checks that a number is that of an entry of one side only, and that none that nobody
// shares has a number that an earlier command removes to let others in. The earlier command may run
// at any time.
func (n *node) checkSides(l *lockName, op *core.Op) {
	if op.Verb != core.VerbAcquire && op.Verb != core.VerbTransfer {
		return
	}
	s := &n.numbers
	if side, is := s.sides[op.Number]; is && side != op.Side {
		n.w.violated("a number is used once", "%s: %s #%d of %s makes %d one of another side than it was", n.label, op.Verb, op.ID, l.key, op.Number)
	}
	s.sides[op.Number] = op.Side
	if by, is := s.shared[op.Number]; is && op.Side == core.Alone {
		n.w.violated("a number is used once", "%s: %s #%d of %s makes %d one that nobody shares, and #%d may let others in", n.label, op.Verb,
			op.ID, l.key, op.Number, by)
	}
	if op.Side == core.Shared {
		for _, number := range op.OtherNumbers {
			s.shared[number] = op.ID
		}
	}
}

// keepNumbers notes that a command has run and changed nothing: it removes no number.
func (n *node) keepNumbers(l *lockName, op *core.Op) {
	maps.DeleteFunc(n.numbers.spent[l.index], func(_, by uint64) bool { return by == op.ID })
}
