package script_test

import (
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// The tests of the scripts for fair locks use the name f, the managers a and b, and clients
// of Redisson whose owners are j:1, j:2 and so on.

const fairLife = 50000 // how long a place lasts here, in milliseconds

var fairKeys = struct{ Lock, Queue, Deadlines, Waits, Channel, Counter string }{
	Lock: "f", Queue: "redisson_lock_queue:{f}", Deadlines: "redisson_lock_timeout:{f}", Waits: "redisson_lock_queue:{f}:waits",
	Channel: "redisson_lock__channel:{f}", Counter: "redisson_lock_token:{f}",
}

// A fairLine is what a script does about the queue.
type fairLine struct {
	Manager              string
	ID                   uint64 // of the script
	LifeMs               int64
	Before               uint64
	Refresh              bool
	Places               int
	Pass                 bool
	Number               uint64 // the new holder
	Others, Joins, Leave []uint64
}

// runFair runs a script for fair locks.
func (s *scriptServer) runFair(t testing.TB, w *wire, script string, x fairLine, lease, tokens int64) string {
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
		f := must(strconv.ParseFloat(scores[i+1].(string), 64))(t)
		left[scores[i].(string)] = int64(f) - now
	}
	var queue, noted []string
	for _, m := range v[3].([]any) {
		queue = append(queue, s.place(m.(string), left))
	}
	fields := v[5].([]any)
	require.LessOrEqual(t, v[6], int64(fairLife))
	for i := 0; i < len(fields); i += 2 {
		n := must(strconv.ParseInt(fields[i+1].(string), 10, 64))(t)
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
			x := fairLine{Manager: "a", ID: 1, LifeMs: fairLife, Before: 2, Refresh: true, Places: 2, Pass: true, Number: 2, Joins: []uint64{2, 3, 4}}
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
