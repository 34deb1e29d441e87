package sim

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/luaserver"
	"github.com/holdfast-go/holdfast/internal/resp"
	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
	"github.com/holdfast-go/holdfast/lockmgr/internal/sim/agenda"
	"github.com/holdfast-go/holdfast/lockmgr/internal/wire"
)

var _ = register(core.Fair, fair{})

// fair is the kind core.Fair. The record is that of an exclusive lock. Beside it there is the
// queue, in which clients of Redisson may wait, too: see redisson.
//
// The simulation notes in which order the members have come into the queue. At each grant no member
// may be in the queue that has come earlier and whose owner still waits.
type fair struct{ exclusive }

func (fair) draw(s *settings, r *agenda.Rand) {
	s.readers = 0
	s.core.PlaceTime = r.LogBetween(20*s.timeout, 20*s.timeout+10*time.Second).Truncate(ms)
	s.redisson = r.Percent(50)
	s.told = r.Percent(70)
	s.core.GrantLease = r.LogBetween(2*s.timeout, 4*s.core.Lease).Truncate(ms) + ms
	if s.calm && s.faults&Force == 0 && r.Percent(60) {
		s.core.PlaceTime = 10 * time.Minute // moving deadlines must not hide a lost message
	}
	s.givesUp = r.Below(2) * r.Below(60)
}

// queued returns those that wait for a fair lock, the first is next.
func (w *world) queued(l *lockName) []string {
	if v := w.server.Get(wire.QueueKey(l.key)); v != nil && v.Kind == luaserver.List {
		return v.List
	}
	return nil
}

// deadline returns the deadline of a member of the queue in milliseconds.
func (w *world) deadline(l *lockName, member string) int64 {
	till, _ := w.server.Get(wire.DeadlinesKey(l.key)).Score(member)
	return int64(till) - l.shard.skew.Milliseconds()
}

func (fair) run(c *command) (answer, error) {
	a, err := c.exec()
	c.n.w.noteQueue(c.name, c.n.label)
	return a, err
}

func (fair) foreign(*world, *lockName, time.Duration, uint64) (core.Side, bool) {
	return core.Alone, false
}

// noteQueue notes which members have come into the queue of a fair lock since it was called last,
// and checks why others are no longer in it. by is the manager whose command has run. It may
// exchange its own places.
func (w *world) noteQueue(l *lockName, by string) {
	queue := w.queued(l)
	if l.arrivals == nil {
		l.arrivals = map[string]int{}
	}
	fields, _ := w.server.Fields(l.key)
	recorded := func(m string) bool { return len(fields) == 1 && fields[0].Name == m }
	for _, m := range queue {
		if l.arrivals[m] == 0 {
			l.arrived++
			l.arrivals[m] = l.arrived
			if recorded(m) { // by a late copy: it has been granted before it came
				l.cameLate = m
			}
		}
	}
	w.checkQueue(l, queue, by)
	var gone []string
	for m := range l.arrivals {
		if !slices.Contains(queue, m) {
			gone = append(gone, m)
		}
	}
	slices.Sort(gone)
	for _, m := range gone {
		switch {
		case recorded(m) && m == l.cameLate:
		case recorded(m):
			w.checkFirst(l, m, l.arrivals[m])
		case w.waitsAt(l, m) && w.calmAt(l):
			w.violated("a place is kept", "%s is not in the queue of %s any more, and its owner waits", m, l.key)
		case w.waitsAt(l, m):
			w.cover.Fair.Dropped++
		}
		delete(l.arrivals, m)
	}
	w.checkDeadlines(l)
}

// checkQueue checks that nobody has come before somebody who came earlier. A manager that sorts its
// places gives each the instant at which that place came. One that it has moved to the end has come
// now.
func (w *world) checkQueue(l *lockName, queue []string, by string) {
	ours := slices.DeleteFunc(slices.Clone(queue), func(m string) bool { return by == "" || !strings.HasPrefix(m, by+":") })
	came := make([]int, len(ours))
	for i, m := range ours {
		came[i] = l.arrivals[m]
	}
	slices.Sort(came)
	for i, m := range ours {
		l.arrivals[m] = came[i]
	}
	last := 0
	for _, m := range queue {
		if l.arrivals[m] < last {
			if !slices.Contains(ours, m) {
				w.violated("first come, first served", "%s is behind others that came later: %v", m, queue)
			}
			l.arrivals[m] = last
		}
		last = l.arrivals[m]
	}
}

