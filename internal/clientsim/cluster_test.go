package clientsim

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-go/holdfast/internal/resp"
)

// addresses are those of the servers.
func (w *world) addresses() (out []string) {
	if w.set.servers == 1 {
		return []string{"sim:0"}
	}
	for i := range w.set.servers {
		out = append(out, fmt.Sprintf("sim:%d", 7000+i))
	}
	return out
}

// serverAt returns the server at an address.
func (w *world) serverAt(addr string) *server {
	_, port, _ := strings.Cut(addr, ":")
	if n, _ := strconv.Atoi(port); n >= 7000 {
		return w.servers[n-7000]
	}
	return w.servers[0]
}

const slots = 16384

// slotOf returns the slot of a key in a cluster.
func slotOf(key string) uint16 {
	if i := strings.IndexByte(key, '{'); i >= 0 {
		if j := strings.IndexByte(key[i+1:], '}'); j > 0 {
			key = key[i+1 : i+1+j]
		}
	}
	crc := uint16(0)
	for i := range len(key) {
		crc = crc<<8 ^ crcs[byte(crc>>8)^key[i]]
	}
	return crc % slots
}

// crcs has the CRC-16 (XMODEM) of each byte.
var crcs = func() (t [256]uint16) {
	for i := range t {
		crc := uint16(i) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
		t[i] = crc
	}
	return t
}()

// ownerOf returns the server of a slot.
func (w *world) ownerOf(slot uint16) *server {
	if w.set.servers == 1 {
		return w.servers[0]
	}
	if i, moved := w.slots[slot]; moved {
		return w.servers[i]
	}
	return w.servers[int(slot)*w.set.servers/slots]
}

// serverOf returns the server that has a key, or would get it.
func (w *world) serverOf(key string) *server {
	slot := slotOf(key)
	if m := w.moving[slot]; m != nil && m.to.keys.Get(key) != nil {
		return m.to
	}
	return w.ownerOf(slot)
}

func (w *world) keysOf(key string) keyspace { return w.serverOf(key).keys }

// elsewhere returns the answer to a command whose keys are not here, or nil. asking says that the
// client sent ASKING before.
func (s *server) elsewhere(keys []string, asking bool) any {
	if s.w.set.servers == 1 || len(keys) == 0 {
		return nil
	}
	slot := slotOf(keys[0])
	if slices.ContainsFunc(keys, func(key string) bool { return slotOf(key) != slot }) {
		return failure("CROSSSLOT Keys in request don't hash to the same slot")
	}
	m := s.w.moving[slot]
	if m == nil || m.to == s && !asking {
		return s.moved(keys[0])
	}
	here := 0
	for _, key := range keys {
		if s.keys.Get(key) != nil {
			here++
		}
	}
	switch {
	case here == len(keys), m.to == s && len(keys) == 1:
		return nil
	case m.to == s || here > 0:
		s.w.seen["tryagain"]++
		return failure("TRYAGAIN Multiple keys request during rehashing of slot")
	}
	s.w.seen["ask"]++
	return failure(fmt.Sprintf("ASK %d sim:%d", slot, 7000+m.to.index))
}

// moved returns MOVED if another server has the slot of a key or a channel, or nil.
func (s *server) moved(key string) any {
	if at := s.w.ownerOf(slotOf(key)); at != s {
		return failure(fmt.Sprintf("MOVED %d sim:%d", slotOf(key), 7000+at.index))
	}
	return nil
}

// keysIn returns the keys of a command of a script.
func keysIn(call []string) []string {
	switch key := keyOf(call); {
	case key == "":
		return nil
	case strings.EqualFold(call[0], "EXISTS"), strings.EqualFold(call[0], "DEL"):
		return call[1:]
	default:
		return []string{key}
	}
}

// cluster answers CLUSTER.
func (s *server) cluster(args []string) any {
	switch {
	case s.w.set.servers == 1:
		return failure("ERR This instance has cluster support disabled")
	case len(args) > 1 && strings.EqualFold(args[1], "MYID"):
		return nodeID(s.index)
	case len(args) > 1 && strings.EqualFold(args[1], "SLOTS"):
		return s.w.layout()
	case len(args) > 1 && strings.EqualFold(args[1], "INFO"):
		return fmt.Sprintf("cluster_state:ok\r\ncluster_size:%d\r\n", s.w.set.servers)
	}
	return failure("ERR unknown subcommand '" + strings.Join(args[1:], " ") + "', which this simulation lacks")
}

