package clientsim

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// keyspace is the data of a server: hashes, texts, lists and sorted sets, each
// with an end or without.
type keyspace map[string]*value

type value struct {
	kind   kind
	fields []string // of a hash, in the order in which they came
	hash   map[string]string
	text   string
	list   []string
	scores map[string]float64 // of a sorted set
	end    int64              // the last millisecond of its life; never if zero
}

type kind uint8

const (
	hashKind kind = iota + 1
	textKind
	listKind
	scoresKind
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
	v := newHash()
	for i := 0; i < len(pairs); i += 2 {
		v.set(pairs[i], pairs[i+1])
	}
	if life > 0 {
		v.end = nowMs() + life.Milliseconds()
	}
	k[key] = v
}

func newHash() *value { return &value{kind: hashKind, hash: make(map[string]string)} }

// copy returns a copy that shares nothing with v.
func (v *value) copy() *value {
	c := *v
	c.fields, c.list = slices.Clone(v.fields), slices.Clone(v.list)
	c.hash, c.scores = maps.Clone(v.hash), maps.Clone(v.scores)
	return &c
}

// ranked returns the members of a sorted set with scores from lo to hi, in their order.
func (v *value) ranked(lo, hi float64) (out []string) {
	for m, score := range v.scores {
		if score >= lo && score <= hi {
			out = append(out, m)
		}
	}
	slices.SortFunc(out, func(a, b string) int {
		return cmp.Or(cmp.Compare(v.scores[a], v.scores[b]), strings.Compare(a, b))
	})
	return out
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
	"EXISTS": {0, 2, func(k keyspace, v *value, args []string) any {
		n := int64(0)
		for _, key := range args[1:] {
			n += truth(k.get(key) != nil)
		}
		return n
	}},
	"TYPE": {0, 2, func(k keyspace, v *value, args []string) any {
		if v == nil {
			return status("none")
		}
		return status([...]string{"", "hash", "string", "list", "zset"}[v.kind])
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
			v = newHash()
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

// bound reads the end of a range of scores.
func bound(text string) float64 {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		panic("clientsim: a range of scores ends with " + text)
	}
	return f
}

func scoreText(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

// span returns what a range of a list with positions from and to has, as servers count.
func (v *value) span(from, to string) []any {
	out := []any{}
	lo, _ := strconv.Atoi(from)
	hi, _ := strconv.Atoi(to)
	if v == nil {
		return out
	}
	if lo < 0 {
		lo = max(0, lo+len(v.list))
	}
	if hi < 0 {
		hi += len(v.list)
	}
	for i := lo; i <= min(hi, len(v.list)-1); i++ {
		out = append(out, v.list[i])
	}
	return out
}

func init() {
	keyCommands["SET"] = keyCommand{0, 3, func(k keyspace, v *value, args []string) any {
		n := &value{kind: textKind, text: args[2]}
		for i := 3; i < len(args); i++ {
			switch strings.ToUpper(args[i]) {
			case "PX":
				i++
				life, err := strconv.ParseInt(args[i], 10, 64)
				if err != nil || life <= 0 {
					return failure("ERR invalid expire time in 'set' command")
				}
				n.end = nowMs() + life
			case "NX":
				if v != nil {
					return nil
				}
			case "XX":
				if v == nil {
					return nil
				}
			default:
				return failure("ERR syntax error")
			}
		}
		k[args[1]] = n
		return status("OK")
	}}
	keyCommands["LINDEX"] = keyCommand{listKind, 3, func(k keyspace, v *value, args []string) any {
		if out := v.span(args[2], args[2]); len(out) > 0 {
			return out[0]
		}
		return nil
	}}
	keyCommands["LRANGE"] = keyCommand{listKind, 4, func(k keyspace, v *value, args []string) any { return v.span(args[2], args[3]) }}
	keyCommands["RPUSH"] = keyCommand{listKind, 3, func(k keyspace, v *value, args []string) any {
		if v == nil {
			v = &value{kind: listKind}
			k[args[1]] = v
		}
		v.list = append(v.list, args[2:]...)
		return int64(len(v.list))
	}}
	keyCommands["LPOP"] = keyCommand{listKind, 2, func(k keyspace, v *value, args []string) any {
		if v == nil {
			return nil
		}
		first := v.list[0]
		if v.list = v.list[1:]; len(v.list) == 0 {
			delete(k, args[1])
		}
		return first
	}}
	keyCommands["LREM"] = keyCommand{listKind, 4, func(k keyspace, v *value, args []string) any {
		if v == nil {
			return int64(0)
		}
		i := slices.Index(v.list, args[3]) // only the first: all scripts ask for one
		if i < 0 {
			return int64(0)
		}
		if v.list = slices.Delete(v.list, i, i+1); len(v.list) == 0 {
			delete(k, args[1])
		}
		return int64(1)
	}}
	keyCommands["ZADD"] = keyCommand{scoresKind, 4, func(k keyspace, v *value, args []string) any {
		if v == nil {
			v = &value{kind: scoresKind, scores: make(map[string]float64)}
			k[args[1]] = v
		}
		pairs, nx := args[2:], false
		if strings.ToUpper(pairs[0]) == "NX" {
			pairs, nx = pairs[1:], true
		}
		n := int64(0)
		for i := 0; i+1 < len(pairs); i += 2 {
			_, there := v.scores[pairs[i+1]]
			if !there {
				n++
			}
			if !there || !nx {
				v.scores[pairs[i+1]] = bound(pairs[i])
			}
		}
		return n
	}}
	keyCommands["ZREM"] = keyCommand{scoresKind, 3, func(k keyspace, v *value, args []string) any {
		n := int64(0)
		if v == nil {
			return n
		}
		for _, m := range args[2:] {
			if _, there := v.scores[m]; there {
				delete(v.scores, m)
				n++
			}
		}
		if len(v.scores) == 0 {
			delete(k, args[1])
		}
		return n
	}}
	keyCommands["ZCARD"] = keyCommand{scoresKind, 2, func(k keyspace, v *value, args []string) any {
		if v == nil {
			return int64(0)
		}
		return int64(len(v.scores))
	}}
	keyCommands["ZCOUNT"] = keyCommand{scoresKind, 4, func(k keyspace, v *value, args []string) any {
		if v == nil {
			return int64(0)
		}
		return int64(len(v.ranked(bound(args[2]), bound(args[3]))))
	}}
	keyCommands["ZSCORE"] = keyCommand{scoresKind, 3, func(k keyspace, v *value, args []string) any {
		if v == nil {
			return nil
		}
		if f, there := v.scores[args[2]]; there {
			return scoreText(f)
		}
		return nil
	}}
	keyCommands["ZRANGEBYSCORE"] = keyCommand{scoresKind, 4, func(k keyspace, v *value, args []string) any {
		out := []any{}
		if v == nil {
			return out
		}
		members, with := v.ranked(bound(args[2]), bound(args[3])), false
		for i := 4; i < len(args); i++ {
			switch strings.ToUpper(args[i]) {
			case "WITHSCORES":
				with = true
			case "LIMIT":
				from, _ := strconv.Atoi(args[i+1])
				n, _ := strconv.Atoi(args[i+2])
				members = members[min(from, len(members)):min(from+n, len(members))]
				i += 2
			}
		}
		for _, m := range members {
			if out = append(out, m); with {
				out = append(out, scoreText(v.scores[m]))
			}
		}
		return out
	}}
}

// do runs a command on the keys. Scripts that use others need them here.
func (k keyspace) do(args []string) any {
	if strings.EqualFold(args[0], "TIME") {
		now := time.Now()
		return []any{strconv.FormatInt(now.Unix(), 10), strconv.Itoa(now.Nanosecond() / 1000)}
	}
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
