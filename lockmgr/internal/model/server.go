package model

import (
	"errors"
	"math"
	"slices"
	"strconv"
	"time"
)

// The errors of a server.
var (
	ErrWrongType  = errors.New("WRONGTYPE Operation against a key holding the wrong kind of value")
	ErrNotInteger = errors.New("ERR value is not an integer or out of range")
	ErrOverflow   = errors.New("ERR increment or decrement would overflow")
	ErrOOM        = errors.New("OOM command not allowed when used memory > 'maxmemory'")
)

// A Server is one Redis server with the commands that the lock scripts use. Its
// zero value is an empty server. It is not safe for concurrent use.
type Server struct {
	// Now is the server's clock, from any origin. It must not go back.
	Now time.Duration
	// Deliver is called for each subscriber of a channel that a message is
	// published to. It may be nil, and must not call the Server.
	Deliver func(subscriber int, channel, payload string)

	// OOM makes commands that need memory fail. PublishErr and NumSubErr, if
	// not nil, are the errors of PUBLISH and PUBSUB NUMSUB.
	OOM                   bool
	PublishErr, NumSubErr error

	keys        map[string]*value
	subscribers map[string][]int
}

// A Field is one entry of a hash.
type Field struct{ Name, Value string }

// forever is the end of a key without a TTL.
const forever = math.MaxInt64

type value struct {
	kind kind
	hash []Field
	text string

	members []Member // of a sorted set, by score
	list    []string

	end int64 // the last millisecond of its life, or forever
}

type kind uint8

const (
	hash kind = iota + 1
	text
	zset
	list
	other // a stream, say
)

func (s *Server) ms() int64 { return int64(s.Now / time.Millisecond) }

// get returns a key's value, or nil. It removes a key that has expired.
func (s *Server) get(key string) *value {
	v := s.keys[key]
	if v != nil && s.ms() > v.end {
		delete(s.keys, key)
		return nil
	}
	return v
}

func (s *Server) put(key string, v *value) {
	if s.keys == nil {
		s.keys = make(map[string]*value)
	}
	s.keys[key] = v
}

// getHash returns a hash, or nil if there is no such key.
func (s *Server) getHash(key string) (*value, error) {
	v := s.get(key)
	if v != nil && v.kind != hash {
		return nil, ErrWrongType
	}
	return v, nil
}

func (v *value) field(name string) int {
	return slices.IndexFunc(v.hash, func(f Field) bool { return f.Name == name })
}

func (s *Server) hexists(key, field string) (bool, error) {
	v, err := s.getHash(key)
	return v != nil && v.field(field) >= 0, err
}

func (s *Server) hset(key, field, val string) error {
	if s.OOM {
		return ErrOOM
	}
	v, err := s.getHash(key)
	if err != nil {
		return err
	}
	if v == nil {
		v = &value{kind: hash, end: forever}
		s.put(key, v)
	}
	if i := v.field(field); i >= 0 {
		v.hash[i].Value = val
	} else {
		v.hash = append(v.hash, Field{field, val})
	}
	return nil
}

// hdel removes fields. A hash without fields is removed, too.
func (s *Server) hdel(key string, fields []string) error {
	v, err := s.getHash(key)
	if v == nil {
		return err
	}
	for _, f := range fields {
		if i := v.field(f); i >= 0 {
			v.hash = slices.Delete(v.hash, i, i+1)
		}
	}
	if len(v.hash) == 0 {
		delete(s.keys, key)
	}
	return nil
}

// pttl returns a key's remaining life in milliseconds, -1 if it has no end, -2 if
// there is no such key.
func (s *Server) pttl(key string) int64 {
	switch v := s.get(key); {
	case v == nil:
		return -2
	case v.end == forever:
		return -1
	default:
		return v.end - s.ms()
	}
}

func (s *Server) pexpire(key string, ms int64) {
	v := s.get(key)
	switch {
	case v == nil:
	case ms <= 0:
		delete(s.keys, key)
	default:
		v.end = s.ms() + ms
	}
}

func (s *Server) del(key string) bool {
	there := s.get(key) != nil
	delete(s.keys, key)
	return there
}

func (s *Server) incrby(key string, by int64) (int64, error) {
	if s.OOM {
		return 0, ErrOOM
	}
	v := s.get(key)
	if v == nil {
		v = &value{kind: text, text: "0", end: forever}
	}
	if v.kind != text {
		return 0, ErrWrongType
	}
	n, err := strconv.ParseInt(v.text, 10, 64)
	if err != nil {
		return 0, ErrNotInteger
	}
	if by > 0 && n > math.MaxInt64-by || by < 0 && n < math.MinInt64-by {
		return 0, ErrOverflow
	}
	n += by
	v.text = strconv.FormatInt(n, 10)
	s.put(key, v)
	return n, nil
}

func (s *Server) publish(channel, payload string) (int64, error) {
	if s.PublishErr != nil {
		return 0, s.PublishErr
	}
	to := s.subscribers[channel]
	if s.Deliver != nil {
		for _, sub := range to {
			s.Deliver(sub, channel, payload)
		}
	}
	return int64(len(to)), nil
}

// numsub returns the number of a channel's subscribers, or -1 if that is refused.
func (s *Server) numsub(channel string) int64 {
	if s.NumSubErr != nil {
		return -1
	}
	return int64(len(s.subscribers[channel]))
}

// Subscribe adds a subscriber to a channel. A second call changes nothing.
func (s *Server) Subscribe(channel string, subscriber int) {
	if s.Subscribed(channel, subscriber) {
		return
	}
	if s.subscribers == nil {
		s.subscribers = make(map[string][]int)
	}
	s.subscribers[channel] = append(s.subscribers[channel], subscriber)
}

// Unsubscribe removes a subscriber from a channel.
func (s *Server) Unsubscribe(channel string, subscriber int) {
	subs := s.subscribers[channel]
	if i := slices.Index(subs, subscriber); i >= 0 {
		s.subscribers[channel] = slices.Delete(subs, i, i+1)
	}
}

// Exists reports whether a key exists.
func (s *Server) Exists(key string) bool { return s.get(key) != nil }

// Subscribed reports whether a subscriber listens on a channel.
func (s *Server) Subscribed(channel string, subscriber int) bool {
	return slices.Contains(s.subscribers[channel], subscriber)
}

// Publish sends a message and returns how many subscribers it reached.
func (s *Server) Publish(channel, payload string) (int64, error) {
	return s.publish(channel, payload)
}
