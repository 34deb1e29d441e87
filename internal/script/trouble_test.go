package script_test

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// While the server is out of memory no lock can be taken. Scripts that renew, look at or end a hold
// run all the same: see onBoth.
func TestScript_OutOfMemory(t *testing.T) {
	t.Parallel()
	s := realScripts(t)
	s.prepareFull(t, "SET T 5")
	for _, call := range []string{
		"acquire 30000 0 me:1", "acquire 30000 1 me:1", "readwrite_acquire read 30000 0 me:1", "readwrite_acquire read 30000 1 me:1",
		"readwrite_acquire write 30000 0 me:1", "readwrite_acquire write 30000 1 me:1",
	} {
		script, args, _ := strings.Cut(call, " ")
		s.requireReply(t, "!OOM", s.call(t, s.wire, script, args), call)
		s.requireState(t, `T: "5" for -1`, call)
	}
}

// A manager that has missed the message of its grant takes the lock without memory, and a manager that
// has the lock passes it on: the record is there.
func TestScript_HolderAsksWithoutMemory(t *testing.T) {
	t.Parallel()
	s := realScripts(t)
	x := fairLine{Manager: "a", ID: 1, LifeMs: fairLife, Before: 2, Pass: true, Number: 2, Others: []uint64{1}}
	for _, holder := range []string{"a:1", "a:2"} {
		for script, args := range map[string]string{
			"acquire": "30000 1 a:2 a:1", "readwrite_acquire": "write 30000 1 a:2 a:1", "fair_acquire": "",
			"transfer": "30000 1 a:2 a:1", "readwrite_transfer": "write 30000 1 a:2 a:1", "fair_transfer": "",
		} {
			key, fields := theLock, []string{holder, "1"}
			take := func() string { return s.call(t, s.wire, script, args) }
			switch {
			case strings.HasPrefix(script, "readwrite"):
				fields = []string{"mode", "write", holder + ":write", "1"}
			case args == "":
				key, fields = fairKeys.Lock, []string{holder + ":f", "1"}
				take = func() string { return s.runFair(t, s.wire, script, x, 10000, 1) }
			}
			s.prepare(t, "")
			s.do(t, append([]string{"HSET", key}, fields...)...)
			s.fill(t, true)
			require.Contains(t, take(), `"1"`, "%s %s: the token", script, holder)
			require.Contains(t, s.show(s.do(t, "HKEYS", key)), "a:2", "%s %s", script, holder)
			s.fill(t, false)
		}
	}
}

// A manager that stands in the queue of a fair lock gets memory for its scripts, so that a new request
// does not fail those that wait. Another manager gets none.
func TestScript_FairManagerInTheQueueHasMemory(t *testing.T) {
	t.Parallel()
	s := realScripts(t)
	for _, script := range []string{"fair_acquire", "fair_transfer"} {
		s.prepare(t, "")
		x := fairLine{Manager: "a", ID: 1, LifeMs: fairLife, Before: 1, Number: 1, Joins: []uint64{1}}
		s.runFair(t, s.wire, "fair_acquire", fairLine{Manager: "b", ID: 1, LifeMs: fairLife, Before: 1, Pass: true, Number: 1}, 10000, 0)
		s.runFair(t, s.wire, "fair_acquire", x, 10000, 0)
		holder := "b"
		if script == "fair_transfer" {
			s.do(t, "DEL", fairKeys.Lock)
			s.do(t, "HSET", fairKeys.Lock, "a:9:f", "1")
			holder = "a"
		}
		// The deadline of the first place moves: a client of Redisson has left.
		s.do(t, "ZADD", fairKeys.Deadlines, strconv.FormatInt(s.now(t)+3*fairLife, 10), "a:1:f")
		s.fill(t, true)
		x.ID, x.Joins, x.Others = 2, []uint64{2}, []uint64{9}
		require.NotContains(t, s.runFair(t, s.wire, script, x, 10000, 0), "OOM", script)
		require.Contains(t, s.show(s.do(t, "LRANGE", fairKeys.Queue, "0", "-1")), `"a:2:f"`, script)
		require.Contains(t, s.show(s.do(t, "HKEYS", fairKeys.Lock)), holder)
		x.Manager, x.ID = "c", 1
		s.requireReply(t, "!OOM", s.runFair(t, s.wire, "fair_acquire", x, 10000, 0))
		s.fill(t, false)
	}
}

