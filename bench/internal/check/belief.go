package check

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
)

// A Violation is one thing that must not happen.
type Violation struct {
	Kind string // what, in a few words
	Name uint32 // of which lock, or of which permits
	Text string // who, and when
}

func (v Violation) String() string { return fmt.Sprintf("%s, name %d: %s", v.Kind, v.Name, v.Text) }

// Beliefs checks that holds which believe at the same time have no more of a name than there is. A
// hold of permits has some of them. A hold of a lock has all of it, or a small part if the hold is
// Shared. The zero value is ready, for locks. It is not safe for concurrent use.
type Beliefs struct {
	Limit int // how many permits there are of each name; zero: the names are locks
	names map[uint32]*profile

	Checked   int // intervals
	Unchecked int // intervals that came too late
	Overlaps  int // at least one for each group of intervals that have too much together
	Crossed   int // intervals whose predecessor was of another process; Shared ones are not counted
	Most      int // the most of a name that was held at once
}

// wholeLock is more than the Shared holds that there can be.
const wholeLock = 1 << 30

// Add checks a hold that has ended against those that came before. It returns a violation, or nil.
func (b *Beliefs) Add(h *Hold) *Violation {
	from, to := h.Believed()
	if to <= from {
		return nil
	}
	if b.names == nil {
		b.names = map[uint32]*profile{}
	}
	of := b.names[h.Name]
	if of == nil {
		of = &profile{}
		b.names[h.Name] = of
	}
	limit := cmp.Or(b.Limit, wholeLock)
	n := limit
	switch {
	case h.Permits > 0:
		n = int(h.Permits)
	case h.Shared:
		n = 1
	}
	s := span{from, to, h.ID, h.Proc}
	most, before, ok := of.add(s, n)
	if !ok {
		b.Unchecked++
		return nil
	}
	of.prune()
	b.Checked++
	b.Most = max(b.Most, most.held)
	if n == limit && before.hold != 0 && before.proc != s.proc {
		b.Crossed++
	}
	if most.held <= limit {
		return nil
	}
	b.Overlaps++
	v := &Violation{"two believed at once", h.Name, fmt.Sprintf("%v beside %v", s, most.by)}
	if b.Limit > 0 {
		v.Kind = "more permits than there are"
		v.Text += fmt.Sprintf(", and with them %d of %d are held at %d", most.held, b.Limit, most.at)
	}
	return v
}

// Has reports whether there was a hold of a name that was seen valid.
func (b *Beliefs) Has(name uint32) bool { return b.names[name] != nil }

// A profile is how much of a name was held at each instant of the last half minute.
type profile struct {
	steps []step
	gone  int   // steps[:gone] are too old
	floor int64 // what is older than this can't be checked any more
}

// A step is what is held from an instant on, until the next step.
type step struct {
	at   int64
	held int
	by   span // the last hold that was added
}

// live returns the steps that count. The first of them may begin before floor.
func (p *profile) live() []step { return p.steps[p.gone:] }

// add adds n of a name that a hold has. It returns the step with the most within that time, with
// the hold that was there before, and the hold that had the name before that time. ok is false if
// the time is too old.
func (p *profile) add(s span, n int) (most step, before span, ok bool) {
	if s.from < p.floor {
		return step{}, span{}, false
	}
	first := p.begin(s.from)
	end := p.begin(s.to) // comes later, so first stays where it is
	live := p.live()
	for i := first - 1; i >= 0 && before.hold == 0; i-- {
		if live[i].held > 0 {
			before = live[i].by
		}
	}
	for i := first; i < end; i++ {
		if live[i].held += n; live[i].held > most.held {
			most = live[i]
		}
		live[i].by = s
	}
	return most, before, true
}

// begin returns the index in live of the step that begins at an instant. It makes one if there is
// none.
func (p *profile) begin(at int64) int {
	live := p.live()
	i := sort.Search(len(live), func(i int) bool { return live[i].at >= at })
	if i < len(live) && live[i].at == at {
		return i
	}
	s := step{}
	if i > 0 {
		s = live[i-1]
	}
	s.at = at
	p.steps = slices.Insert(p.steps, p.gone+i, s)
	return i
}

// prune forgets what is too old, at little cost for each step. It keeps the step in which the floor
// is.
func (p *profile) prune() {
	live := p.live()
	limit := live[len(live)-1].at - horizon
	for len(live) > 1 && live[1].at <= limit {
		live = live[1:]
		p.gone++
	}
	p.floor = max(p.floor, limit)
	if p.gone > len(p.steps)/2 && p.gone > 1024 {
		p.steps = slices.Delete(p.steps, 0, p.gone)
		p.gone = 0
	}
}
