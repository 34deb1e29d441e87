package model

import "slices"

// Plain is how a set wants a lock that one owner has at a time. The other ways are
// Read and Write.
const Plain = "plain"

// A Part is one lock of a set, and how the set wants it. Prefix is that of a
// read-write lock.
type Part struct {
	ReadWrite
	Want string
}

// Several is the reply of several_acquire.
type Several struct {
	OK        bool
	Tokens    []string // one for each part, if they were asked for
	Item      int      // the position, from 1, of the first part that others have
	TTL       int64    // of its record
	OtherKind bool     // its record is of another kind
}

// AcquireSeveral takes all parts for owners[0], or none. If others have one, and gatherMs
// is not zero, it takes those that are free for that time.
func (s *Server) AcquireSeveral(parts []Part, leaseMs, gatherMs int64, tokens bool, owners ...string) (Several, error) {
	var free []Part
	var refused Several
	for i, p := range parts {
		ttl, blocked, other, err := s.blocked(p, owners)
		switch {
		case err != nil:
			return Several{}, err
		case !blocked:
			free = append(free, p)
		case other:
			return Several{Item: i + 1, TTL: ttl, OtherKind: true}, nil
		case refused.Item == 0:
			refused = Several{Item: i + 1, TTL: ttl}
			if gatherMs == 0 {
				return refused, nil
			}
		}
	}
	if refused.Item > 0 {
		if s.OOM && len(free) > 0 {
			return Several{}, ErrOOM
		}
		for _, p := range free {
			s.takePart(p, gatherMs, owners)
		}
		return refused, nil
	}
	out := Several{OK: true}
	for _, p := range parts {
		if tokens {
			side := p.Want
			if side == Plain {
				side = Write
			}
			token, err := s.sideTokens(p.ReadWrite, side, 1)
			if err != nil {
				return Several{}, err
			}
			out.Tokens = append(out.Tokens, token)
		}
	}
	if s.OOM {
		return Several{}, ErrOOM
	}
	for _, p := range parts {
		s.takePart(p, leaseMs, owners)
	}
	return out, nil
}

// blocked reports whether a part can't be taken, for how long its record lives, and
// whether that is of another kind.
func (s *Server) blocked(p Part, owners []string) (ttl int64, is, other bool, err error) {
	mode, err := s.mode(p.Lock)
	if err != nil || s.get(p.Lock) == nil {
		return 0, false, false, err
	}
	ttl = s.pttl(p.Lock)
	switch {
	case p.Want == Plain && mode != "":
		return ttl, true, true, nil
	case p.Want == Plain:
		ours, err := s.carriesOne(p.Lock, owners)
		return ttl, !ours, !ours && known(s.holder(p.Lock)), err
	case mode == "":
		return ttl, true, true, nil
	case mode == Read && p.Want == Read:
		return 0, false, false, nil
	}
	for _, f := range s.fields(p.Lock) {
		own := f.Name == "mode" || slices.ContainsFunc(owners, func(o string) bool { return f.Name == o || f.Name == o+writer })
		if !own && (mode == Write || s.readerLife(p.ReadWrite, f) >= 0) {
			return ttl, true, false, nil
		}
	}
	return 0, false, false, nil
}

// takePart makes a part that is not blocked owners[0]'s.
func (s *Server) takePart(p Part, leaseMs int64, owners []string) {
	if p.Want == Plain {
		_ = s.hset(p.Lock, owners[0], "1")
		s.pexpire(p.Lock, leaseMs)
		_ = s.hdel(p.Lock, owners[1:])
		return
	}
	others, ttl := false, int64(-1)
	if s.get(p.Lock) != nil {
		ttl = s.pttl(p.Lock)
		for _, o := range owners {
			_ = s.hdel(p.Lock, []string{o, o + writer})
			s.del(p.ReaderKey(o, 1))
		}
		if p.Want == Write {
			s.del(p.Lock)
		}
		others = len(s.fields(p.Lock)) > 1
	}
	_ = s.hset(p.Lock, "mode", p.Want)
	if p.Want == Read {
		s.del(p.ReaderKey(owners[0], 1)) // it may live for longer, without the record
	}
	_ = s.record(p.ReadWrite, p.Want, owners[0], leaseMs)
	if !others || ttl >= 0 && ttl < leaseMs {
		s.pexpire(p.Lock, leaseMs)
	}
}

// A ReleasedSeveral is the reply of several_release.
type ReleasedSeveral struct {
	Done        int   // parts that were released
	Told        int   // messages that were published
	Subscribers int64 // the most that one of them reached, or -1
	PublishErr  error // why a message was not published, or nil
}

// ReleaseSeveral removes what the records of the parts have of owners.
func (s *Server) ReleaseSeveral(parts []Part, owners ...string) ReleasedSeveral {
	out := ReleasedSeveral{Subscribers: -1}
	for _, p := range parts {
		r, err := s.releasePart(p, owners)
		if err != nil || !r.OK { // of another type, so not ours
			continue
		}
		out.Done++
		switch {
		case r.PublishErr != nil:
			out.PublishErr = r.PublishErr
		case !r.Quiet:
			out.Told++
			out.Subscribers = max(out.Subscribers, r.Subscribers)
		}
	}
	return out
}

func (s *Server) releasePart(p Part, owners []string) (Released, error) {
	switch {
	case p.Want == Plain && len(owners) == 1: // the only field that the record can have
		has, err := s.hexists(p.Lock, owners[0])
		if !has {
			return Released{}, err
		}
		_ = s.hdel(p.Lock, owners)
		n, err := s.publish(p.Channel, "0")
		return Released{OK: true, Subscribers: n, PublishErr: err}, nil
	case p.Want == Plain:
		return s.Release(p.Lock, p.Channel, owners...)
	}
	return s.ReleaseSide(p.ReadWrite, owners...)
}

// RenewSeveral extends all parts if each still has the owner, and reports whether.
func (s *Server) RenewSeveral(parts []Part, leaseMs int64, owner string) (bool, error) {
	for _, p := range parts {
		field := owner
		if p.Want == Write {
			field += writer
		}
		if has, _ := s.hexists(p.Lock, field); !has { // gone, or of another type
			return false, nil
		}
	}
	for _, p := range parts {
		if p.Want != Plain {
			if _, err := s.RenewSide(p.ReadWrite, p.Want, leaseMs, owner); err != nil {
				return false, err
			}
		} else if s.pttl(p.Lock) < leaseMs {
			s.pexpire(p.Lock, leaseMs)
		}
	}
	return true, nil
}
