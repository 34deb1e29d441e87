package check

import (
	"fmt"
	"slices"
	"sort"
)

// Permits checks that holds which believe at the same time have no more permits of a name than
// there are. Limit is how many there are of each name. The rest of the zero value is ready. It is
// not safe for concurrent use.
type Permits struct {
	Limit int
	names map[uint32]*profile

	Checked   int // intervals
	Empty     int // holds that were never seen valid, or for no time
	Unchecked int // intervals that came too late
	Overruns  int // at least one for each group of intervals that have too many permits together
	Most      int // the most permits of a name that were held at once
}

// Add checks a hold that has ended against those that came before. It returns a violation, or nil.
func (p *Permits) Add(h *Hold) *Violation {
	from, to := h.Believed()
	if to <= from {
		p.Empty++
		return nil
	}
	if p.names == nil {
		p.names = map[uint32]*profile{}
	}
	of := p.names[h.Name]
	if of == nil {
		of = &profile{}
		p.names[h.Name] = of
	}
	most, ok := of.add(from, to, int(h.Permits))
	if !ok {
		p.Unchecked++
		return nil
	}
	of.prune()
	p.Checked++
	p.Most = max(p.Most, most.held)
	if most.held <= p.Limit {
		return nil
	}
	p.Overruns++
	return &Violation{"more permits than there are", h.Name, fmt.Sprintf(
		"hold %x of process %d has %d from %d to %d, and with it %d of %d are held at %d",
		h.ID, h.Proc, h.Permits, from, to, most.held, p.Limit, most.at)}
}

// Has reports whether there was a hold of a name that was seen valid.
func (p *Permits) Has(name uint32) bool { return p.names[name] != nil }

// A profile is how many permits of a name were held at each instant of the last half minute.
type profile struct {
	steps []step
	gone  int   // steps[:gone] are too old
	floor int64 // what is older than this can't be checked any more
}

// A step is how many permits are held from an instant on, until the next step.
type step struct {
	at   int64
	held int
}

// live returns the steps that count. The first of them may begin before floor.
func (p *profile) live() []step { return p.steps[p.gone:] }

// add adds n permits that are held from one instant until another. It returns the step with the
// most permits within that time, and false if the time is too old.
func (p *profile) add(from, to int64, n int) (most step, ok bool) {
	if from < p.floor {
		return step{}, false
	}
	first := p.begin(from)
	end := p.begin(to) // comes later, so first stays where it is
	live := p.live()
	for i := first; i < end; i++ {
		live[i].held += n
		if live[i].held > most.held {
			most = live[i]
		}
	}
	return most, true
}

// begin returns the index in live of the step that begins at an instant. It makes one if there is
// none.
func (p *profile) begin(at int64) int {
	live := p.live()
	i := sort.Search(len(live), func(i int) bool { return live[i].at >= at })
	if i < len(live) && live[i].at == at {
		return i
	}
	held := 0
	if i > 0 {
		held = live[i-1].held
	}
	p.steps = slices.Insert(p.steps, p.gone+i, step{at, held})
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
