package core

import "time"

// verify checks whether the record of each entry of ours is still there: see doubt. verify also
// checks the sets that have the name. The script that checks a record also renews the record.
func (m *Machine) verify(key string) {
	for _, n := range m.namesOf(key) {
		m.doubtAll(n)
	}
}

// verifySilent does what verify does after a message of a script that has served no line, for the
// names of the key that get no messages themselves. heard is the subscribed name.
func (m *Machine) verifySilent(heard *name, key string) {
	if len(m.sets) == 0 {
		return // no other name has the key
	}
	for _, n := range m.namesOf(key) {
		if n != heard && n.sub != subOn && n.rules().doubts() {
			m.doubtAll(n)
		}
	}
}

// namesOf returns the single name of a key, and the sets that have the key.
func (m *Machine) namesOf(key string) (names []*name) {
	if n := m.names[key]; n != nil {
		names = append(names, n)
	}
	for _, p := range m.sets[key] {
		names = append(names, p.set)
	}
	return names
}

// doubtAll notes that the record of each entry of a name may be gone.
func (m *Machine) doubtAll(n *name) {
	for e := range n.entries {
		if e.phase == held || e.phase == passing {
			m.doubt(e)
			m.settleEntry(e)
		}
	}
}

// doubt notes that the record of an entry may be gone: a message came of a script that has served
// no line, or the shell asks, or the last proof is old. If the entry is held, a script is sent as
// soon as none is in flight. If nobody holds the entry, a transfer comes before the next holder.
// Until a script has found the record, the entry is not passed on in memory.
func (m *Machine) doubt(e *entry) {
	u := e.makeUpkeep()
	u.doubt.raise(m.lastID)
	if e.phase != held {
		return
	}
	m.extendSoon(e, m.needed(e))
	u.nextTransfer = min(u.nextTransfer, m.now) // a transfer looks for the record, too
	m.sendDue(e)
}

// lookBehind doubts a held entry if requests wait behind its holder here, and the last script that
// found the record is older than PollMax. Another manager may have forced the record open, and no
// message comes: these requests subscribe to nothing, because none of them was refused. Requests
// for permits try at once. A renewal that is wanted finds the record itself. lookBehind returns
// when to call it again.
func (m *Machine) lookBehind(e *entry) (again time.Duration) {
	n, due := e.of, e.sent+m.cfg.PollMax
	switch {
	case n.queue.head == nil, n.sub != subNone, n.index() != nil:
	case e.flight != 0, e.upkeep().extend.want > 0: // a script finds the record
	case m.now < due:
		return due
	default:
		m.doubt(e)
	}
	return Forever
}

// unproven reports whether no script has found the record of an entry since the acquire, or the
// last one was sent too long ago, so that others may have the lock by now. The limit is longer than
// the time between two transfers of an entry that is passed on fast: see mostSpacing. So an entry
// that is passed on fast need not stop for a script.
func (m *Machine) unproven(e *entry) bool {
	every := mostSpacing * m.cfg.RecordEvery
	if e.of.index() != nil {
		every *= 2
	}
	u := e.upkeep()
	return !u.proven || m.now-e.sent > every*3/2+2*u.trip
}
