package core

import "fmt"

// An Item is one name of a set, and how a request wants it. Kind is Exclusive or ReadWrite.
type Item struct {
	Name string
	Kind Kind
	Side Side
}

// AnyItem in Op.StandsAt says that the set may stand in any line: the last try has no answer.
const AnyItem = -1

// A set is the special state of a name of kind Several. The name keeps the set for as long as the
// machine knows the name.
//
// A set stands in the lines of its items under an ID of its own: see Sets in doc.go.
type set struct {
	items []Item // sorted by name; each name once
	id    uint64 // the number of the set in the lines

	refusedBy int    // the position of the item for which the last try was refused, from 1, or 0
	standsAt  int    // while a try may have joined: the item in whose line the set may stand, from 1, or AnyItem
	signalled []bool // by item: a message or a confirmation came since the newest try was sent

	position
	gathering
	unmade details // those of the name until makeDetails
}

// set returns the set of a name of kind Several, or nil.
func (n *name) set() *set { return specialOf[*set](n) }

func (s *set) details() details {
	return details{special: s, position: &s.position, outsiders: &s.outsiders, grants: &s.grants, gathering: &s.gathering}
}

func (s *set) dropped(*name) *details { return &s.unmade }

// isSet reports whether a name is a set. Sets and single names have different keys.
func (n *name) isSet() bool { return n.set() != nil }

// items returns the items of a set, or nil for a single name.
func (n *name) items() []Item {
	if s := n.set(); s != nil {
		return s.items
	}
	return nil
}

// channels returns the number of channels that a subscription to the name has.
func (n *name) channels() int { return max(1, len(n.items())) }

// channel returns the key on whose channel an event of the name came.
func (n *name) channel(ev Wake) string {
	if s := n.set(); s != nil {
		return s.items[ev.Item-1].Name
	}
	return n.name
}

// worthTrying reports whether a message may mean that a try succeeds now. For a set, only a message
// of the item that refused the last try may.
func (n *name) worthTrying(ev Wake) bool {
	s := n.set()
	return ev.Message && (s == nil || s.refusedBy == ev.Item)
}

// about returns err with the item of a set for which the last try was refused.
func (n *name) about(err error) error {
	if s := n.set(); s != nil && s.refusedBy > 0 {
		return fmt.Errorf("%w: %q", err, s.items[s.refusedBy-1].Name)
	}
	return err
}

func (s *set) fill(m *Machine, e *entry, op *Op, _ *PlaceOp) {
	op.Items, op.Set = s.items, s.id
	if op.Verb == VerbAcquire {
		clear(s.signalled)
	}
	if s.joined != 0 { // by an earlier try: position.fill notes this one
		op.StandsAt = s.standsAt
	}
	s.position.fill(m, e, op, nil)
}

func (s *set) acquired(n *name) {
	s.refusedBy = 0
	s.position.acquired(n)
}

func (s *set) told(m *Machine, n *name, ev Wake) {
	for i := range s.signalled {
		s.signalled[i] = s.signalled[i] || ev.Confirmed || i == ev.Item-1
	}
	s.position.told(m, n, ev)
}

func (s *set) answered(m *Machine, r *Reply) {
	if r.Ran == Maybe && r.Op.Lined {
		s.standsAt = AnyItem
	}
	s.position.answered(m, r)
}

// refused handles the answer that others have an item of a set. The set may stand in the line of
// that item only.
func (s *set) refused(m *Machine, e *entry, r *Reply) {
	s.refusedBy, s.standsAt = r.Item, r.Item
	e.woken = e.woken && r.Item > 0 && s.signalled[r.Item-1]
	s.position.refused(m, e, r)
}
