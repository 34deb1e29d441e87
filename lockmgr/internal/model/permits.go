package model

import (
	"cmp"
	"math"
	"slices"
	"strconv"
)

// Permits are the keys of the permits of a name: the counter of those that are free, and
// the set of those that are taken. Gatherer names the manager that gathers.
type Permits struct {
	Counter, Taken, Channel, Gatherer string
}

// A Member is a member of a sorted set. The score of a permit is the instant at which it
// expires.
type Member struct {
	Name  string
	Score int64
}

// noEnd is the least score of a permit that does not expire.
const noEnd = 922337203685477

// permitOf returns the ID of permit i of a holder.
func permitOf(holder string, i int) string {
	return holder + string([]byte{byte(i / 256), byte(i % 256)})
}

// Holder returns the holder of a permit.
func (m *Member) Holder() string { return m.Name[:max(0, len(m.Name)-2)] }

// Taken returns the permits that are taken, with those that have expired, by their scores.
func (s *Server) Taken(key string) []Member {
	v := s.get(key)
	if v == nil || v.kind != zset {
		return nil
	}
	return v.members
}

// Expired reports whether a permit has expired.
func (s *Server) Expired(m Member) bool { return m.Score <= s.ms() }

func (s *Server) getSet(key string) (*value, error) {
	v := s.get(key)
	if v != nil && v.kind != zset {
		return nil, ErrWrongType
	}
	return v, nil
}

func (v *value) member(name string) int {
	if v == nil {
		return -1
	}
	return slices.IndexFunc(v.members, func(m Member) bool { return m.Name == name })
}

func (s *Server) zadd(key string, add ...Member) {
	v, _ := s.getSet(key)
	if v == nil {
		v = &value{kind: zset, end: forever}
		s.put(key, v)
	}
	for _, m := range add {
		if i := v.member(m.Name); i >= 0 {
			v.members[i].Score = m.Score
		} else {
			v.members = append(v.members, m)
		}
	}
	slices.SortFunc(v.members, func(a, b Member) int {
		return cmp.Or(cmp.Compare(a.Score, b.Score), cmp.Compare(a.Name, b.Name))
	})
}

func (s *Server) zrem(key string, gone []Member) {
	v, _ := s.getSet(key)
	if v == nil {
		return
	}
	v.members = slices.DeleteFunc(v.members, func(m Member) bool {
		return slices.ContainsFunc(gone, func(g Member) bool { return g.Name == m.Name })
	})
	if len(v.members) == 0 {
		delete(s.keys, key)
	}
}

// free returns the counter, and whether it is there.
func (s *Server) free(key string) (n int64, there bool, err error) {
	v := s.get(key)
	switch {
	case v == nil:
		return 0, false, nil
	case v.kind != text:
		return 0, true, ErrWrongType
	}
	n, err = strconv.ParseInt(v.text, 10, 64)
	if err != nil {
		err = ErrWrongType
	}
	return n, true, err
}

// of returns the permits of some holders.
func (s *Server) of(p Permits, most int, holders []string) (out []Member, err error) {
	v, err := s.getSet(p.Taken)
	for _, h := range holders {
		for i := range most {
			if at := v.member(permitOf(h, i)); at >= 0 {
				out = append(out, v.members[at])
			}
		}
	}
	return out, err
}

