package model

import (
	"slices"
	"strconv"
	"strings"
)

// The sides of a read-write lock, as its record has them in the field mode.
const (
	Read  = "read"
	Write = "write"
)

const writer = ":write" // the end of a writer's field

// A ReadWrite is the keys of one read-write lock.
type ReadWrite struct {
	Lock, Channel, Counter string
	Prefix                 string // of the keys of its readers
}

// ReaderKey returns the key whose end is that of a reader's hold.
func (l ReadWrite) ReaderKey(holder string, i int) string {
	return l.Prefix + ":" + holder + ":rwlock_timeout:" + strconv.Itoa(i)
}

// mode returns the mode of a record, or "" if there is none or it has none.
func (s *Server) mode(lock string) (string, error) {
	v, err := s.getHash(lock)
	if v == nil {
		return "", err
	}
	if i := v.field("mode"); i >= 0 {
		return v.hash[i].Value, nil
	}
	return "", nil
}

// readerLife returns the remaining life of a reader's hold in milliseconds, negative if
// it is over.
func (s *Server) readerLife(l ReadWrite, f Field) int64 {
	n, _ := strconv.Atoi(f.Value)
	life := int64(-2)
	for i := range n {
		life = max(life, s.pttl(l.ReaderKey(f.Name, i+1)))
	}
	return life
}

// fields returns a copy of a hash's fields.
func (s *Server) fields(key string) []Field {
	v, _ := s.getHash(key)
	if v == nil {
		return nil
	}
	return append([]Field(nil), v.hash...)
}

// AcquireSide takes a side of a read-write lock for owners[0].
func (s *Server) AcquireSide(l ReadWrite, side string, leaseMs, tokens int64, owners ...string) (Acquired, error) {
	mode, err := s.mode(l.Lock)
	if err != nil {
		return Acquired{}, err
	}
	others, ttl := false, int64(-1)
	switch {
	case mode != "":
		ttl = s.pttl(l.Lock)
		for _, o := range owners {
			_ = s.hdel(l.Lock, []string{o, o + writer})
			s.del(l.ReaderKey(o, 1))
		}
		if mode == Read && side == Write {
			for _, f := range s.fields(l.Lock) {
				if f.Name != "mode" && s.readerLife(l, f) < 0 {
					_ = s.hdel(l.Lock, []string{f.Name})
				}
			}
		}
		others = len(s.fields(l.Lock)) > 1
		if others && (mode == Write || side == Write) {
			return Acquired{TTL: ttl}, nil
		}
	case s.get(l.Lock) != nil:
		return Acquired{TTL: s.pttl(l.Lock), OtherKind: true}, nil
	}
	last, err := s.sideTokens(l, side, tokens)
	if err != nil {
		return Acquired{}, err
	}
	if err := s.hset(l.Lock, "mode", side); err != nil {
		return Acquired{}, err
	}
	if err := s.record(l, side, owners[0], leaseMs); err != nil {
		return Acquired{}, err
	}
	if !others || ttl >= 0 && ttl < leaseMs {
		s.pexpire(l.Lock, leaseMs)
	}
	return Acquired{OK: true, Token: last}, nil
}

// sideTokens takes tokens for a writer, or reads the last one for a reader.
func (s *Server) sideTokens(l ReadWrite, side string, tokens int64) (string, error) {
	switch {
	case tokens == 0:
		return "", nil
	case side == Read && s.get(l.Counter) != nil:
		tokens = 0
	case side == Read:
		tokens = 1
	}
	n, err := s.incrby(l.Counter, tokens)
	return strconv.FormatInt(n, 10), err
}

// record writes a holder into a record whose mode is its side.
func (s *Server) record(l ReadWrite, side, owner string, leaseMs int64) error {
	if side == Write {
		return s.hset(l.Lock, owner+writer, "1")
	}
	if s.OOM {
		return ErrOOM
	}
	if key := l.ReaderKey(owner, 1); s.pttl(key) < leaseMs {
		s.SetString(key, "1", leaseMs)
	}
	return s.hset(l.Lock, owner, "1")
}

