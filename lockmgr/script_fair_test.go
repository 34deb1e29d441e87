package lockmgr_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/thorough"
	"github.com/holdfast-go/holdfast/lockmgr/internal/model"
)

// The tests of the scripts for fair locks use the name f, the managers a and b, and clients
// of Redisson whose owners are j:1, j:2 and so on.

const fairLife = 50000 // how long a place lasts here, in milliseconds

var fairKeys = model.Fair{
	Lock: "f", Queue: "redisson_lock_queue:{f}", Deadlines: "redisson_lock_timeout:{f}", Waits: "redisson_lock_queue:{f}:waits",
	Channel: "redisson_lock__channel:{f}", Counter: "redisson_lock_token:{f}",
}

// runFair runs a script for fair locks.
func (s *scriptServer) runFair(t testing.TB, w *wire, script string, x model.Line, lease, tokens int64) string {
	t.Helper()
	k := fairKeys
	keys := []string{k.Lock, k.Queue, k.Deadlines, k.Waits, k.Queue + ":absent"}
	if tokens > 0 {
		keys = append(keys, k.Counter)
	}
	flag := map[bool]string{false: "0", true: "1"}
	args := []string{x.Manager}
	for _, n := range []int64{x.LifeMs, int64(x.Before)} {
		args = append(args, strconv.FormatInt(n, 10))
	}
	args = append(args, flag[x.Refresh], strconv.Itoa(x.Places), strconv.FormatInt(lease, 10), strconv.FormatInt(tokens, 10), flag[x.Pass],
		strconv.FormatUint(x.Number, 10), strconv.FormatUint(x.ID, 10), k.Channel)
	for _, list := range [][]uint64{x.Others, x.Joins, x.Leave} {
		args = append(args, strconv.Itoa(len(list)))
		for _, n := range list {
			args = append(args, strconv.FormatUint(n, 10))
		}
	}
	return s.eval(t, w, script, keys, args)
}

// redissonLua does what a client of Redisson does about a fair lock. KEYS: lock, queue,
// deadlines. ARGV: what it does, its owner, its wait, its lease, the channel.
const redissonLua = `
local lock, queue, deadlines = KEYS[1], KEYS[2], KEYS[3]
local verb, owner, wait = ARGV[1], ARGV[2], tonumber(ARGV[3])
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local function lower(from)
  for _, m in ipairs(redis.call('LRANGE', queue, from, -1)) do
    redis.call('ZINCRBY', deadlines, -wait, m)
  end
end
local function remove()
  redis.call('ZREM', deadlines, owner)
  redis.call('LREM', queue, 0, owner)
end
if verb == 'leave' then
  for i, m in ipairs(redis.call('LRANGE', queue, 0, -1)) do
    if m == owner then
      lower(i)
    end
  end
  remove()
  return 0
end
local head = redis.call('LINDEX', queue, 0)
while head and tonumber(redis.call('ZSCORE', deadlines, head)) <= now do
  redis.call('LPOP', queue)
  redis.call('ZREM', deadlines, head)
  head = redis.call('LINDEX', queue, 0)
end
if verb == 'release' then
  local had = redis.call('HEXISTS', lock, owner)
  if had == 1 or redis.call('EXISTS', lock) == 0 then
    redis.call('DEL', lock)
    if head then
      redis.call('PUBLISH', ARGV[5] .. ':' .. head, '0')
    end
  end
  return had
end
if redis.call('EXISTS', lock) == 0 and (not head or head == owner) then
  remove()
  lower(0)
  redis.call('HSET', lock, owner, 1)
  redis.call('PEXPIRE', lock, ARGV[4])
  return 1
end
if not redis.call('ZSCORE', deadlines, owner) then
  local last = redis.call('LINDEX', queue, -1)
  local ttl = last and redis.call('ZSCORE', deadlines, last) - now or redis.call('PTTL', lock)
  redis.call('ZADD', deadlines, string.format('%.0f', now + ttl + wait), owner)
  redis.call('RPUSH', queue, owner)
end
return 0`