// AcquirePermits takes n permits for holders[0]. Each holder may have most of them, and is of
// the manager.
func (s *Server) AcquirePermits(p Permits, n int, limit, leaseMs, gatherMs int64, most int, manager string, holders ...string) (Acquired, error) {
	free, there, err := s.free(p.Counter)
	if v := s.get(p.Counter); v != nil && v.kind == hash {
		return Acquired{TTL: -1, OtherKind: true}, nil
	}
	if err != nil {
		return Acquired{}, err
	}
	own, err := s.of(p, most, holders)
	if err != nil {
		return Acquired{}, err
	}
	if first, err := s.of(p, n, holders[:1]); err == nil && s.live(first, n) {
		return Acquired{OK: true}, nil // a copy of this has run
	}
	var gone []Member
	for _, m := range s.Taken(p.Taken) {
		if s.Expired(m) && len(gone) < 1000 {
			gone = append(gone, m)
		}
	}
	for _, m := range own {
		if !slices.Contains(gone, m) {
			gone = append(gone, m)
		}
	}
	if !there {
		if s.OOM {
			return Acquired{}, ErrOOM
		}
		free = limit - int64(len(s.Taken(p.Taken)))
		s.put(p.Counter, &value{kind: text, text: strconv.FormatInt(free, 10), end: forever})
	}
	free += int64(len(gone))
	take, life := 0, leaseMs
	who := s.get(p.Gatherer)
	ours := who == nil || who.kind == text && who.text == manager
	gathers := ours && gatherMs > 0 && int64(n) <= free+int64(len(s.Taken(p.Taken))-len(gone))
	reserved := !ours && who.kind == text && who.end != forever
	switch {
	case reserved:
	case free >= int64(n):
		take = n
	case gathers:
		take, life = int(max(0, min(free, int64(n)))), gatherMs
	}
	if s.OOM && len(gone) == 0 && take > 0 && there {
		return Acquired{}, ErrOOM
	}
	s.zrem(p.Taken, gone)
	s.addTo(p.Counter, int64(len(gone)-take))
	var add []Member
	for i := range take {
		add = append(add, Member{permitOf(holders[0], i), s.ms() + life})
	}
	if take > 0 {
		s.zadd(p.Taken, add...)
		if ttl := s.pttl(p.Counter); ttl > 0 {
			s.pexpire(p.Taken, ttl)
		}
	}
	if free > int64(take) && (len(gone) > take || gathers && who != nil && take == n) {
		_, _ = s.publish(p.Channel, strconv.FormatInt(free-int64(take), 10))
	}
	if take == n {
		if gathers {
			s.del(p.Gatherer)
		}
		return Acquired{OK: true}, nil
	}
	if all := free - int64(take) + int64(len(s.Taken(p.Taken))); int64(n) > all && all > 0 {
		return Acquired{Limit: all}, nil
	}
	if gathers {
		s.put(p.Gatherer, &value{kind: text, text: manager, end: s.ms() + gatherMs})
	}
	ttl := int64(-1)
	if first := s.Taken(p.Taken); len(first) > 0 && first[0].Score < noEnd {
		ttl = max(0, first[0].Score-s.ms())
	}
	if left := s.pttl(p.Gatherer); reserved && (ttl < 0 || ttl > left) {
		ttl = max(1, left)
	}
	return Acquired{TTL: ttl, Gathered: gathers}, nil
}

// addTo adds to a counter. The script has written before, so that memory is no reason to
// fail.
func (s *Server) addTo(key string, by int64) int64 {
	oom := s.OOM
	s.OOM = false
	n, _ := s.incrby(key, by)
	s.OOM = oom
	return n
}

// live reports whether there are n permits, none of which has expired.
func (s *Server) live(members []Member, n int) bool {
	return len(members) == n && !slices.ContainsFunc(members, s.Expired)
}

// TransferPermits makes the n permits of one of the holders those of holders[0].
func (s *Server) TransferPermits(p Permits, n int, leaseMs int64, holders ...string) (Transferred, error) {
	for i, h := range holders {
		recorded := i == 0
		old, err := s.of(p, n, []string{h})
		if err != nil {
			return Transferred{}, err
		}
		if !s.live(old, n) {
			continue
		}
		var add []Member
		for i, m := range old {
			end := s.ms() + leaseMs
			if recorded {
				end = max(m.Score, end)
			}
			add = append(add, Member{permitOf(holders[0], i), end})
		}
		s.zrem(p.Taken, old)
		s.zadd(p.Taken, add...)
		return Transferred{OK: true, Subscribers: s.numsub(p.Channel)}, nil
	}
	return Transferred{}, nil
}

