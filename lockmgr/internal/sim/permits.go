package sim

import (
	"encoding/binary"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/luaserver"
	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
	"github.com/holdfast-go/holdfast/lockmgr/internal/sim/agenda"
	"github.com/holdfast-go/holdfast/lockmgr/internal/wire"
)

var _ = register(core.Permits, permits{})

// permits is the kind core.Permits. Its worlds have no data loss: without the counter the server
// would forget the limit.
type permits struct{}

const (
	// dataLoss are the faults by which the server loses data, or gets other data.
	dataLoss = RestartLose | Flush | Evict | Persist | Retype | WrongCounter | Failover
	// mostEntries is the limit of the core.
	mostEntries = 1 << 10
)

func (permits) spared() Faults { return dataLoss }

func (permits) draw(s *settings, r *agenda.Rand) {
	s.limit = 1 + r.Below(6)
	if r.Percent(70) {
		s.many = r.Below(90)
	}
	if r.Percent(50) {
		s.impatient = max(s.impatient, 30)
	}
	s.explicit, s.adopt, s.fenced, s.readers = 0, 0, 0, 0 // permits have no owners, tokens and sides
	s.core.PlaceTime = r.LogBetween(s.timeout, 10*time.Second).Truncate(ms) + ms
	if s.calm && s.faults&Force == 0 && r.Percent(60) {
		s.core.PlaceTime = 10 * time.Minute // polls must not hide a lost message
	}
	if r.Percent(70) {
		s.core.GatherAfter = r.LogBetween(ms, 2*time.Second)
		s.core.GatherTime = min(r.LogBetween(4*s.latency, time.Second), s.core.Lease)
	}
	s.core.ForgetPermits = r.Percent(50)
}

// wantPermits chooses how many permits a request wants.
func (w *world) wantPermits() uint16 {
	if w.load.Percent(w.set.many) {
		return uint16(1 + w.load.Below(w.set.limit))
	}
	return 1
}

// taken is a permit that the server has given.
type taken struct {
	id     string
	holder string
	end    time.Duration // by the server's clock
}

// permitOwner returns the first part of the IDs of a manager's permits.
func permitOwner(label string) string {
	id := wire.Permit(label, 0, 0)
	return string(id[:8])
}

// label notes whose permits have the first part of an ID.
func (w *world) label(label string) { w.labels[permitOwner(label)] = label }

// taken returns the permits of a name that are taken, with those that have expired, by their ends.
func (w *world) taken(l *lockName) (out []taken) {
	v := w.server.Get(wire.TakenKey(l.key))
	if v == nil || v.Kind != luaserver.Scores {
		return nil
	}
	for _, m := range v.Members {
		number := binary.BigEndian.Uint64([]byte("\x00\x00" + m.Name[8:14]))
		out = append(out, taken{m.Name, wire.HolderID(w.labels[m.Name[:8]], number), time.Duration(m.Score) * ms})
	}
	return out
}

// free returns how many permits are free, and whether there is a counter. Without a counter, all
// permits that nobody has are free.
func (w *world) free(l *lockName) (n int64, there bool) {
	v := w.server.Get(l.key)
	if v == nil {
		return int64(w.set.limit - len(w.taken(l))), false
	}
	n, err := strconv.ParseInt(v.Text, 10, 64)
	return n, err == nil
}

// permits returns how many permits a hold is of.
func (h *hold) permits() int {
	if h.foreign {
		return 1
	}
	return int(h.core.Permits)
}

func (permits) channel(key string) string { return "redisson_sc:{" + key + "}" }

func (permits) ask(*world, *core.Request)  {}
func (permits) entries() int               { return mostEntries }
func (permits) beside(_, _ core.Side) bool { return true }
func (permits) free(holders []holder) bool { return len(holders) == 0 }
func (permits) waitsFor(*call, *hold) bool { return false }

// conflict allows holds of as many permits as there are.
func (permits) conflict(_ *lockName, h *hold, others []*hold) *hold {
	left := h.name.limit - h.permits()
	for _, o := range others {
		if left -= o.permits(); left < 0 {
			return o
		}
	}
	return nil
}

