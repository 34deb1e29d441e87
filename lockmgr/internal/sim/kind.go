package sim

import (
	"slices"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
	"github.com/holdfast-go/holdfast/lockmgr/internal/sim/agenda"
	"github.com/holdfast-go/holdfast/lockmgr/internal/wire"
)

// A kind is what the simulation knows of one kind of lock: its scripts, and what its record says.
type kind interface {
	// run runs a command on the server, and checks what it has done.
	run(c *command) (a answer, err error)
	// holders returns those that a lock's record names.
	holders(w *world, l *lockName) []holder
	// entries is how many entries a manager may have of a name.
	entries() int
	// conflict returns one of other valid holds of a name that can't be valid beside a new one, or
	// nil.
	conflict(l *lockName, h *hold, others []*hold) *hold
	// beside reports whether a record may name two holders, of these sides and of different
	// managers.
	beside(a, b core.Side) bool
	// free reports whether somebody who wants a name may have it, given its holders.
	free(holders []holder) bool
	// waitsFor reports whether a request must wait for a hold of another owner.
	waitsFor(c *call, h *hold) bool
	// ask chooses how a request wants its name.
	ask(w *world, r *core.Request)
	// foreign lets a client of another library try to get a lock, leave to give it back.
	foreign(w *world, l *lockName, lease time.Duration, owner uint64) (side core.Side, ok bool)
	leave(w *world, l *lockName, owner uint64)
	// channel returns the channel of a name.
	channel(key string) string
	// draw chooses what is special in a world of this kind.
	draw(s *settings, r *agenda.Rand)
	// spared returns the faults that must not occur in such a world.
	spared() Faults
	// never reports whether something else than these faults can't happen there: see Coverage.each.
	never(what string) bool
}

// anything is the part of a kind whose worlds have nothing special.
type anything struct{}

func (anything) spared() Faults    { return 0 }
func (anything) never(string) bool { return false }

// kinds has each kind. The file of a kind registers it.
var kinds [core.MostKinds]kind

func register(of core.Kind, k kind) struct{} {
	kinds[of] = k
	return struct{}{}
}

// A holder is what a record says of one entry.
type holder struct {
	name  string
	until time.Duration // by the server's clock
	side  core.Side
}

// of returns the holders that are a manager's, for a single name or for a set.
func (n *node) of(l *lockName, holders []holder) []holder {
	return slices.DeleteFunc(holders, func(h holder) bool { return !n.made(l, h.name) })
}

// made reports whether a record's field is one of this manager's, for a single name or for a set.
func (n *node) made(l *lockName, field string) bool {
	return n.carries(field) && (n.w.madeFor == nil || n.w.madeFor[field] == l)
}

// holders returns those that the record of a single name has.
func (w *world) holders(l *lockName) []holder {
	rules := l.rules
	if w.madeFor != nil {
		rules = w.kindOfRecord(l)
	}
	return rules.holders(w, l)
}

var _ = register(core.Exclusive, exclusive{})

// exclusive is the lock that one owner has at a time.
type exclusive struct{ anything }

func (exclusive) entries() int               { return 1 }
func (exclusive) beside(_, _ core.Side) bool { return false }
func (exclusive) free(holders []holder) bool { return len(holders) == 0 }

func (exclusive) conflict(_ *lockName, _ *hold, others []*hold) *hold {
	if len(others) > 0 {
		return others[0]
	}
	return nil
}

func (exclusive) ask(*world, *core.Request)  {}
func (exclusive) waitsFor(*call, *hold) bool { return true }
func (exclusive) channel(key string) string  { return "redisson_lock__channel:{" + key + "}" }

func (exclusive) draw(s *settings, r *agenda.Rand) {
	s.told = r.Percent(70)
	s.core.PlaceTime = r.LogBetween(s.timeout, 10*time.Second).Truncate(ms) + ms
	s.core.GrantLease = r.LogBetween(2*s.timeout, 4*s.core.Lease).Truncate(ms) + ms
	if s.calm && s.faults&Force == 0 && r.Percent(60) {
		s.core.PlaceTime = 10 * time.Minute // polls must not hide a lost message
	}
}

// foreign takes a lock as a client of Redisson does, which knows no line.
func (exclusive) foreign(w *world, l *lockName, lease time.Duration, owner uint64) (core.Side, bool) {
	if w.server.Exists(l.key) {
		return core.Alone, false
	}
	w.server.Do("HSET", l.key, wire.HolderID(foreigners, owner), "1")
	w.server.Do("PEXPIRE", l.key, strconv.FormatInt(lease.Milliseconds(), 10))
	return core.Alone, true
}

func (exclusive) leave(w *world, l *lockName, owner uint64) {
	if w.server.Do("HDEL", l.key, wire.HolderID(foreigners, owner)) == int64(1) {
		w.server.Do("PUBLISH", l.channel, "0")
	}
}

func (exclusive) holders(w *world, l *lockName) (out []holder) {
	fields, until := w.server.Fields(l.key)
	for _, f := range fields {
		out = append(out, holder{f.Name, until, core.Alone})
	}
	return out
}

// lateJoin returns the holder ID of a place that a command may have joined after its manager gave
// it up, or "".
func (c *command) lateJoin() string {
	if op := c.sent; c.verb == core.VerbAcquire && op.Lined && len(op.PlaceOp.Join) > 0 && !slices.Contains(c.n.flight[c.name.index], c.id) {
		return wire.HolderID(c.n.label, op.PlaceOp.Join[0])
	}
	return ""
}

func (exclusive) run(c *command) (answer, error) {
	keeps, before := c.n.w.set.keeps > 0, []holder(nil)
	if keeps {
		before = c.n.w.holders(c.name)
	}
	a, err := c.exec()
	if place := c.lateJoin(); place != "" {
		w, l := c.n.w, c.name
		l.strays[place] = max(l.strays[place], w.now+c.sent.Waits+2*w.set.core.GrantLease)
	}
	if c.verb == core.VerbRelease && a.OK && c.reserveMs > 0 {
		c.reserved()
	}
	if keeps {
		c.checkKept(&a, before)
	}
	return a, err
}
