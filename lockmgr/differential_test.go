package lockmgr_test

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr/internal/model"
)

// The simulation of the core proves something about locks only if the model
// that it runs against is true. Here the same random trace of scripts and
// administrators' deeds runs on the model and on servers; after every step
// each must have given the same reply and hold the same data.
//
// To run one trace again: -differential.seed=N, and -differential.steps=N for
// a longer or shorter one.
var (
	differentialSeed  = flag.Uint64("differential.seed", 0, "run this trace only")
	differentialSteps = flag.Int("differential.steps", 500, "steps of a trace")
)

// A step is one thing to do, written down so that it can be done anywhere.
type step struct {
	op    string
	names []string // locks
	nums  []int64  // lease and tokens, or milliseconds
	args  []string // owners, fields, a subscriber
}

func (p step) String() string {
	return strings.Trim(fmt.Sprintln(p.op, p.names, p.nums, p.args), "\n")
}

// A world can do a step and show itself. All words that it uses are the same
// as those of other worlds.
type world interface {
	name() string
	// do returns the reply, or "" for steps that have none.
	do(t testing.TB, p step) string
	// data is a line for each key.
	data(t testing.TB) []string
	// heard is what reached a subscriber since the last call.
	heard(t testing.TB, subscriber string) []string
}

// Names that Redisson composes in both ways, and too few of them for peace.
var (
	diffNames       = []string{"a", "b{b}", "c:3"}
	diffSubscribers = []string{"0", "1", "2"}
	diffOwners      = map[string][]string{"m1": {"m1:1", "m1:2", "m1:3"}, "m2": {"m2:1", "m2:2"}}
)

func channelName(name string) string { return compose("redisson_lock__channel:", name) }
func counterName(name string) string { return compose("redisson_lock_token:", name) }

func compose(prefix, name string) string {
	if strings.Contains(name, "{") {
		return prefix + name
	}
	return prefix + "{" + name + "}"
}

// Lives are counted in units that dwarf the time which a trace takes, and end
// between two units, so that a step of time never ends on a key's last moment.
const diffUnit = int64(1_000_000) // ms

func diffLife(rng *rand.Rand) int64 { return rng.Int64N(5)*diffUnit + diffUnit/2 }

// A tracer makes up steps. It looks at nothing but its generator.
type tracer struct {
	rng      *rand.Rand
	refusals bool // out of memory, and users that may not publish or count
	oom      bool
}

func (g *tracer) oneOf(from []string) string { return from[g.rng.IntN(len(from))] }

// owners are of one manager, the first is the new one.
func (g *tracer) owners() []string {
	all := slices.Clone(diffOwners[g.oneOf([]string{"m1", "m1", "m2"})])
	g.rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:1+g.rng.IntN(len(all))]
}

func (g *tracer) next() step {
	name := g.oneOf(diffNames)
	one := []string{name}
	n := g.rng.IntN(100)
	switch {
	case n < 4:
		p := step{"acquire_many", nil, []int64{diffLife(g.rng)}, nil}
		g.several(&p)
		return p
	case n < 8:
		p := step{op: "release_many"}
		g.several(&p)
		return p
	case n < 34:
		return step{"acquire", one, []int64{diffLife(g.rng), max(0, g.rng.Int64N(6)-2)}, g.owners()}
	case n < 47:
		return step{"transfer", one, []int64{diffLife(g.rng), max(0, g.rng.Int64N(6)-2)}, g.owners()}
	case n < 58:
		p := step{"renew", nil, []int64{diffLife(g.rng)}, nil}
		g.several(&p)
		return p
	case n < 72:
		return step{"release", one, nil, g.owners()}
	case n < 74:
		return step{"force", one, nil, g.owners()[:1]}
	case n < 80:
		return step{"inspect", one, nil, nil}
	case n < 84:
		return step{"pass", nil, []int64{diffUnit * (1 + g.rng.Int64N(3))}, nil}
	case n < 86:
		return step{"subscribe", one, nil, []string{g.oneOf(diffSubscribers)}}
	case n < 88:
		return step{"unsubscribe", one, nil, []string{g.oneOf(diffSubscribers)}}
	case n < 96 || !g.refusals:
		return g.administrator(one)
	case n < 98:
		g.oom = !g.oom
		return step{"oom", nil, []int64{oneIf(g.oom)}, nil}
	}
	return step{g.oneOf([]string{"publish-denied", "numsub-denied"}), nil, []int64{g.rng.Int64N(2)}, nil}
}

// several gives a step some names, with an owner each.
func (g *tracer) several(p *step) {
	for _, name := range diffNames {
		if g.rng.IntN(3) > 0 {
			p.names, p.args = append(p.names, name), append(p.args, g.owners()[0])
		}
	}
}