// nodeID is the ID of a server in a cluster.
func nodeID(index int) string { return fmt.Sprintf("node%d", 7000+index) }

// layout is the answer to CLUSTER SLOTS.
func (w *world) layout() (out []any) {
	moved := slices.Sorted(maps.Keys(w.slots))
	add := func(from, to, at int) {
		if from <= to {
			out = append(out, []any{int64(from), int64(to), []any{"sim", int64(7000 + at), nodeID(at)}})
		}
	}
	for i := range w.set.servers {
		from, end := (i*slots+w.set.servers-1)/w.set.servers, ((i+1)*slots+w.set.servers-1)/w.set.servers
		for _, slot := range moved {
			if slot := int(slot); slot >= from && slot < end {
				add(from, slot-1, i)
				add(slot, slot, w.slots[uint16(slot)])
				from = slot + 1
			}
		}
		add(from, end-1, i)
	}
	return out
}

// A migration is a slot on its way to another server, key by key.
type migration struct {
	from, to *server
	slot     uint16
	began    time.Time
}

// move moves one key. w.mu is held.
func (m *migration) move(key string) {
	v, there := m.from.keys.Get(key), m.to.keys.Get(key) != nil
	if v == nil {
		return
	}
	w := m.from.w
	w.tracef("%q moves to server %d", key, m.to.index)
	if delete(m.from.keys.Values, key); !there {
		m.to.keys.Values[key] = v
	} else if !m.from.failedOver(m.began) && !m.to.failedOver(m.began) {
		w.fail("promise5", "a script has made %q at the new server of its slot, and the old one has it too", key)
	}
	for _, s := range []*server{m.from, m.to} {
		s.touch([]string{"DEL", key})
		s.replicate(nil)
	}
	w.movedAt[m.slot], w.movedIn[m.slot] = time.Now(), m.to.offset
}

