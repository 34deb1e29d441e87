package core

import (
	"time"

	"github.com/holdfast-go/holdfast/renewal"
)

// An entry is one thing of ours on the server that has a lease of its own and is
// renewed by itself: the record of an exclusive lock, or the read hold that all
// readers of a manager share. It may also be one that we want to have there, or no
// longer have: see phase.
type entry struct {
	of *name
	// number is the number that the entry has on the server, by the last confirmed
	// script. It is zero if the entry is not known to be there. It lags behind
	// Hold.Number while a transfer is due or in flight.
	number uint64
	// until is the instant until which the entry may be trusted. It is the latest
	// sum of send and usable lease of all confirmed scripts.
	until time.Duration
	// sent is when the last confirmed script was sent.
	sent time.Duration
	// since is when the entry came to us, which is the start of our turn.
	since time.Duration

	// hold is the entry's first hold, or nil. The other holds follow it: see
	// holds.
	hold *Hold
	// unlocking is the request whose Unlock is not answered yet, or nil.
	unlocking *Request

	// flight is the ID of the one script in flight, or zero.
	flight uint64

	renewal renewal.Entry

	phase      phase
	flightVerb Verb
	woken      bool // a wake-up came while an acquire or a look was in flight
	retried    bool // an earlier release of this phase may have run

	side Side // on the server, by the last confirmed script
	open bool // a script may have made it Shared on the server, even if side is Alone

	place uint16 // the index in details.extra plus one; zero for the first entry

	permits uint16 // how many it has, or tries to get; zero for other kinds
	most    uint16 // the most that a number of it may have, see count
}

// An extra is an entry that is not the first of its name.
type extra struct {
	entry
	upkeep upkeep
}

// upkeep is the state that an entry needs only if it is contended, passed on,
// fenced, or has met a failure.
type upkeep struct {
	retry   retry
	unknown unknown
	tokens  tokens
	doubt   doubt
	longer  longer

	// number is the number of the entry since the entry's side or its record's life changed while
	// it had holds, or zero: see target. Each such change brings a new number, because an
	// earlier transfer may run at any time. That transfer then finds another number, and does not
	// change the side or the life back. side is the side that such a number was made for.
	number uint64
	side   Side
	// upgrade is the request for which a transfer is to give the entry the side
	// Alone, or nil.
	upgrade *Request

	// giveBack is set if a release that is due or in flight ends a run although
	// somebody here waits.
	giveBack bool
	refused  bool // the entry is released because it can't be passed on: see passRefused
	echoed   int  // how many messages of the release in flight have already arrived

	// readers are the Shared holds by their owners, if the entry has had several holds.
	readers map[uint64]*Hold
	// limit is a lower bound of the limits of the entry's holds. It is kept only
	// while there are several.
	limit time.Duration
	// shutUntil is the instant until which no further hold may share the entry, or
	// zero.
	shutUntil time.Duration
	// firstPass is when the entry was first to be passed on, or shared with one
	// more hold, since it came to us. It is zero before that. See keptLong.
	firstPass time.Duration
	// keepUntil is the instant until which the entry is kept although nobody here
	// waits: see keep.
	keepUntil time.Duration
	// claims make the record live for longer than the watched holds need: see claim.
	claims []claim
	// freeSince is when the entry last came free, because its last hold ended.
	freeSince time.Duration
	// passed is set at the first handoff after the entry was acquired.
	passed bool
	// proven is set once a script has found the record after the entry was acquired. trip is how long
	// the answer to the newest script that acquired or found it took. See unproven.
	proven bool
	trip   time.Duration
	// nextTransfer is the earliest instant for a transfer that records the present
	// holder. It spaces the transfers of an entry that is passed on fast. spacing
	// is the least time between two of them. If it is zero, that is
	// Config.RecordEvery.
	nextTransfer, spacing time.Duration
}

// upkeep returns the entry's upkeep. If the name has no details of its own, that is
// the zero value which all such names share, and nobody may write it. Check hasDetails,
// or call makeUpkeep, before a write.
func (e *entry) upkeep() *upkeep {
	if e.place == 0 {
		return &e.of.details.upkeep
	}
	return &e.of.details.extra[e.place-1].upkeep
}