// as returns a connection of a user who may do everything that rules do not forbid.
func (s *scriptServer) as(t testing.TB, rules ...string) *wire {
	t.Helper()
	user := userOf(t)
	require.Equal(t, `"OK"`, s.show(s.do(t, slices.Concat([]string{"ACL", "SETUSER", user, "reset", "on", ">pw", "+@all", "~*", "&*"}, rules)...)))
	w := dialWire(t, s.addr)
	require.Equal(t, "OK", w.do(t, "AUTH", user, "pw"))
	return w
}

// userOf names a user after a test.
func userOf(t testing.TB) string {
	return strings.NewReplacer("/", "-", " ", "-", "#", "-", "|", "-").Replace(t.Name())
}

// A release whose message can't be published succeeds all the same.
func TestScript_ReleaseWithoutPublish(t *testing.T) {
	t.Parallel()
	s := realScripts(t)
	for _, rules := range [][]string{{"-publish"}, {"resetchannels", "&others:*"}} {
		t.Run(rules[0], func(t *testing.T) {
			s.prepare(t, "plain L me:1")
			w := s.as(t, rules...)
			reply := s.eval(t, w, "release", []string{theLock}, []string{"me:1"})
			require.Regexp(t, `^".*(NOPERM|can't|permission).*"$`, reply, "a text, not an error")
			s.requireState(t, "")
			require.Equal(t, "nil", s.eval(t, w, "release", []string{theLock}, []string{"me:1"}))

			s.prepare(t, "plain L me:1")
			require.Equal(t, "1", s.eval(t, w, "force", []string{theLock}, []string{"me:1"}))
			s.requireState(t, "")
		})
	}
}

// A server that refuses to count subscribers does not keep a lock from being passed on.
func TestScript_WithoutNumsub(t *testing.T) {
	t.Parallel()
	s := realScripts(t)
	w := s.as(t, "-pubsub|numsub")
	s.prepare(t, "plain L me:1")
	keys := []string{theLock, theCounter}
	require.Equal(t, "-1", s.eval(t, w, "transfer", keys[:1], []string{"30000", "0", "me:2", "me:1"}))
	require.Equal(t, `[-1 "1"]`, s.eval(t, w, "transfer", keys, []string{"30000", "1", "me:3", "me:2"}))
	require.Equal(t, `[30000 -1 "1" 1 "me:3" "1"]`, s.eval(t, w, "inspect", keys, nil))
}

// A user who may not remove a field is told so, and not that the key is of another type.
func TestScript_WrittenWithoutHdel(t *testing.T) {
	t.Parallel()
	s := realScripts(t)
	s.prepare(t, "HSET L me:1 1")
	require.Regexp(t, "^!.*(NOPERM|can't|permission)", s.eval(t, s.as(t, "-hdel"), "written", []string{theLock}, nil))
}

