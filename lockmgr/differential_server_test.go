package lockmgr_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/resp"
)

// serverWorld is a real server or miniredis.
type serverWorld struct {
	*scriptServer
	user *wire // runs the scripts; on a real server it is a user who may be denied commands
	ears map[string]*ear
	got  map[string][]string
}

func newServerWorld(t testing.TB, s *scriptServer) *serverWorld {
	w := &serverWorld{scriptServer: s, user: s.wire, ears: map[string]*ear{}, got: map[string][]string{}}
	if s.real != nil {
		s.grain = diffUnit / 2
		w.user = s.as(t)
	}
	for _, sub := range diffSubscribers {
		w.ears[sub] = listen(t, s)
	}
	return w
}

func (w *serverWorld) name() string {
	if w.real != nil {
		return "server"
	}
	return "miniredis"
}

func (w *serverWorld) script(t testing.TB, p step, keys []string) string {
	var args []string
	for _, n := range p.nums {
		args = append(args, strconv.FormatInt(n, 10))
	}
	reply := w.evalRaw(t, w.user, p.op, keys, append(args, p.args...))
	if op, many := strings.CutSuffix(p.op, "_many"); many {
		all, ok := reply.([]any)
		require.True(t, ok, "%v: %v", p, reply)
		var out []string
		for _, one := range all {
			out = append(out, w.read1(op, w.show(one)))
		}
		return fmt.Sprintf("%q", out)
	}
	return w.read1(p.op, w.show(reply))
}

// read1 converts the reply of a script to the text that all worlds use.
func (w *serverWorld) read1(op, reply string) string {
	switch {
	case reply[0] == '!':
		return failure(reply)
	case op == "release" && reply[0] == '"':
		return "released, nobody told"
	case op == "inspect":
		words := strings.Fields(strings.Trim(reply, "[]"))
		var fields []string
		for pair := range slices.Chunk(words[4:], 2) { // words[3] is their number
			fields = append(fields, pair[0]+" "+pair[1])
		}
		return "[" + strings.Join(append(words[:3], sorted(fields)...), " ") + "]"
	}
	return reply
}

func (w *serverWorld) do(t testing.TB, p step) string {
	run := func(args ...string) { w.scriptServer.do(t, args...) }
	var name, channel, counter string
	if len(p.names) > 0 {
		name, channel, counter = p.names[0], channelName(p.names[0]), counterName(p.names[0])
	}
	switch p.op {
	case "acquire", "transfer":
		keys := []string{name}
		if p.nums[1] > 0 {
			keys = append(keys, counter)
		}
		return w.script(t, p, keys)
	case "renew", "acquire_many", "release_many", "release", "force":
		return w.script(t, p, p.names)
	case "inspect":
		return w.script(t, p, []string{name, counter})
	case "pass":
		w.pass(t, p.nums[0])
	case "subscribe", "unsubscribe":
		e := w.ears[p.args[0]]
		w.got[p.args[0]] = append(w.got[p.args[0]], e.heard(t)...) // so that do reads the confirmation and no message
		e.do(t, p.op, channel)
	case "oom":
		run("CONFIG", "SET", "maxmemory", fmt.Sprint(p.nums[0]))
	case "publish-denied", "numsub-denied":
		rule := map[string]string{"publish-denied": "publish", "numsub-denied": "pubsub|numsub"}[p.op]
		run("ACL", "SETUSER", userOf(t), string("+-"[p.nums[0]])+rule)
	default:
		w.admin(t, p, name, channel, counter)
	}
	return ""
}

func (w *serverWorld) admin(t testing.TB, p step, name, channel, counter string) {
	run := func(args ...string) {
		require.NotEqual(t, byte('!'), w.show(w.scriptServer.do(t, args...))[0], "%v", p)
	}
	replace := func(key string, commands ...string) {
		run("DEL", key)
		run(append(commands[:1:1], append([]string{key}, commands[1:]...)...)...)
		if len(p.nums) > 0 && p.nums[0] > 0 {
			run("PEXPIRE", key, fmt.Sprint(p.nums[0]))
		}
	}
	switch p.op {
	case "del":
		run("DEL", name)
	case "delcounter":
		run("DEL", counter)
	case "persist":
		run("PERSIST", name)
	case "flush":
		run("FLUSHALL")
	case "expire":
		run("PEXPIRE", name, fmt.Sprint(p.nums[0]))
	case "hash":
		replace(name, append([]string{"HSET"}, p.args...)...)
	case "string":
		replace(name, "SET", "x")
	case "list":
		replace(name, "RPUSH", "x")
	case "counter":
		replace(counter, "SET", p.args[0])
	case "counterhash":
		replace(counter, "HSET", "x", "1")
	case "message":
		run("PUBLISH", channel, p.args[0])
	default:
		t.Fatalf("no such step: %v", p)
	}
}

// pass lets time pass. A real server's clock can't be moved, so pass shortens the
// TTL of each key instead.
func (w *serverWorld) pass(t testing.TB, ms int64) {
	if w.mini != nil {
		w.mini.FastForward(time.Duration(ms) * time.Millisecond)
		return
	}
	for _, k := range w.scriptServer.do(t, "KEYS", "*").([]any) {
		key := k.(string)
		if left := w.scriptServer.do(t, "PTTL", key).(int64); left >= 0 {
			w.scriptServer.do(t, "PEXPIRE", key, fmt.Sprint(left-ms)) // a TTL of zero or less removes the key
		}
	}
}

func (w *serverWorld) data(t testing.TB) []string {
	ask := [][]string{}
	for _, name := range diffNames {
		ask = append(ask, []string{"HGETALL", name}, []string{"PTTL", name}, []string{"GET", counterName(name)})
	}
	ask = append(ask, []string{"DBSIZE"})
	for _, command := range ask { // in one go, because data is called after each step
		w.Send(command...)
	}
	require.NoError(t, w.Flush())
	read := func() any {
		reply, err := w.Receive()
		require.NoError(t, err)
		if e, ok := reply.(resp.Error); ok {
			return failure(string(e))
		}
		return reply
	}
	var out []string
	for _, name := range diffNames {
		line := name + ":"
		fields, ttl, token := read(), read(), read()
		switch f := fields.(type) {
		case string:
			line += " " + f
		case []any:
			var holders []string
			for pair := range slices.Chunk(f, 2) {
				holders = append(holders, fmt.Sprintf("%v=%v", pair[0], pair[1]))
			}
			line += fmt.Sprint(sorted(holders), " for ", w.round(ttl.(int64)))
		}
		if token == nil {
			token = ""
		}
		out = append(out, line, fmt.Sprint("tokens: ", token))
	}
	return append(out, fmt.Sprint("keys: ", read()))
}

func (w *serverWorld) heard(t testing.TB, subscriber string) []string {
	out := append(w.got[subscriber], w.ears[subscriber].heard(t)...)
	delete(w.got, subscriber)
	return out
}
