package sim

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
	"github.com/holdfast-go/holdfast/lockmgr/internal/sim/server"
)

// stop stops a shard for a while. Then it runs the commands that it was sent meanwhile, or another
// server with its data takes over and they are lost.
func (w *world) stop(s *shard) {
	c := &w.set.core
	d := w.fate.LogBetween(w.set.timeout, 2*c.RetryTime+4*w.set.timeout+c.Lease)
	s.silentUntil = w.now + d
	dies := w.fate.Percent(30)
	w.after(d, func() {
		commands := s.stopped
		s.stopped = nil
		if dies {
			for _, n := range w.nodes {
				n.pubsub.drop(s, w.fate.Between(0, 20*w.set.latency))
			}
			return
		}
		for _, c := range commands {
			if c.name.shard != s {
				continue // it is refused; its client has given it up
			}
			a := c.run()
			if w.tracing() {
				w.tracef(c.n.label, "(server ran %s #%d %v when it went on: %s)", c.verb, c.id, c.owners, &a)
			}
			w.after(w.fate.Between(w.set.latency/8, w.set.latency/2), func() { c.answer(a) })
		}
	})
}

// errCounter is the error of a script that could not take tokens.
var errCounter = errors.New("the token counter is of a wrong type")

// spoilCounter replaces a lock's token counter with a value of a wrong type. The value expires, and
// then tokens begin at 1 again.
func (w *world) spoilCounter(l *lockName) {
	l.counterEpoch++
	life := w.fate.LogBetween(ms, w.set.core.Lease)
	if w.fate.Percent(50) {
		w.setList(l.counter, life)
	} else {
		w.server.Do("SET", l.counter, "many", "PX", millis(life))
	}
}

// setList replaces a key with one that is neither a hash nor a string.
func (w *world) setList(key string, life time.Duration) {
	w.server.Do("DEL", key)
	w.server.Do("RPUSH", key, "x")
	w.server.Do("PEXPIRE", key, millis(life))
}

// millis returns a life for the server, at least a millisecond.
func millis(d time.Duration) string { return strconv.FormatInt(max(1, int64(d/ms)), 10) }

// readError returns the answer to a command whose script ended with an error.
func (c *command) readError(a *answer) answer {
	w := c.n.w
	out := answer{Reply: core.Reply{Ran: a.Ran, Err: a.Err, Final: a.Final}}
	is := func(of string) bool { return strings.HasPrefix(a.Err.Error(), of) }
	if c.tokens > 0 && (is(server.NotInteger) || is(server.Overflow) || is(server.WrongType) && w.areLocks(c.name)) {
		out.Err = fmt.Errorf("%w: %w", errCounter, a.Err)
	}
	if is(server.OOM) && w.fate.Percent(50) { // the client does not hear why
		out.Ran, out.Final = core.Maybe, false
	}
	return out
}

// A ban is a refusal that lasts until a true time.
type ban struct {
	until    time.Duration
	releases bool // of releases only
}

// forbid makes the server refuse a manager's scripts for a lock for a while, or its releases only.
// The latter may last until the record has expired and others have had the lock.
func (n *node) forbid(l *lockName) {
	w := n.w
	b := ban{until: w.now + w.fate.LogBetween(w.set.latency, 2*w.set.core.Lease)}
	switch {
	case w.set.together > 0:
		b.until += w.set.core.Lease
	case w.fate.Percent(50):
		b.releases = true
		b.until += w.set.core.Lease + w.fate.LogBetween(w.set.latency, 8*time.Second)
	}
	n.forbidden[l.index] = b
}

// refuses reports whether the server refuses a manager's script for a lock, or for one of several,
// now.
func (n *node) refuses(l *lockName, verb core.Verb) bool {
	for _, l := range l.bases() {
		if b := n.forbidden[l.index]; b.until > n.w.now && (!b.releases || verb == core.VerbRelease) {
			return true
		}
	}
	return false
}