// Scripts for permits say that the user may not ask for the time. Those for plain locks go on
// without the line.
func TestScript_WithoutTime(t *testing.T) {
	t.Parallel()
	s := realScripts(t)
	w := s.as(t, "-time")
	s.prepare(t, "")
	for _, script := range []string{"permits_acquire", "permits_release"} {
		require.Regexp(t, "^!.*(NOPERM|can't|permission)", s.call(t, w, script, "1/1 a1"), script)
	}
	require.Regexp(t, "^!.*(NOPERM|can't|permission)", s.eval(t, w, "permits_return", []string{"p", "{p}:timeout"}, nil))
	u := *s
	u.wire = w
	require.Equal(t, "nil", u.lineAcquire(t, lineCall{manager: "a", id: 1}))
	require.Equal(t, "30000", s.lineAcquire(t, lineCall{manager: "b", id: 1}))
	require.Equal(t, "[30000 0]", u.lineAcquire(t, lineCall{manager: "c", id: 1}), "it learns that it is in no line")
	require.Equal(t, "a:1=1 for 30000 b", s.line(t))
	require.Equal(t, "0", s.eval(t, w, "release", []string{theLock}, []string{"a:1"}))
	require.Equal(t, "nil", s.eval(t, w, "acquire", []string{theLock}, []string{"30000", "0", "c:1"}), "it is not known who is in the line")
}

// A manager that can't join the line takes a free lock, although another manager is first. Otherwise
// the manager would wait for ever.
func TestScript_NoWayIntoTheLine(t *testing.T) {
	t.Parallel()
	s := realScripts(t)
	u := *s
	u.wire = s.as(t, "-rpush")
	s.prepare(t, "plain L x:1")
	require.Equal(t, "20000", s.lineAcquire(t, lineCall{manager: "b", id: 1, deaf: true}))
	s.do(t, "DEL", theLock)
	require.Equal(t, "nil", u.lineAcquire(t, lineCall{manager: "c", id: 1}))
	require.Equal(t, "c:1=1 for 30000 b/d", s.line(t))
}

// A script that is stopped half-way, because the user may not use one of its commands, must not
// make a record without a TTL, harm another's record, shorten the TTL of an owner, or report a loss
// or a renewal that was none.
func TestScript_StoppedHalfway(t *testing.T) {
	t.Parallel()
	s := realScripts(t)
	states := map[string]string{
		"free":        "",
		"ours":        "plain L me:1",
		"ours longer": "HSET L me:1 1; PEXPIRE L 50000",
		"another's":   "plain L you:1",
	}
	for _, denied := range strings.Fields("exists hexists pttl incrby get hset hdel pexpire del publish pubsub hgetall") {
		t.Run(denied, func(t *testing.T) {
			w := s.as(t, "-"+denied)
			for state, given := range states {
				for _, call := range []string{
					"acquire 30000 0 me:1", "acquire 30000 2 me:1", "acquire 30000 0 me:2 me:1", "acquire 30000 2 me:2 me:1",
					"acquire_many 30000 me:1",
					"transfer 30000 0 me:2 me:1", "transfer 30000 2 me:2 me:1", "release me:1", "renew 30000 me:1",
				} {
					script, args, _ := strings.Cut(call, " ")
					s.prepare(t, given)
					before := s.state(t)[theLock]
					reply := s.call(t, w, script, args)
					after := s.state(t)[theLock]
					msg := fmt.Sprintf("%s, %s: %q became %q, reply %s", state, call, before, after, reply)
					require.False(t, strings.HasSuffix(after, "for -1"), msg)
					switch state {
					case "another's":
						require.Equal(t, before, after, msg)
					case "ours longer":
						if !strings.HasSuffix(call, "me:2 me:1") { // a new owner may need less
							require.NotContains(t, after, "for 30000", msg)
						}
						fallthrough
					case "ours":
						if script != "release" {
							require.Contains(t, after, "me:", "what has an end may be held: "+msg)
						}
						if script == "renew" && reply == "[]" {
							require.Regexp(t, "for [35]0000$", after, msg)
						}
						lost := map[string]string{"transfer": "nil", "release": "nil", "renew": "[1]"}
						require.NotEqual(t, lost[script], reply, "what can't be read is not lost: "+msg)
					}
					if reply[0] == '!' {
						require.NotEqual(t, "publish", denied, msg)
						require.NotEqual(t, "pubsub", denied, msg)
					}
				}
			}
		})
	}
}