func oneIf(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// administrator steps change data by hand, as no manager would.
func (g *tracer) administrator(one []string) step {
	harmless := []string{"del", "persist", "expire", "delcounter", "message"}
	all := append(harmless, "flush", "hash", "hash", "hash", "string", "list", "counter", "counter", "counterhash")
	if g.oom {
		all = harmless
	}
	p := step{op: g.oneOf(all), names: one}
	switch p.op {
	case "expire":
		p.nums = []int64{[]int64{-1, 0, diffLife(g.rng)}[g.rng.IntN(3)]}
	case "hash":
		p.nums = []int64{diffLife(g.rng) * g.rng.Int64N(2)}
		p.args = [][]string{{java, "2"}, {"m1:1", "2", "m1:2", "3"}, {"m2:2", "2", "m1:3", "2"}, {"m1:3", "2", "colour", "green"}}[g.rng.IntN(4)]
	case "string", "list":
		p.nums = []int64{diffLife(g.rng) * g.rng.Int64N(2)}
	case "counter":
		p.args = []string{g.oneOf([]string{"7", "9007199254740992", "9223372036854775806", "9223372036854775807", "-3", "many"})}
	case "message":
		p.args = []string{g.oneOf([]string{"0", "1", "nonsense"})}
	}
	return p
}

// modelWorld is the model.
type modelWorld struct {
	model.Server
	messages map[int][]string
}

func newModelWorld() *modelWorld {
	w := &modelWorld{messages: map[int][]string{}}
	w.Deliver = func(subscriber int, channel, payload string) {
		w.messages[subscriber] = append(w.messages[subscriber], channel+" "+payload)
	}
	return w
}

func (w *modelWorld) name() string { return "model" }

func (w *modelWorld) do(t testing.TB, p step) string {
	var name, channel, counter string
	if len(p.names) > 0 {
		name, channel, counter = p.names[0], channelName(p.names[0]), counterName(p.names[0])
	}
	switch p.op {
	case "acquire":
		r, err := w.Acquire(name, counter, p.nums[0], p.nums[1], p.args...)
		switch {
		case err != nil:
			return failure(err.Error())
		case !r.OK:
			return fmt.Sprint(r.TTL)
		case p.nums[1] == 0:
			return "nil"
		}
		return strconv.Quote(r.Token)
	case "acquire_many":
		return w.oneByOne(t, p, "acquire", append(p.nums, 0))
	case "release_many":
		return w.oneByOne(t, p, "release", nil)
	case "transfer":
		r, err := w.Transfer(name, channel, counter, p.nums[0], p.nums[1], p.args...)
		switch {
		case err != nil:
			return failure(err.Error())
		case !r.OK:
			return "nil"
		case p.nums[1] == 0:
			return fmt.Sprint(r.Subscribers)
		}
		return fmt.Sprintf("[%d %q]", r.Subscribers, r.Token)
	case "renew":
		lost, err := w.Renew(p.nums[0], p.names, p.args)
		if err != nil {
			return failure(err.Error())
		}
		return fmt.Sprint(lost)
	case "release":
		r, err := w.Release(name, channel, p.args...)
		switch {
		case err != nil:
			return failure(err.Error())
		case !r.OK:
			return "nil"
		case r.PublishErr != nil:
			return "released, nobody told"
		}
		return fmt.Sprint(r.Subscribers)
	case "force":
		n, err := w.Force(name, channel, p.args...)
		if err != nil {
			return failure(err.Error())
		}
		return fmt.Sprint(n)
	case "inspect":
		return w.inspect(name, channel, counter)
	case "pass":
		w.Now += time.Duration(p.nums[0]) * time.Millisecond
	case "subscribe", "unsubscribe":
		n, err := strconv.Atoi(p.args[0])
		require.NoError(t, err)
		if p.op == "subscribe" {
			w.Subscribe(channel, n)
		} else {
			w.Unsubscribe(channel, n)
		}
	case "oom":
		w.OOM = p.nums[0] == 1
	case "publish-denied":
		w.PublishErr = errIf(p.nums[0])
	case "numsub-denied":
		w.NumSubErr = errIf(p.nums[0])
	default:
		w.admin(t, p, name, channel, counter)
	}
	return ""
}

// oneByOne is what a script for many locks has to be like.
func (w *modelWorld) oneByOne(t testing.TB, p step, op string, nums []int64) string {
	var out []string
	for i, name := range p.names {
		out = append(out, w.do(t, step{op, []string{name}, nums, p.args[i : i+1]}))
	}
	return fmt.Sprintf("%q", out)
}

func errIf(denied int64) error {
	if denied == 1 {
		return respErr("NOPERM")
	}
	return nil
}

type respErr string

func (e respErr) Error() string { return string(e) }

func (w *modelWorld) admin(t testing.TB, p step, name, channel, counter string) {
	switch p.op {
	case "del":
		w.Del(name)
	case "delcounter":
		w.Del(counter)
	case "persist":
		w.Persist(name)
	case "flush":
		w.Flush()
	case "expire":
		w.Expire(name, p.nums[0])
	case "hash":
		var fields []model.Field
		for f := range slices.Chunk(p.args, 2) {
			fields = append(fields, model.Field{Name: f[0], Value: f[1]})
		}
		w.SetHash(name, p.nums[0], fields...)
	case "string":
		w.SetString(name, "x", p.nums[0])
	case "list":
		w.SetOther(name, p.nums[0])
	case "counter":
		w.SetString(counter, p.args[0], 0)
	case "counterhash":
		w.SetHash(counter, 0, model.Field{Name: "x", Value: "1"})
	case "message":
		_, err := w.Publish(channel, p.args[0])
		if err != nil { // an administrator may
			was := w.PublishErr
			w.PublishErr = nil
			_, err = w.Publish(channel, p.args[0])
			w.PublishErr = was
		}
		require.NoError(t, err)
	default:
		t.Fatalf("no such step: %v", p)
	}
}

func (w *modelWorld) inspect(name, channel, counter string) string {
	in, err := w.Inspect(name, channel, counter)
	if err != nil {
		return failure(err.Error())
	}
	out := []string{fmt.Sprint(in.TTL), fmt.Sprint(in.Subscribers), "nil"}
	if in.Token != "" {
		out[2] = strconv.Quote(in.Token)
	}
	var fields []string
	for _, f := range in.Holders {
		fields = append(fields, fmt.Sprintf("%q %q", f.Name, f.Value))
	}
	return "[" + strings.Join(append(out, sorted(fields)...), " ") + "]"
}

// sorted makes up for servers that order the fields of a hash as they like.
func sorted(fields []string) []string {
	slices.Sort(fields)
	return fields
}

func (w *modelWorld) data(testing.TB) []string {
	var out []string
	for _, name := range diffNames {
		line := name + ":"
		if in, err := w.Inspect(name, "", ""); err != nil {
			line += " " + failure(err.Error())
		} else {
			var fields []string
			for _, f := range in.Holders {
				fields = append(fields, f.Name+"="+f.Value)
			}
			line += fmt.Sprint(sorted(fields), " for ", in.TTL)
		}
		in, err := w.Inspect("", "", counterName(name))
		token := in.Token
		if err != nil {
			token = failure(err.Error())
		}
		out = append(out, line, "tokens: "+token)
	}
	return append(out, fmt.Sprint("keys: ", w.Len()))
}

func (w *modelWorld) heard(t testing.TB, subscriber string) []string {
	n, err := strconv.Atoi(subscriber)
	require.NoError(t, err)
	out := w.messages[n]
	delete(w.messages, n)
	return out
}

// failure is the part of an error that all worlds agree on.
func failure(text string) string {
	for _, known := range []string{"WRONGTYPE", "OOM", "not an integer", "would overflow"} {
		if strings.Contains(text, known) {
			return "failed: " + known
		}
	}
	return "failed: " + text
}

// serverWorld is a real server or miniredis.
type serverWorld struct {
	*scriptServer
	user *wire // runs the scripts; on a real server it can be denied things
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

// read1 puts the reply of a script into the words of all worlds.
func (w *serverWorld) read1(op, reply string) string {
	switch {
	case reply[0] == '!':
		return failure(reply)
	case op == "release" && reply[0] == '"':
		return "released, nobody told"
	case op == "inspect":
		words := strings.Fields(strings.Trim(reply, "[]"))
		var fields []string
		for pair := range slices.Chunk(words[3:], 2) {
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
		if p.op == "transfer" {
			keys = append(keys, channel)
		}
		if p.nums[1] > 0 {
			keys = append(keys, counter)
		}
		return w.script(t, p, keys)
	case "renew", "acquire_many":
		return w.script(t, p, p.names)
	case "release_many":
		var keys []string
		for _, name := range p.names {
			keys = append(keys, name, channelName(name))
		}
		return w.script(t, p, keys)
	case "release", "force":
		return w.script(t, p, []string{name, channel})
	case "inspect":
		return w.script(t, p, []string{name, channel, counter})
	case "pass":
		w.pass(t, p.nums[0])
	case "subscribe", "unsubscribe":
		e := w.ears[p.args[0]]
		w.got[p.args[0]] = append(w.got[p.args[0]], e.heard(t)...) // so that the next to come is the confirmation
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

// pass lets time pass. A real server's clock can't be moved, so what its keys
// have left to live is cut.
func (w *serverWorld) pass(t testing.TB, ms int64) {
	if w.mini != nil {
		w.mini.FastForward(time.Duration(ms) * time.Millisecond)
		return
	}
	for _, k := range w.scriptServer.do(t, "KEYS", "*").([]any) {
		key := k.(string)
		if left := w.scriptServer.do(t, "PTTL", key).(int64); left >= 0 {
			w.scriptServer.do(t, "PEXPIRE", key, fmt.Sprint(left-ms)) // which removes it if nothing is left
		}
	}
}

func (w *serverWorld) data(t testing.TB) []string {
	ask := [][]string{}
	for _, name := range diffNames {
		ask = append(ask, []string{"HGETALL", name}, []string{"PTTL", name}, []string{"GET", counterName(name)})
	}
	ask = append(ask, []string{"DBSIZE"})
	for _, command := range ask { // all at once: it is done after each step
		require.NoError(t, w.write(command...))
	}
	read := func() any {
		reply, err := w.read()
		require.NoError(t, err)
		if e, ok := reply.(respError); ok {
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

// tally counts which replies a trace has seen, by script.
type tally map[string]int

// runTrace compares worlds; the first sets the tone.
func runTrace(t *testing.T, seed uint64, refusals bool, worlds ...world) tally {
	g := &tracer{rng: rand.New(rand.NewPCG(seed, 0)), refusals: refusals}
	var trace []string
	seen := tally{}
	for i := range *differentialSteps {
		p := g.next()
		trace = append(trace, fmt.Sprintf("%4d %v", i, p))
		told := func(w world) string {
			return fmt.Sprintf("%s, replay with -differential.seed=%d; the last steps were\n%s", w.name(), seed, strings.Join(trace[max(0, len(trace)-25):], "\n"))
		}
		var reply string
		var data []string
		for j, w := range worlds {
			r := w.do(t, p)
			d := w.data(t)
			if j == 0 {
				reply, data = r, d
				trace[i] += " -> " + r
				seen[p.op+" "+shape(r)]++
				continue
			}
			require.Equal(t, reply, r, told(w))
			require.Equal(t, data, d, told(w))
		}
		if p.op == "unsubscribe" || i == *differentialSteps-1 {
			for _, sub := range diffSubscribers {
				heard := worlds[0].heard(t, sub)
				seen["message"] += len(heard)
				for _, w := range worlds[1:] {
					require.Equal(t, heard, w.heard(t, sub), "subscriber %s of %s", sub, told(w))
				}
			}
		}
	}
	return seen
}

// shape is a reply without its numbers.
func shape(reply string) string {
	switch {
	case strings.HasPrefix(reply, "["):
		return "[]"
	case strings.HasPrefix(reply, `"`):
		return "text"
	case reply == "-1":
		return reply
	case reply != "" && strings.Trim(reply, "0123456789") == "":
		return "number"
	}
	return reply
}

// seeds are fixed ones, and one that nobody has seen yet.
func differentialSeeds(n int) []uint64 {
	if *differentialSeed != 0 {
		return []uint64{*differentialSeed}
	}
	out := []uint64{uint64(time.Now().UnixNano())}
	for i := range n {
		out = append(out, uint64(i+1))
	}
	return out
}

func TestDifferentialModelMiniredisServer(t *testing.T) {
	redistest.Need(t)
	t.Parallel()
	all := tally{}
	for _, seed := range differentialSeeds(2) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			all.add(runTrace(t, seed, false, newModelWorld(), newServerWorld(t, realScripts(t)), newServerWorld(t, miniScripts(t))))
		})
	}
	all.requireAll(t, "acquire failed: WRONGTYPE", "acquire failed: would overflow", "acquire failed: not an integer")
}

// What only a real server can do: refuse.
func TestDifferentialModelServer(t *testing.T) {
	redistest.Need(t)
	t.Parallel()
	all := tally{}
	for _, seed := range differentialSeeds(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			all.add(runTrace(t, seed, true, newModelWorld(), newServerWorld(t, realScripts(t))))
		})
	}
	all.requireAll(t, "acquire failed: OOM", "transfer failed: OOM", "transfer -1", "release released, nobody told")
}

func (a tally) add(b tally) {
	for k, n := range b {
		a[k] += n
	}
}

// requireAll makes sure that the traces went everywhere: where nothing happens
// all worlds agree.
func (a tally) requireAll(t *testing.T, more ...string) {
	t.Helper()
	if *differentialSeed != 0 {
		return
	}
	for _, k := range append(more,
		"acquire nil", "acquire text", "acquire number", "acquire -1",
		"transfer nil", "transfer number", "transfer []", "transfer failed: WRONGTYPE",
		"renew []", "release nil", "release number", "release failed: WRONGTYPE",
		"acquire_many []", "release_many []", "force number", "inspect []", "inspect failed: WRONGTYPE", "message",
	) {
		if a[k] == 0 {
			t.Errorf("no trace has seen %q, but only\n%v", k, slices.Sorted(maps.Keys(a)))
		}
	}
}
