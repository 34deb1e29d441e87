package script_test

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// The tests of the scripts for fair locks use the name f, the managers a and b, and clients of
// Redisson whose owners are j:1, j:2 and so on.

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
	Secret               string // for grants by message
	Fenced               bool   // they take a token
	Tell                 bool
}

// runFair runs a script for fair locks.
func (s *scriptServer) runFair(t testing.TB, w *wire, script string, x fairLine, lease, tokens int64) string {
	t.Helper()
	k := fairKeys
	keys := []string{k.Lock, k.Queue, k.Deadlines, k.Waits, k.Queue + ":absent", k.Counter}
	flag := map[bool]string{false: "0", true: "1"}
	args := []string{x.Manager}
	for _, n := range []int64{x.LifeMs, int64(x.Before)} {
		args = append(args, strconv.FormatInt(n, 10))
	}
	args = append(args, flag[x.Refresh], strconv.Itoa(x.Places), strconv.FormatInt(lease, 10), strconv.FormatInt(tokens, 10), flag[x.Pass],
		strconv.FormatUint(x.Number, 10), strconv.FormatUint(x.ID, 10), k.Channel,
		"text", "2000", x.Secret, flag[x.Fenced], flag[x.Tell])
	for _, list := range [][]uint64{x.Others, x.Joins, x.Leave} {
		args = append(args, strconv.Itoa(len(list)))
		for _, n := range list {
			args = append(args, strconv.FormatUint(n, 10))
		}
	}
	return s.eval(t, w, script, keys, args)
}

// redissonLua does what a client of Redisson does about a fair lock.
var redissonLua = sync.OnceValues(func() (string, error) {
	text, err := os.ReadFile("../../lockmgr/internal/turns/testdata/redisson.lua")
	return string(text), err
})

// redisson lets a client of Redisson acquire, leave or release. The reply is nil if the client has got
// the lock.
func (s *scriptServer) redisson(t testing.TB, verb, owner string, wait, lease int64) any {
	t.Helper()
	k := fairKeys
	reply := s.do(t, "EVAL", redistest.Must(redissonLua())(t), "3", k.Lock, k.Queue, k.Deadlines, verb, owner, strconv.FormatInt(wait, 10),
		strconv.FormatInt(lease, 10), k.Channel)
	require.NotContains(t, s.show(reply), "!")
	return reply
}

