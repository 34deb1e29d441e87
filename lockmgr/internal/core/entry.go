package core

import (
	"time"

	"github.com/holdfast-go/holdfast/renewal"
)

// An entry is something of ours on the server with a lease and renewals of its own: the record of
// an exclusive lock, or the read hold that all readers of a manager share. An entry may also be
// wanted and not be on the server yet, or be on the server and not be wanted any more: see phase.
type entry struct {
	of *name
	// number is the entry's number on the server, by the last confirmed script. number is zero if
	// the entry is not known to be on the server. number lags behind Hold.Number while a transfer
	// is due or in flight.
	number uint64
	// until is the instant until which the entry may be trusted. A confirmed script moves until
	// forward, to the sum of send and usable lease. A transfer that may shorten the life of the
	// record moves until back: see trust.
	until time.Duration
	// sent is when the last confirmed script was sent.
	sent time.Duration
	// runSince is when the entry came to us, or its present run began.
	runSince time.Duration

	// hold is the entry's first hold, or nil. The further holds follow: see holds.
	hold *Hold
	// unlocking is the request whose Unlock is not answered yet, or nil.
	unlocking *Request

	// flight is the ID of the script in flight, or zero.
	flight uint64

	renewal renewal.Entry

	phase      phase
	flightVerb Verb
	woken      bool // a wake-up came during the newest try, transfer or release

	side        Side // on the server, by the last confirmed script
	mayBeShared bool // on the server: a script may have made it Shared, even if side is Alone

	extraPos uint16 // the position in details.extra, from 1; zero for the first entry

	permits uint16 // how many it has, or tries to get; zero for other kinds
	most    uint16 // the most that may be recorded under one number of the entry: see setPermits
}

// An extra is an entry other than the first of its name.
type extra struct {
	entry
	upkeep upkeep
}

// upkeep is the state that an entry needs only if the entry is contended, passed on, fenced, or has
// met a failure.
type upkeep struct {
	retry   retry
	unknown unknown
	tokens  tokens
	doubt   doubt
	life    life
	extend  extend

	// number is the number of the entry after the entry's side or its record's life changed during
	// a hold, or zero: see target. Each change brings a new number, because an earlier transfer may
	// run at any time. The earlier transfer finds an unknown number, and does not change the side
	// or the life back. side is the side for which number was made.
	number uint64
	side   Side
	// upgrade is the request for which a transfer is to give the entry the side Alone, or nil.
	upgrade *Request

	// giveBack is set if a release, due or in flight, ends a run although somebody here waits.
	giveBack   bool
	cannotPass bool // the entry is released because it can't be passed on: see passRefused

	// readers are the Shared holds by their owners, if the entry has had several holds.
	readers map[uint64]*Hold
	// firstEnd is the earliest Request.Ends of the entry's holds, or an earlier instant. firstEnd
	// is kept only while there are several holds.
	firstEnd time.Duration
	// shutUntil is the instant until which no further hold may share the entry, or zero.
	shutUntil time.Duration
	// refusedAt is when the newest script was sent that has told that others come first, or zero: a
	// try, or a transfer while a writer of another process waits.
	refusedAt time.Duration
	// claims make the record live for longer than the watched holds need: see claim.
	claims []claim
	// freeSince is when the last hold of the entry ended.
	freeSince time.Duration

	tenure
}

// tenure is the part of upkeep that begins anew when an acquire, or a grant by message, has brought
// the entry.
type tenure struct {
	// writerWaits is set if a writer of another process waits for the holds to end, by the newest
	// transfer.
	writerWaits bool
	// passingSince is since when the entry is passed on, or shared with one more hold: since
	// newRun, or the first time after the entry came to us. Before, passingSince is zero. See
	// keptLong.
	passingSince time.Duration
	// unasked is how many requests have got the entry since the entry came to us, since newRun, or
	// since a transfer reported no others. A pause for outsiders begins run.grants anew, but not
	// unasked.
	unasked int
	// passed is set at the first handoff.
	passed bool
	// proven is set once a script has found the record after the acquire. trip is the round-trip
	// time of the newest script that acquired or found the record. See unproven.
	proven bool
	trip   time.Duration
	// nextTransfer is the earliest instant for a transfer that records the present holder.
	// nextTransfer spaces the transfers of an entry that is passed on fast. spacing is the least
	// time between two of these transfers. Zero means Config.RecordEvery.
	nextTransfer, spacing time.Duration
}

// upkeep returns the entry's upkeep. If the name has no details of its own, upkeep returns a zero
// value that nobody may write. Check hasDetails, or call makeUpkeep, before a write.
func (e *entry) upkeep() *upkeep {
	if e.extraPos == 0 {
		return &e.of.details.upkeep
	}
	return &e.of.details.extra[e.extraPos-1].upkeep
}

// makeUpkeep returns the entry's upkeep for writing. The first call makes the name's details.
func (e *entry) makeUpkeep() *upkeep {
	e.of.makeDetails()
	return e.upkeep()
}

// RenewalEntry makes an entry an item of a renewal.Map.
func (e *entry) RenewalEntry() *renewal.Entry { return &e.renewal }

// holdUntil returns the earliest deadline of the entry's holds, or an earlier instant.
func (e *entry) holdUntil() time.Duration {
	if e.hold.next() == nil {
		return e.hold.end()
	}
	return min(e.until, e.upkeep().firstEnd)
}

// target returns the number that the entry is to have on the server: upkeep.number if the entry's
// side or its record's life has changed or may have changed, else the number of the entry's holds.
func (e *entry) target() uint64 {
	if number := e.upkeep().number; number != 0 {
		return number
	}
	if h := e.aloneHold(); h != nil {
		return h.Number
	}
	return e.hold.Number
}

// renumber gives the entry a new number, which is to have a side.
func (m *Machine) renumber(e *entry, s Side) {
	u := e.makeUpkeep()
	u.number, u.side = m.newNumber(), s
}

// recorded reports whether the entry has the number and the side on the server that the holds need.
func (e *entry) recorded() bool {
	return e.number == e.target() && e.side == e.of.rules().side(e)
}

// trust moves the deadline of the entry forward, and never back. Only transfer moves a deadline
// back, before sending a script that may shorten the life of the record.
func (m *Machine) trust(e *entry, id uint64, sent, lease time.Duration) {
	e.sent = max(e.sent, sent)
	e.until = max(e.until, sent+m.cfg.usable(lease))
	if u := e.upkeep(); e.of.hasDetails() {
		u.proven, u.trip = true, m.now-sent
	}
	m.tellUntils(e)
	// A script that was sent before a prolongation came does not fulfil the prolongation.
	m.answerProlongations(e, func(p *Prolongation) bool { return p.until <= e.until && p.after < id }, nil)
}

// scheduleRenewal schedules the renewal of an entry.
func (m *Machine) scheduleRenewal(e *entry) {
	m.renewals.Schedule(e, m.now, m.renewDue(e))
}

// renewDue returns when an entry is due for a renewal: one tick after the send from which the lease
// counts, or earlier for an entry with a shorter lease, so that as much time is left as with
// Config.Lease.
func (m *Machine) renewDue(e *entry) time.Duration {
	return m.cfg.tick() + min(e.sent, e.until-m.cfg.usable(m.cfg.Lease))
}