// RenewPermits extends the n permits of a holder, and reports whether it has all of them.
func (s *Server) RenewPermits(p Permits, n int, leaseMs int64, holder string) bool {
	own, err := s.of(p, n, []string{holder})
	if err != nil || !s.live(own, n) {
		return false
	}
	for i := range own {
		own[i].Score = max(own[i].Score, s.ms()+leaseMs)
	}
	s.zadd(p.Taken, own...)
	return true
}

// ReleasedPermits is the reply of permits_release.
type ReleasedPermits struct {
	Given       int   // permits that had not expired
	Subscribers int64 // how many the message reached, or -1 if there was none
	PublishErr  error // why the message was not published, or nil
}

// ReleasePermits gives back the permits that holders have, up to most each. gatherer is their
// manager if it gathers no more, else empty.
func (s *Server) ReleasePermits(p Permits, most int, gatherer string, holders ...string) (ReleasedPermits, error) {
	out := ReleasedPermits{Subscribers: -1}
	free, there, err := s.free(p.Counter)
	if v := s.get(p.Counter); v != nil && v.kind != text {
		return out, nil
	}
	own, wrong := s.of(p, most, holders)
	if wrong != nil {
		return out, wrong
	}
	who := s.get(p.Gatherer)
	ends := gatherer != "" && who != nil && who.text == gatherer
	if ends {
		s.del(p.Gatherer)
	}
	if len(own) == 0 {
		if ends && err == nil && free > 0 {
			_, _ = s.publish(p.Channel, strconv.FormatInt(free, 10))
		}
		return out, nil
	}
	if err != nil { // the counter is no number
		return out, ErrNotInteger
	}
	for _, m := range own {
		if !s.Expired(m) {
			out.Given++
		}
	}
	s.zrem(p.Taken, own)
	if !there {
		return out, nil
	}
	if free := s.addTo(p.Counter, int64(len(own))); free > 0 {
		out.Subscribers, out.PublishErr = s.publish(p.Channel, strconv.FormatInt(free, 10))
		if out.PublishErr != nil {
			out.Subscribers = -1
		}
	}
	return out, nil
}

// ReturnPermits gives back permits by their IDs, all or none.
func (s *Server) ReturnPermits(p Permits, ids ...string) bool {
	var own []Member
	for _, id := range ids {
		i := s.keys[p.Taken].member(id)
		if i < 0 || s.Expired(s.keys[p.Taken].members[i]) {
			return false
		}
		own = append(own, s.keys[p.Taken].members[i])
	}
	s.zrem(p.Taken, own)
	if s.get(p.Counter) != nil {
		if free := s.addTo(p.Counter, int64(len(own))); free > 0 {
			_, _ = s.publish(p.Channel, strconv.FormatInt(free, 10))
		}
	}
	return true
}

// Free returns the counter of free permits.
func (s *Server) Free(p Permits) int64 {
	n, _, _ := s.free(p.Counter)
	return n
}

// SetScore changes when a permit expires, if it is taken.
func (s *Server) SetScore(key, name string, score int64) {
	if v, _ := s.getSet(key); v.member(name) >= 0 {
		s.zadd(key, Member{name, score})
	}
}

// LimitPermits sets how many permits there are to n, or to n more. limit counts if there is no
// counter. It returns how many there are, or -1 if that is out of range.
func (s *Server) LimitPermits(p Permits, add bool, n, limit int64) int64 {
	taken := int64(len(s.Taken(p.Taken)))
	was := limit
	free, there, _ := s.free(p.Counter)
	if there {
		was = free + taken
	}
	if add {
		n += was
	}
	if n < 0 || n > math.MaxInt32 {
		return -1
	}
	end := int64(forever)
	if there {
		end = s.get(p.Counter).end
	}
	s.put(p.Counter, &value{kind: text, text: strconv.FormatInt(n-taken, 10), end: end})
	if n > taken && (n > was || !there) {
		_, _ = s.publish(p.Channel, strconv.FormatInt(n-taken, 10))
	} else if n < was {
		_, _ = s.publish(p.Channel, "0")
	}
	return n
}

// Text returns a string.
func (s *Server) Text(key string) string {
	if v := s.get(key); v != nil && v.kind == text {
		return v.text
	}
	return ""
}