// moveSlot gives the slot of a name to another server: at once, or a key at a time. w.mu is held.
func (w *world) moveSlot(r *rand.Rand, name string, lasts time.Duration) {
	slot := slotOf(name)
	from := w.ownerOf(slot)
	if w.set.servers == 1 || from.stopped > 0 || w.moving[slot] != nil {
		return
	}
	to := w.servers[(from.index+1)%len(w.servers)]
	// A replica that has become the master may have missed that the slot moved away before.
	maps.DeleteFunc(to.keys.Values, func(key string, _ *value) bool { return slotOf(key) == slot })
	m := &migration{from, to, slot, time.Now()}
	if r.IntN(2) == 0 {
		m.end()
		return
	}
	w.tracef("slot %d of %q begins to move from server %d to server %d", slot, name, from.index, to.index)
	w.moving[slot] = m
	var keys []string
	for key := range from.keys.Values {
		if slotOf(key) == slot {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	r.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	for i, key := range keys {
		w.afterwards(lasts*time.Duration(i+1)/time.Duration(len(keys)+1), func() { m.move(key) })
	}
	for _, h := range w.hosts {
		h.excuse(lasts)
	}
	w.afterwards(lasts, m.end)
}

// end gives the slot to the new server, with all keys that are left. w.mu is held.
func (m *migration) end() {
	w, from, to := m.from.w, m.from, m.to
	w.tracef("slot %d goes from server %d to server %d", m.slot, from.index, to.index)
	for key := range from.keys.Values {
		if slotOf(key) == m.slot {
			m.move(key)
		}
	}
	delete(w.moving, m.slot)
	w.slots[m.slot], w.movedAt[m.slot], w.movedIn[m.slot] = to.index, time.Now(), to.offset
	for channel, subs := range from.subscribers {
		if slotOf(channel) == m.slot && w.set.kinds&classic == 0 {
			for _, c := range append([]*conn(nil), subs...) {
				from.unsubscribe(c, channel)
				c.reply(resp.Append(nil, resp.Push{"sunsubscribe", channel, int64(len(c.subscribed))}), "")
			}
		}
	}
	for _, n := range w.names {
		if slotOf(n) == m.slot {
			w.mets = append(w.mets, met{movedSlot, nil, n, span{m.began, time.Now()}})
		}
	}
	for _, h := range w.hosts {
		h.excuse(0)
	}
}

// movedSince reports whether the slot of a name has moved since an instant. w.mu is held.
func (w *world) movedSince(name string, since time.Time) bool {
	at, moved := w.movedAt[slotOf(name)]
	return moved && !at.Before(since)
}

// A replica has all that its master had written up to an offset.
type replica struct {
	keys   keyspace
	offset int64
	behind []written
	cutOff time.Time // it gets nothing before
}

// A written is the change of some keys by one command.
type written struct {
	at     time.Time // when the replica has it
	offset int64
	keys   map[string]*value // nil: removed
}

// catchUp has a replica do what it has got.
func (r *replica) catchUp(now time.Time) {
	for len(r.behind) > 0 && !r.behind[0].at.After(now) {
		w := r.behind[0]
		r.behind, r.offset = r.behind[1:], w.offset
		for key, v := range w.keys {
			if delete(r.keys.Values, key); v != nil {
				r.keys.Values[key] = v
			}
		}
	}
}

// touch notes that a command has changed its keys.
func (s *server) touch(args []string) {
	if len(s.replicas) == 0 {
		return
	}
	if s.touched == nil {
		s.touched = make(map[string]bool)
	}
	if s.touched[args[1]] = true; strings.EqualFold(args[0], "DEL") {
		for _, key := range args[2:] {
			s.touched[key] = true
		}
	}
}

// replicate sends the changes of a command to the replicas.
func (s *server) replicate(c *conn) {
	if len(s.touched) == 0 {
		return
	}
	s.offset++
	if c != nil {
		c.written = s.offset
	}
	now := time.Now()
	for _, r := range s.replicas {
		keys := make(map[string]*value, len(s.touched))
		for key := range s.touched {
			if v := s.keys.Get(key); v != nil {
				keys[key] = v.Copy()
			} else {
				keys[key] = nil
			}
		}
		at := later(now, r.cutOff).Add(s.w.set.lag)
		if s.w.cheat == lying {
			at = at.Add(time.Hour)
		}
		if n := len(r.behind); n > 0 {
			at = later(at, r.behind[n-1].at)
		}
		r.behind = append(r.behind, written{at, s.offset, keys})
	}
	clear(s.touched)
}

// acked returns how many replicas have told the master that they have an offset. That takes as long
// as the way to them.
func (s *server) acked(offset int64) (n int64) {
	for _, r := range s.replicas {
		r.catchUp(time.Now().Add(-s.w.set.lag))
		if r.offset >= offset || s.w.cheat == lying {
			n++
		}
	}
	return n
}

// wait answers WAIT, now or later.
func (s *server) wait(c *conn, args []string) []byte {
	want, _ := strconv.ParseInt(args[1], 10, 64)
	timeout, _ := strconv.ParseInt(args[2], 10, 64)
	end := time.Now().Add(time.Duration(timeout) * time.Millisecond)
	target := c.written
	if n := s.acked(target); n >= want {
		return resp.Append(nil, n)
	}
	var look func()
	look = func() {
		s.w.mu.Lock()
		defer s.w.mu.Unlock()
		n := s.acked(target)
		switch {
		case c.broken || c.closed:
		case n >= want || !time.Now().Before(end):
			c.reply(resp.Append(nil, n), "")
		default:
			time.AfterFunc(ms/2, look)
		}
	}
	time.AfterFunc(ms/2, look)
	return nil
}

// failedOver reports whether the server has failed over since an instant.
func (s *server) failedOver(since time.Time) bool {
	return len(s.failed) > 0 && !s.failed[len(s.failed)-1].Before(since)
}

// hasRevived reports whether a failover has brought back a holder that the record of a name has
// now. w.mu is held.
func (w *world) hasRevived(name string) bool {
	return slices.ContainsFunc(w.keysOf(name).names(name), func(h string) bool { return slices.Contains(w.revived[name], h) })
}

// failOver has the replica that has most take the place of its master. w.mu is held.
func (w *world) failOver(r interface{ IntN(int) int }) {
	s := w.servers[r.IntN(len(w.servers))]
	if len(s.replicas) == 0 || s.stopped > 0 {
		return
	}
	now := time.Now()
	best := s.replicas[0]
	for _, o := range s.replicas {
		if o.catchUp(now); o.offset > best.offset {
			best = o
		}
	}
	var lost []string
	w.tracef("server %d fails, %d of %d changes are lost", s.index, s.offset-best.offset, s.offset)
	for _, name := range w.names {
		if w.serverOf(name) == s {
			w.note(failover, nil, name, 0)
			// Replicas count for a slot that has moved from the next renewal on.
			if w.set.acks == 0 && s.offset > best.offset || best.offset < w.movedIn[slotOf(name)] {
				lost = append(lost, name)
			}
			delete(w.movedIn, slotOf(name))
			had := s.keys.names(name)
			for _, h := range best.keys.names(name) {
				if h != "mode" && !slices.Contains(had, h) {
					w.revived[name] = append(w.revived[name], h)
				}
			}
			if now, before := best.keys.Get(takenOf(name)), s.keys.Get(takenOf(name)); now != nil {
				for _, m := range now.Members {
					if _, there := before.Score(m.Name); !there {
						w.revived[name] = append(w.revived[name], m.Name)
					}
				}
			}
		}
	}
	s.keys, s.offset = best.keys, best.offset
	s.failed = append(s.failed, now)
	if s.keys.Skew = 0; w.set.kinds&counted == 0 && r.IntN(2) == 0 { // permits end by the clock
		s.keys.Skew = (time.Duration(r.IntN(1200)) - 600) * sec
	}
	clear(s.known)
	for i := range s.replicas {
		s.replicas[i] = &replica{keys: s.w.newKeyspace(), offset: s.offset}
		for key, v := range s.keys.Values {
			s.replicas[i].keys.Values[key] = v.Copy()
		}
	}
	for _, h := range w.hosts {
		for _, c := range h.conns {
			if c.to == s {
				c.cut(false)
			}
		}
		h.excuse(0)
	}
	for _, name := range lost {
		w.book.dataLost(name)
	}
}

// forget removes the keys of a name. w.mu is held.
func (w *world) forget(name string) {
	for _, s := range w.servers {
		maps.DeleteFunc(s.keys.Values, func(key string, _ *value) bool { return slotOf(key) == slotOf(name) })
	}
	w.book.dataLost(name)
}

// cutReplica has one replica get nothing for a time. w.mu is held.
func (w *world) cutReplica(r interface{ IntN(int) int }, lasts time.Duration) {
	s := w.servers[r.IntN(len(w.servers))]
	if len(s.replicas) > 0 {
		i, now := r.IntN(len(s.replicas)), time.Now()
		w.tracef("a replica of server %d gets nothing for %v", s.index, lasts)
		o := s.replicas[i]
		o.cutOff = later(o.cutOff, now.Add(lasts))
		s.outages = append(s.outages, outage{i, span{now, now.Add(lasts)}})
	}
}

// An outage is a time in which a replica gets nothing.
type outage struct {
	replica int
	span
}

// tooFew reports whether so many replicas of a server were cut off in a span that renewals could
// not be confirmed for nearly half of a lease or longer. w.mu is held.
func (s *server) tooFew(in span) bool {
	cutOff := make(map[int]bool)
	for _, c := range s.outages {
		if c.overlaps(in) && c.to.Sub(c.from) >= s.w.set.lease*2/5 {
			cutOff[c.replica] = true
		}
	}
	return len(s.replicas)-len(cutOff) < s.w.set.acks
}

// queueOf, takenOf and permitPrefix return names of keys, and the first bytes of the permits of a
// manager.
func queueOf(name string) string { return "redisson_lock_queue:{" + name + "}" }

func takenOf(name string) string { return "{" + name + "}:timeout" }

func permitPrefix(mgr string) string {
	id := uuid.MustParse(mgr)
	return string(id[:8])
}
