package sim

import (
	"encoding/hex"
	"iter"

	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
)

// heard is a Wake with the senders of its messages, which the core does not know.
type heard struct {
	core.Wake
	forced int // messages of an administrator who removed a record
	// epoch and counterEpoch are those of the name when the newest message was published.
	epoch, counterEpoch int
}

// told is a grant by message, and the epochs of the record and of the token counter.
type told struct {
	core.Grant
	ours, served        bool
	epoch, counterEpoch int
}

// secret returns what only a manager and the server know.
func (n *node) secret() string { return hex.EncodeToString([]byte(n.label)) }

// grantedByMessage notes that a grant rests on a message, if it does.
func (n *node) grantedByMessage(c *call) {
	if t := n.told[c.name.index]; t.Number != 0 && !c.req.Passed {
		n.told[c.name.index] = told{}
		n.w.cover.Fair.Told++
		rec := &n.record[c.name.index]
		rec.epoch, rec.until = t.epoch, c.req.Hold.Until
		if t.Token > 0 {
			rec.tokenEpoch, rec.counterEpoch = t.epoch, t.counterEpoch
		}
	}
}

// An ear is what a manager has heard about one lock.
type ear struct {
	// must reports whether a message said, while the manager held the lock, that an administrator
	// removed the record. The answer to a command that was sent later clears it. before is the ID
	// of the command that was in flight then.
	must   bool
	before uint64
	was    string // the phase before this step
	// doubts is how many reasons to look for the record have come since it was found. latest is the
	// ID of the command that was in flight at the last of the first mostDoubts.
	doubts int
	latest uint64
}

// mostDoubts is for how many reasons in a row the core looks for the record again before it passes
// the lock on. A flood of messages must not keep the lock from its next holder.
const mostDoubts = 3

// doubted notes a reason to look for the record.
func (e *ear) doubted(inFlight uint64) {
	if e.doubts < mostDoubts {
		e.latest = inFlight
	}
	e.doubts++
}

// answered notes an answer.
func (e *ear) answered(r *core.Reply) {
	if r.Ran == core.Yes && r.ID != e.before {
		e.must = false
	}
	if r.Ran == core.Yes && r.ID != e.latest {
		e.doubts = 0
	}
}

// beforeVerify notes that a manager is to look for the record of a name, and for those of the sets
// with that name.
func (n *node) beforeVerify(l *lockName) {
	for _, l := range append([]*lockName{l}, l.sets...) {
		n.ears[l.index].doubted(n.inFlight(l))
	}
}

// beside yields the other names that have the key on whose channel a message came.
func (n *node) beside(h *heard) iter.Seq[*lockName] {
	return func(yield func(*lockName) bool) {
		heard := n.w.named(h.Name)
		of := heard
		if h.Item > 0 {
			of = heard.parts[h.Item-1].name
		}
		for _, l := range append([]*lockName{of}, of.sets...) {
			if l != heard && !yield(l) {
				return
			}
		}
	}
}

// beforeWake notes the messages of a wake-up and the phase in which it comes.
func (n *node) beforeWake(h *heard) {
	l := n.w.named(h.Name)
	e := &n.ears[l.index]
	e.was = n.m.Phase(l.key)
	if h.Message {
		defer e.doubted(n.inFlight(l))
		for o := range n.beside(h) {
			n.ears[o.index].doubted(n.inFlight(o))
		}
	}
	if h.forced == 0 || e.was != "held" {
		return
	}
	if e.doubts >= mostDoubts {
		return
	}
	n.w.cover.HeardForced++
	e.must, e.before = true, n.inFlight(l)
}

// afterWake checks that a manager which hears that its lock was removed sends a command at once,
// unless a command has just failed and is to be sent again.
func (n *node) afterWake(h *heard) {
	l := n.w.named(h.Name)
	e := &n.ears[l.index]
	if n.w.calmAt(l) && e.must && h.forced > 0 && e.before == 0 && n.inFlight(l) == 0 && n.m.Phase(l.key) == "held" {
		n.w.violated("a message is looked into", "%s: holds %s, heard that it was removed, and sends nothing", n.label, l.key)
	}
	for o := range n.beside(h) {
		if h.forced > 0 && !n.pubsub.wants(o) && n.w.calmAt(o) && n.inFlight(o) == 0 && n.m.Phase(o.key) == "held" {
			n.w.violated("a message is looked into", "%s: holds %s, heard as %s that it was removed, and sends nothing", n.label, o.key, l.key)
		}
	}
}

// checkPassed checks that a lock whose record may be gone is not passed on.
func (n *node) checkPassed(c *call) {
	if e := &n.ears[c.name.index]; e.must && c.req.Passed {
		n.w.violated("a message is looked into", "%s: passed %s on before a command confirmed that it is there", n.label, c)
	} else if !c.req.Passed {
		e.must = false
	}
}
