package model

import (
	"slices"
	"strconv"
	"time"
)

// An Acquired is the reply of the acquire script.
type Acquired struct {
	OK bool
	// TTL is, if not OK, the remaining life of the other holder's record in
	// milliseconds; -1 if it has no end.
	TTL int64
	// Token is the last of the tokens taken, as text; "" if none were asked for.
	Token string
	// OtherKind says that the record is of another kind of lock.
	OtherKind bool
	// Limit is how many permits there are, if more were asked for, or 0.
	Limit int64
	// Gathered says that it has kept what was free, though it is not OK.
	Gathered bool
}

// Acquire takes a lock for owners[0], if it is free or carries one of owners.
// An error means that the script ended at a command that was refused.
func (s *Server) Acquire(lock, counter string, leaseMs, tokens int64, owners ...string) (Acquired, error) {
	least := s.leastLife(lock, owners[0])
	if s.get(lock) != nil {
		ours, err := s.carriesOne(lock, owners)
		if err != nil {
			return Acquired{}, err
		}
		if !ours {
			return Acquired{TTL: s.pttl(lock), OtherKind: known(s.holder(lock))}, nil
		}
	}
	last, err := s.install(lock, counter, tokens, owners[0])
	if err != nil {
		return Acquired{}, err
	}
	s.pexpire(lock, max(least, leaseMs))
	if err := s.hdel(lock, owners[1:]); err != nil {
		return Acquired{}, err
	}
	return Acquired{OK: true, Token: last}, nil
}

// A Transferred is the reply of the transfer script.
type Transferred struct {
	Kept        bool // nothing was done, because others share the entry
	OK          bool
	Subscribers int64  // of the channel; -1 if the server would not say
	Token       string // the last of the tokens taken, or ""
}

// Transfer records owners[0] in a record that carries one of owners.
func (s *Server) Transfer(lock, channel, counter string, leaseMs, tokens int64, owners ...string) (Transferred, error) {
	ours, err := s.carriesOne(lock, owners)
	if err != nil || !ours {
		return Transferred{}, err
	}
	least := s.leastLife(lock, owners[0])
	last, err := s.install(lock, counter, tokens, owners[0])
	if err != nil {
		return Transferred{}, err
	}
	s.pexpire(lock, max(least, leaseMs))
	if err := s.hdel(lock, owners[1:]); err != nil {
		return Transferred{}, err
	}
	return Transferred{OK: true, Subscribers: s.numsub(channel), Token: last}, nil
}

// leastLife returns the life in milliseconds that a script which records an owner must leave the
// record at least: what is left of it if it has that owner already.
func (s *Server) leastLife(lock, owner string) int64 {
	if recorded, _ := s.hexists(lock, owner); recorded {
		return s.pttl(lock)
	}
	return -1
}

// carriesOne reports whether a record carries one of owners.
func (s *Server) carriesOne(lock string, owners []string) (bool, error) {
	for _, o := range owners {
		if has, err := s.hexists(lock, o); err != nil || has {
			return has, err
		}
	}
	return false, nil
}

// install takes tokens, then records an owner.
func (s *Server) install(lock, counter string, tokens int64, owner string) (last string, err error) {
	if tokens != 0 {
		n, err := s.incrby(counter, tokens)
		if err != nil {
			return "", err
		}
		last = strconv.FormatInt(n, 10)
	}
	return last, s.hset(lock, owner, "1")
}

// Renew extends the records of locks that still carry their owners, and
// returns the positions (from 1) of those that do not.
func (s *Server) Renew(leaseMs int64, locks, owners []string) (lost []int, err error) {
	for i, lock := range locks {
		switch mine, err := s.hexists(lock, owners[i]); {
		case err == nil && mine:
			if s.pttl(lock) < leaseMs {
				s.pexpire(lock, leaseMs)
			}
		case err == nil || err == ErrWrongType:
			lost = append(lost, i+1)
		default:
			return nil, err
		}
	}
	return lost, nil
}

// A Released is the reply of the release script.
type Released struct {
	OK          bool
	Quiet       bool  // others share the lock, so there was no message
	Subscribers int64 // how many the message reached
	PublishErr  error // why the message was not published, or nil
}

// Release removes a record that carries one of owners and publishes "0".
func (s *Server) Release(lock, channel string, owners ...string) (Released, error) {
	ours, err := s.carriesOne(lock, owners)
	if err != nil || !ours {
		return Released{}, err
	}
	s.del(lock)
	n, err := s.publish(channel, "0")
	return Released{OK: true, Subscribers: n, PublishErr: err}, nil
}

