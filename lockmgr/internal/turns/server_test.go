package turns

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/luaserver"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/resp"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/thorough"
	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
	"github.com/holdfast-go/holdfast/lockmgr/internal/wire"
)

var first = flag.Uint64("first", 1, "the first seed of TestServer_LikeRedis")

// A call is one call of a script.
type call struct {
	name, text string
	keys, args []string
}

// redisson returns the text of a script that does what a client of Redisson does about a fair lock.
func redisson(t *testing.T) string {
	text, err := os.ReadFile("testdata/redisson.lua")
	require.NoError(t, err)
	return string(text)
}

// texts returns the text of each script by its name.
func texts(t *testing.T) map[string]string {
	out := map[string]string{"redisson": redisson(t)}
	for _, name := range script.Names() {
		out[name] = script.Text(name)
	}
	return out
}

// TestServer_LikeRedis runs random calls of all scripts on a real server and here. The replies, the
// messages and the keys must be the same, except for what both have read from their clocks.
func TestServer_LikeRedis(t *testing.T) {
	real := redistest.Start(t).Unrestricted()
	c, err := resp.Dial(real.Addr(), time.Minute)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	ears, err := resp.Dial(real.Addr(), time.Minute)
	require.NoError(t, err)
	t.Cleanup(ears.Close)
	scripts, ran := texts(t), map[string]map[string]int{}
	for name := range scripts {
		ran[name] = map[string]int{}
	}
	b := &both{T: t, c: c, ears: ears, scripts: scripts, ran: ran}
	b.here = newServer()
	b.here.Deliver = func(_ int, channel, message string) { b.heard = append(b.heard, channel+" "+message) }
	for _, name := range names {
		for _, kind := range []core.Kind{core.Exclusive, core.ReadWrite, core.Permits} {
			b.listen(wire.ChannelOf(kind, name))
		}
		for _, who := range []string{"a", "b", "j:0", "j:1"} {
			b.listen(wire.OwnChannel(core.Fair, who, name))
			b.listen(wire.OwnChannel(core.Permits, who, name))
		}
	}
	b.listen("end")
	for seed := *first; seed < *first+uint64(thorough.Choose(40, 1000)); seed++ {
		b.run(seed)
	}
	for name, replies := range ran {
		if len(replies) < 2 && name != "redisson" {
			t.Errorf("%s has given one kind of reply only: %v", name, replies)
		}
	}
}

// both is a real server and the one of this package.
type both struct {
	*testing.T
	r       *rand.Rand
	c, ears *resp.Conn
	here    *server
	heard   []string
	lastID  uint64
	parts   [2]core.Kind // of the names, in sets
	far     int64        // how many milliseconds the two clocks were apart at most
	scripts map[string]string
	ran     map[string]map[string]int // by script and the shape of its reply
	trace   []string
}

var (
	names = []string{"n", "m"}
	kinds = []core.Kind{core.Exclusive, core.ReadWrite, core.Several, core.Permits, core.Fair}
)

func (b *both) listen(channel string) {
	_, err := b.ears.Do("SUBSCRIBE", channel)
	require.NoError(b, err)
	b.here.Subscribe(channel, 1)
}

// run runs some calls that a seed decides, from no keys on.
func (b *both) run(seed uint64) {
	b.r, b.trace = rand.New(rand.NewPCG(seed, 1)), []string{fmt.Sprint("seed ", seed)}
	b.plain("FLUSHALL")
	clear(b.here.Values)
	kind := kinds[b.r.IntN(len(kinds))]
	for i := range names {
		b.parts[i] = []core.Kind{core.Exclusive, core.ReadWrite}[b.r.IntN(2)]
	}
	for range 60 {
		k := kind
		if b.r.IntN(12) == 0 {
			k = kinds[b.r.IntN(len(kinds))] // the same names are used as another kind
		}
		b.step(k)
		b.requireSameKeys()
	}
}