// firstPass returns where it is noted since when the entry has been passed on: see
// upkeep.firstPass. Several entries of a name have it together, so that their manager gives all
// of them back at the same time. The name must have details of its own.
func (e *entry) firstPass() *time.Duration {
	if x := e.of.index(); x != nil {
		return &x.firstPass
	}
	return &e.upkeep().firstPass
}

// makeUpkeep returns the entry's upkeep for writing. The first call makes the name's
// details.
func (e *entry) makeUpkeep() *upkeep {
	e.of.makeDetails()
	return e.upkeep()
}

// RenewalEntry makes an entry an item of a renewal.Map.
func (e *entry) RenewalEntry() *renewal.Entry { return &e.renewal }

// holdUntil returns the earliest deadline of the entry's holds, or an instant before
// it.
func (e *entry) holdUntil() time.Duration {
	if e.hold.next() == nil {
		return e.hold.end()
	}
	return min(e.until, e.upkeep().limit)
}

// target returns the number that the entry is to have on the server. It is upkeep.number if
// the entry's side or its record's life has changed or may have changed, else the number of its holds.
func (e *entry) target() uint64 {
	if number := e.upkeep().number; number != 0 {
		return number
	}
	if h := e.alone(); h != nil {
		return h.Number
	}
	return e.hold.Number
}

// renumber gives the entry a new number, which is to have a side.
func (m *Machine) renumber(e *entry, s Side) {
	u := e.makeUpkeep()
	u.number, u.side = m.number(), s
}

// recorded reports whether the entry has the number and the side on the server
// that its holds need.
func (e *entry) recorded() bool {
	return e.number == e.target() && e.side == e.of.rules().side(e)
}

// transferDue reports whether a transfer must record the present holder of the
// entry. A server that is out of memory refuses transfers, but not renewals. So
// while transfers fail and a longer lease is wanted, the entry is renewed under
// the number that it has. That is not possible if a transfer without an answer may
// have replaced the number.
func (e *entry) transferDue() bool {
	u := e.upkeep()
	return !e.recorded() && !(u.longer.want > 0 && u.retry.failing() && !u.unknown.replaced())
}

// trust moves the deadline of the entry forward, and never back. Only transfer moves a deadline back,
// before it sends a script that may shorten the life of the record.
func (m *Machine) trust(e *entry, id uint64, sent, lease time.Duration) {
	e.sent = max(e.sent, sent)
	e.until = max(e.until, sent+m.cfg.usable(lease))
	if u := e.upkeep(); e.of.hasDetails() {
		u.proven, u.trip = true, m.now-sent
	}
	m.extended(e)
	m.prolonged(e, id)
}

// gone handles an answer by which the entry is not ours any more.
func (m *Machine) gone(e *entry) {
	others := e.of.rules().parts(e) && e.number != 0
	if others {
		m.suspectOwner(e) // one record is gone, the others may be there
	}
	e.number = 0
	m.dropTokens(e)
	m.renewals.Remove(e)
	m.unreserve(e)
	m.loseAll(e, e.of.rules().gone())
	m.unlocked(e, e.of.rules().gone())
	if others {
		// Even if somebody here waits. A try that gathers would shorten the life of these
		// records, and waiters elsewhere would get no message when they end.
		m.release(e)
		return
	}
	m.passOn(e, nil)
}

// abandon stops trusting an entry that is past its deadline. Its record may still
// exist, so the next script names its number.
func (m *Machine) abandon(e *entry) {
	n := e.of
	if e.number != 0 {
		m.suspectOwner(e)
		n.details.turns.turnEnded(m.now, e.since, &m.cfg)
	}
	m.dropTokens(e)
	m.renewals.Remove(e)
}

// watch schedules the renewal of an entry for one tick after the send from which
// its lease counts.
func (m *Machine) watch(e *entry) {
	m.renewals.Schedule(e, m.now, m.renewDue(e))
}

func (m *Machine) renewDue(e *entry) time.Duration {
	return e.sent + m.cfg.tick()
}