// Reserve gives a record that carries one of owners another name and a life of ms, and
// publishes "0".
func (s *Server) Reserve(lock, channel string, ms int64, owners ...string) (Released, error) {
	ours, err := s.carriesOne(lock, owners)
	if err != nil || !ours {
		return Released{}, err
	}
	s.pexpire(lock, ms)
	v, _ := s.getHash(lock)
	name := owners[slices.IndexFunc(owners, func(o string) bool { return v.field(o) >= 0 })]
	if s.hset(lock, name+":kept", "1") == nil {
		_ = s.hdel(lock, owners)
	}
	n, err := s.publish(channel, "0")
	return Released{OK: true, Subscribers: n, PublishErr: err}, nil
}

// Force removes a record that has exactly the given fields, and publishes "0". It
// returns 1 if it did, 0 if there is no record, -1 if it has other fields.
func (s *Server) Force(lock, channel string, fields ...string) (int64, error) {
	v, err := s.getHash(lock)
	switch {
	case err != nil:
		return 0, err
	case v == nil:
		return 0, nil
	case len(v.hash) != len(fields):
		return -1, nil
	}
	for _, f := range fields {
		if v.field(f) < 0 {
			return -1, nil
		}
	}
	s.del(lock)
	_, _ = s.publish(channel, "0") // the script ignores a failure, too
	return 1, nil
}

// An Inspection is the reply of the inspect script.
type Inspection struct {
	TTL         int64  // in milliseconds; -1: no end, -2: no such key
	Subscribers int64  // -1 if the server would not say
	Token       string // the last one given; "" if none was
	Holders     []Field
}

// Inspect returns all that the server knows of a lock.
func (s *Server) Inspect(lock, channel, counter string) (Inspection, error) {
	in := Inspection{TTL: s.pttl(lock), Subscribers: s.numsub(channel)}
	if v := s.get(counter); v != nil {
		if v.kind != text {
			return Inspection{}, ErrWrongType
		}
		in.Token = v.text
	}
	v, err := s.getHash(lock)
	if err != nil {
		return Inspection{}, err
	}
	if v != nil {
		in.Holders = append(in.Holders, v.hash...)
	}
	return in, nil
}

// Del removes a key without a message, as eviction does.
func (s *Server) Del(key string) bool { return s.del(key) }

// Flush removes every key. Subscriptions stay.
func (s *Server) Flush() { clear(s.keys) }

// Persist removes a key's TTL. It reports whether the key had one.
func (s *Server) Persist(key string) bool {
	v := s.get(key)
	if v == nil || v.end == forever {
		return false
	}
	v.end = forever
	return true
}

// Expire gives a key a TTL in milliseconds.
func (s *Server) Expire(key string, ms int64) { s.pexpire(key, ms) }

// SetHash replaces a key's value with a hash. ms is its TTL in milliseconds; zero
// means no end.
func (s *Server) SetHash(key string, ms int64, fields ...Field) {
	s.put(key, &value{kind: hash, hash: append([]Field(nil), fields...), end: s.endIn(ms)})
}

// SetString replaces a key's value with a string.
func (s *Server) SetString(key, val string, ms int64) {
	s.put(key, &value{kind: text, text: val, end: s.endIn(ms)})
}

// SetOther replaces a key's value with one that is neither a hash nor a string.
func (s *Server) SetOther(key string, ms int64) {
	s.put(key, &value{kind: other, end: s.endIn(ms)})
}

func (s *Server) endIn(ms int64) int64 {
	if ms == 0 {
		return forever
	}
	return s.ms() + ms
}

// Fields returns a hash's fields, which must not be changed, and the instant on the
// server's clock up to which its key exists. It returns nil and zero if there is no
// such hash.
func (s *Server) Fields(key string) ([]Field, time.Duration) {
	v, err := s.getHash(key)
	if v == nil || err != nil {
		return nil, 0
	}
	if v.end == forever {
		return v.hash, forever
	}
	return v.hash, time.Duration(v.end) * time.Millisecond
}

// IsLock reports whether a key is free or a hash, as the key of a lock is.
func (s *Server) IsLock(key string) bool {
	_, err := s.getHash(key)
	return err == nil
}

// Len returns the number of keys.
func (s *Server) Len() int {
	n := 0
	for key := range s.keys {
		if s.get(key) != nil {
			n++
		}
	}
	return n
}

// End returns until when a key is sure to be there, by the clock that the server
// reads, and whether it is there.
func (s *Server) End(key string) (time.Duration, bool) {
	v := s.get(key)
	switch {
	case v == nil:
		return 0, false
	case v.end == forever:
		return forever, true
	}
	return time.Duration(v.end) * time.Millisecond, true
}