func (s *scriptServer) redisson(t testing.TB, verb, owner string, wait, lease int64) string {
	t.Helper()
	k := fairKeys
	return s.show(s.do(t, "EVAL", redissonLua, "3", k.Lock, k.Queue, k.Deadlines, verb, owner, strconv.FormatInt(wait, 10),
		strconv.FormatInt(lease, 10), k.Channel))
}

// fair prints what a server has of a fair lock: the record and its life, the queue with what
// each member has left, and what the scripts have noted.
func (s *scriptServer) fair(t testing.TB) string {
	t.Helper()
	k := fairKeys
	v := s.all(t, []string{"TIME"}, []string{"HGETALL", k.Lock}, []string{"PTTL", k.Lock}, []string{"LRANGE", k.Queue, "0", "-1"},
		[]string{"ZRANGE", k.Deadlines, "0", "-1", "WITHSCORES"}, []string{"HGETALL", k.Waits}, []string{"PTTL", k.Waits})
	now, left := permitClock(v[0]), map[string]int64{}
	scores := v[4].([]any)
	for i := 0; i < len(scores); i += 2 {
		f, err := strconv.ParseFloat(scores[i+1].(string), 64)
		require.NoError(t, err)
		left[scores[i].(string)] = int64(f) - now
	}
	var queue, noted []string
	for _, m := range v[3].([]any) {
		queue = append(queue, s.place(m.(string), left))
	}
	fields := v[5].([]any)
	require.LessOrEqual(t, v[6], int64(fairLife))
	for i := 0; i < len(fields); i += 2 {
		n, err := strconv.ParseInt(fields[i+1].(string), 10, 64)
		require.NoError(t, err)
		noted = append(noted, s.noted(fields[i].(string), n))
	}
	slices.Sort(noted)
	require.Len(t, left, len(queue), "each member has a deadline")
	if len(noted) > 0 {
		require.Positive(t, v[6])
	}
	return fmt.Sprint(s.show(v[1]), s.show(v[2]), queue, noted)
}

// place prints a member of the queue, and what it has left.
func (s *scriptServer) place(member string, left map[string]int64) string {
	ms, ok := left[member]
	switch {
	case !ok:
		return member + " without a deadline"
	case s.near(ms) <= 0:
		return member + "~over"
	}
	return fmt.Sprintf("%s~%d", member, s.near(ms))
}

// near rounds a number of milliseconds to a multiple of grain: instants that a test sets may
// be later than those that a script reads, or earlier.
func (s *scriptServer) near(n int64) int64 { return (n + s.grain/2) / s.grain * s.grain }

// noted prints what the scripts have noted: waits, or the ID of a script.
func (s *scriptServer) noted(field string, n int64) string {
	if field[0] != '@' {
		n = s.near(n)
	}
	return fmt.Sprintf("%s=%d", field, n)
}

// modelFair prints the same of a model.
func (s *scriptServer) modelFair(m *model.Server) string {
	k, left := fairKeys, map[string]int64{}
	var record, queue, noted []string
	fields, _ := m.Fields(k.Lock)
	for _, f := range fields {
		record = append(record, strconv.Quote(f.Name)+" "+strconv.Quote(f.Value))
	}
	ttl := int64(-2)
	if end, ok := m.End(k.Lock); ok {
		ttl = end.Milliseconds()
	}
	for _, member := range m.Queued(k) {
		if till, ok := m.Deadline(k, member); ok {
			left[member] = till
		}
		queue = append(queue, s.place(member, left))
	}
	fields, _ = m.Fields(k.Waits)
	for _, f := range fields {
		n, _ := strconv.ParseInt(f.Value, 10, 64)
		noted = append(noted, s.noted(f.Name, n))
	}
	slices.Sort(noted)
	return fmt.Sprint("["+strings.Join(record, " ")+"]", strconv.FormatInt(s.round(ttl), 10), queue, noted)
}

