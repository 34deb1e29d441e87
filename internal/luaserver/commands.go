package luaserver

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast/internal/resp"
)

// A command is a command on one key, args[1]. v is nil if there is no such key.
type command struct {
	kind Kind // what the key must hold; any if zero
	min  int  // of words
	// writes says that it is a command that writes, and grows that servers without memory refuse
	// it.
	writes, grows bool
	run           func(k *Keyspace, v *Value, args []string) any
}

const (
	notInteger = resp.Error("ERR value is not an integer or out of range")
	notFloat   = resp.Error("ERR value is not a valid float")
	overflow   = resp.Error("ERR increment or decrement would overflow")
	badRange   = resp.Error("ERR min or max is not a float")
	syntax     = resp.Error("ERR syntax error")
)

// commands are those that scripts use, and those that tests use beside them.
var commands = map[string]*command{
	"TIME": {0, 1, false, false, func(k *Keyspace, _ *Value, _ []string) any {
		now := (k.Clock() + k.Skew).Microseconds()
		return []any{strconv.FormatInt(now/1e6, 10), strconv.FormatInt(now%1e6, 10)}
	}},
	"INFO": {0, 2, false, false, func(k *Keyspace, _ *Value, _ []string) any {
		return "# Replication\r\nrole:master\r\nmaster_replid:" + k.ReplicationID + "\r\n"
	}},
	"EXISTS": {0, 2, false, false, func(k *Keyspace, v *Value, args []string) any {
		n := int64(0)
		for _, key := range args[1:] {
			n += truth(k.Get(key) != nil)
		}
		return n
	}},
	"TYPE": {0, 2, false, false, func(_ *Keyspace, v *Value, _ []string) any {
		if v == nil {
			return resp.Status("none")
		}
		return resp.Status([...]string{"", "hash", "string", "list", "zset"}[v.Kind])
	}},
	"DEL":    {0, 2, true, false, del},
	"UNLINK": {0, 2, true, false, del},
	"PTTL": {0, 2, false, false, func(k *Keyspace, v *Value, _ []string) any {
		switch {
		case v == nil:
			return int64(-2)
		case v.End == 0:
			return int64(-1)
		}
		return v.End - k.Ms()
	}},
	"PEXPIRE": {0, 3, true, false, func(k *Keyspace, v *Value, args []string) any { return expire(k, v, args, 0) }},
	"PEXPIREAT": {0, 3, true, false, func(k *Keyspace, v *Value, args []string) any {
		return expire(k, v, args, k.Ms()+k.Skew.Milliseconds())
	}},
	"PERSIST": {0, 2, true, false, func(_ *Keyspace, v *Value, _ []string) any {
		if v == nil || v.End == 0 {
			return int64(0)
		}
		v.End = 0
		return int64(1)
	}},

	"HEXISTS": {Hash, 3, false, false, func(_ *Keyspace, v *Value, args []string) any { return truth(v.field(args[2]) >= 0) }},
	"HGET": {Hash, 3, false, false, func(_ *Keyspace, v *Value, args []string) any {
		if i := v.field(args[2]); i >= 0 {
			return v.Fields[i].Value
		}
		return nil
	}},
	"HLEN": {Hash, 2, false, false, func(_ *Keyspace, v *Value, _ []string) any {
		if v == nil {
			return int64(0)
		}
		return int64(len(v.Fields))
	}},
	"HGETALL": {Hash, 2, false, false, func(_ *Keyspace, v *Value, _ []string) any {
		out := []any{}
		if v != nil {
			for _, f := range v.Fields {
				out = append(out, f.Name, f.Value)
			}
		}
		return out
	}},
	"HSET": {Hash, 4, true, true, func(k *Keyspace, v *Value, args []string) any {
		if v == nil {
			v = k.add(args[1], Hash)
		}
		n := int64(0)
		for i := 2; i+1 < len(args); i += 2 {
			if at := v.field(args[i]); at >= 0 {
				v.Fields[at].Value = args[i+1]
			} else {
				v.Fields = append(v.Fields, Field{args[i], args[i+1]})
				n++
			}
		}
		return n
	}},
	"HDEL": {Hash, 3, true, false, func(k *Keyspace, v *Value, args []string) any {
		n := int64(0)
		for _, f := range args[2:] {
			if i := v.field(f); i >= 0 {
				v.Fields = slices.Delete(v.Fields, i, i+1)
				n++
			}
		}
		if n > 0 && len(v.Fields) == 0 {
			delete(k.Values, args[1])
		}
		return n
	}},
	"HINCRBY": {Hash, 4, true, true, func(k *Keyspace, v *Value, args []string) any {
		if v == nil {
			v = k.add(args[1], Hash)
		}
		text, there := v.Field(args[2])
		if !there {
			text = "0"
		}
		n, failed := sum(text, args[3])
		if failed != "" {
			return failed
		}
		if there {
			v.Fields[v.field(args[2])].Value = strconv.FormatInt(n, 10)
		} else {
			v.Fields = append(v.Fields, Field{args[2], strconv.FormatInt(n, 10)})
		}
		return n
	}},

	"GET": {Text, 2, false, false, func(_ *Keyspace, v *Value, _ []string) any {
		if v == nil {
			return nil
		}
		return v.Text
	}},
	"GETRANGE": {Text, 4, false, false, func(_ *Keyspace, v *Value, args []string) any {
		if v == nil {
			return ""
		}
		from, to, ok := span(args[2], args[3], len(v.Text))
		if !ok {
			return notInteger
		}
		return v.Text[from:to]
	}},
	"INCRBY": {Text, 3, true, true, func(k *Keyspace, v *Value, args []string) any {
		text := "0"
		if v != nil {
			text = v.Text
		}
		n, failed := sum(text, args[2])
		if failed != "" {
			return failed
		}
		if v == nil {
			v = k.add(args[1], Text)
		}
		v.Text = strconv.FormatInt(n, 10)
		return n
	}},
	"SET": {0, 3, true, true, func(k *Keyspace, v *Value, args []string) any {
		n, keep := &Value{Kind: Text, Text: args[2]}, false
		for i := 3; i < len(args); i++ {
			switch strings.ToUpper(args[i]) {
			case "PX":
				if i++; i == len(args) {
					return syntax
				}
				life, err := strconv.ParseInt(args[i], 10, 64)
				if err != nil {
					return notInteger
				}
				if life <= 0 {
					return resp.Error("ERR invalid expire time in 'set' command")
				}
				n.End = k.Ms() + life
			case "KEEPTTL":
				keep = true
			case "NX":
				if v != nil {
					return nil
				}
			case "XX":
				if v == nil {
					return nil
				}
			default:
				return syntax
			}
		}
		if keep && v != nil {
			n.End = v.End
		}
		k.Values[args[1]] = n
		return resp.Status("OK")
	}},

	"LINDEX": {List, 3, false, false, func(_ *Keyspace, v *Value, args []string) any {
		i, err := strconv.Atoi(args[2])
		if err != nil {
			return notInteger
		}
		if v == nil {
			return nil
		}
		if i < 0 {
			i += len(v.List)
		}
		if i < 0 || i >= len(v.List) {
			return nil
		}
		return v.List[i]
	}},
	"LRANGE": {List, 4, false, false, func(_ *Keyspace, v *Value, args []string) any {
		out := []any{}
		if v == nil {
			return out
		}
		from, to, ok := span(args[2], args[3], len(v.List))
		if !ok {
			return notInteger
		}
		for _, item := range v.List[from:to] {
			out = append(out, item)
		}
		return out
	}},
	"RPUSH": {List, 3, true, true, func(k *Keyspace, v *Value, args []string) any {
		if v == nil {
			v = k.add(args[1], List)
		}
		v.List = append(v.List, args[2:]...)
		return int64(len(v.List))
	}},
	"LPOP": {List, 2, true, false, func(k *Keyspace, v *Value, args []string) any {
		if v == nil {
			return nil
		}
		first := v.List[0]
		if v.List = slices.Delete(v.List, 0, 1); len(v.List) == 0 {
			delete(k.Values, args[1])
		}
		return first
	}},
	"LREM": {List, 4, true, false, func(k *Keyspace, v *Value, args []string) any {
		most, err := strconv.Atoi(args[2])
		switch {
		case err != nil:
			return notInteger
		case most < 0:
			return missing("LREM from the end")
		case v == nil:
			return int64(0)
		case most == 0:
			most = len(v.List)
		}
		n := 0
		v.List = slices.DeleteFunc(v.List, func(item string) bool {
			if item != args[3] || n == most {
				return false
			}
			n++
			return true
		})
		if len(v.List) == 0 {
			delete(k.Values, args[1])
		}
		return int64(n)
	}},

	"ZADD": {Scores, 4, true, true, func(k *Keyspace, v *Value, args []string) any {
		pairs, nx, xx := args[2:], false, false
		switch strings.ToUpper(pairs[0]) {
		case "NX":
			pairs, nx = pairs[1:], true
		case "XX":
			pairs, xx = pairs[1:], true
		}
		if len(pairs) == 0 || len(pairs)%2 != 0 {
			return syntax
		}
		n := int64(0)
		for i := 0; i < len(pairs); i += 2 {
			score, ok := readScore(pairs[i])
			if !ok {
				return notFloat
			}
			switch there := v.member(pairs[i+1]) >= 0; {
			case there && nx || !there && xx:
				continue
			case !there:
				n++
			}
			if v == nil {
				v = k.add(args[1], Scores)
			}
			v.setScore(pairs[i+1], score)
		}
		return n
	}},
	"ZINCRBY": {Scores, 4, true, true, func(k *Keyspace, v *Value, args []string) any {
		by, ok := readScore(args[2])
		if !ok {
			return notFloat
		}
		if v == nil {
			v = k.add(args[1], Scores)
		}
		score, _ := v.Score(args[3])
		v.setScore(args[3], score+by)
		return scoreText(score + by)
	}},
	"ZREM": {Scores, 3, true, false, func(k *Keyspace, v *Value, args []string) any {
		n := int64(0)
		for _, name := range args[2:] {
			if i := v.member(name); i >= 0 {
				v.Members = slices.Delete(v.Members, i, i+1)
				n++
			}
		}
		if n > 0 && len(v.Members) == 0 {
			delete(k.Values, args[1])
		}
		return n
	}},
	"ZCARD": {Scores, 2, false, false, func(_ *Keyspace, v *Value, _ []string) any {
		if v == nil {
			return int64(0)
		}
		return int64(len(v.Members))
	}},
	"ZCOUNT": {Scores, 4, false, false, func(_ *Keyspace, v *Value, args []string) any {
		members, ok := v.within(args[2], args[3])
		if !ok {
			return badRange
		}
		return int64(len(members))
	}},
	"ZSCORE": {Scores, 3, false, false, func(_ *Keyspace, v *Value, args []string) any {
		if i := v.member(args[2]); i >= 0 {
			return scoreText(v.Members[i].Score)
		}
		return nil
	}},
	"ZRANGE": {Scores, 4, false, false, func(_ *Keyspace, v *Value, args []string) any {
		if v == nil {
			return []any{}
		}
		from, to, ok := span(args[2], args[3], len(v.Members))
		if !ok {
			return notInteger
		}
		return told(v.Members[from:to], len(args) > 4)
	}},
	"ZRANGEBYSCORE": {Scores, 4, false, false, func(_ *Keyspace, v *Value, args []string) any {
		members, ok := v.within(args[2], args[3])
		if !ok {
			return badRange
		}
		with := false
		for i := 4; i < len(args); i++ {
			switch strings.ToUpper(args[i]) {
			case "WITHSCORES":
				with = true
			case "LIMIT":
				if i+2 >= len(args) {
					return syntax
				}
				from, _ := strconv.Atoi(args[i+1])
				n, _ := strconv.Atoi(args[i+2])
				members = members[min(from, len(members)):]
				members = members[:min(n, len(members))]
				i += 2
			default:
				return syntax
			}
		}
		return told(members, with)
	}},
}

