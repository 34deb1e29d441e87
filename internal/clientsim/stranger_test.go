package clientsim

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A stranger is one use of a name by a client like Redisson. It talks to the server without a
// network, keeps to the layout of the records, and knows none of our rules.
type stranger struct {
	name string
	span
}

// strangerID begins the holder IDs of strangers.
const strangerID = "0badf00d-0000-4000-8000-000000000000"

// planStrangers has strangers use some names.
func (w *world) planStrangers(r *rand.Rand) {
	for i := range 4 + r.IntN(12) {
		r := w.rng(7000, i)
		name := w.names[r.IntN(len(w.names))]
		at := time.Duration(r.Int64N(int64(w.set.life)))
		patience := time.Now().Add(at + logBetween(r, ms, 10*sec))
		w.after(at, func() { w.stranger(r, name, fmt.Sprintf("%s:%d", strangerID, i+1), patience) })
	}
}

// stranger takes a name as soon as it is free, holds it, and gives it back, or dies.
func (w *world) stranger(r *rand.Rand, name, id string, patience time.Time) {
	hold := logBetween(r, ms, min(w.set.lease, 5*sec))
	dies := r.IntN(4) == 0
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.serverOf(name)
	if w.over || s.stopped > 0 || w.moving[slotOf(name)] != nil {
		return
	}
	kind := w.kindOf(name)
	took := false
	now := time.Now()
	switch v := s.keys.Get(name); {
	case kind == fair:
		w.strangeWait(r, s, name, id)
		return
	case v == nil && kind == plain:
		s.keys.setHash(name, 2*hold+sec, id, "1")
		took = true
	case v == nil && kind == reader:
		if r.IntN(2) == 0 {
			s.keys.setHash(name, 2*hold+sec, "mode", "write", id+":write", "1")
		} else {
			s.keys.setHash(name, 2*hold+sec, "mode", "read", id, "1")
			s.plain([]string{"SET", "{" + name + "}:" + id + ":rwlock_timeout:1", "1", "PX", fmt.Sprint((2*hold + sec).Milliseconds())})
		}
		took = true
	}
	taken, permit := takenOf(name), permitHolder(id)+"\x00\x00"
	free, _ := strconv.Atoi(s.textOf(name))
	if kind == permits && free > 0 {
		s.plain([]string{"INCRBY", name, "-1"})
		s.plain([]string{"ZADD", taken, s.keys.in(2*hold + sec), permit})
		took = true
	}
	if !took {
		w.strangers = append(w.strangers, stranger{name, span{now, now}})
		if now.Before(patience) {
			w.after(logBetween(r, ms, sec), func() { w.stranger(r, name, id, patience) })
		}
		return
	}
	s.touch([]string{"DEL", name})
	s.replicate(nil)
	w.tracef("a stranger has %q for %v (dies: %v)", name, hold, dies)
	lasts := hold
	if dies {
		lasts = 2*hold + sec
	}
	w.strangers = append(w.strangers, stranger{name, span{now, now.Add(lasts)}})
	w.seen[redisson.String()]++
	if dies {
		return
	}
	w.afterwards(hold, func() {
		s := w.serverOf(name)
		if kind == permits {
			if s.plain([]string{"ZREM", taken, permit}) == any(int64(1)) {
				free := s.plain([]string{"INCRBY", name, "1"})
				s.publish("redisson_sc:{"+name+"}", fmt.Sprint(free))
			}
			return
		}
		if !slices.ContainsFunc(s.keys.names(name), func(f string) bool { return strings.HasPrefix(f, id) }) {
			return
		}
		w.tracef("a stranger gives %q back", name)
		s.plain([]string{"HDEL", name, id, id + ":write"})
		s.plain([]string{"DEL", "{" + name + "}:" + id + ":rwlock_timeout:1"})
		channel := "redisson_rwlock:{" + name + "}"
		if kind == plain {
			channel = "redisson_lock__channel:{" + name + "}"
		}
		if fields := s.keys.names(name); len(fields) == 1 && fields[0] == "mode" {
			s.plain([]string{"DEL", name})
		}
		s.publish(channel, "0")
	})
}

// publish sends a message of a stranger, as the last command of it.
func (s *server) publish(channel, text string) {
	publish := "PUBLISH"
	if s.w.set.servers > 1 && s.w.set.kinds&classic == 0 {
		publish = "SPUBLISH"
	}
	s.plain([]string{publish, channel, text})
	s.replicate(nil)
}

// textOf returns a text, or "".
func (s *server) textOf(key string) string {
	if v := s.keys.Get(key); v != nil {
		return v.Text
	}
	return ""
}

// strangeWait has a stranger wait for a fair lock for a while, in vain, if anybody is before it.
// w.mu is held.
func (w *world) strangeWait(r *rand.Rand, s *server, name, id string) {
	if s.keys.Get(name) == nil {
		return
	}
	lasts := logBetween(r, 10*ms, 3*sec)
	now := time.Now()
	queue, deadlines := queueOf(name), "redisson_lock_timeout:{"+name+"}"
	w.tracef("a stranger waits for %q for %v", name, lasts)
	s.plain([]string{"RPUSH", queue, id})
	s.plain([]string{"ZADD", deadlines, s.keys.in(5 * sec), id})
	s.replicate(nil)
	w.strangers = append(w.strangers, stranger{name, span{now, now.Add(lasts)}})
	w.seen[redisson.String()]++
	w.afterwards(lasts, func() {
		s := w.serverOf(name)
		w.tracef("a stranger gives up %q", name)
		s.plain([]string{"ZREM", deadlines, id})
		s.plain([]string{"LREM", queue, "0", id})
		s.replicate(nil)
	})
}

// strangerAt reports whether a stranger has used a name in a span, or has left its record. w.mu is
// held.
func (w *world) strangerAt(name string, in span) bool {
	return slices.ContainsFunc(w.strangers, func(s stranger) bool { return s.name == name && s.overlaps(in) })
}

// trailOf returns what the server has seen of a holder ID of a name, or nil. w.mu is held.
func (w *world) trailOf(name, id string) *trail {
	if w.kindOf(name) == permits && len(id) > 36 {
		id = permitHolder(id)
	}
	for _, s := range w.servers {
		if t := s.trails[id]; t != nil {
			return t
		}
	}
	return nil
}

// permitHolder returns the bytes with which the IDs of the permits of a hold begin.
func permitHolder(id string) string {
	mgr, number, _ := strings.Cut(id, ":")
	n, _ := strconv.ParseUint(number, 10, 64)
	return permitPrefix(mgr) + string(binary.BigEndian.AppendUint64(nil, n)[2:])
}

// takenAt returns when a script first took a hold or passed it on, or zero. w.mu is held.
func (w *world) takenAt(h *hold) time.Time {
	if t := w.trailOf(h.name, h.lock.HolderID()); t != nil {
		return t.first
	}
	return time.Time{}
}
