package clientsim

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// keyspace is the data of a server: hashes, texts and things of other types,
// each with an end or without.
type keyspace map[string]*value

type value struct {
	kind   kind
	fields []string // of a hash, in the order in which they came
	hash   map[string]string
	text   string
	end    int64 // the last millisecond of its life; never if zero
}

type kind uint8

const (
	hashKind kind = iota + 1
	textKind
	listKind
)

const wrongType = failure("WRONGTYPE Operation against a key holding the wrong kind of value")

func nowMs() int64 { return time.Now().UnixMilli() }

// get returns the value of a key, or nil. A key that has expired is removed.
func (k keyspace) get(key string) *value {
	v := k[key]
	if v != nil && v.end != 0 && nowMs() > v.end {
		delete(k, key)
		return nil
	}
	return v
}

// fields returns the fields of a hash, nil where there is none.
func (k keyspace) fields(key string) []string {
	if v := k.get(key); v != nil && v.kind == hashKind {
		return v.fields
	}
	return nil
}

// life returns how long a key will be there, negative if it has no end, zero
// if it is not there.
func (k keyspace) life(key string) time.Duration {
	v := k.get(key)
	switch {
	case v == nil:
		return 0
	case v.end == 0:
		return -1
	}
	return time.Duration(v.end-nowMs()+1) * time.Millisecond
}

func (k keyspace) setHash(key string, life time.Duration, pairs ...string) {
	v := &value{kind: hashKind, hash: make(map[string]string)}
	for i := 0; i < len(pairs); i += 2 {
		v.set(pairs[i], pairs[i+1])
	}
	if life > 0 {
		v.end = nowMs() + life.Milliseconds()
	}
	k[key] = v
}

func (v *value) set(field, text string) (added int64) {
	if _, ok := v.hash[field]; !ok {
		v.fields = append(v.fields, field)
		added = 1
	}
	v.hash[field] = text
	return added
}

// A keyCommand is a command on one key, args[1]. v is nil where there is no
// such key.
type keyCommand struct {
	kind kind // what the key must hold; any if zero
	min  int  // of words
	run  func(k keyspace, v *value, args []string) any
}

var keyCommands = map[string]keyCommand{
	"EXISTS": {0, 2, func(k keyspace, v *value, args []string) any { return truth(v != nil) }},
	"TYPE": {0, 2, func(k keyspace, v *value, args []string) any {
		if v == nil {
			return status("none")
		}
		return status([...]string{"", "hash", "string", "list"}[v.kind])
	}},
	"DEL": {0, 2, func(k keyspace, v *value, args []string) any {
		n := int64(0)
		for _, key := range args[1:] {
			n += truth(k.get(key) != nil)
			delete(k, key)
		}
		return n
	}},
	"PTTL": {0, 2, func(k keyspace, v *value, args []string) any {
		switch {
		case v == nil:
			return int64(-2)
		case v.end == 0:
			return int64(-1)
		}
		return v.end - nowMs()
	}},
	"PEXPIRE": {0, 3, func(k keyspace, v *value, args []string) any {
		ms, err := strconv.ParseInt(args[2], 10, 64)
		switch {
		case err != nil:
			return failure("ERR value is not an integer or out of range")
		case v == nil:
			return int64(0)
		case ms <= 0:
			delete(k, args[1])
		default:
			v.end = nowMs() + ms
		}
		return int64(1)
	}},
	"HEXISTS": {hashKind, 3, func(k keyspace, v *value, args []string) any {
		return truth(v != nil && slices.Contains(v.fields, args[2]))
	}},
	"HGET": {hashKind, 3, func(k keyspace, v *value, args []string) any {
		if v == nil || !slices.Contains(v.fields, args[2]) {
			return nil
		}
		return v.hash[args[2]]
	}},
	"HLEN": {hashKind, 2, func(k keyspace, v *value, args []string) any {
		if v == nil {
			return int64(0)
		}
		return int64(len(v.fields))
	}},
	"HGETALL": {hashKind, 2, func(k keyspace, v *value, args []string) any {
		out := []any{}
		if v != nil {
			for _, f := range v.fields {
				out = append(out, f, v.hash[f])
			}
		}
		return out
	}},
	"HSET": {hashKind, 4, func(k keyspace, v *value, args []string) any {
		if v == nil {
			v = &value{kind: hashKind, hash: make(map[string]string)}
			k[args[1]] = v
		}
		n := int64(0)
		for i := 2; i+1 < len(args); i += 2 {
			n += v.set(args[i], args[i+1])
		}
		return n
	}},
	"HDEL": {hashKind, 3, func(k keyspace, v *value, args []string) any {
		n := int64(0)
		for _, f := range args[2:] {
			if i := -1; v != nil {
				if i = slices.Index(v.fields, f); i >= 0 {
					v.fields = slices.Delete(v.fields, i, i+1)
					delete(v.hash, f)
					n++
				}
			}
		}
		if v != nil && len(v.fields) == 0 {
			delete(k, args[1])
		}
		return n
	}},
	"GET": {textKind, 2, func(k keyspace, v *value, args []string) any {
		if v == nil {
			return nil
		}
		return v.text
	}},
	"INCRBY": {textKind, 3, func(k keyspace, v *value, args []string) any {
		if v == nil {
			v = &value{kind: textKind, text: "0"}
		}
		n, err := strconv.ParseInt(v.text, 10, 64)
		by, err2 := strconv.ParseInt(args[2], 10, 64)
		if err != nil || err2 != nil {
			return failure("ERR value is not an integer or out of range")
		}
		v.text = strconv.FormatInt(n+by, 10)
		k[args[1]] = v
		return n + by
	}},
}

// do runs a command on the keys. Scripts that use others need them here.
func (k keyspace) do(args []string) any {
	c, ok := keyCommands[strings.ToUpper(args[0])]
	if !ok {
		return failure(fmt.Sprintf("ERR unknown command '%s', which this simulation lacks", args[0]))
	}
	if len(args) < c.min {
		return failure("ERR wrong number of arguments")
	}
	v := k.get(args[1])
	if v != nil && c.kind != 0 && v.kind != c.kind {
		return wrongType
	}
	return c.run(k, v, args)
}

func truth(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