// expire makes a key end at an instant in milliseconds, on a clock that shows now.
func expire(k *Keyspace, v *Value, args []string, now int64) any {
	ms, err := strconv.ParseInt(args[2], 10, 64)
	switch {
	case err != nil:
		return notInteger
	case v == nil:
		return int64(0)
	case ms <= now:
		delete(k.Values, args[1])
	default:
		v.End = k.Ms() + ms - now
	}
	return int64(1)
}

func del(k *Keyspace, _ *Value, args []string) any {
	n := int64(0)
	for _, key := range args[1:] {
		n += truth(k.Get(key) != nil)
		delete(k.Values, key)
	}
	return n
}

// add adds an empty value without an end.
func (k *Keyspace) add(key string, kind Kind) *Value {
	v := &Value{Kind: kind}
	k.Values[key] = v
	return v
}

// told returns members, and their scores if these are asked for.
func told(members []Member, scores bool) any {
	out := []any{}
	for _, m := range members {
		if out = append(out, m.Name); scores {
			out = append(out, scoreText(m.Score))
		}
	}
	return out
}

// sum adds two integers that are texts.
func sum(text, by string) (n int64, failed resp.Error) {
	a, errA := strconv.ParseInt(text, 10, 64)
	b, errB := strconv.ParseInt(by, 10, 64)
	switch {
	case errA != nil || errB != nil || strings.HasPrefix(text, "+"):
		return 0, notInteger
	case b > 0 && a > math.MaxInt64-b || b < 0 && a < math.MinInt64-b:
		return 0, overflow
	}
	return a + b, ""
}

