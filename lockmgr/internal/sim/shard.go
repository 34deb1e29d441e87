package sim

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
	"github.com/holdfast-go/holdfast/lockmgr/internal/sim/agenda"
)

// A shard is a master of a cluster. It serves some of the names. A single server is the only shard
// of its world. All shards keep their keys in the world's one server: the keys of a name belong to
// the shard that serves the name.
type shard struct {
	index       int
	down        bool
	silentUntil time.Duration // it is stopped until then
	stopped     []*command    // commands that it was sent meanwhile
	replaced    int           // how often another server has taken its place
	skew        time.Duration // how far its clock is ahead of the server's, for fair locks
}

// silent reports whether a shard is stopped.
func (w *world) silent(s *shard) bool { return w.now < s.silentUntil }

// sharded reports whether there is more than one shard.
func (w *world) sharded() bool { return len(w.shards) > 1 }

// addShards makes the shards and places the names on them.
func (w *world) addShards() {
	for i := range max(1, w.set.shards) {
		w.shards = append(w.shards, &shard{index: i})
	}
	for i, l := range w.names {
		l.shard = w.shards[0]
		if !l.isSet() {
			l.shard = w.shards[i%len(w.shards)]
		}
	}
}

// on returns the names that a shard serves.
func (w *world) on(s *shard) []*lockName {
	var out []*lockName
	for _, l := range w.single {
		if l.shard == s {
			out = append(out, l)
		}
	}
	return out
}

// drawShards chooses what a world with several shards has. In a calm world one of them may hang.
func (s *settings) drawShards(r *agenda.Rand) {
	s.shards = 2 + r.Below(2)
	s.names = max(s.names, s.shards)
	switch {
	case !s.calm:
		for _, f := range []Faults{MoveSlot, Failover} {
			if r.Percent(50) {
				s.faults |= f
			}
		}
	case r.Percent(60):
		s.hangs, s.faults = true, Silence
		s.quiet = r.LogBetween(8*s.think, 200*s.think)
	case r.Percent(50):
		s.faults |= MoveSlot
	}
}

// calmAt reports whether nothing goes wrong at the shard of a lock.
func (w *world) calmAt(l *lockName) bool {
	return w.set.calm && !(w.set.hangs && l.shard.index == 0) && !l.moved
}

// lookSoon lets a manager ask for the layout.
func (n *node) lookSoon(within time.Duration) {
	w := n.w
	if n.looking {
		return
	}
	n.looking = true
	w.after(w.fate.Between(w.set.latency/4, within), func() {
		n.looking = false
		for i, l := range w.names {
			n.layout[i] = l.shard
		}
		n.pubsub.follow()
	})
}

// lane returns the number of the shard that an answer to a command comes from. What a shard has
// refused because another serves the slot is sent by one more lane, with a number of its own.
func (c *command) lane() int {
	if c.astray {
		return len(c.n.w.shards)
	}
	return c.at.index
}

// redirected sends a command on if the shard that it has come to does not serve its name. It
// reports whether it has. again is what to do when the command arrives there.
func (c *command) redirected(again func()) bool {
	w := c.n.w
	if c.at == c.name.shard {
		return false
	}
	c.n.lookSoon(8 * w.set.latency)
	if c.answered { // the client has given it up
		return true
	}
	if w.tracing() {
		w.tracef(c.n.label, "(shard %d refused %s #%d: the name is on shard %d)", c.at.index, c.verb, c.id, c.name.shard.index)
	}
	w.cover.Shards.Redirected++
	c.at, c.astray = c.name.shard, true
	c.n.post(core.Queued{Name: c.name.key, Set: c.name.isSet(), ID: c.id, Shard: uint8(c.lane())})
	w.after(w.fate.Between(w.set.latency/4, w.set.latency), again)
	return true
}

// shardTrouble moves a name or fails a shard over, again and again.
func (w *world) shardTrouble() {
	if w.ending {
		return
	}
	w.after(w.fate.Between(w.set.quiet/4, w.set.quiet*2), w.shardTrouble)
	for _, s := range w.shards {
		w.leave(s)
	}
	l := w.single[w.fate.Below(len(w.single))]
	switch {
	case w.set.faults&MoveSlot != 0 && w.fate.Percent(50):
		w.move(l, w.shards[w.fate.Below(len(w.shards))])
	case w.set.faults&Failover != 0 && !l.shard.down && !w.silent(l.shard):
		w.failOver(l.shard)
	}
}

// leave lets the managers forget a shard that serves no name, as package wire does with a master
// that has left: no manager that has a script under way forgets it. Names that move there later
// find a new shard with the number of the old one.
func (w *world) leave(s *shard) {
	if len(w.on(s)) > 0 {
		return
	}
	w.readClock()
	for _, n := range w.nodes {
		busy := slices.ContainsFunc(n.flight, func(ids []uint64) bool { return len(ids) > 0 })
		if n.dead || n.closed || busy || slices.Contains(n.layout, s) {
			continue
		}
		w.cover.Shards.Left++
		n.health[s.index] = health{silentFrom: never, watched: n.health[s.index].watched}
		for i := range n.heardOf {
			if n.heardOf[i] == s.index {
				n.heardOf[i] = -1
			}
		}
		n.post(core.ShardGone{Shard: uint8(s.index)})
	}
}

