package core

import "slices"

// An index has the entries of a name that may have mostEntries, by phase. So an event about an
// entry leads to no work for other held entries. The special state of a kind with several entries
// embeds an index. A name without an index has one entry.
type index struct {
	// The entries by phase. Entries that dropDetails has dropped are in no list.
	moving []*entry // neither idle nor held
	idle   []*entry
	held   int // how many are held

	asks int // the most entries that may be asked for at a time: a guess
}

// mostEntries is how many entries a name with an index may have.
const mostEntries = 1024

// index returns the index of a name, or nil if the name has one entry.
func (n *name) index() *index { return n.details.index }

// reset notes that a name has a single entry, which is idle.
func (x *index) reset(n *name) { x.moving, x.idle, x.held = nil, []*entry{&n.entry}, 0 }

// moved notes that an entry has changed its phase.
func (x *index) moved(e *entry, from, to phase) {
	out, in := x.list(from), x.list(to)
	if out == in {
		return
	}
	if out == nil {
		x.held--
	} else {
		i, last := slices.Index(*out, e), len(*out)-1
		(*out)[i] = (*out)[last]
		*out = slices.Delete(*out, last, last+1)
	}
	if in == nil {
		x.held++
	} else {
		*in = append(*in, e)
	}
}

// list returns the list of the entries in a phase, or nil: the entries that are held are only
// counted.
func (x *index) list(p phase) *[]*entry {
	switch p {
	case held:
		return nil
	case idle:
		return &x.idle
	}
	return &x.moving
}

// allIdle reports whether all entries other than except are idle.
func (x *index) allIdle(except *entry) bool {
	others := len(x.moving) + x.held
	if except.phase != idle {
		others--
	}
	return others == 0
}

// hasRoom reports whether a name with an index may have one more entry.
func (n *name) hasRoom() bool { return len(n.details.extra) < mostEntries-1 }

// spare returns an idle entry of a name. spare makes the entry if all are in use and the name may
// have one more, and else returns nil.
func (n *name) spare() *entry {
	x := n.index()
	switch {
	case x == nil && n.entry.phase == idle:
		return &n.entry
	case x != nil && len(x.idle) > 0:
		return x.idle[len(x.idle)-1]
	case x == nil, !n.hasRoom():
		return nil
	}
	c := n.makeDetails()
	e := &extra{entry: entry{of: n, extraPos: uint16(len(c.extra) + 1)}}
	c.extra, x.idle = append(c.extra, e), append(x.idle, &e.entry)
	return &e.entry
}

// mostAsked returns how many entries may be asked for at a time: an entry for each waiter at the
// head of the queue that wants as many permits as the first, but no more than asks. A refusal sets
// asks to one, so no other entry is asked for while one gathers.
func (x *index) mostAsked(first *Request) (n int) {
	for r := first; r != nil && n < x.asks && r.own.Permits == first.own.Permits; r = r.next {
		n++
	}
	return n
}

// enoughAsk reports whether enough entries other than except are asking, waiting or passing. If so,
// no further entry is asked for. enoughAsk is false for a name without an index.
func (n *name) enoughAsk(except *entry) bool {
	x := n.index()
	if x == nil {
		return false
	}
	most := x.mostAsked(n.queue.head)
	for _, e := range x.moving {
		if e != except && e.phase != releasing {
			most--
		}
	}
	return most <= 0
}