// readScore reads a score.
func readScore(text string) (float64, bool) {
	f, err := strconv.ParseFloat(text, 64)
	return f, err == nil && !math.IsNaN(f)
}

func scoreText(f float64) string {
	if math.Abs(f) < 1e17 && f == math.Trunc(f) {
		return strconv.FormatInt(int64(f), 10)
	}
	return strconv.FormatFloat(f, 'g', 17, 64)
}

// span returns the part from:to of n items that two positions mean, as servers count.
func span(first, last string, n int) (from, to int, ok bool) {
	from, errFrom := strconv.Atoi(first)
	to, errTo := strconv.Atoi(last)
	if from < 0 {
		from = max(0, from+n)
	}
	if to < 0 {
		to += n
	}
	to = min(to, n-1) + 1
	if from >= to {
		from, to = 0, 0
	}
	return from, to, errFrom == nil && errTo == nil
}

// missing is the error of what this package lacks.
func missing(what string) resp.Error {
	return resp.Error(fmt.Sprintf("ERR unknown command: package luaserver has no %s", what))
}

// commandOf returns a command by its name in any case.
func commandOf(name string) *command {
	if c := commands[name]; c != nil {
		return c
	}
	return commands[strings.ToUpper(name)]
}

// Do runs a command on the keys.
func (k *Keyspace) Do(args ...string) any { return k.run(commandOf(args[0]), args) }

// run runs a command. c is nil if there is none of its name.
func (k *Keyspace) run(c *command, args []string) any {
	if c == nil {
		return missing(args[0])
	}
	if c.min == 1 {
		return c.run(k, nil, args)
	}
	if len(args) < c.min {
		return resp.Error("ERR wrong number of arguments for '" + strings.ToLower(args[0]) + "' command")
	}
	v := k.Get(args[1])
	if v != nil && c.kind != 0 && v.Kind != c.kind {
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
