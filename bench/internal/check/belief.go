package check

import "fmt"

// A Violation is one thing that must not happen.
type Violation struct {
	Kind string // what, in a few words
	Name uint32 // of which lock, or of which permits
	Text string // who, and when
}

func (v Violation) String() string { return fmt.Sprintf("%s, name %d: %s", v.Kind, v.Name, v.Text) }

// Beliefs checks that the belief of holds does not intersect. The zero value is ready. It is not
// safe for concurrent use.
type Beliefs struct {
	names map[uint32]*believers

	Checked   int // intervals
	Empty     int // holds that were never seen valid, or for no time
	Unchecked int // intervals that came too late
	Overlaps  int // at least one for each group of intervals that intersect
	Crossed   int // intervals whose predecessor was of another process
}

// believers are the intervals of one lock. Those of Shared holds that intersect are one.
type believers struct{ alone, shared timeline }

// Add checks a hold that has ended against those that came before. It returns a violation, or nil.
func (b *Beliefs) Add(h *Hold) *Violation {
	from, to := h.Believed()
	if to <= from {
		b.Empty++
		return nil
	}
	if b.names == nil {
		b.names = map[uint32]*believers{}
	}
	of := b.names[h.Name]
	if of == nil {
		of = &believers{}
		b.names[h.Name] = of
	}
	s := span{from, to, h.ID, h.Proc}
	var other *span
	if h.Shared {
		if of.shared.join(s) < 0 {
			b.Unchecked++
			return nil
		}
		other = of.alone.beside(s, -1)
	} else {
		i := of.alone.add(s)
		if i < 0 {
			b.Unchecked++
			return nil
		}
		if i > 0 && of.alone.live()[i-1].proc != h.Proc {
			b.Crossed++
		}
		// Spans that are apart are in the order of their ends too, so the neighbours are all there
		// is to look at.
		if other = of.alone.beside(s, i); other == nil {
			other = of.shared.beside(s, -1)
		}
	}
	b.Checked++
	var v *Violation
	if other != nil {
		v = overlap(h.Name, *other, s)
		b.Overlaps++
	}
	of.alone.prune()
	of.shared.prune()
	return v
}

// overlap tells of two spans that intersect.
func overlap(name uint32, a, b span) *Violation {
	return &Violation{"two believed at once", name, fmt.Sprintf(
		"hold %x of process %d from %d to %d, and hold %x of process %d from %d to %d: both for %d ns",
		a.hold, a.proc, a.from, a.to, b.hold, b.proc, b.from, b.to, min(a.to, b.to)-max(a.from, b.from))}
}