// A manager that must wait for a plain lock joins the line without memory. Else a manager that gives
// the lock up for others could not stand in the line again.
func TestScript_RefusedManagerJoinsWithoutMemory(t *testing.T) {
	t.Parallel()
	s := realScripts(t)
	s.prepareFull(t, "plain L b:1")
	require.Equal(t, "20000", s.lineAcquire(t, lineCall{manager: "a", id: 1, deaf: true}))
	require.Equal(t, "b:1=1 for 20000 a/d", s.line(t))
	s.do(t, "DEL", theLock)
	require.Equal(t, "nil", s.lineAcquire(t, lineCall{manager: "a", id: 2, deaf: true}))
	s.fill(t, false)
}

// A script of a read-write lock that is stopped half-way, because the user may not use one of its
// commands, must not leave a record without a TTL, remove another's field, or report a renewal that
// was none.
func TestScript_SidesStoppedHalfway(t *testing.T) {
	t.Parallel()
	s := realScripts(t)
	for _, denied := range strings.Fields("exists pttl incrby get set hset hget hgetall hdel pexpire del publish pubsub") {
		w := s.as(t, "-"+denied)
		for _, given := range []string{"", "write L me:1", "read L me:1", "write L you:1", "read L you:1"} {
			for _, call := range []string{
				"acquire read 30000 0 me:1", "acquire write 30000 2 me:1", "acquire read 30000 0 me:2 me:1", "acquire write 30000 0 me:2 me:1",
				"transfer read 30000 0 me:2 me:1", "transfer write 30000 2 me:2 me:1", "release me:1", "renew 30000 read me:1", "renew 30000 write me:1",
			} {
				script, args, _ := strings.Cut(call, " ")
				s.prepare(t, given)
				reply := s.call(t, w, "readwrite_"+script, args)
				after := s.state(t)[theLock]
				msg := fmt.Sprintf("-%s, %s: %s became %q, reply %s", denied, given, call, after, reply)
				require.False(t, strings.HasSuffix(after, "for -1"), msg)
				require.Equal(t, strings.Contains(given, "you"), strings.Contains(after, "you:1"), msg)
				if reply == "[]" { // renewed
					require.Regexp(t, "for 30000$", after, msg)
				}
			}
		}
	}
}

// commands returns how many commands a server has run since the last call.
func (s *scriptServer) commands(t *testing.T) (n int) {
	t.Helper()
	text := s.do(t, "INFO", "commandstats").(string)
	for _, calls := range regexp.MustCompile(`calls=(\d+)`).FindAllStringSubmatch(text, -1) {
		k, err := strconv.Atoi(calls[1])
		require.NoError(t, err)
		n += k
	}
	s.do(t, "CONFIG", "RESETSTAT")
	return n
}

// Others may have written a hash of any numbers at the name: for each number a script looks for a
// bounded number of readers' keys.
func TestScript_RecordOfLargeNumbers(t *testing.T) {
	t.Parallel()
	s := realScripts(t)
	for _, given := range []string{
		"HSET KEY mode read created 300000; PEXPIRE KEY 90000",
		"HSET KEY mode read created 300000 me:1 1; PEXPIRE KEY 90000; SET RKEY:me:1 1 PX 20000",
	} {
		for _, call := range []string{
			"readwrite_acquire write 30000 0 me:2 me:1", "readwrite_acquire read 30000 0 me:2 me:1", "readwrite_transfer write 30000 0 me:2 me:1",
			"readwrite_transfer read 30000 0 me:2 me:1", "readwrite_release me:2 me:1", "several_acquire 30000 0 0 write me:2 me:1",
			"several_release write me:2 me:1",
		} {
			script, args, _ := strings.Cut(call, " ")
			key := map[bool]string{true: "a", false: "L"}[strings.HasPrefix(script, "several")]
			s.prepare(t, strings.ReplaceAll(given, "KEY", key))
			s.commands(t)
			s.call(t, s.wire, script, args)
			require.Less(t, s.commands(t), 5000, "%s, %s", given, call)
		}
	}
}
