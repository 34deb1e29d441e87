package check

import "fmt"

// A Violation is one thing that must not happen.
type Violation struct {
	Kind string // what, in a few words
	Name uint32 // of which lock
	Text string // who, and when
}

func (v Violation) String() string { return fmt.Sprintf("%s, lock %d: %s", v.Kind, v.Name, v.Text) }

// Beliefs checks that the belief of holds does not intersect. The zero value is
// ready. It is not safe for concurrent use.
type Beliefs struct {
	names map[uint32]*timeline

	Checked   int // intervals
	Empty     int // holds that were never seen valid, or for no time
	Unchecked int // intervals that came too late
	Overlaps  int // at least one for each group of intervals that intersect
	Crossed   int // intervals whose predecessor was of another process
}

// Add checks a hold that has ended against those that came before. It returns
// a violation, or nil.
func (b *Beliefs) Add(h *Hold) *Violation {
	from, to := h.Believed()
	if to <= from {
		b.Empty++
		return nil
	}
	if b.names == nil {
		b.names = map[uint32]*timeline{}
	}
	t := b.names[h.Name]
	if t == nil {
		t = &timeline{}
		b.names[h.Name] = t
	}
	i := t.add(span{from, to, h.ID, h.Proc})
	if i < 0 {
		b.Unchecked++
		return nil
	}
	b.Checked++
	live := t.live()
	var v *Violation
	// Spans that are apart are in the order of their ends too, so the
	// neighbours are all there is to look at.
	if i > 0 {
		if live[i-1].proc != h.Proc {
			b.Crossed++
		}
		v = overlap(h.Name, live[i-1], live[i])
	}
	if v == nil && i+1 < len(live) {
		v = overlap(h.Name, live[i], live[i+1])
	}
	if v != nil {
		b.Overlaps++
	}
	t.prune()
	return v
}

// overlap compares two spans, the first of which begins first.
func overlap(name uint32, a, b span) *Violation {
	both := min(a.to, b.to) - b.from
	if both <= 0 {
		return nil
	}
	return &Violation{"two believed at once", name, fmt.Sprintf(
		"hold %x of process %d from %d to %d, and hold %x of process %d from %d to %d: both for %d ns",
		a.hold, a.proc, a.from, a.to, b.hold, b.proc, b.from, b.to, both)}
}
