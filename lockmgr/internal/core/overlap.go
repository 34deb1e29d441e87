package core

import (
	"fmt"
	"iter"
	"slices"
)

// An overlap is a name of this manager that has an item in common with the asking name. The
// overlapping name is a set, or for a set also a single name. Only the server keeps the two names
// apart.
type overlap struct {
	name *name
	its  Item // that of name
	ours Item // that of the name that asks
}

// A setItem is an item of a set, by its index.
type setItem struct {
	set  *name
	item int
}

// setsOf has the sets with an item of a name, by the key of the name.
type setsOf map[string][]setItem

func (s setsOf) add(n *name) {
	for i, it := range n.items() {
		s[it.Name] = append(s[it.Name], setItem{n, i})
	}
}

// remove copies each slice, since a caller may range over the slice.
func (s setsOf) remove(n *name) {
	for _, it := range n.items() {
		some := slices.DeleteFunc(slices.Clone(s[it.Name]), func(o setItem) bool { return o.set == n })
		if len(some) == 0 {
			delete(s, it.Name)
		} else {
			s[it.Name] = some
		}
	}
}

// newSet makes a newly created name the name of a set.
func (m *Machine) newSet(n *name, items []Item) {
	s := &set{items: items, id: m.newNumber(), signalled: make([]bool, len(items))}
	s.unmade = s.details()
	n.kind, n.details = Several, &s.unmade
	m.sets.add(n)
}

// overlaps yields the names of this manager that have an item in common with n. of is m.sets, or
// m.heldSets. A name with several items in common is yielded several times.
func (m *Machine) overlaps(n *name, of setsOf) iter.Seq[overlap] {
	return func(yield func(overlap) bool) {
		if !n.isSet() {
			for _, p := range of[n.name] {
				if !yield(overlap{p.set, p.set.items()[p.item], Item{Name: n.name, Kind: n.kind}}) {
					return
				}
			}
			return
		}
		for _, ours := range n.items() {
			for _, p := range of[ours.Name] {
				if p.set != n && !yield(overlap{p.set, p.set.items()[p.item], ours}) {
					return
				}
			}
			if o := m.names[ours.Name]; o != nil && !yield(overlap{o, Item{Name: o.name, Kind: o.kind}, ours}) {
				return
			}
		}
	}
}

// otherKind returns an error if a request for n wants an item as another kind than another name
// that is in use. One of the two names is a set.
func (m *Machine) otherKind(n *name) error {
	if len(m.sets) == 0 {
		return nil
	}
	for o := range m.overlaps(n, m.sets) {
		switch {
		case o.its.Kind == o.ours.Kind || o.name.idle():
		case n.isSet():
			return fmt.Errorf("%w: %q", ErrKind, o.ours.Name)
		default:
			return ErrKind
		}
	}
	return nil
}

// excludes reports whether an owner can't have an item while another owner has other.
func (it *Item) excludes(other *Item) bool { return it.Side == Alone || other.Side == Alone }

// blocks reports whether h, a hold of o.name, keeps r waiting.
func (o *overlap) blocks(r *Request, h *Hold) bool {
	its, ours := o.its, o.ours
	if !o.name.isSet() { // the item of a single name has no side of its own
		its.Side = h.Request.Side
	}
	if !r.entry.of.isSet() {
		if ours.Side = r.Side; r.behindAlone() {
			ours.Side = Alone // r waits with the request before it
		}
	}
	s := r.entry.of.set()
	refused := s == nil || s.refusedBy > 0 && s.items[s.refusedBy-1].Name == o.ours.Name
	return its.excludes(&ours) || refused && r.behindWriter(h.Request.entry)
}

// behindWriter reports whether a writer of another process waits for the holds of e, and comes
// before a request. The proof is a script for the request's name that told that others come first,
// and was sent after the request, while e was ours already. A writer that was told of before the
// request may have left.
func (r *Request) behindWriter(e *entry) bool {
	at := r.entry.of.entry.upkeep().refusedAt
	return at > 0 && max(r.Asked, e.runSince) <= at
}