// queueOf returns the queue of a fair lock, or the line of permits, for a trace.
func (w *world) queueOf(l *lockName) string {
	switch l.kind {
	case core.Fair:
		return fmt.Sprint(" queue ", w.queued(l))
	case core.Permits:
		free, _ := w.free(l)
		return fmt.Sprintf(" free %d, line %v", free, w.line(l))
	}
	return ""
}

// checkFirst checks that nobody waits who came into the queue before a member that was granted.
func (w *world) checkFirst(l *lockName, granted string, arrived int) {
	for _, m := range w.queued(l) {
		if l.arrivals[m] < arrived && l.arrivals[m] != 0 && w.waitsAt(l, m) {
			w.violated("first come, first served", "%s of %s is granted, and %s came earlier and waits", granted, l.key, m)
		}
	}
}

// checkArrival checks the same for a grant in a manager. A manager that does not know yet that the
// server has lost its record passes on what it no longer has, whoever waits there. A grant that the
// server has recorded was checked then.
func (w *world) checkArrival(c *call) {
	if c.name.kind != core.Fair {
		return
	}
	place := wire.FairHolderID(c.n.label, c.hold.core.Number)
	if fields, _ := w.server.Fields(c.name.key); len(fields) != 1 || !c.n.carries(fields[0].Name) || fields[0].Name == place {
		return
	}
	if a := c.name.arrivals[place]; a != 0 {
		w.checkFirst(c.name, c.String(), a)
		w.cover.Fair.Front++
	}
}

// waitsAt reports whether somebody waits who has this place.
func (w *world) waitsAt(l *lockName, member string) bool {
	if r := w.redissons[member]; r != nil {
		return r.name == l && r.state == pending
	}
	rest := strings.TrimSuffix(member, ":f")
	at := strings.LastIndexByte(rest, ':')
	place, _ := strconv.ParseUint(rest[at+1:], 10, 64)
	for _, n := range w.nodes {
		if n.label != rest[:at] || n.dead {
			continue
		}
		return slices.ContainsFunc(n.waiting, func(c *call) bool {
			return c.name == l && c.state == pending && !c.cancelled && c.req.Place() == place
		})
	}
	return false
}

// checkDeadlines checks, in a calm world, that the deadlines of our places lie beyond what the
// clients of Redisson before them may take off.
func (w *world) checkDeadlines(l *lockName) {
	if !w.calmAt(l) {
		return
	}
	sum := int64(0)
	for _, m := range w.queued(l) {
		if r := w.redissons[m]; r != nil {
			sum += r.waitMs
		} else if till := w.deadline(l, m); w.waitsAt(l, m) && till-sum <= int64(w.server.Now/ms) {
			w.violated("a place is kept", "the deadline of %s of %s is in %d ms, and those before it may take off %d ms", m, l.key, till-int64(w.server.Now/ms), sum)
		}
	}
}

// checkPlacesLeft checks that at the end no place is left in the queue of a manager that could
// remove it.
func (w *world) checkPlacesLeft(l *lockName) {
	if l.kind != core.Fair || !w.calmAt(l) {
		return
	}
	for _, n := range slices.Concat(w.nodes, w.gone) {
		for _, m := range w.queued(l) {
			if n.carries(m) && !n.dead && !n.aborted {
				w.violated("nothing left", "the place %s of %s", m, l.key)
			}
		}
	}
}

// A redisson is a thread of a client of Redisson that gets a fair lock once.
type redisson struct {
	w      *world
	name   *lockName
	owner  string
	id     int // as a subscriber, negative
	waitMs int64
	asked  time.Duration
	state  callState
	timer  int // the newest timer: earlier ones do nothing
}