func (permits) foreign(w *world, l *lockName, lease time.Duration, owner uint64) (core.Side, bool) {
	return core.Alone, w.foreignTakes(core.Op{
		Kind: core.Permits, Name: l.key, Lease: lease, Number: owner, Permits: 1, Most: 1, Limit: int64(w.set.limit),
	})
}

func (permits) leave(w *world, l *lockName, owner uint64) {
	w.foreignLeaves(core.Op{Kind: core.Permits, Name: l.key, OtherNumbers: []uint64{owner}, Permits: 1, Most: 1})
}

// holders returns each holder that has permits, with the earliest end of its permits.
func (permits) holders(w *world, l *lockName) (out []holder) {
	for _, m := range w.taken(l) {
		if m.end > w.server.Now.Truncate(ms) && !slices.ContainsFunc(out, func(h holder) bool { return h.name == m.holder }) {
			out = append(out, holder{m.holder, m.end, core.Alone})
		}
	}
	return out
}

func (permits) run(c *command) (answer, error) {
	_, was := c.n.w.free(c.name)
	a, err := c.exec()
	if _, is := c.n.w.free(c.name); was && !is {
		c.n.w.cover.Permits.Forgotten++
	}
	if c.verb == core.VerbAcquire {
		c.checkTaken(&a, err)
	}
	c.checkConserved()
	return a, err
}

// checkTaken checks that an acquire has taken as many permits as its request wants, or none, or
// those that are free while it gathers.
func (c *command) checkTaken(a *answer, err error) {
	const rule = "all or nothing"
	w, got, last := c.n.w, 0, time.Duration(0)
	for _, m := range w.taken(c.name) {
		if m.holder == c.owners[0] {
			got, last = got+1, max(last, m.end)
		}
	}
	cover := &w.cover.Permits
	switch {
	case err != nil:
		if got > 0 {
			w.violated(rule, "%s: the try for %v has got %d permits and failed: %v", c.n.label, c.owners, got, err)
		}
	case a.OK:
		if got != c.permits {
			w.violated(rule, "%s: the try for %v has got %d permits of %d", c.n.label, c.owners, got, c.permits)
		}
		if c.permits > 1 {
			cover.Many++
		}
		if c.gatherMs > 0 {
			cover.GatheredGrants++
		}
	case got >= c.permits || got > 0 && (c.gatherMs == 0 || last > w.server.Now+time.Duration(c.gatherMs)*ms):
		w.violated(rule, "%s: the try for %v was refused, and has got %d permits of %d until %v", c.n.label, c.owners, got, c.permits, last)
	case got > 0:
		cover.Gathers++
	}
}

// checkConserved checks that no permit is lost or made.
func (c *command) checkConserved() {
	w := c.n.w
	free, there := w.free(c.name)
	if !there {
		return
	}
	c.name.leastFree = min(c.name.leastFree, free)
	if taken := len(w.taken(c.name)); free < 0 || free+int64(taken) != int64(w.set.limit) {
		w.violated("as many permits as there are", "%s: %s by %v leaves %d free and %d taken of %d", c.n.label, c.verb, c.owners, free, taken, w.set.limit)
	}
}

// A passedBy is the first request for permits that waits in a manager, and how often in a row
// checkFree has found that it could have been served all the time.
type passedBy struct {
	first *call
	times int
}

// checkFree checks that the first request for permits of each manager gets those that are free,
// whether or not a message comes.
func (w *world) checkFree(l *lockName) {
	for _, n := range w.nodes {
		i := slices.IndexFunc(n.waiting, func(c *call) bool { return c.name == l })
		p := &n.passedBy[l.index]
		switch {
		case n.dead || i < 0 || n.waiting[i].hopeless || int64(n.waiting[i].permits) > l.leastFree-w.ahead(l, n):
			*p = passedBy{}
		case p.first != n.waiting[i]:
			*p = passedBy{first: n.waiting[i]}
		default:
			p.times++
		}
		if p.times > 8 {
			w.violated("free permits are taken", "%s: %s waits, and at least %d permits were free meanwhile", n.label, p.first, l.leastFree)
		}
	}
	l.leastFree, _ = w.free(l)
}

