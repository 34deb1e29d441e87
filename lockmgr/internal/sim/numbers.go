package sim

import "github.com/holdfast-go/holdfast/lockmgr/internal/core"

// numbers are those by which the server has been told of a manager's holds. As
// a command may run at any time, each number stands for one hold, and no
// command makes a hold under a number that another command ends.
type numbers struct {
	acquired map[uint64]uint64   // by number: the acquire that named it as the owner
	spent    []map[uint64]uint64 // by name and number: the command that named it as one to be removed
	held     map[uint64]bool     // those of holds
}

func (s *numbers) init(names int) {
	s.acquired, s.held = map[uint64]uint64{}, map[uint64]bool{}
	s.spent = make([]map[uint64]uint64, names)
	for i := range s.spent {
		s.spent[i] = map[uint64]uint64{}
	}
}

// checkNumbers looks at the numbers that a command names. A number is the owner
// of one acquire, and of none after a command that removes it.
func (n *node) checkNumbers(l *lockName, op *core.Op) {
	const rule = "a number is used once"
	s, w := &n.numbers, n.w
	if op.Owner != 0 && op.Verb != core.VerbRenew {
		if by, is := s.spent[l.index][op.Owner]; is {
			w.violated(rule, "%s: %s #%d of %s makes %d the owner, and #%d removes it", n.label, op.Verb, op.ID, l.key, op.Owner, by)
		}
	}
	if op.Verb == core.VerbAcquire {
		if by, is := s.acquired[op.Owner]; is {
			w.violated(rule, "%s: acquire #%d of %s makes %d the owner, as acquire #%d does", n.label, op.ID, l.key, op.Owner, by)
		}
		s.acquired[op.Owner] = op.ID
	}
	for _, o := range op.Others {
		if _, is := s.spent[l.index][o]; !is {
			s.spent[l.index][o] = op.ID
		}
	}
	if (op.Verb == core.VerbAcquire || op.Verb == core.VerbTransfer) && op.Lease > w.set.core.Lease {
		w.violated("an acquire asks for Lease at most", "%s: %s #%d of %s asks for %v", n.label, op.Verb, op.ID, l.key, op.Lease)
	}
}

// checkHolder looks at the number of a new hold.
func (n *node) checkHolder(h *hold) {
	if n.numbers.held[h.core.Number] {
		n.w.violated("a number is used once", "%s: %s has the number of an earlier hold", n.label, h)
	}
	n.numbers.held[h.core.Number] = true
}