// move moves a name to another shard. Its keys go along. The subscriptions to its channels end.
func (w *world) move(l *lockName, to *shard) {
	if l.shard == to || l.shard.down || to.down || w.silent(l.shard) || w.silent(to) {
		return
	}
	w.struck(MoveSlot)
	if w.tracing() {
		w.tracef("*", "FAULT move-slot: %s from shard %d to shard %d", l.key, l.shard.index, to.index)
	}
	from := l.shard
	w.after(w.fate.Between(0, 2*w.set.core.Lease), func() { w.leave(from) })
	l.shard, l.moved = to, true
	w.readClock()
	for _, n := range w.nodes {
		n.pubsub.slotMoved(l)
		n.lookSoon(w.set.core.Lease)
	}
}

// failOver lets a replica take the place of a shard's master. It does not have what the master
// wrote in the last moments.
func (w *world) failOver(s *shard) {
	w.struck(Failover)
	of := w.keysOf(w.on(s)...)
	data := w.server.Copy(of)
	w.after(w.fate.LogBetween(w.set.latency/8, 8*w.set.latency), func() {
		if s.down || w.silent(s) || w.ending {
			return
		}
		w.readClock()
		for _, l := range w.on(s) {
			of := w.keysOf(l)
			if !w.server.Differs(data, of) {
				w.cover.Shards.Survived++
				continue
			}
			w.cover.Shards.Reverted++
			w.lose(true, l)
			w.server.Restore(data, of)
			l.backUntil = w.now + 2*w.set.maxLease()
			for _, h := range w.holders(l) { // it may be one that was removed since
				l.strays[h.name] = max(l.strays[h.name], h.until)
			}
			w.watchRecord(l)
		}
		if s.replaced++; w.fate.Percent(50) {
			if s.skew = w.fate.LogBetween(ms, 10*time.Minute); w.fate.Percent(50) {
				s.skew = -s.skew
			}
		}
		if w.tracing() {
			w.tracef("*", "FAULT failover of shard %d, clock %v", s.index, s.skew)
		}
		w.takeDown(s, true)
	})
}

// runAt makes the world's server be that of a shard.
func (w *world) runAt(s *shard) {
	w.server.Skew, w.server.ReplicationID = s.skew, strconv.Itoa(100*s.index+s.replaced)
}

// keysOf returns a function that reports whether a key is one of these names. Their keys are one
// letter and one digit long, or have that in braces.
func (w *world) keysOf(names ...*lockName) func(key string) bool {
	return func(key string) bool {
		return slices.ContainsFunc(names, func(l *lockName) bool { return key == l.key || strings.Contains(key, "{"+l.key+"}") })
	}
}

// takeDown takes a shard down for a while. All connections to it are lost, with everything that was
// on its way. If another server takes its place, some connections for messages stay for a while.
func (w *world) takeDown(s *shard, replaced bool) {
	s.down = true
	d := w.fate.LogBetween(w.set.latency, w.set.core.Lease)
	for _, n := range w.nodes {
		back := w.fate.Between(0, 20*w.set.latency)
		if replaced && w.fate.Percent(50) {
			n.pubsub.demote(s)
			w.after(d+w.fate.Between(0, w.set.core.Lease), func() { n.pubsub.drop(s, back) })
		} else {
			n.pubsub.drop(s, d+back)
		}
	}
	w.after(d, func() { s.down = false })
}

// A shardError is an error of a command, with the number of the shard that it was sent to.
type shardError struct {
	shard int
	err   error
}

func (e *shardError) Error() string { return fmt.Sprintf("shard %d: %v", e.shard, e.err) }
func (e *shardError) Unwrap() error { return e.err }

// checkShard checks that a request fails because of the shard that serves its name, and of no
// other.
func (w *world) checkShard(c *call, err error) {
	var of *shardError
	if !w.sharded() || !errors.As(err, &of) || c.name.moved {
		return
	}
	w.cover.Shards.Failed++
	if of.shard != c.name.shard.index {
		w.violated("trouble stays where it is", "%s is on shard %d, and failed: %v", c, c.name.shard.index, err)
	}
}

// ShardCoverage counts what has happened in worlds with several shards.
type ShardCoverage struct {
	Redirected uint64 `counts:"command redirected"`            // commands that a shard has sent elsewhere
	Reverted   uint64 `counts:"name reverted by a failover"`   // names that were set back by a failover
	Survived   uint64 `counts:"name survived a failover"`      // names of a shard that failed over whose data stayed
	Failed     uint64 `counts:"request failed with its shard"` // requests that failed because of their shard
	Followed   uint64 `counts:"subscription followed"`         // subscriptions that followed their slot
	Beside     uint64 `counts:"grant beside a silent shard"`   // grants while another shard was silent
	Left       uint64 `counts:"shard forgotten"`               // shards that a manager has forgotten
}

// noteBeside counts a grant while another shard is silent.
func (w *world) noteBeside(l *lockName) {
	if slices.ContainsFunc(w.shards, func(s *shard) bool { return s != l.shard && w.silent(s) }) {
		w.cover.Shards.Beside++
	}
}