// line returns the managers that wait in the line, with what the server notes of each.
func (w *world) line(l *lockName) (out []luaserver.Field) {
	line, wants := w.server.Get("{"+l.key+"}:line"), w.server.Get("{"+l.key+"}:wants")
	if line == nil || wants == nil {
		return nil
	}
	for _, label := range line.List {
		i := slices.IndexFunc(wants.Fields, func(f luaserver.Field) bool { return f.Name == label })
		if i >= 0 {
			out = append(out, wants.Fields[i])
		}
	}
	return out
}

// ahead returns how many permits the managers want that are before another in the line, and for
// which requests wait.
func (w *world) ahead(l *lockName, n *node) (sum int64) {
	for _, f := range w.line(l) {
		if f.Name == n.label {
			break
		}
		for _, o := range w.nodes {
			if o.label == f.Name && slices.ContainsFunc(o.waiting, func(c *call) bool { return c.name == l }) {
				want, _, _ := strings.Cut(f.Value, " ")
				permits, _ := strconv.ParseInt(want, 10, 64)
				sum += permits
			}
		}
	}
	return sum
}

// checkPermits checks that the server has a permit for each that a valid hold of a manager has,
// which lasts at least as long.
func (n *node) checkPermits(l *lockName) {
	w := n.w
	w.readClock()
	var ends []time.Duration
	for _, m := range w.taken(l) {
		if n.carries(m.holder) {
			ends = append(ends, m.end)
		}
	}
	for _, h := range l.holds {
		if h.n != n || !h.validAt(w.now) {
			continue
		}
		need, have := 0, 0
		for _, o := range l.holds {
			if o.n == n && o.validAt(w.now) && o.until >= h.until {
				need += o.permits()
			}
		}
		for _, end := range ends {
			if end >= h.until {
				have++
			}
		}
		if have < need {
			w.violated("until the record ends", "%s, and %d permits are held so long, but the server has %d: %v", h, need, have, ends)
		}
	}
}

// noteTainted notes that a hold may have got permits that an administrator has given back, as its
// manager passes them on in memory before it knows.
func (h *hold) noteTainted() {
	h.taken = h.taken || h.core.Request.Passed && h.n.w.now < h.n.tainted
}

// takeAway lets an administrator give back the permits of a hold by their IDs. The holder learns of
// it sooner or later.
func (w *world) takeAway(l *lockName, n *node) {
	var some []*hold
	for _, h := range l.holds {
		if h.validAt(w.now) && !h.foreign {
			some = append(some, h)
		}
	}
	if len(some) == 0 {
		return
	}
	h := some[w.fate.Below(len(some))]
	var ids []string
	for _, m := range w.taken(l) {
		if m.holder == h.field() {
			ids = append(ids, hex.EncodeToString([]byte(m.id)))
		}
	}
	if len(ids) == 0 {
		return // the server does not know this holder yet
	}
	if w.fate.Percent(30) {
		ids = ids[:1]
	}
	if w.server.Run(wire.ReturnPermits(l.key, ids)) != int64(1) {
		return
	}
	h.taken = true
	h.n.tainted = w.now + 2*w.set.maxLease()
	w.cover.Permits.TakenAway++
	w.watchRecord(l)
	if w.fate.Percent(50) {
		n.verify(l)
	}
}

// PermitsCoverage counts what has happened to permits.
type PermitsCoverage struct {
	Many           uint64 `counts:"several permits granted"`         // grants of several
	Gathers        uint64 `counts:"permits gathered"`                // tries that were refused and kept something
	GatheredGrants uint64 `counts:"permits granted after gathering"` // tries that were granted while they gathered
	TakenAway      uint64 `counts:"permits taken away"`              // holds whose permits an administrator gave back
	Forgotten      uint64 `counts:"counters forgotten"`              // counters that a release removed
}

func (permits) never(what string) bool {
	for _, part := range []string{"re-entry", "token", "owner adopted", "failed for the counter", "deadlock", "not fenced", "removal heard", "held→asking", "passing→asking", "idle→waiting", "releasing→waiting"} {
		if strings.Contains(what, part) {
			return true
		}
	}
	return false
}