// fair prints what a server has of a fair lock: the record and its life, the queue with what each
// member has left, and what the scripts have noted.
func (s *scriptServer) fair(t testing.TB) string {
	t.Helper()
	k := fairKeys
	v := s.all(t, []string{"TIME"}, []string{"HGETALL", k.Lock}, []string{"PTTL", k.Lock}, []string{"LRANGE", k.Queue, "0", "-1"},
		[]string{"ZRANGE", k.Deadlines, "0", "-1", "WITHSCORES"}, []string{"HGETALL", k.Waits}, []string{"PTTL", k.Waits})
	now, left := permitClock(v[0]), map[string]int64{}
	scores := v[4].([]any)
	for i := 0; i < len(scores); i += 2 {
		f := redistest.Must(strconv.ParseFloat(scores[i+1].(string), 64))(t)
		left[scores[i].(string)] = int64(f) - now
	}
	var queue, noted []string
	for _, m := range v[3].([]any) {
		queue = append(queue, s.place(m.(string), left))
	}
	fields := v[5].([]any)
	require.LessOrEqual(t, v[6], int64(fairLife))
	for i := 0; i < len(fields); i += 2 {
		value, _, _ := strings.Cut(fields[i+1].(string), " ") // then what grants by message need
		n := redistest.Must(strconv.ParseInt(value, 10, 64))(t)
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

// near rounds a number of milliseconds to a multiple of grain: instants that a test sets may be
// later than those that a script reads, or earlier.
func (s *scriptServer) near(n int64) int64 { return (n + s.grain/2) / s.grain * s.grain }

// noted prints what the scripts have noted: waits, or the ID of a script.
func (s *scriptServer) noted(field string, n int64) string {
	if field[0] != '@' {
		n = s.near(n)
	}
	return fmt.Sprintf("%s=%d", field, n)
}

// A copy of a script that has made a place the holder changes nothing in the queue: nobody comes
// before those that came earlier. It joins the place again, as its manager has had no answer.
func TestScript_FairCopyKeepsTheOrder(t *testing.T) {
	onBoth(t, func(t *testing.T, s *scriptServer) {
		for _, script := range []string{"fair_acquire", "fair_transfer"} {
			s.giveQueue(t, "; a:2:f~50000 b:1:f~50001 a:3:f~50002 b:2:f~50003 a:4:f~50004")
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

// giveQueue makes a fair lock: the record of a holder, which lives for 20 seconds, the queue, and
// what the scripts have noted, with semicolons between these. A member of the queue is followed by
// the milliseconds until the deadline of the member.
func (s *scriptServer) giveQueue(t testing.TB, given string) {
	t.Helper()
	k, parts := fairKeys, append(strings.Split(given, ";"), "", "")
	s.prepare(t, "")
	for _, holder := range strings.Fields(parts[0]) {
		s.do(t, "HSET", k.Lock, holder, "1")
		s.do(t, "PEXPIRE", k.Lock, "20000")
	}
	for _, place := range strings.Fields(parts[1]) {
		member, left, _ := strings.Cut(place, "~")
		ms := redistest.Must(strconv.ParseInt(left, 10, 64))(t)
		s.do(t, "RPUSH", k.Queue, member)
		s.do(t, "ZADD", k.Deadlines, strconv.FormatInt(s.now(t)+ms, 10), member)
	}
	for _, note := range strings.Fields(parts[2]) {
		field, value, _ := strings.Cut(note, "=")
		s.do(t, "HSET", k.Waits, field, value)
		s.do(t, "PEXPIRE", k.Waits, strconv.Itoa(fairLife))
	}
}

// fairLineOf reads what a script does: the manager, the ID, the least number that waits, the new
// holder, and then words for the rest.
func fairLineOf(t testing.TB, text string) fairLine {
	words := strings.Fields(text)
	number := func(word string) uint64 { return redistest.Must(strconv.ParseUint(word, 10, 64))(t) }
	x := fairLine{Manager: words[0], ID: number(words[1]), LifeMs: fairLife, Before: number(words[2]), Number: number(words[3])}
	for _, word := range words[4:] {
		switch what, n, _ := strings.Cut(word, "="); what {
		case "other":
			x.Others = append(x.Others, number(n))
		case "join":
			x.Joins = append(x.Joins, number(n))
		case "leave":
			x.Leave = append(x.Leave, number(n))
		case "refresh":
			x.Refresh, x.Places = true, int(number(n))
		case "pass":
			x.Pass = true
		default:
			t.Fatal(word)
		}
	}
	return x
}

// fairScriptTests is a table whose messages are the ends of the channels.
const fairScriptTests = `
fair_acquire:
a wait counts from the deadline before | c:1:f; b:1:f~50000 j:1~90000 | a 1 1 1 join=1 | [0 20000 1 0] | ["c:1:f" "1"]20000[b:1:f~50000 j:1~90000 a:1:f~90000] [@a=1 j:1=40000 sum=40000]
a wait that is longer than before | c:1:f; b:1:f~50000 j:1~90000; j:1=20000 sum=20000 @b=1 | a 1 1 1 join=1 | [0 20000 1 0] | ["c:1:f" "1"]20000[b:1:f~50000 j:1~90000 a:1:f~90000] [@a=1 @b=1 j:1=40000 sum=40000]
a wait that seems shorter | c:1:f; b:1:f~50000 j:1~90000; j:1=80000 sum=80000 @b=1 | a 1 1 1 join=1 | [0 20000 1 0] | ["c:1:f" "1"]20000[b:1:f~50000 j:1~90000 a:1:f~130000] [@a=1 @b=1 j:1=80000 sum=80000]
those of Redisson move with the place before them | c:1:f; a:1:f~20000 j:1~90000 b:1:f~200000 j:2~230000; j:1=70000 j:2=30000 sum=100000 @a=1 @b=1 | a 2 1 1 refresh=1 | [0 20000 1 1] | ["c:1:f" "1"]20000[a:1:f~50000 j:1~120000 b:1:f~200000 j:2~230000] [@a=2 @b=1 j:1=70000 j:2=30000 sum=100000]
the waits of those that have gone | c:1:f; b:1:f~50000 a:1:f~60000; j:9=70000 sum=70000 @a=1 | a 2 1 1 refresh=1 | [0 20000 0 1] | ["c:1:f" "1"]20000[b:1:f~50000 a:1:f~50000] [@a=2 sum=0]
places that are over behind others | c:1:f; b:1:f~50000 a:1:f~50000 a:3:f~50000 | a 2 3 3 refresh=1 | [0 20000 0 1] | ["c:1:f" "1"]20000[b:1:f~50000 a:3:f~50000] [@a=2]
the wait of one that is over | c:1:f; j:1~-10000 b:1:f~50000; j:1=40000 sum=40000 @b=1 | a 1 1 1 join=1 | [0 20000 1 0] | ["c:1:f" "1"]20000[b:1:f~50000 a:1:f~90000] [@a=1 @b=1 sum=40000]
a refresh tells the first | ; b:1:f~50000 a:1:f~50000; @a=1 | a 2 1 1 refresh=0 | [0 50000 0 0] | []-2[b:1:f~50000 a:1:f~50000] [@a=2] | b
a copy does not shorten a life | a:1:f | a 1 1 1 | [1 0 0 0] | ["a:1:f" "1"]20000[] []
a copy that is late takes nothing | ; a:1:f~50000; @a=9 | a 2 1 1 | [0 -1 0 0] | []-2[a:1:f~50000] [@a=9]
a copy that is late does not join | c:1:f; b:1:f~50000; @a=9 | a 2 1 1 join=1 | [0 20000 0 1] | ["c:1:f" "1"]20000[b:1:f~50000] [@a=9]
behind one of Redisson | c:1:f; j:1~40000 a:1:f~60000; j:1=40000 sum=40000 @a=1 | a 2 1 1 refresh=0 | [0 20000 1 0] | ["c:1:f" "1"]20000[j:1~40000 a:1:f~90000] [@a=2 j:1=40000 sum=40000]
nothing is before the first place any more | c:1:f; a:1:f~200000 j:1~240000 | b 1 1 1 | [0 20000 1 1] | ["c:1:f" "1"]20000[a:1:f~50000 j:1~90000] [@b=1 j:1=40000 sum=40000]
places in another order | c:1:f; a:3:f~50000 b:1:f~50000 a:1:f~50000 | a 2 1 1 refresh=0 | [0 20000 0 0] | ["c:1:f" "1"]20000[a:1:f~50000 b:1:f~50000 a:3:f~50000] [@a=2]
the first | ; a:1:f~50000 a:2:f~50000 b:1:f~50000 a:3:f~50000 | a 2 1 1 | [1 2 0 0] | ["a:1:f" "1"]10000[a:2:f~50000 b:1:f~50000 a:3:f~50000] [@a=2]
the last place | ; a:1:f~50000; @a=1 | a 2 1 1 | [1 0 0 0] | ["a:1:f" "1"]10000[] []
a first place that is over | c:1:f; a:1:f~50000 b:1:f~50000 | a 2 2 2 | [0 20000 0 1] | ["c:1:f" "1"]20000[b:1:f~50000] [@a=2]
no place | ; b:1:f~50000 | a 1 1 1 | [0 50000 0 1] | []-2[b:1:f~50000] [@a=1] | b
the record of a try without an answer | a:5:f; b:1:f~50000 | a 1 6 6 other=5 join=6 | [0 50000 0 0] | []-2[b:1:f~50000 a:6:f~50000] [@a=1] | b
a place moves back by more than is counted for one behind it | c:1:f; j:0~20000 b:1:f~350000 j:2~90000; j:0=20000 j:2=40000 sum=60000 | b 2 1 1 join=1 refresh=0 | [0 20000 1 0] | ["c:1:f" "1"]20000[j:0~20000 b:1:f~70000 j:2~60000] [@b=2 j:0=20000 j:2=40000 sum=60000]
the same, and that one waits no longer than for itself | c:1:f; j:0~20000 b:1:f~350000 j:2~50000; j:0=20000 j:2=40000 sum=60000 | b 2 1 1 join=1 refresh=0 | [0 20000 1 0] | ["c:1:f" "1"]20000[j:0~20000 b:1:f~70000 j:2~50000] [@b=2 j:0=20000 j:2=40000 sum=60000]
the same at the front | c:1:f; b:1:f~350000 j:2~90000; j:2=40000 sum=40000 | b 2 1 1 join=1 refresh=0 | [0 20000 1 0] | ["c:1:f" "1"]20000[b:1:f~50000 j:2~40000] [@b=2 j:2=40000 sum=40000]
the same with two behind it | c:1:f; b:1:f~350000 j:2~90000 j:3~100000; j:2=40000 j:3=10000 sum=50000 | b 2 1 1 join=1 refresh=0 | [0 20000 1 0] | ["c:1:f" "1"]20000[b:1:f~50000 j:2~40000 j:3~50000] [@b=2 j:2=40000 j:3=10000 sum=50000]
the notes have expired | c:1:f; j:1~320000 a:1:f~370000 j:2~410000 | b 1 2 2 join=2 | [0 20000 1 0] | ["c:1:f" "1"]20000[j:1~320000 a:1:f~370000 j:2~410000 b:2:f~410000] [@b=1 j:1=320000 j:2=40000 sum=360000]

fair_transfer:
from one to the next | a:1:f | a 2 2 2 other=1 | [1 0 0 0] | ["a:2:f" "1"]10000[] []
of another manager | b:1:f | a 2 2 2 other=1 | nil | ["b:1:f" "1"]20000[] []
a copy does not give way | a:2:f; b:1:f~50000 | a 2 2 2 other=1 pass | [1 0 0 0] | ["a:2:f" "1"]20000[b:1:f~50000] [@a=2]
gives way, and the next has no place | a:1:f; b:1:f~50000 | a 2 2 2 other=1 pass | [0 50000 0 1] | []-2[b:1:f~50000] [@a=2] | b

fair_release:
one of Redisson behind a place of another manager | a:1:f; b:1:f~50000 j:1~90000 | a 2 2 0 other=1 | [1] | []-2[b:1:f~50000 j:1~90000] [@a=2 j:1=40000 sum=40000] | j:1 b
the next is of the same manager | a:1:f; a:2:f~50000 j:1~90000 | a 2 2 0 other=1 | [1] | []-2[a:2:f~50000 j:1~90000] [@a=2 j:1=40000 sum=40000]
of another manager | b:1:f; b:2:f~50000 | a 2 2 0 other=1 | [0] | ["b:1:f" "1"]20000[b:2:f~50000] [@a=2]
a place leaves | c:1:f; b:1:f~50000 a:1:f~50000 | a 2 1 0 leave=1 | [0] | ["c:1:f" "1"]20000[b:1:f~50000] [@a=2]
the record has ended | ; b:1:f~50000 | a 2 2 0 other=1 | [0] | []-2[b:1:f~50000] [@a=2] | b
`

func TestScripts_Fair(t *testing.T) {
	onBoth(t, func(t *testing.T, s *scriptServer) {
		var channels []string
		for _, who := range []string{"a", "b", "j:1"} {
			channels = append(channels, fairKeys.Channel+":"+who)
		}
		e := listen(t, s, channels...)
		for _, tt := range readTable(fairScriptTests) {
			t.Run(tt.script+"/"+tt.what, func(t *testing.T) {
				s.giveQueue(t, tt.given)
				if s.full && tt.reply == "[0]" { // a script that frees nothing gets no memory for what it notes
					return
				}
				require.Equal(t, tt.reply, s.runFair(t, s.wire, tt.script, fairLineOf(t, tt.args), 10000, 0))
				require.Equal(t, tt.then, s.fair(t))
				var told []string
				for _, m := range e.heard(t) {
					told = append(told, strings.TrimSuffix(strings.TrimPrefix(m, fairKeys.Channel+":"), " 0"))
				}
				require.Equal(t, tt.told, strings.Join(told, " "))
			})
		}
	})
}

// A queue and its deadlines may not agree: a server or an administrator has lost a part of them.
// Nobody waits for ever because of that.
func TestScript_FairBrokenQueue(t *testing.T) {
	onBoth(t, func(t *testing.T, s *scriptServer) {
		k := fairKeys
		s.prepare(t, "")
		s.do(t, "RPUSH", k.Queue, "j:1", "b:3:f")
		x := fairLine{Manager: "a", ID: 1, LifeMs: fairLife, Before: 1, Number: 1, Joins: []uint64{1}}
		require.Equal(t, "[1 0 0 0]", s.runFair(t, s.wire, "fair_acquire", x, 1000, 0), "the first members have no deadlines")
		require.Empty(t, s.do(t, "LRANGE", k.Queue, "0", "-1"))

		s.prepare(t, "")
		s.do(t, "HSET", k.Lock, "b:1:f", "1")
		s.do(t, "RPUSH", k.Queue, "b:2:f")
		s.do(t, "ZADD", k.Deadlines, "9999999999999", "a:1:f", "9999999999999", "b:2:f")
		x.Refresh = true
		s.runFair(t, s.wire, "fair_acquire", x, 1000, 0)
		require.Equal(t, []any{"b:2:f", "a:1:f"}, s.do(t, "LRANGE", k.Queue, "0", "-1"), "a deadline without a place")
	})
}

// A release whose user may not change the queue frees the lock. If only places leave, the script says
// that it has failed, because the places are still there. An acquire whose user may not set a lease
// leaves no lock.
func TestScript_FairStoppedHalfway(t *testing.T) {
	t.Parallel()
	s := realScripts(t)
	w := s.as(t, "-lrem", "-pexpire")
	leave := fairLine{Manager: "a", ID: 2, LifeMs: fairLife, Leave: []uint64{2}}
	s.giveQueue(t, "a:1:f; a:2:f~50000")
	require.Regexp(t, "^!.*(NOPERM|can't|permission)", s.runFair(t, w, "fair_release", leave, 10000, 0))
	leave.Others = []uint64{1}
	s.giveQueue(t, "a:1:f; a:2:f~50000")
	require.Regexp(t, `^\[1 ".*(NOPERM|can't|permission)`, s.runFair(t, w, "fair_release", leave, 10000, 0))
	require.Equal(t, []any{int64(0), int64(1)}, s.all(t, []string{"EXISTS", fairKeys.Lock}, []string{"LLEN", fairKeys.Queue}))
	s.giveQueue(t, "")
	take := fairLine{Manager: "a", ID: 3, LifeMs: fairLife, Before: 3, Number: 3}
	require.Regexp(t, "^!.*(NOPERM|can't|permission)", s.runFair(t, w, "fair_acquire", take, 10000, 0))
	require.Equal(t, int64(0), s.do(t, "EXISTS", fairKeys.Lock))
}

// A client of Redisson that is the last to leave the queue does not know what the scripts have
// noted. The notes end within the time for which a place lasts.
func TestScript_FairNotesEndBehindRedisson(t *testing.T) {
	onBoth(t, func(t *testing.T, s *scriptServer) {
		acquire := fairLine{Manager: "a", ID: 1, LifeMs: fairLife, Before: 1, Number: 1}
		release := fairLine{Manager: "a", ID: 2, LifeMs: fairLife, Before: 2, Others: []uint64{1}}
		queued := fairLine{Manager: "b", ID: 1, LifeMs: fairLife, Before: 1, Number: 1, Joins: []uint64{1}}
		leaves := fairLine{Manager: "b", ID: 2, LifeMs: fairLife, Before: 2, Leave: []uint64{1}}
		for name, script := range map[string]func(){
			"the holder releases": func() { s.runFair(t, s.wire, "fair_release", release, 0, 0) },
			"a request leaves": func() {
				s.runFair(t, s.wire, "fair_acquire", queued, 1000, 0)
				s.runFair(t, s.wire, "fair_release", leaves, 0, 0)
			},
			"a request is refused": func() {
				s.runFair(t, s.wire, "fair_acquire", fairLine{Manager: "b", ID: 1, LifeMs: fairLife, Before: 2, Number: 1}, 1000, 0)
			},
			"a late copy runs": func() {
				s.runFair(t, s.wire, "fair_acquire", queued, 1000, 0)
				s.runFair(t, s.wire, "fair_release", leaves, 0, 0)
				s.runFair(t, s.wire, "fair_acquire", queued, 1000, 0)
			},
		} {
			s.prepare(t, "")
			require.Equal(t, "[1 0 0 0]", s.runFair(t, s.wire, "fair_acquire", acquire, 100000, 0))
			require.NotNil(t, s.redisson(t, "acquire", "j:1", 300000, 100000))
			script()
			s.runFair(t, s.wire, "fair_release", release, 0, 0)
			require.Nil(t, s.redisson(t, "acquire", "j:1", 300000, 100000))
			s.redisson(t, "release", "j:1", 0, 0)
			for key, state := range s.state(t) {
				require.Equal(t, fairKeys.Waits, key, name)
				require.Regexp(t, ` for 50000$`, state, name)
			}
		}
	})
}

// The places of managers that died end by themselves, with all that the scripts have written. A
// queue in which a client of Redisson waits stays.
func TestScript_FairQueueEndsWithItsPlaces(t *testing.T) {
	onBoth(t, func(t *testing.T, s *scriptServer) {
		k := fairKeys
		held := fairLine{Manager: "a", ID: 1, LifeMs: fairLife, Before: 1, Number: 1}
		waits := fairLine{Manager: "b", ID: 1, LifeMs: fairLife, Before: 1, Number: 1, Joins: []uint64{1, 3}}
		passes := fairLine{Manager: "a", ID: 2, LifeMs: fairLife, Before: 2, Number: 2, Others: []uint64{1}, Joins: []uint64{2, 4}}
		release := fairLine{Manager: "a", ID: 3, LifeMs: fairLife, Before: 2, Others: []uint64{1, 2}}
		ttls := func() map[any]any {
			return map[any]any{k.Queue: s.show(s.do(t, "PTTL", k.Queue)), k.Deadlines: s.show(s.do(t, "PTTL", k.Deadlines)), k.Waits: s.show(s.do(t, "PTTL", k.Waits))}
		}
		ours, mixed := map[any]any{k.Queue: "50000", k.Deadlines: "50000", k.Waits: "50000"}, map[any]any{k.Queue: "1000000000000", k.Deadlines: "1000000000000", k.Waits: "50000"}
		s.prepare(t, "")
		s.runFair(t, s.wire, "fair_acquire", held, 1000, 0)
		s.runFair(t, s.wire, "fair_acquire", waits, 1000, 0)
		require.Equal(t, ours, ttls(), "after an acquire")
		s.do(t, "PERSIST", k.Queue)
		s.runFair(t, s.wire, "fair_transfer", passes, 1000, 0)
		require.Equal(t, ours, ttls(), "after a transfer")
		s.do(t, "PERSIST", k.Deadlines)
		s.runFair(t, s.wire, "fair_release", release, 0, 0)
		require.Equal(t, ours, ttls(), "after a release")

		require.NotNil(t, s.redisson(t, "acquire", "j:1", 300000, 100000))
		waits.ID, waits.Refresh = 2, true
		s.runFair(t, s.wire, "fair_acquire", waits, 1000, 0)
		require.Equal(t, mixed, ttls(), "Redisson waits behind places")
		s.redisson(t, "leave", "j:1", 300000, 0)
		waits.ID = 3
		s.runFair(t, s.wire, "fair_acquire", waits, 1000, 0)
		waits.ID = 4
		s.runFair(t, s.wire, "fair_acquire", waits, 1000, 0)
		require.Equal(t, ours, ttls(), "Redisson has left")
	})
}

// A script that frees the lock makes the first place its holder and says so in a message, if the
// manager of the place asks for that, hears it, and was last seen by the same server.
func TestScript_FairGrantByMessage(t *testing.T) {
	t.Parallel()
	s := realScripts(t)
	s.grain = 2000 // of the lease of a grant
	k := fairKeys
	const secret = "5ec7e7"
	e := listen(t, s, k.Channel+":b", k.Channel+":j:1")
	release := fairLine{Manager: "a", ID: 2, Before: 2, Others: []uint64{1}}
	fenced := false
	// waits puts place 7 of b behind a's hold.
	waits := func(t *testing.T, secret string) {
		s.prepare(t, "")
		s.do(t, "HSET", k.Lock, "a:1:f", "1")
		s.do(t, "PEXPIRE", k.Lock, "20000")
		x := fairLine{Manager: "b", ID: 1, LifeMs: fairLife, Before: 7, Number: 7, Joins: []uint64{7, 8}, Secret: secret, Fenced: fenced}
		require.Equal(t, "[0 20000 0 0]", s.runFair(t, s.wire, "fair_acquire", x, 10000, 0))
	}
	granted := func(t *testing.T) {
		t.Helper()
		heard := e.heard(t)
		require.Len(t, heard, 1)
		require.Regexp(t, `^redisson_lock__channel:{f}:b 7 text \d+ 2000 \d+ [0-9a-f]{40}$`, heard[0])
		words := strings.Fields(heard[0])
		elapsed := redistest.Must(strconv.Atoi(words[3]))(t)
		require.InDelta(t, 500_000, elapsed, 499_999, "microseconds since b's script")
		sum := sha1.Sum([]byte(secret + k.Lock + " " + strings.Join(words[1:6], " ")))
		require.Equal(t, hex.EncodeToString(sum[:]), words[6])
		if counter := s.do(t, "GET", k.Counter); fenced {
			require.Equal(t, counter, words[5])
		} else {
			require.Equal(t, "0", words[5])
		}
		require.Equal(t, `["b:7:f" "1"] 2000 ["b:8:f"]`, fmt.Sprint(s.show(s.do(t, "HGETALL", k.Lock)), " ", s.show(s.do(t, "PTTL", k.Lock)), " ", s.show(s.do(t, "LRANGE", k.Queue, "0", "-1"))))
		require.Nil(t, s.do(t, "ZSCORE", k.Deadlines, "b:7:f"))
	}
	onlyTold := func(t *testing.T) {
		t.Helper()
		require.Equal(t, []string{k.Channel + ":b 0"}, e.heard(t))
		require.Equal(t, "[]", s.show(s.do(t, "HGETALL", k.Lock)))
		require.Equal(t, `["b:7:f" "b:8:f"]`, s.show(s.do(t, "LRANGE", k.Queue, "0", "-1")))
	}
	run := func(t *testing.T, script string, x fairLine, reply string) {
		t.Helper()
		x.LifeMs = fairLife
		require.Equal(t, reply, s.runFair(t, s.wire, script, x, 10000, 0))
	}
	for script, test := range map[string]func(t *testing.T){
		"fair_release": func(t *testing.T) { run(t, "fair_release", release, "[1]") },
		"fair_transfer": func(t *testing.T) {
			run(t, "fair_transfer", fairLine{Manager: "a", ID: 2, Before: 2, Number: 2, Others: []uint64{1}, Joins: []uint64{2}, Pass: true}, "[0 2000 0 0]")
			s.do(t, "LREM", k.Queue, "1", "a:2:f")
		},
		"fair_acquire": func(t *testing.T) { // finds that the record has ended
			s.do(t, "DEL", k.Lock)
			run(t, "fair_acquire", fairLine{Manager: "c", ID: 1, Before: 1, Number: 1, Joins: []uint64{1}}, "[0 2000 0 0]")
			s.do(t, "LREM", k.Queue, "1", "c:1:f")
		},
	} {
		t.Run(script, func(t *testing.T) {
			waits(t, secret)
			test(t)
			granted(t)
		})
	}
	t.Run("the grant is found", func(t *testing.T) {
		waits(t, secret)
		run(t, "fair_release", release, "[1]")
		granted(t)
		run(t, "fair_release", release, "[0]")
		require.Empty(t, e.heard(t), "a late copy")
		run(t, "fair_acquire", fairLine{Manager: "b", ID: 2, Before: 7, Number: 7}, "[1 8 0 0]")
	})
	t.Run("a place that leaves was granted", func(t *testing.T) {
		for _, script := range []string{"fair_release", "fair_acquire"} {
			waits(t, secret)
			run(t, "fair_release", release, "[1]")
			granted(t)
			if script == "fair_release" {
				run(t, script, fairLine{Manager: "b", ID: 2, Before: 8, Leave: []uint64{7, 8}}, "[1]")
				require.Equal(t, "[]", s.show(s.do(t, "HGETALL", k.Lock)))
			} else {
				run(t, script, fairLine{Manager: "b", ID: 2, Before: 8, Number: 8, Leave: []uint64{7}}, "[1 0 0 0]")
				require.Equal(t, `["b:8:f" "1"]`, s.show(s.do(t, "HGETALL", k.Lock)))
			}
		}
	})
	t.Run("a transfer needs a record that was its manager's all the time", func(t *testing.T) {
		waits(t, secret)
		run(t, "fair_release", release, "[1]")
		granted(t)
		run(t, "fair_transfer", fairLine{Manager: "b", ID: 2, Before: 8, Number: 8, Others: []uint64{6}, Leave: []uint64{7}}, "nil")
	})
	t.Run("with a token", func(t *testing.T) {
		fenced = true
		for _, before := range []string{"", "41", "9007199254740993"} { // more than a Lua number has
			waits(t, secret)
			if before != "" {
				s.do(t, "SET", k.Counter, before)
			}
			run(t, "fair_release", release, "[1]")
			granted(t)
		}
		waits(t, secret)
		s.do(t, "HSET", k.Counter, "of", "another type")
		run(t, "fair_release", release, "[1]")
		onlyTold(t)
		fenced = false
	})
	for _, tt := range []struct {
		what, secret string
		between      func(t *testing.T, x *fairLine)
	}{
		{"not now", secret, func(_ *testing.T, x *fairLine) { x.Tell = true }},
		{"not asked for", "", func(*testing.T, *fairLine) {}},
		{"seen by another server", secret, func(t *testing.T, _ *fairLine) {
			noted := strings.Fields(s.do(t, "HGET", k.Waits, "@b").(string))
			noted[6] = strings.Repeat("0", 40)
			s.do(t, "HSET", k.Waits, "@b", strings.Join(noted, " "))
		}},
		{"a failover", secret, func(t *testing.T, _ *fairLine) {
			s.do(t, "REPLICAOF", "127.0.0.1", "1")
			s.do(t, "REPLICAOF", "NO", "ONE")
		}},
	} {
		t.Run(tt.what, func(t *testing.T) {
			waits(t, tt.secret)
			x := release
			tt.between(t, &x)
			run(t, "fair_release", x, "[1]")
			onlyTold(t)
		})
	}
	t.Run("nobody hears it", func(t *testing.T) {
		waits(t, secret)
		e.do(t, "UNSUBSCRIBE", k.Channel+":b")
		replica := dialWire(t, s.addr) // hears all messages, and no script counts it
		replica.do(t, "PSUBSCRIBE", k.Channel+":*")
		run(t, "fair_release", release, "[1]")
		message := redistest.Must(replica.Receive())(t)
		require.Equal(t, []any{"pmessage", k.Channel + ":*", k.Channel + ":b", "0"}, message, "no grant that can't be taken back")
		replica.Close()
		e.do(t, "SUBSCRIBE", k.Channel+":b")
		require.Equal(t, "[]", s.show(s.do(t, "HGETALL", k.Lock)))
		require.Equal(t, `["b:7:f" "b:8:f"]`, s.show(s.do(t, "LRANGE", k.Queue, "0", "-1")))
		till := redistest.Must(strconv.ParseInt(s.do(t, "ZSCORE", k.Deadlines, "b:7:f").(string), 10, 64))(t)
		require.Less(t, till, s.now(t)+fairLife*2/5+1, "the place ends soon")
	})
	t.Run("a manager that has died is served once", func(t *testing.T) {
		waits(t, secret)
		run(t, "fair_acquire", fairLine{Manager: "c", ID: 1, Before: 1, Number: 1, Joins: []uint64{1}}, "[0 20000 0 0]")
		run(t, "fair_release", release, "[1]")
		require.Len(t, e.heard(t), 1)
		s.do(t, "DEL", k.Lock) // its lease is over
		c := fairLine{Manager: "c", ID: 2, Before: 1, Number: 1}
		run(t, "fair_acquire", c, "[0 50000 0 0]")
		require.Equal(t, []string{k.Channel + ":b 0"}, e.heard(t), "it may live")
		s.do(t, "HSET", k.Waits, "@b", "1 "+strconv.FormatInt(s.now(t)-1, 10))
		c.ID++
		run(t, "fair_acquire", c, "[1 0 0 0]")
		require.Empty(t, s.do(t, "LRANGE", k.Queue, "0", "-1"))
		require.Nil(t, s.do(t, "ZSCORE", k.Deadlines, "b:8:f"))
	})
	t.Run("a manager that lives is served again", func(t *testing.T) {
		waits(t, secret)
		run(t, "fair_release", release, "[1]")
		granted(t)
		s.do(t, "HSET", k.Waits, "@b", "1 "+strconv.FormatInt(s.now(t)-1, 10))
		run(t, "fair_release", fairLine{Manager: "b", ID: 2, Before: 8, Others: []uint64{7}, Secret: secret}, "[1]")
		s.do(t, "HSET", k.Lock, "a:3:f", "1")
		run(t, "fair_release", fairLine{Manager: "a", ID: 3, Before: 4, Others: []uint64{3}}, "[1]")
		heard := e.heard(t)
		require.Len(t, heard, 1)
		require.Regexp(t, ":b 8 text ", heard[0])
	})
	t.Run("the user may not use all commands", func(t *testing.T) {
		fenced = true
		for _, command := range []string{"info", "pubsub|numsub", "get", "pexpireat"} {
			s.do(t, "ACL", "SETUSER", "u", "reset", "on", ">p", "~*", "&*", "+@all", "-"+command)
			other := dialWire(t, s.addr)
			other.do(t, "AUTH", "u", "p")
			waits(t, secret)
			x := release
			x.LifeMs = fairLife
			require.Equal(t, "[1]", s.runFair(t, other, "fair_release", x, 10000, 0), command)
			onlyTold(t)
		}
		fenced = false
	})
	t.Run("one of Redisson is first", func(t *testing.T) {
		s.prepare(t, "")
		s.do(t, "HSET", k.Lock, "a:1:f", "1")
		require.NotNil(t, s.redisson(t, "acquire", "j:1", 300000, 100000))
		run(t, "fair_release", release, "[1]")
		require.Equal(t, []string{k.Channel + ":j:1 0"}, e.heard(t))
	})
}
