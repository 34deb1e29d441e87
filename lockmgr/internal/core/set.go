package core

import "fmt"

// An Item is one name of a set, and how a request wants it. Kind is Exclusive or
// ReadWrite.
type Item struct {
	Name string
	Kind Kind
	Side Side
}

// A set is the special state of a name of kind Several. The name keeps the set for as long as the
// machine knows the name.
type set struct {
	items []Item // sorted by name; each name once

	delivered   []bool // by item: its messages are delivered
	undelivered int    // items whose messages are not delivered
	refusedBy   int    // the position of the item for which the last try was refused, from 1, or 0
	signalled   []bool // by item: a message or a confirmation came while a try was in flight

	echoes int // messages of our confirmed releases that have not arrived here
	echoed int // messages of the release in flight that have arrived

	others outsiders
	plain
	gathering
	noDetails details // those of the name while it has none of its own
}

// hears notes whether the messages of an item are delivered. The set is subscribed if the messages
// of all items are delivered.
func (s *set) hears(n *name, ev Wake) (Wake, bool) {
	if ev.Place == LinePlace {
		return ev, false
	}
	if i := ev.Item - 1; s.delivered[i] != ev.Subscribed {
		s.delivered[i] = ev.Subscribed
		if ev.Subscribed {
			s.undelivered--
		} else {
			s.undelivered++
		}
	}
	ev.Subscribed = s.undelivered == 0
	ev.Confirmed = ev.Confirmed && ev.Subscribed
	if !ev.Subscribed {
		s.echoes = 0 // the messages are lost
	}
	ev.own = ev.Message && s.takeEcho(n, ev)
	return ev, true
}

// takeEcho notes the arrival of a message, and returns whether the message is of our own release.
// The result may be wrong, so no wake-up of a waiter depends on the result.
func (s *set) takeEcho(n *name, ev Wake) bool {
	releases := n.entry.flight != 0 && n.entry.flightVerb == VerbRelease
	switch {
	case ev.More: // not all are ours, but one may be of the release in flight
		s.echoes = 0
		if releases {
			s.echoed = min(len(s.items), s.echoed+1)
		}
	case s.echoes > 0:
		s.echoes--
		return true
	case releases && s.echoed < len(s.items): // before the answer to the release
		s.echoed++
		return true
	}
	return false
}

// told notes that others have released an item. While the set is not held, an item other than the item for
// which the set waits says nothing.
func (s *set) told(m *Machine, n *name, ev Wake) {
	if ev.Message && !ev.own && (n.worthTrying(ev) || n.held()) {
		s.others.hear(m.now, &n.details.run, &m.cfg)
	}
}

// answered notes what the answer to a release says of others. If the release has published fewer
// messages than were taken for its own, the rest were of others.
func (s *set) answered(m *Machine, r *Reply) {
	if r.Op.Verb != VerbRelease || r.Ran != Yes {
		return
	}
	e := r.Op.entry
	n := e.of
	echoed := s.echoed
	if s.echoed = 0; n.sub == subOn {
		s.echoes += max(0, r.Published-echoed)
	}
	if m.othersOf(n, r.Subscribers) > 0 || n.hasDetails() {
		n.makeDetails()
		if echoed > r.Published {
			s.others.hear(m.now, &n.details.run, &m.cfg)
		}
		m.releasedBeside(&s.others, e, r)
	}
}

// set returns the set of a name of kind Several, or nil.
func (n *name) set() *set {
	s, _ := n.details.special.(*set)
	return s
}

func (s *set) dropped(*name) *details { return &s.noDetails }
func (s *set) gathers() *gathering    { return &s.gathering }
func (s *set) foreign() *outsiders    { return &s.others }

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

// signal notes an event that comes while a try is in flight.
func (s *set) signal(ev Wake) {
	for i := range s.signalled {
		s.signalled[i] = s.signalled[i] || ev.Confirmed || i == ev.Item-1
	}
}

// worthTrying reports whether a message may mean that a try succeeds now. For a set, only a message
// of the item that refused the last try may mean success, or any message while the set gathers.
func (n *name) worthTrying(ev Wake) bool {
	s := n.set()
	if s == nil || s.active() || s.refusedBy == 0 {
		return ev.Message
	}
	return ev.Message && s.refusedBy == ev.Item
}

// about returns err with the item of a set for which the last try was refused.
func (n *name) about(err error) error {
	if s := n.set(); s != nil && s.refusedBy > 0 {
		return fmt.Errorf("%w: %q", err, s.items[s.refusedBy-1].Name)
	}
	return err
}

func (s *set) fill(_ *Machine, _ *entry, op *Op, _ *Line) { op.Items = s.items }

func (s *set) trying() { clear(s.signalled) }

func (s *set) acquired(*name) { s.refusedBy = 0 }

// refused handles the answer that others have an item of a set.
func (s *set) refused(m *Machine, e *entry, r *Reply) {
	s.others.held(m.now, &m.cfg)
	s.refusedBy = r.Item
	e.woken = e.woken && (s.active() || r.Item > 0 && s.signalled[r.Item-1])
}
