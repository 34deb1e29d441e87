package core

import (
	"time"

	"github.com/holdfast-go/holdfast/renewal"
)

// An entry is something of ours on the server that has a lease of its own and is
// renewed by itself: the record of an exclusive lock.
type entry struct {
	of *name
	// number is the one that the entry carries on the server, by the last confirmed
	// script, or zero when there is no entry of ours. It lags behind Hold.Number
	// while a transfer is due or in flight.
	number uint64
	// until is how long the entry may be trusted: the latest of send plus usable
	// lease of all confirmed scripts.
	until time.Duration
	// sent is when the last confirmed script was sent.
	sent time.Duration
	// since is when the entry came to us.
	since time.Duration

	renewal renewal.Entry
}

// RenewalEntry makes an entry an item of a renewal.Map.
func (e *entry) RenewalEntry() *renewal.Entry { return &e.renewal }

// trust moves the deadline of the record forward, never back: no script
// shortens the life of a record.
func (m *Machine) trust(n *name, id uint64, sent, lease time.Duration) {
	n.entry.sent = max(n.entry.sent, sent)
	n.entry.until = max(n.entry.until, sent+m.cfg.usable(lease))
	m.extended(n)
	m.prolonged(n, id)
}

// gone handles the news that the record is not ours any more.
func (m *Machine) gone(n *name) {
	n.entry.number = 0
	m.dropTokens(n)
	m.renewals.Remove(&n.entry)
	if n.phase == held {
		m.loseHold(n, errGone)
	}
	m.unlocked(n, errGone)
	m.next(n, nil)
}

// abandon stops trusting the record after its deadline. It may still be there, so
// the next script names its number.
func (m *Machine) abandon(n *name) {
	if n.entry.number != 0 {
		m.suspectOwner(n)
		n.c.turns.had(m.now, n.entry.since, &m.cfg)
	}
	m.dropTokens(n)
	m.renewals.Remove(&n.entry)
}

// watch schedules the renewal of a lock one tick after the send that its
// lease counts from.
func (m *Machine) watch(n *name) {
	m.renewals.Schedule(&n.entry, m.now, m.renewDue(n))
}

func (m *Machine) renewDue(n *name) time.Duration {
	return n.entry.sent + m.cfg.tick()
}
