package core

// rest makes an entry idle. Once all entries of the name are idle, settle calls restName. rest is
// called when nobody here wants the entry, and the entry is not known to be on the server.
func (m *Machine) rest(e *entry) {
	n := e.of
	if g := e.gathers(); g != nil {
		g.stop()
	}
	if e.phase != idle && n.hasDetails() {
		n.details.restUntil = m.now
		if n.sub != subNone || n.details.run.others {
			n.details.restUntil = later(m.now, m.cfg.Linger)
		}
	}
	m.becomeIdle(e)
}

// restName drops the details of a name whose entries are all idle, when it is time to. The name is
// remembered for Linger if it was subscribed or others want it: a run may go on. The name is also
// remembered while a suspect has time left. When all this is over, restName releases what may have
// been left on the server. If nothing was left, the name loses its details, and settle forgets it.
func (m *Machine) restName(n *name) {
	at := n.details.restUntil
	for e := range n.entries {
		at = e.upkeep().unknown.forgetAt(at)
	}
	if m.now < at && !m.closing {
		n.details.restUntil = at
		return
	}
	for e := range n.entries {
		if e.upkeep().unknown.strays() > 0 && !m.closing {
			m.release(e)
			return
		}
	}
	if p := n.position(); p != nil && p.joined != 0 { // a release has joined
		p.standsUntil = 0
		m.release(&n.entry)
		return
	}
	m.unsubscribe(n)
	n.dropDetails()
}

// releaseOrRest removes what may have been left of an entry on the server, or lets the entry rest.
// releaseOrRest is called when nobody here wants the entry any more, no script about the entry is
// in flight, and the entry is not known to be ours.
func (m *Machine) releaseOrRest(e *entry) {
	if e.upkeep().unknown.strays() > 0 || e.of.details.special.leftovers(e.of) {
		m.release(e)
		return
	}
	m.rest(e)
}

func (m *Machine) forget(n *name) {
	if m.known(n.name, n.isSet()) != n {
		return // it was forgotten in this step
	}
	if n.idle() {
		m.resting--
	}
	for e := range n.entries {
		m.renewals.Remove(e)
		e.flight = 0 // the answer is stale
	}
	m.alarms.remove(n)
	if n.isSet() {
		m.sets.remove(n)
		delete(m.setNames, n.name)
	} else {
		delete(m.names, n.name)
	}
	m.forgotten = append(m.forgotten, n)
}
