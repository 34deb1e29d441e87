package lockmgr

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
	"github.com/holdfast-go/holdfast/lockmgr/internal/wire"
)

// While a manager holds locks, a record on the server names the manager's process. The record is a
// string beside the records of locks, in JSON: see processRecord. Only Inspect, of locks and of
// permits, and Scan read the record, and no lock depends on it.
//
// The first record is written announceAfter after a grant, so a lock held for a short time costs no
// command. The manager writes the record again every announceEvery while something is held, and
// removes the record once nothing was held for announceAfter, within twice that time, or at Close.
// Otherwise the record expires announceLife after the last write, perhaps before a long lease of a
// dead process does.
const (
	announceAfter = time.Second
	announceEvery = 10 * time.Second
	// announceLife is the life of a record. announceLife spans three writes, and the default of
	// Options.Lease.
	announceLife = 35 * time.Second
	// announceLooks is how many holds and requests the manager's goroutine looks at for a record.
	// Only holds of at least announceAge are in a record: at most announceHolds without a note, and
	// twice as many in all.
	announceLooks = 4096
	announceHolds = 256
	announceAge   = announceAfter - 50*time.Millisecond
	// withdrawTime is how long Close waits until the record is removed.
	withdrawTime = 100 * time.Millisecond
)

// A processRecord is what a manager writes about itself.
type processRecord struct {
	Process
	// Holds are some of the manager's holds, by their numbers.
	Holds map[string]holdRecord `json:"holds,omitempty"`
}

// A holdRecord is what a manager writes about a hold.
type holdRecord struct {
	Since int64  `json:"since"` // milliseconds of Unix time
	Note  string `json:"note,omitempty"`
}

// A keptRecord is what a manager writes about a hold that has ended, into the record that KeepFor
// leaves. Inspect returns as much of the text as the longest process and note need.
type keptRecord struct {
	Process
	holdRecord
	Ended int64 `json:"ended"` // milliseconds of Unix time
}

// announceNow says that a record is due. announced says whether a record was written or dropped.
type (
	announceNow struct{}
	announced   struct {
		failure *wire.Failure
		dropped bool
	}
)

// An announcer writes the record. The manager's goroutine owns the announcer.
type announcer struct {
	*shell
	core *core.Machine

	off      bool
	timer    *time.Timer
	armed    bool          // timer runs
	soon     bool          // it runs for no longer than announceAfter
	underWay bool          // a write is not answered
	written  bool          // a record may be on the server
	idleAt   time.Duration // when the last hold ended
}

// granted tells the announcer of a grant.
func (a *announcer) granted(noted bool) {
	if a.off || a.armed && (a.soon || !noted) {
		return // the next write is early enough
	}
	a.writeIn(announceAfter)
}

// unlocked tells the announcer of an unlock.
func (a *announcer) unlocked() {
	if a.core.Stats().Held == 0 {
		a.idleAt = a.now()
		a.dropSoon()
	}
}

// dropSoon sets the timer for the removal of the record, if nothing is held.
func (a *announcer) dropSoon() {
	if a.written && !a.soon && a.core.Stats().Held == 0 {
		a.writeIn(announceAfter)
	}
}

// writeIn sets the timer for the next write.
func (a *announcer) writeIn(d time.Duration) {
	a.armed, a.soon = true, d <= announceAfter
	if a.timer == nil {
		a.timer = time.AfterFunc(d, func() { a.actor.Post(announceNow{}) })
		return
	}
	a.timer.Reset(d)
}

// write writes the record if something is held, or was held less than announceAfter ago: the record
// stays between short holds. Otherwise write removes the record.
func (a *announcer) write() {
	a.armed = false
	switch held := a.core.Stats().Held > 0; {
	case a.off, !held && !a.written: // nothing to write or to remove
		return
	case a.underWay:
		a.writeIn(announceAfter)
		return
	case !held && a.now() >= a.idleAt+announceAfter:
		a.underWay = a.lanes.Call(wire.DropProcess(a.id.uuid), func(answer wire.Answer) {
			a.actor.Post(announced{answer.Failure, true})
		})
		return
	}
	a.writeIn(announceEvery)
	text, err := json.Marshal(a.record())
	if err != nil {
		return // no such value is in it
	}
	a.underWay = a.lanes.Call(wire.SetProcess(a.id.uuid, string(text), announceLife), func(answer wire.Answer) {
		a.actor.Post(announced{failure: answer.Failure})
	})
}

// record returns the record.
func (a *announcer) record() (r processRecord) {
	r.Process, r.Holds = a.options.Process, make(map[string]holdRecord)
	now, wall, looks := a.now(), time.Now(), 0
	for u := range a.core.Survey {
		if looks++; looks > announceLooks {
			break
		}
		t := ticketOf(u.Request)
		age := now - t.since()
		if !u.Held || age < announceAge {
			continue
		}
		if note := noteOf(u.Request); note != "" || len(r.Holds) < announceHolds {
			r.Holds[strconv.FormatUint(u.Recorded, 10)] = holdRecord{wall.Add(-age).UnixMilli(), note}
			if len(r.Holds) >= 2*announceHolds {
				break
			}
		}
	}
	return r
}

// kept returns the text of a keptRecord, or "" if the manager is Anonymous. r is the first request
// of the hold.
func (a *announcer) kept(r *core.Request) string {
	if a.options.Anonymous {
		return ""
	}
	now, wall := a.now(), time.Now()
	at := func(t time.Duration) int64 { return wall.Add(t - now).UnixMilli() }
	since := ticketOf(r).since()
	text, err := json.Marshal(keptRecord{a.options.Process, holdRecord{at(since), noteOf(r)}, at(max(since, r.Ends))})
	if err != nil {
		return "" // no such value is in it
	}
	return string(text)
}

// answered handles the answer to a write or to a removal of the record.
func (a *announcer) answered(told announced) {
	f := told.failure
	a.underWay = false
	switch {
	case told.dropped:
		a.written = f != nil // then Close removes the record, or the record expires
	case f == nil:
		a.written = true
		a.dropSoon() // perhaps nothing is held by now
	case f.Kind == wire.Permission:
		a.off = true
		a.log.Info("others can't be told who holds the locks of this manager", "error", serverError(f))
	default:
		a.written = a.written || f.Ran != core.No
		a.dropSoon()
	}
	if a.withdrawn != nil {
		a.withdraw()
	}
}

// withdraw removes the record at the end of the manager. withdrawn is closed when the record is
// removed, or can't be removed.
func (a *announcer) withdraw() {
	if a.timer != nil {
		a.timer.Stop()
	}
	if a.withdrawn == nil {
		a.withdrawn = make(chan struct{})
	}
	a.off = true
	if a.underWay {
		return // answered calls withdraw again
	}
	done := a.withdrawn
	if a.written && a.lanes.Call(wire.DropProcess(a.id.uuid), func(wire.Answer) { close(done) }) {
		return
	}
	close(done)
}