// TransferSide records owners[0] where one of owners is recorded.
func (s *Server) TransferSide(l ReadWrite, side string, leaseMs, tokens int64, owners ...string) (Transferred, error) {
	mode, err := s.mode(l.Lock)
	if err != nil || mode == "" {
		return Transferred{}, err
	}
	suffix := ""
	if mode == Write {
		suffix = writer
	}
	if ours := slices.ContainsFunc(owners, func(o string) bool {
		has, _ := s.hexists(l.Lock, o+suffix)
		return has
	}); !ours {
		return Transferred{}, nil
	}
	recorded, _ := s.hexists(l.Lock, owners[0]+suffix)
	whole := leaseMs // the life of the record
	for _, f := range s.fields(l.Lock) {
		if side == Read && mode == Read && !slices.Contains(owners, f.Name) && f.Name != "mode" {
			whole = max(whole, s.readerLife(l, f))
		}
	}
	if mode == Read && side == Write {
		for _, f := range s.fields(l.Lock) {
			switch {
			case f.Name == "mode" || slices.Contains(owners, f.Name):
			case s.readerLife(l, f) >= 0:
				return Transferred{Kept: true}, nil
			default:
				_ = s.hdel(l.Lock, []string{f.Name})
			}
		}
	}
	last, err := s.sideTokens(l, side, tokens)
	if err != nil {
		return Transferred{}, err
	}
	if mode != side {
		if err := s.hset(l.Lock, "mode", side); err != nil {
			return Transferred{}, err
		}
	}
	life := leaseMs
	for _, o := range owners {
		if recorded {
			life = max(life, s.pttl(l.ReaderKey(o, 1)))
		}
	}
	if err := s.record(l, side, owners[0], life); err != nil {
		return Transferred{}, err
	}
	switch ttl := s.pttl(l.Lock); {
	case !recorded:
		s.pexpire(l.Lock, whole)
	case ttl < leaseMs && (ttl >= 0 || mode == Write):
		s.pexpire(l.Lock, leaseMs)
	}
	for i, o := range owners {
		if i > 0 || side == Read {
			_ = s.hdel(l.Lock, []string{o + writer})
		}
		if i > 0 || side == Write {
			_ = s.hdel(l.Lock, []string{o})
			s.del(l.ReaderKey(o, 1))
		}
	}
	if mode == Write && side == Read {
		_, _ = s.publish(l.Channel, "1")
	}
	return Transferred{OK: true, Subscribers: s.numsub(l.Channel), Token: last}, nil
}

// ReleaseSide removes what a record has of owners. If nobody is left it removes the
// record and publishes.
func (s *Server) ReleaseSide(l ReadWrite, owners ...string) (Released, error) {
	mode, err := s.mode(l.Lock)
	if err != nil || mode == "" {
		return Released{}, err
	}
	released, wrote := false, false
	for _, o := range owners {
		if has, _ := s.hexists(l.Lock, o); has {
			released = true
			s.del(l.ReaderKey(o, 1))
		}
		if has, _ := s.hexists(l.Lock, o+writer); has {
			released, wrote = true, true
		}
		_ = s.hdel(l.Lock, []string{o, o + writer})
	}
	if !released {
		return Released{}, nil
	}
	left, longest, before := false, int64(0), s.pttl(l.Lock)
	for _, f := range s.fields(l.Lock) {
		life := s.readerLife(l, f)
		switch {
		case strings.HasSuffix(f.Name, writer):
			left, longest = true, max(longest, s.pttl(l.Lock))
		case life >= 0:
			left, longest = true, max(longest, life)
		case f.Name != "mode":
			_ = s.hdel(l.Lock, []string{f.Name})
		}
	}
	switch {
	case !left:
		s.del(l.Lock)
	case wrote:
		_ = s.hset(l.Lock, "mode", Read)
		s.pexpire(l.Lock, max(longest, 1))
	case longest*2 < before: // those who wait have been told a much later end
		s.pexpire(l.Lock, max(longest, 1))
	default:
		s.pexpire(l.Lock, max(longest, 1))
		return Released{OK: true, Quiet: true, Subscribers: s.numsub(l.Channel)}, nil
	}
	payload := "0"
	if wrote {
		payload = "1"
	}
	n, err := s.publish(l.Channel, payload)
	return Released{OK: true, Subscribers: n, PublishErr: err}, nil
}

// RenewSide extends an entry that is still there, and reports whether it is.
func (s *Server) RenewSide(l ReadWrite, side string, leaseMs int64, owner string) (bool, error) {
	field := owner
	if side == Write {
		field += writer
	}
	has, err := s.hexists(l.Lock, field)
	if !has {
		if err == ErrWrongType {
			err = nil
		}
		return false, err
	}
	if key := l.ReaderKey(owner, 1); side == Read && s.pttl(key) < leaseMs {
		if s.OOM {
			return false, ErrOOM
		}
		s.SetString(key, "1", leaseMs)
	}
	if ttl := s.pttl(l.Lock); ttl < leaseMs && (ttl >= 0 || side == Write) {
		s.pexpire(l.Lock, leaseMs)
	}
	return true, nil
}