// TestDifferential_Fair runs random operations of two managers and of clients of Redisson on
// servers and on the model.
func TestDifferential_Fair(t *testing.T) {
	const steps = 150
	onBoth(t, func(t *testing.T, s *scriptServer) {
		channels := []string{fairKeys.Channel + ":a", fairKeys.Channel + ":b"}
		for i := range 3 {
			channels = append(channels, fmt.Sprintf("%s:j:%d", fairKeys.Channel, i))
		}
		for i := range uint64(20) {
			channels = append(channels, fairKeys.Channel+":"+model.PlaceID("a", i))
		}
		e := listen(t, s, channels...)
		seen := map[string]int{}
		for seed := range uint64(thorough.Choose(12, 60)) {
			r := &fairTrace{Rand: rand.New(rand.NewPCG(seed, 5)), next: 1}
			s.prepare(t, "")
			var m model.Server
			var said, trace []string
			m.Deliver = func(_ int, channel, payload string) { said = append(said, channel+" "+payload) }
			for _, c := range channels {
				m.Subscribe(c, 1)
			}
			for range steps {
				said = nil
				got, want, line := r.step(t, s, &m)
				trace = append(trace, line+" -> "+got+" "+s.modelFair(&m))
				told := fmt.Sprintf("seed %d\n%s", seed, strings.Join(trace[max(0, len(trace)-20):], "\n"))
				require.Equal(t, want, got, told)
				require.Equal(t, said, e.heard(t), told)
				require.Equal(t, s.modelFair(&m), s.fair(t), told)
				script, _, _ := strings.Cut(line, " ")
				shape, flags := shapeOfFair(got)
				seen[script+" "+shape]++
				seen["flags "+flags]++
			}
		}
		for _, form := range []string{
			"fair_acquire [1 N F F]", "fair_acquire [0 N F F]", "fair_acquire [1 N F F text]", "fair_acquire [2 N]",
			"fair_transfer nil", "fair_transfer [1 N F F]", "fair_transfer [0 N F F]", "fair_transfer [1 N F F text]", "fair_release [0]", "fair_release [1]",
			"acquire 1", "acquire 0", "release 1", "leave 0", "flags [0 0]", "flags [0 1]", "flags [1 0]", "flags [1 1]",
		} {
			require.NotZero(t, seen[form], "%s among %v", form, seen)
		}
	})
}

// shapeOfFair returns a reply without its numbers and its token, and its two flags.
func shapeOfFair(reply string) (shape, flags string) {
	words := strings.Fields(strings.Trim(reply, "[]"))
	if reply == "nil" || len(words) < 2 {
		return reply, ""
	}
	if words[1] = "N"; len(words) > 3 {
		flags = "[" + words[2] + " " + words[3] + "]"
		words[2], words[3] = "F", "F"
	}
	if len(words) == 5 {
		words[4] = "text"
	}
	return "[" + strings.Join(words, " ") + "]", flags
}

type fairTrace struct {
	*rand.Rand
	next   uint64 // the next number
	lastID uint64
	joined []uint64 // of both managers: even numbers are a's
	over   int64    // the deadline of members whose time is over, or zero
}