// redissonThread lets a thread of Redisson ask for a fair lock, again and again.
func (w *world) redissonThread() {
	if w.ending {
		return
	}
	w.after(w.load.Between(0, 10*w.set.think), w.redissonThread)
	unable := func(s *shard) bool { return w.silent(s) || s.down }
	if w.waitingRedissons >= 3 || !w.sharded() && unable(w.shards[0]) {
		return
	}
	l := w.single[w.load.Below(len(w.single))]
	if unable(l.shard) {
		return
	}
	r := &redisson{w: w, name: l, owner: fmt.Sprintf("foreign:%d", len(w.redissons)), waitMs: 300000, asked: w.now, state: pending}
	r.id = -1 - len(w.redissons)
	if w.load.Percent(w.set.givesUp) {
		r.waitMs = int64(w.load.LogBetween(10*w.set.latency, 100*w.set.think) / ms)
	}
	if !w.set.calm { // those that die must not block the queue for long
		r.waitMs = min(r.waitMs, 20000)
	}
	w.redissons[r.owner] = r
	w.byID = append(w.byID, r)
	w.waitingRedissons++
	r.try()
}

// channel is where the thread hears that it is first.
func (r *redisson) channel() string { return r.name.channel + ":" + r.owner }

// try runs the script of an acquire.
func (r *redisson) try() {
	w, l := r.w, r.name
	if r.state != pending {
		return
	}
	if w.silent(l.shard) || l.shard.down {
		r.in(w.set.latency * 4)
		return
	}
	if w.set.faults&Crash != 0 && !w.ending && w.load.Percent(3) {
		r.end() // the process has died
		return
	}
	w.readClock()
	lease := w.load.Between(50*ms, w.set.core.Lease)
	ttl, refused := r.run("acquire", lease)
	if !refused {
		r.end()
		w.cover.Foreign++
		w.noteQueue(l, "")
		w.foreignHold(l, r.owner, core.Alone, lease, func() { r.run("release", 0); w.noteQueue(l, "") })
		return
	}
	if w.ending || w.now-r.asked >= time.Duration(r.waitMs)*ms {
		r.run("leave", 0)
		r.end()
		w.cover.Fair.GaveUp++
		w.noteQueue(l, "")
		return
	}
	w.noteQueue(l, "")
	if !w.server.Subscribed(r.channel(), r.id) {
		w.server.Subscribe(r.channel(), r.id)
		r.in(w.set.latency) // it tries again once it is subscribed
		return
	}
	left := time.Duration(r.waitMs)*ms - (w.now - r.asked)
	r.in(min(max(time.Duration(ttl)*ms, 8*w.set.latency), left))
}

// run runs a script of Redisson. If it is an acquire that was refused, run returns when to try
// again, in milliseconds.
func (r *redisson) run(verb string, lease time.Duration) (ttl int64, refused bool) {
	l := r.name
	r.w.runAt(l.shard)
	answer := r.w.server.Redisson([]string{l.key, wire.QueueKey(l.key), wire.DeadlinesKey(l.key)},
		[]string{verb, r.owner, strconv.FormatInt(r.waitMs, 10), millis(lease), l.channel})
	if err, failed := answer.(resp.Error); failed && verb != "release" { // the record may be of another type then
		panic(err)
	}
	ttl, refused = answer.(int64)
	return ttl, refused
}

// in plans the next try.
func (r *redisson) in(d time.Duration) {
	r.timer++
	timer := r.timer
	r.w.after(d, func() {
		if r.timer == timer {
			r.try()
		}
	})
}

// end ends the wait of the thread.
func (r *redisson) end() {
	r.state = done
	r.w.waitingRedissons--
	r.w.server.Unsubscribe(r.channel(), r.id)
}

// FairCoverage counts what has happened to fair locks.
type FairCoverage struct {
	Told    uint64 `counts:"granted by message"`   // grants by message
	Front   uint64 `counts:"granted at the front"` // grants in memory while the place was in the queue
	GaveWay uint64 `counts:"gave way"`             // transfers that have given the lock back
	Missing uint64 `counts:"place missing"`        // answers that a place is gone
	Places  uint64 `counts:"channel of a place"`   // subscriptions to the channel of a place
	Dropped uint64 `counts:"place lost"`           // places that were lost although somebody waited
	GaveUp  uint64 `counts:"Redisson gave up"`     // threads of Redisson that gave up
}

// never says that nobody stands back, and that a manager that waits has a place, which a release
// removes.
func (fair) never(what string) bool {
	return slices.Contains([]string{"notice stood back", "fault count-refused", "phase idle→waiting", "phase waiting→idle",
		"phase releasing→waiting", "phase releasing→held"}, what)
}