// step draws a call and runs it.
func (b *both) step(kind core.Kind) {
	switch n := b.r.IntN(40); {
	case n == 0: // a key is gone
		if keys := slices.Sorted(maps.Keys(b.here.Values)); len(keys) > 0 {
			b.plain("DEL", keys[b.r.IntN(len(keys))])
		}
	case n == 1: // of another type
		key := b.anyKey(kind)
		b.plain("DEL", key)
		b.plain("RPUSH", key, "x")
	case n == 2:
		key := b.anyKey(kind)
		b.plain("SET", key, []string{"many", "9223372036854775807", "7"}[b.r.IntN(3)])
	case n == 3:
		b.plain("PERSIST", b.anyKey(kind))
	default:
		b.call(b.draw(kind))
		time.Sleep(2 * time.Millisecond) // so that short lives are over on both
	}
}

func (b *both) anyKey(kind core.Kind) string {
	name := b.name()
	keys := []string{name, wire.TokenKey(name)}
	switch kind {
	case core.Permits:
		keys = []string{name, wire.TakenKey(name), "{" + name + "}:line", "{" + name + "}:wants"}
	case core.Exclusive, core.ReadWrite:
		keys = append(keys, "{"+name+"}:lock_line", "{"+name+"}:lock_wants")
	case core.Fair:
		keys = append(keys, wire.QueueKey(name), wire.DeadlinesKey(name), wire.QueueKey(name)+":waits")
	}
	return keys[b.r.IntN(len(keys))]
}

func (b *both) name() string    { return names[b.r.IntN(len(names))] }
func (b *both) manager() string { return []string{"a", "b"}[b.r.IntN(2)] }

// life draws a lease: a millisecond is over after the step.
func (b *both) life() time.Duration {
	if b.r.IntN(10) == 0 {
		return time.Millisecond
	}
	return time.Duration(1+b.r.IntN(4)) * 100 * time.Second
}

// numbers draws up to most numbers of holds that are not among others.
func (b *both) numbers(most int, others ...uint64) (out []uint64) {
	for range b.r.IntN(most + 1) {
		if n := uint64(1 + b.r.IntN(5)); !slices.Contains(out, n) && !slices.Contains(others, n) {
			out = append(out, n)
		}
	}
	return out
}

// draw draws a call.
func (b *both) draw(kind core.Kind) call {
	name, manager := b.name(), b.manager()
	of := func(c wire.Command) call { return call{c.Script.Name, c.Script.Text, c.Keys, c.Args} }
	switch n := b.r.IntN(14); {
	case n == 0 && kind == core.Permits:
		switch b.r.IntN(4) {
		case 0:
			var ids []string
			for range 1 + b.r.IntN(2) {
				id := wire.Permit(manager, uint64(1+b.r.IntN(5)), b.r.IntN(2))
				ids = append(ids, fmt.Sprintf("%x", id[:]))
			}
			return of(wire.ReturnPermits(name, ids))
		case 1:
			return of(wire.LimitPermits(name, []string{"set", "add"}[b.r.IntN(2)], b.r.IntN(6)-1, 3))
		case 2:
			return of(wire.DeletePermits(name))
		default:
			return of(wire.InspectPermits(name))
		}
	case n == 0:
		return call{"written", b.scripts["written"], []string{name}, nil}
	case n == 1 && kind == core.Permits:
		return call{"written", b.scripts["written"], []string{wire.TakenKey(name)}, nil}
	case n == 1:
		return of(wire.Inspect(name, b.r.IntN(2) == 0))
	case n == 2 && kind != core.Permits && kind != core.Several:
		fields := []string{"other"}
		for _, f := range b.here.Fields(name) {
			fields = append(fields, f.Name)
		}
		return of(wire.Force(kind, name, fields[min(len(fields), b.r.IntN(3)):]))
	case n < 6 && kind == core.Exclusive:
		return b.many(manager)
	case n < 6 && kind == core.Fair:
		args := []string{[]string{"acquire", "acquire", "leave", "release"}[b.r.IntN(4)], fmt.Sprint("j:", b.r.IntN(2)), "300000", "100000", wire.Channel(name)}
		return call{"redisson", b.scripts["redisson"], []string{name, wire.QueueKey(name), wire.DeadlinesKey(name)}, args}
	}
	c := b.operation(kind, name, manager, nil)
	if kind == core.Permits && b.r.IntN(2) == 0 { // two requests share a call
		for {
			next := b.operation(kind, b.name(), manager, &c)
			if next.name != c.name {
				continue
			}
			c.keys = append(c.keys, next.keys...)
			once := map[string]int{"permits_acquire": 2, "permits_transfer": 1, "permits_renew": 1, "permits_release": 1}[c.name]
			c.args = append(c.args, next.args[once:]...) // the lease, and what concerns the manager, are said once
			break
		}
	}
	return c
}