// line draws what a script of a manager does to the queue. Most numbers are of its own.
func (r *fairTrace) line(m *model.Server) model.Line {
	of, recorded := r.IntN(2), uint64(0)
	if fields, _ := m.Fields(fairKeys.Lock); len(fields) == 1 && r.IntN(4) > 0 {
		for i, manager := range []string{"a", "b"} {
			number, is := strings.CutPrefix(strings.TrimSuffix(fields[0].Name, ":f"), manager+":")
			if n, err := strconv.ParseUint(number, 10, 64); is && err == nil {
				of, recorded = i, n
			}
		}
	}
	some := func(most int) (out []uint64) {
		for range r.IntN(most + 1) {
			if len(r.joined) > 0 {
				if n := r.joined[len(r.joined)-1-r.IntN(min(len(r.joined), 8))]; int(n%2) == of && !slices.Contains(out, n) {
					out = append(out, n)
				}
			}
		}
		slices.Sort(out)
		return out
	}
	r.lastID++
	x := model.Line{Manager: string("ab"[of]), ID: r.lastID, LifeMs: fairLife, Others: some(3), Leave: some(1), Joins: some(1)}
	if recorded != 0 && !slices.Contains(x.Others, recorded) {
		x.Others = append(x.Others, recorded)
	}
	if r.IntN(10) == 0 { // a copy that runs late
		x.ID -= min(x.ID-1, uint64(r.IntN(6)))
	}
	for range r.IntN(3) {
		n := 2*r.next + uint64(of)
		r.next++
		x.Joins = append(x.Joins, n)
		r.joined = append(r.joined, n)
	}
	if mine := some(4); len(mine) > 0 {
		x.Number, x.Before = mine[0], mine[0]
	} else {
		x.Number, x.Before = 2*r.next+uint64(of), 2*r.next
		r.joined = append(r.joined, x.Number)
		r.next++
	}
	if r.IntN(8) == 0 {
		x.Before = uint64(r.IntN(int(2*r.next))) + 1
	}
	x.Refresh, x.Places, x.Pass = r.IntN(3) == 0, r.IntN(3), r.IntN(2) == 0
	return x
}

// step draws a step, and runs it on the server and on the model.
func (r *fairTrace) step(t *testing.T, s *scriptServer, m *model.Server) (got, want, line string) {
	t.Helper()
	k := fairKeys
	tokens := int64(0)
	if r.IntN(5) == 0 {
		tokens = int64(1 + r.IntN(3))
	}
	lease := 10000 * int64(1+r.IntN(5))
	owner, wait := fmt.Sprintf("j:%d", r.IntN(3)), []int64{300000, 20000, 40000}[r.IntN(3)]
	if r.IntN(10) == 0 { // like a place of this library, and none
		owner = []string{"a:nan:f", "a:007:f", "b:0x10:f", "a::f", "a:f", ":f", ":7:f", "a:1000000000000000:f"}[r.IntN(8)]
	}
	bit := map[bool]string{false: "0", true: "1"}
	placed := func(p model.Placed, err error) string {
		require.NoError(t, err)
		switch {
		case p.OtherKind:
			return fmt.Sprintf("[2 %d]", s.round(p.TTL))
		case !p.OK:
			return fmt.Sprintf("[0 %d %s %s]", s.round(p.TTL), bit[p.Mixed], bit[p.Missing])
		case p.Token != "":
			return fmt.Sprintf("[1 %d %s %s %q]", p.Front, bit[p.Mixed], bit[p.Missing], p.Token)
		}
		return fmt.Sprintf("[1 %d %s %s]", p.Front, bit[p.Mixed], bit[p.Missing])
	}
	x := r.line(m)
	script := []string{"fair_acquire", "fair_acquire", "fair_acquire", "fair_transfer", "fair_transfer", "fair_transfer", "fair_release", "acquire", "acquire",
		"release", "release", "leave", "expire", "expired", "silence", "other"}[r.IntN(16)]
	if fields, _ := m.Fields(k.Lock); len(fields) == 1 && strings.HasPrefix(fields[0].Name, x.Manager+":") && r.IntN(2) == 0 {
		script = "fair_transfer"
	}
	switch script {
	case "fair_acquire":
		want = placed(m.AcquireFair(k, x, lease, tokens))
		return s.runFair(t, s.wire, script, x, lease, tokens), want, fmt.Sprintf("%s %+v %d %d", script, x, lease, tokens)
	case "fair_transfer":
		p, err := m.TransferFair(k, x, lease, tokens)
		if want = "nil"; p.OK || p.GaveWay {
			want = placed(p, err)
		}
		return s.runFair(t, s.wire, script, x, lease, tokens), want, fmt.Sprintf("%s %+v %d %d", script, x, lease, tokens)
	case "fair_release":
		released, err := m.ReleaseFair(k, x)
		require.NoError(t, err)
		return s.runFair(t, s.wire, script, x, 0, 0), "[" + bit[released.OK] + "]", fmt.Sprintf("%s %+v", script, x)
	case "acquire":
		ok, _ := m.AcquireAsRedisson(k, owner, lease, wait)
		return s.redisson(t, script, owner, wait, lease), bit[ok], fmt.Sprintf("%s %s %d", script, owner, wait)
	case "release":
		return s.redisson(t, script, owner, 0, 0), bit[m.ReleaseAsRedisson(k, owner)], script + " " + owner
	case "leave":
		m.LeaveAsRedisson(k, owner, wait)
		return s.redisson(t, script, owner, wait, 0), "0", fmt.Sprintf("%s %s %d", script, owner, wait)
	case "expire": // the deadline of a member is over
		if queue := m.Queued(k); len(queue) > 0 {
			member := queue[r.IntN(len(queue))]
			if r.over == 0 { // the same instant for all members, as the clock of the model stands still
				r.over = s.now(t) - 10000
			}
			s.do(t, "ZADD", k.Deadlines, "XX", strconv.FormatInt(r.over, 10), member)
			m.SetScore(k.Deadlines, member, -10000)
			line = member
		}
		return "", "", "expire " + line
	case "expired": // the record is gone
		s.do(t, "DEL", k.Lock)
		m.Del(k.Lock)
		return "", "", script
	case "silence": // the notes are gone
		s.do(t, "DEL", k.Waits)
		m.Del(k.Waits)
		return "", "", script
	default: // a record of another kind of lock, for one try
		if m.Exists(k.Lock) {
			return "", "", "nothing"
		}
		field := model.Field{Name: "mode", Value: "read"}
		if r.IntN(2) == 0 {
			field = model.Field{Name: "01234567-89ab-8def-8123-456789abcdef:7", Value: "1"}
		}
		s.do(t, "HSET", k.Lock, field.Name, field.Value)
		m.SetHash(k.Lock, 0, field)
		want = placed(m.AcquireFair(k, x, lease, tokens))
		got = s.runFair(t, s.wire, "fair_acquire", x, lease, tokens)
		s.do(t, "DEL", k.Lock)
		m.Del(k.Lock)
		return got, want, fmt.Sprintf("fair_acquire %+v beside another kind", x)
	}
}

