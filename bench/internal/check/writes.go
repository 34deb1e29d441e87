package check

import (
	"fmt"
	"sort"
)

// A Write is one write to the register, with readings of the clock before and after it.
type Write struct {
	Hold          uint64
	Token         int64
	Before, After int64
	Name          uint32
	Proc          uint32
	Accepted      bool
	Late          bool // the holder knew that it was not valid any more
	Valid         bool // the holder was valid AFTER the answer
}

// Writes checks what the register accepted and refused. The zero value is ready. It is not safe for
// concurrent use.
type Writes struct {
	names map[uint32]*reigns

	Accepted     int
	Refused      int // stale, as they should be
	LateAccepted int // of holders that had lost the lock; nobody newer had written yet
	Overlaps     int // accepted while another reigned
	Unjust       int // refused, and the holder was valid after that
	Unchecked    int // came too late to be compared
}

// reigns has one name's accepted writes and reigns.
type reigns struct{ writes, reigns timeline }

func (w *Writes) of(name uint32) *reigns {
	if w.names == nil {
		w.names = map[uint32]*reigns{}
	}
	r := w.names[name]
	if r == nil {
		r = &reigns{}
		w.names[name] = r
	}
	return r
}

// AddWrite counts a write and checks it. It returns a violation, or nil.
func (w *Writes) AddWrite(x *Write) *Violation {
	if !x.Accepted {
		w.Refused++
		if x.Valid {
			w.Unjust++
			return &Violation{"a valid holder's write was refused", x.Name, fmt.Sprintf(
				"hold %x of process %d, token %d, at %d", x.Hold, x.Proc, x.Token, x.Before)}
		}
		return nil
	}
	w.Accepted++
	if x.Late {
		w.LateAccepted++
	}
	r := w.of(x.Name)
	s := span{x.Before, x.After, x.Hold, x.Proc}
	if r.writes.add(s) < 0 {
		w.Unchecked++
		return nil
	}
	defer r.writes.prune()
	live := r.reigns.live()
	for i := sort.Search(len(live), func(i int) bool { return live[i].from > s.from }) - 1; i >= 0; i-- {
		if live[i].hold == s.hold {
			continue // one's own, or there was one before it
		}
		return w.judge(x.Name, s, live[i])
	}
	return nil
}

// AddHold checks the reign of a hold that has ended. It returns a violation, or nil.
func (w *Writes) AddHold(h *Hold) *Violation {
	_, to := h.Believed()
	if h.Wrote == 0 || to <= h.Wrote {
		return nil
	}
	r := w.of(h.Name)
	reign := span{h.Wrote, to, h.ID, h.Proc}
	if r.reigns.add(reign) < 0 {
		w.Unchecked++
		return nil
	}
	defer r.reigns.prune()
	live := r.writes.live()
	var found *Violation
	for i := sort.Search(len(live), func(i int) bool { return live[i].from >= reign.from }); i < len(live) && live[i].from < reign.to; i++ {
		if v := w.judge(h.Name, live[i], reign); v != nil && found == nil {
			found = v
		}
	}
	return found
}

// judge compares an accepted write with a reign.
func (w *Writes) judge(name uint32, write, reign span) *Violation {
	if write.hold == reign.hold || write.from < reign.from || write.to > reign.to {
		return nil
	}
	w.Overlaps++
	return &Violation{"a write was accepted while another reigned", name, fmt.Sprintf(
		"a write of %v in the reign of %v", write, reign)}
}