// many draws a call of a script for several plain locks.
func (b *both) many(manager string) call {
	script := []string{"acquire_many", "release_many", "renew"}[b.r.IntN(3)]
	c := call{name: script, text: b.scripts[script]}
	if script != "release_many" {
		c.args = []string{strconv.FormatInt(b.life().Milliseconds(), 10)}
	}
	for _, name := range names {
		c.keys, c.args = append(c.keys, name), append(c.args, wire.HolderID(manager, uint64(1+b.r.IntN(5))))
		if script == "release_many" {
			c.args = append(c.args, wire.Channel(name))
		}
	}
	return c
}

// operation draws a call as the core asks for it. like, if not nil, is one of the same verb.
func (b *both) operation(kind core.Kind, name, manager string, like *call) call {
	verbs := []core.Verb{core.VerbAcquire, core.VerbAcquire, core.VerbTransfer, core.VerbRenew, core.VerbRelease}
	op := core.Op{Kind: kind, Verb: verbs[b.r.IntN(len(verbs))], Name: name, Lease: b.life(), Number: uint64(1 + b.r.IntN(5))}
	if kind == core.Several && op.Verb == core.VerbTransfer {
		op.Verb = core.VerbAcquire
	}
	if some := b.recorded(name, manager); len(some) > 0 && op.Verb != core.VerbAcquire && b.r.IntN(2) == 0 {
		op.Number = some[b.r.IntN(len(some))]
	}
	b.lastID++
	op.ID, op.OtherNumbers = b.lastID, b.numbers(2, op.Number)
	if op.Verb == core.VerbRelease {
		op.OtherNumbers = append(b.numbers(3, op.Number), op.Number)
	}
	if kind != core.Permits && op.Verb != core.VerbRelease && b.r.IntN(4) == 0 {
		op.Tokens = int64(1 + b.r.IntN(3))
	}
	switch kind {
	case core.Exclusive:
		if op.Verb == core.VerbRelease && b.r.IntN(4) == 0 {
			op.Reserve = b.life()
		} else if op.Verb == core.VerbRelease {
			op.Leaves = b.r.IntN(4) == 0
		}
		if op.Verb == core.VerbAcquire && b.r.IntN(2) == 0 {
			op.Lined, op.Deaf = true, b.r.IntN(4) == 0
			op.PlaceOp = &core.PlaceOp{Join: []uint64{uint64(100 + b.r.IntN(3))}, GrantLease: 50 * time.Second, Fenced: b.r.IntN(2) == 0}
		}
	case core.ReadWrite:
		op.Side = core.Side(b.r.IntN(2))
	case core.Several:
		for i, n := range names {
			it := core.Item{Name: n, Kind: b.parts[i]}
			if it.Kind == core.ReadWrite {
				it.Side = core.Side(b.r.IntN(2))
			}
			op.Items = append(op.Items, it)
		}
		op.Tokens = min(op.Tokens, 1)
	case core.Permits:
		op.Permits, op.Limit, op.Most = 1+b.r.IntN(2), 3, 2
		op.Leaves, op.Deaf = op.Verb == core.VerbRelease && b.r.IntN(2) == 0, b.r.IntN(4) == 0
		if like != nil && len(like.args) > 0 && like.name != "permits_release" {
			ms, _ := strconv.ParseInt(like.args[0], 10, 64)
			op.Lease = time.Duration(ms) * time.Millisecond
		}
	case core.Fair:
		if b.r.IntN(8) == 0 {
			op.ID -= min(op.ID-1, uint64(b.r.IntN(20))) // a copy that runs late
		}
		op.PlaceOp = &core.PlaceOp{
			Life: time.Duration(1+b.r.IntN(2)) * 50 * time.Second, Before: uint64(1 + b.r.IntN(3)), Refresh: b.r.IntN(3) == 0, Count: b.r.IntN(3),
			Pass: b.r.IntN(2) == 0, Join: b.numbers(3), Leave: b.numbers(1),
		}
	}
	if op.Verb == core.VerbAcquire && b.r.IntN(3) == 0 {
		op.Gather = b.life()
	}
	if op.Verb == core.VerbAcquire && b.r.IntN(2) == 0 {
		op.Waits = 50 * time.Second
	}
	c := wire.Encode(manager, &op)
	return call{c.Script.Name, c.Script.Text, c.Keys, c.Args}
}