// A copy of a script that has made a place the holder changes nothing in the queue: nobody
// comes before those that came earlier. It joins the place again, as its manager has had no
// answer.
func TestScript_FairCopyKeepsTheOrder(t *testing.T) {
	onBoth(t, func(t *testing.T, s *scriptServer) {
		for _, script := range []string{"fair_acquire", "fair_transfer"} {
			s.prepare(t, "")
			for i, member := range []string{"a:2:f", "b:1:f", "a:3:f", "b:2:f", "a:4:f"} {
				s.do(t, "RPUSH", fairKeys.Queue, member)
				s.do(t, "ZADD", fairKeys.Deadlines, strconv.FormatInt(s.now(t)+fairLife+int64(i), 10), member)
			}
			x := model.Line{Manager: "a", ID: 1, LifeMs: fairLife, Before: 2, Refresh: true, Places: 2, Pass: true, Number: 2, Joins: []uint64{2, 3, 4}}
			if script == "fair_transfer" {
				s.do(t, "HSET", fairKeys.Lock, "a:1:f", "1")
				x.Others = []uint64{1}
			}
			for x.ID < 4 {
				require.Equal(t, "[1 0 0 0]", s.runFair(t, s.wire, script, x, 10000, 0), "%s %d", script, x.ID)
				require.Equal(t, `["b:1:f" "a:3:f" "b:2:f" "a:4:f"]`, s.show(s.do(t, "LRANGE", fairKeys.Queue, "0", "-1")), "%s %d", script, x.ID)
				require.Equal(t, `["a:2:f" "1"]`, s.show(s.do(t, "HGETALL", fairKeys.Lock)))
				x.ID++
			}
		}
	})
}