// recorded returns the numbers of a manager in the record of a lock.
func (b *both) recorded(name, manager string) (out []uint64) {
	for _, f := range b.here.Fields(name) {
		if rest, is := strings.CutPrefix(f.Name, manager+":"); is {
			digits, _, _ := strings.Cut(rest, ":")
			n, _ := strconv.ParseUint(digits, 10, 64)
			out = append(out, n)
		}
	}
	return out
}

// plain runs a command on both.
func (b *both) plain(args ...string) {
	b.trace = append(b.trace, fmt.Sprint(args))
	b.ask("0", args...)
	if args[0] != "FLUSHALL" {
		b.here.Do(args...)
	}
}

// ask sends a command to the real server, and sets the clock here by the clock there.
func (b *both) ask(maxmemory string, args ...string) (reply any) {
	b.c.Send("CONFIG", "SET", "maxmemory", maxmemory)
	b.c.Send("TIME")
	b.c.Send(args...)
	b.c.Send("TIME")
	require.NoError(b, b.c.Flush())
	require.EqualValues(b, "OK", b.receive())
	before, reply, after := b.receive(), b.receive(), b.receive()
	b.here.Now = clock(before)
	b.far = max(b.far, (clock(after)-clock(before)).Milliseconds()+1)
	return reply
}

// call runs a script on both, and compares the replies and the messages.
func (b *both) call(c call) {
	maxmemory := "0"
	if b.here.Full = b.r.IntN(20) == 0; b.here.Full {
		maxmemory = "1"
	}
	want := b.ask(maxmemory, slices.Concat([]string{"EVAL", c.text, strconv.Itoa(len(c.keys))}, c.keys, c.args)...)
	b.heard = nil
	got := b.here.eval(c.text, c.keys, c.args)
	b.trace = append(b.trace, fmt.Sprintf("%s %q %q (without memory: %v): %v here, %v there", c.name, c.keys, c.args, b.here.Full, got, want))
	b.here.Full = false
	if !b.same(got, want) {
		b.Fatalf("another reply\n%s", b.tail())
	}
	b.ran[c.name][shape(got)]++
	if heard := b.messages(); !slices.Equal(b.heard, heard) {
		b.Fatalf("%q here, %q there\n%s", b.heard, heard, b.tail())
	}
}

// tail returns the last calls.
func (b *both) tail() string {
	return b.trace[0] + "\n" + strings.Join(b.trace[max(1, len(b.trace)-20):], "\n")
}

func (b *both) receive() any {
	v, err := b.c.Receive()
	require.NoError(b, err)
	return v
}

// messages returns the messages that the real server has published.
func (b *both) messages() (out []string) {
	_, err := b.c.Do("PUBLISH", "end", "")
	require.NoError(b, err)
	for {
		v, err := b.ears.Receive()
		require.NoError(b, err)
		m := v.([]any)
		if m[1] == "end" {
			return out
		}
		out = append(out, fmt.Sprint(m[1], " ", m[2]))
	}
}

func clock(v any) time.Duration {
	words := v.([]any)
	s, _ := strconv.ParseInt(words[0].(string), 10, 64)
	us, _ := strconv.ParseInt(words[1].(string), 10, 64)
	return time.Duration(s)*time.Second + time.Duration(us)*time.Microsecond
}

// shape is what kind of reply one is.
func shape(v any) string {
	switch v := v.(type) {
	case int64:
		return fmt.Sprint("number ", cmp.Compare(v, 0))
	case []any:
		if len(v) > 0 {
			return fmt.Sprintf("%d items, first %s", len(v), shape(v[0]))
		}
	}
	return fmt.Sprintf("%T", v)
}

// same compares two replies. Numbers that a clock has brought in may differ by a little: those are
// large.
func (b *both) same(here, there any) bool {
	switch x := here.(type) {
	case []any:
		y, ok := there.([]any)
		return ok && slices.EqualFunc(x, y, b.same)
	case resp.Error: // a server adds where in the script
		y, ok := there.(resp.Error)
		cut := func(e resp.Error) string {
			if _, text, is := strings.Cut(string(e), "attempt to "); is { // servers say in different ways that Lua failed
				e = resp.Error(text)
			}
			text, _, _ := strings.Cut(string(e), " script: ")
			return strings.TrimSuffix(text, ".")
		}
		return ok && cut(x) == cut(y)
	case string:
		y, ok := there.(string)
		return ok && (x == y || slices.EqualFunc(strings.Split(x, " "), strings.Split(y, " "), func(x, y string) bool {
			m, errM := strconv.ParseInt(x, 10, 64)
			n, errN := strconv.ParseInt(y, 10, 64)
			return x == y || errM == nil && errN == nil && b.close(m, n)
		}))
	case int64:
		y, ok := there.(int64)
		return ok && b.close(x, y)
	}
	return here == there
}

func (b *both) close(m, n int64) bool {
	const little = 1000
	large := m > little && n > little || m < -2 && n < -2
	return m == n || large && b.near(m, n)
}

func (b *both) near(m, n int64) bool { return max(m-n, n-m) <= 10+4*b.far }

// requireSameKeys compares all keys.
func (b *both) requireSameKeys() {
	v, err := b.c.Do("EVAL", `
		local out = {}
		for _, key in ipairs(redis.call('KEYS', '*')) do
			local kind, value = redis.call('TYPE', key).ok, nil
			if kind == 'hash' then value = redis.call('HGETALL', key)
			elseif kind == 'string' then value = {redis.call('GET', key)}
			elseif kind == 'list' then value = redis.call('LRANGE', key, 0, -1)
			else value = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES') end
			out[#out + 1] = {key, kind, redis.call('PTTL', key), value}
		end
		return {redis.call('TIME'), out}`, "0")
	require.NoError(b, err)
	there := map[string][]any{}
	for _, item := range v.([]any)[1].([]any) {
		fields := item.([]any)
		there[fields[0].(string)] = fields[1:]
	}
	b.here.Now = clock(v.([]any)[0])
	here := map[string][]any{}
	for key := range b.here.Values {
		value := b.here.Get(key)
		if value == nil {
			continue
		}
		fields := []any{string(b.here.Do("TYPE", key).(resp.Status)), b.here.Do("PTTL", key)}
		switch value.Kind {
		case luaserver.Hash:
			fields = append(fields, b.here.Do("HGETALL", key))
		case luaserver.Text:
			fields = append(fields, []any{value.Text})
		case luaserver.List:
			fields = append(fields, b.here.Do("LRANGE", key, "0", "-1"))
		default:
			fields = append(fields, b.here.Do("ZRANGE", key, "0", "-1", "WITHSCORES"))
		}
		here[key] = fields
	}
	sorted := func(of map[string][]any) {
		for _, fields := range of { // scores that differ by a little may change places
			if fields[0] == "zset" {
				fields[2] = byName(fields[2].([]any))
			}
		}
	}
	sorted(here)
	sorted(there)
	sameKey := func(x, y []any) bool { // type, life, value
		m, n := x[1].(int64), y[1].(int64)
		return x[0] == y[0] && (m == n || m >= 0 && n >= 0 && b.near(m, n)) && b.same(x[2], y[2])
	}
	if !maps.EqualFunc(here, there, sameKey) {
		b.Fatalf("other keys\n%s\nhere  %q\nthere %q", b.tail(), here, there)
	}
}

// byName sorts the members of a sorted set by their names.
func byName(items []any) []any {
	scores := map[string]any{}
	for i := 0; i+1 < len(items); i += 2 {
		scores[items[i].(string)] = items[i+1]
	}
	out := []any{}
	for _, name := range slices.Sorted(maps.Keys(scores)) {
		out = append(out, name, scores[name])
	}
	return out
}
