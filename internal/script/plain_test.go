package script_test

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

func TestScripts(t *testing.T) { runTable(t, scriptTests, theChannel) }

const scriptTests = `
acquire:
free | | 30000 0 me:1 | nil | L: me:1=1 for 30000
free, with owners that it might carry | | 30000 0 me:1 me:2 me:3 | nil | L: me:1=1 for 30000
free, tokens | | 30000 3 me:1 | "3" | L: me:1=1 for 30000; T: "3" for -1 | | "6" | L: me:1=1 for 30000; T: "6" for -1
tokens go on where they were | SET T 41 | 30000 1 me:1 | "42" | L: me:1=1 for 30000; T: "42" for -1 | | "43" | L: me:1=1 for 30000; T: "43" for -1
tokens of more than 53 bits | SET T 9007199254740992 | 30000 1 me:1 | "9007199254740993" | L: me:1=1 for 30000; T: "9007199254740993" for -1 | | "9007199254740994" | L: me:1=1 for 30000; T: "9007199254740994" for -1
the last token there is | SET T 9223372036854775806 | 30000 1 me:1 | "9223372036854775807" | L: me:1=1 for 30000; T: "9223372036854775807" for -1 | | !ERR increment or decrement would overflow
no token left | SET T 9223372036854775807 | 30000 1 me:1 | !ERR increment or decrement would overflow | T: "9223372036854775807" for -1
counter is no number | SET T x | 30000 1 me:1 | !ERR value is not an integer | T: "x" for -1
counter is no string | HSET T a 1 | 30000 1 me:1 | !WRONGTYPE | T: a=1 for -1
held | plain L you:1 | 30000 0 me:1 | 20000 | L: you:1=1 for 20000
held, takes no token | plain L you:1; SET T 5 | 30000 1 me:1 me:2 | 20000 | L: you:1=1 for 20000; T: "5" for -1
held without end | HSET L you:1 1 | 30000 0 me:1 | -1 | L: you:1=1 for -1
held by Redisson, twice | HSET L 8743c9c0-0795-4907-87fd-6c719a6b4586:17 2; PEXPIRE L 20000 | 30000 0 me:1 | 20000 | L: 8743c9c0-0795-4907-87fd-6c719a6b4586:17=2 for 20000
a hash that is no lock | HSET L colour green | 30000 0 me:1 | -1 | L: colour=green for -1
an owner is more than its beginning | plain L me:11 | 30000 0 me:1 | 20000 | L: me:11=1 for 20000
own, prolonged | plain L me:1 | 30000 0 me:1 | nil | L: me:1=1 for 30000
own, not shortened | HSET L me:1 1; PEXPIRE L 50000 | 30000 0 me:1 | nil | L: me:1=1 for 50000
own, gets its end back | HSET L me:1 1 | 30000 0 me:1 | nil | L: me:1=1 for 30000
own, count is put right | HSET L me:1 3; PEXPIRE L 20000 | 30000 0 me:1 | nil | L: me:1=1 for 30000
taken over | plain L me:1 | 30000 0 me:2 me:1 | nil | L: me:2=1 for 30000
taken over from the last of many | HSET L me:4 1 me:5 1; PEXPIRE L 50000 | 30000 0 me:2 me:1 me:3 me:4 me:5 | nil | L: me:2=1 for 30000
taken over, tokens | plain L me:1; SET T 7 | 30000 2 me:2 me:1 | "9" | L: me:2=1 for 30000; T: "9" for -1 | | "11" | L: me:2=1 for 30000; T: "11" for -1
other fields are left alone | HSET L me:1 1 you:1 1; PEXPIRE L 20000 | 30000 0 me:2 me:1 | nil | L: me:2=1 you:1=1 for 30000
a string | SET L hello | 30000 0 me:1 | !WRONGTYPE | L: "hello" for -1
a list | RPUSH L hello; PEXPIRE L 20000 | 30000 1 me:1 | !WRONGTYPE | L: list for 20000

transfer:
passed on | plain L me:1 | 30000 0 me:2 me:1 | 1 | L: me:2=1 for 30000
shortened | HSET L me:1 1; PEXPIRE L 50000 | 30000 0 me:2 me:1 | 1 | L: me:2=1 for 30000
a copy does not shorten | HSET L me:2 1; PEXPIRE L 50000 | 30000 0 me:2 me:1 | 1 | L: me:2=1 for 50000
gets its end back | HSET L me:1 1 | 30000 0 me:2 me:1 | 1 | L: me:2=1 for 30000
to itself | plain L me:2 | 30000 0 me:2 | 1 | L: me:2=1 for 30000
from any of many | plain L me:3 | 30000 0 me:9 me:1 me:2 me:3 | 1 | L: me:9=1 for 30000
passed on, tokens | plain L me:1; SET T 9007199254740991 | 30000 4 me:2 me:1 | [1 "9007199254740995"] | L: me:2=1 for 30000; T: "9007199254740995" for -1 | | [1 "9007199254740999"] | L: me:2=1 for 30000; T: "9007199254740999" for -1
lost: nothing there | | 30000 2 me:2 me:1 | nil
lost: another's | plain L you:1; SET T 3 | 30000 2 me:2 me:1 | nil | L: you:1=1 for 20000; T: "3" for -1
a string | SET L hello | 30000 0 me:2 me:1 | !WRONGTYPE | L: "hello" for -1
counter is no number | plain L me:1; SET T x | 30000 1 me:2 me:1 | !ERR value is not an integer | L: me:1=1 for 20000; T: "x" for -1

release:
held | plain L me:1 | me:1 | 1 | | L 00 | nil
under the name of any | plain L me:3 | me:1 me:2 me:3 | 1 | | L 00 | nil
two names at once | HSET L me:1 1 me:2 1; PEXPIRE L 20000 | me:1 me:2 | 1 | | L 00 | nil
counter is kept | HSET L me:1 1; SET T 5 | me:1 | 1 | T: "5" for -1 | L 00 | nil
nothing there | | me:1 | nil
another's | plain L you:1 | me:1 me:2 | nil | L: you:1=1 for 20000
Redisson's | HSET L 8743c9c0-0795-4907-87fd-6c719a6b4586:17 2; PEXPIRE L 20000 | me:1 | nil | L: 8743c9c0-0795-4907-87fd-6c719a6b4586:17=2 for 20000
a string | SET L hello | me:1 | !WRONGTYPE | L: "hello" for -1

reserve:
kept for less | HSET L me:1 1; PEXPIRE L 60000 | 20000 who me:1 | 1 | L: me:1:kept=who for 20000 | L 000 | nil
kept, whichever is there | HSET L me:3 1; PEXPIRE L 60000 | 20000 who me:1 me:3 me:2 | 1 | L: me:1:kept=who for 20000 | L 000 | nil
kept for longer | plain L me:1 | 60000 who me:1 | 1 | L: me:1:kept=who for 60000 | L 000 | nil
kept, without an end | HSET L me:1 1 | 20000 who me:1 | 1 | L: me:1:kept=who for 20000 | L 000 | nil
kept, nothing there | | 20000 who me:1 | nil
kept, another's | HSET L you:1 1; PEXPIRE L 60000 | 20000 who me:1 me:2 | nil | L: you:1=1 for 60000
kept already | HSET L me:1:kept 1; PEXPIRE L 60000 | 20000 who me:1 | nil | L: me:1:kept=1 for 60000
kept, a string | SET L hello | 20000 who me:1 | !WRONGTYPE | L: "hello" for -1

force:
held | HSET L you:1 2; PEXPIRE L 20000; SET T 5 | you:1 | 1 | T: "5" for -1 | L 000 | 0
held by another by now | plain L you:2 | you:1 | -1 | L: you:2=1 for 20000 | | -1
held by more by now | HSET L you:1 1 you:2 1; PEXPIRE L 20000 | you:1 | -1 | L: you:1=1 you:2=1 for 20000 | | -1
nothing there | | you:1 | 0
a string | SET L hello | you:1 | !WRONGTYPE | L: "hello" for -1

inspect:
free | | | [-2 1 nil 0]
free, tokens | SET T 9007199254740993 | | [-2 1 "9007199254740993" 0] | T: "9007199254740993" for -1
held | HSET L you:1 2; PEXPIRE L 20000 | | [20000 1 nil 1 "you:1" "2"] | L: you:1=2 for 20000
without end | HSET L you:1 2 | | [-1 1 nil 1 "you:1" "2"] | L: you:1=2 for -1
a string | SET L hello | | !WRONGTYPE | L: "hello" for -1
`

// A renewal of several leases returns the positions of those that are lost, and renews the others.
func TestScript_Renew(t *testing.T) {
	const given = "HSET a me:1 1; PEXPIRE a 10000; " + // shorter
		"HSET b you:1 1; PEXPIRE b 10000; " + // another's
		"HSET c me:3 1; PEXPIRE c 50000; " + // longer
		// d is gone
		"SET e hello; " + // no lock
		"HSET f me:6 1; " + // lives for ever
		"RPUSH g x; PEXPIRE g 10000; " + // no lock either
		"HSET h me:1 1 you:1 1; PEXPIRE h 10000" // not that owner
	const then = `a: me:1=1 for 30000; b: you:1=1 for 10000; c: me:3=1 for 50000; e: "hello" for -1; ` +
		`f: me:6=1 for 30000; g: list for 10000; h: me:1=1 you:1=1 for 10000`
	keys := strings.Fields("a b c d e f g h")
	args := strings.Fields("30000 me:1 me:2 me:3 me:4 me:5 me:6 me:7 me:8")
	onBoth(t, func(t *testing.T, s *scriptServer) {
		e := listen(t, s, "redisson_lock__channel:{a}")
		s.prepare(t, given)
		for _, run := range []string{"first run", "second run"} {
			require.Equal(t, "[2 4 5 7 8]", s.eval(t, s.wire, "renew", keys, args), run)
			s.requireState(t, then, run)
		}
		s.prepare(t, "HSET a me:1 1; PEXPIRE a 10000")
		require.Equal(t, "[]", s.eval(t, s.wire, "renew", keys[:1], args[:2]), "nothing lost")
		require.Equal(t, "[]", s.eval(t, s.wire, "renew", nil, args[:1]), "nothing asked")
		s.requireState(t, "a: me:1=1 for 30000")
		require.Empty(t, e.heard(t))
	})
}

// A release returns how many subscribers got its message, a transfer and an inspection how many
// there are.
func TestScript_Subscribers(t *testing.T) {
	onBoth(t, func(t *testing.T, s *scriptServer) {
		for n := range 3 {
			s.prepare(t, "plain L me:1")
			keys := []string{theLock}
			require.Equal(t, fmt.Sprint(n), s.eval(t, s.wire, "transfer", keys, []string{"30000", "0", "me:2", "me:1"}))
			require.Equal(t, fmt.Sprintf("[30000 %d nil 1 \"me:2\" \"1\"]", n), s.eval(t, s.wire, "inspect", append(keys, theCounter), nil))
			require.Equal(t, fmt.Sprint(n), s.eval(t, s.wire, "release", keys, []string{"me:2"}))
			listen(t, s, theChannel)
		}
	})
}

// A copy of any script that runs late does not disturb a later holder.
func TestScript_LateCopies(t *testing.T) {
	onBoth(t, func(t *testing.T, s *scriptServer) {
		e := listen(t, s, theChannel)
		run := func(script string, args ...string) string {
			return s.call(t, s.wire, script, strings.Join(args, " "))
		}
		require.Equal(t, "nil", run("acquire", "30000", "0", "me:1"))
		require.Equal(t, "1", run("release", "me:1"))
		require.Equal(t, "nil", run("acquire", "30000", "0", "you:1"))
		e.heard(t)
		for _, late := range []string{"acquire 30000 0 me:1", "transfer 60000 0 me:2 me:1", "release me:1 me:2"} {
			words := strings.Fields(late)
			require.NotEqual(t, "1", run(words[0], words[1:]...), late)
			s.requireState(t, "L: you:1=1 for 30000", late)
		}
		require.Equal(t, "[1]", run("renew", "60000", "me:1"))
		s.requireState(t, "L: you:1=1 for 30000")
		require.Empty(t, e.heard(t))
	})
}

var (
	digits = regexp.MustCompile(`\d+`)
	turn   = regexp.MustCompile(`\b[1-9]\d{2,3}\b`) // what is left of the time that a manager in the line has to ask
)

// A script for many locks does for each what the script for one does, whatever was done before. The
// locks a1, b1 and c1 get one call for all of them, and a2, b2 and c2 a call each.
func TestScript_ManyLikeOne(t *testing.T) {
	const names = "abc"
	onBoth(t, func(t *testing.T, s *scriptServer) {
		var channels []string
		for _, n := range strings.Split(names, "") {
			for _, key := range []string{n + "1", n + "2"} {
				channels = append(channels, channelName(key), channelName(key)+":b")
			}
		}
		e, seen := listen(t, s, channels...), map[string]int{}
		for seed := range uint64(4) {
			r := rand.New(rand.NewPCG(seed, 5))
			s.prepare(t, "")
			var trace []string
			for range 60 {
				script, lease := []string{"acquire", "release", "other", "line"}[r.IntN(4)], strconv.Itoa(10000*(1+r.IntN(3)))
				if script == "line" { // another manager takes a name, or stands in the line for it
					key, id := names[r.IntN(3):][:1], strconv.Itoa(len(trace))
					trace = append(trace, "b wants "+key)
					for _, key := range []string{key + "1", key + "2"} {
						s.run(t, s.wire, "acquire", []string{key}, []string{lease, "0", "b " + id + " 50000 ", "b:" + id})
					}
					continue
				}
				if script == "other" { // the record of a name becomes another one
					key, how := names[r.IntN(3):][:1], r.IntN(5)
					trace = append(trace, fmt.Sprint(key, " becomes ", how))
					for _, key := range []string{key + "1", key + "2"} {
						s.do(t, "DEL", key)
						switch how {
						case 0:
							s.do(t, "SET", key, "x")
						case 1:
							s.do(t, "HSET", key, "mode", "read", "you:1", "1")
						case 2:
							s.do(t, "HSET", key, "you:1:f", "1")
						case 3:
							s.do(t, "HSET", key, "you:1", "1")
							s.do(t, "PEXPIRE", key, "50000")
						}
					}
					continue
				}
				var keys, owners, want, twins []string
				for i, n := range r.Perm(3)[:1+r.IntN(3)] {
					key, owner := names[n:][:1], "me:"+strconv.Itoa(1+r.IntN(2))
					keys, owners = append(keys, key+"1"), append(owners, owner)
					twins = append(twins, key+"2")
					args := map[string][]string{"acquire": {lease, "0", owner}, "release": {owner}}[script]
					want = append(want, turn.ReplaceAllString(s.eval(t, s.wire, script, twins[i:], args), "2000"))
				}
				saidOfOne := e.heard(t)
				args := owners
				if script == "acquire" {
					args = append([]string{lease}, owners...)
				}
				trace = append(trace, fmt.Sprint(script, keys, args))
				told := fmt.Sprintf("seed %d\n%s", seed, strings.Join(trace, "\n"))
				all := s.evalRaw(t, s.wire, script+"_many", keys, args).([]any)
				require.Len(t, all, len(keys), told)
				for i := range all {
					got := turn.ReplaceAllString(s.show(all[i]), "2000")
					if strings.HasPrefix(got, "!") { // miniredis says it in other words
						require.True(t, strings.HasPrefix(want[i], "!"), told)
						got = "error"
					} else {
						require.Equal(t, want[i], got, told)
					}
					seen[script+" "+digits.ReplaceAllString(got, "N")]++
				}
				var saidOfMany []string
				for _, m := range e.heard(t) {
					saidOfMany = append(saidOfMany, strings.Replace(m, "1}", "2}", 1))
				}
				require.Equal(t, saidOfOne, saidOfMany, told)
				state := s.state(t)
				for _, key := range keys {
					require.Equal(t, state[key[:1]+"2"], state[key], told)
				}
			}
		}
		for _, form := range []string{"acquire nil", "acquire N", "acquire [-N]", "acquire error", "release nil", "release N", "release [N N]", "release error"} {
			require.NotZero(t, seen[form], "%s among %v", form, seen)
		}
	})
}

// The parts of Redisson's own scripts that concern the record. Each side must understand a record
// that the other has written.
const (
	redissonLock = `
		if redis.call('exists', KEYS[1]) == 0 or redis.call('hexists', KEYS[1], ARGV[2]) == 1 then
			redis.call('hincrby', KEYS[1], ARGV[2], 1)
			redis.call('pexpire', KEYS[1], ARGV[1])
			return nil
		end
		return redis.call('pttl', KEYS[1])`
	redissonUnlock = `
		if redis.call('hexists', KEYS[1], ARGV[2]) == 0 then return nil end
		if redis.call('hincrby', KEYS[1], ARGV[2], -1) > 0 then
			redis.call('pexpire', KEYS[1], ARGV[1])
			return 0
		end
		redis.call('del', KEYS[1])
		redis.call('publish', KEYS[2], '0')
		return 1`
)

func TestScript_SharesARecordWithRedisson(t *testing.T) {
	onBoth(t, func(t *testing.T, s *scriptServer) {
		e := listen(t, s, theChannel)
		keys := []string{theLock}
		theirs := func(script string) string {
			return s.show(s.do(t, "EVAL", script, "2", theLock, theChannel, "30000", java))
		}
		acquire := func() string { return s.eval(t, s.wire, "acquire", keys, []string{"20000", "0", "me:1"}) }

		require.Equal(t, "nil", theirs(redissonLock))
		require.Equal(t, "nil", theirs(redissonLock))
		s.requireState(t, "L: "+java+"=2 for 30000")
		require.Equal(t, "30000", acquire())
		require.Equal(t, "0", theirs(redissonUnlock))
		require.Equal(t, "30000", acquire(), "one hold is left")
		require.Equal(t, "1", theirs(redissonUnlock))
		require.Equal(t, []string{theChannel + " 0"}, e.heard(t))

		require.Equal(t, "nil", acquire())
		require.Equal(t, "20000", theirs(redissonLock))
		require.Equal(t, "nil", theirs(redissonUnlock), "not theirs to unlock")
		require.Equal(t, "1", s.eval(t, s.wire, "release", keys, []string{"me:1"}))
		require.Equal(t, []string{theChannel + " 00"}, e.heard(t))
		require.Equal(t, "nil", theirs(redissonLock))
	})
}

// A manager writes records as Redisson does: the key is the name, the field "uuid:number", the
// value a decimal, and there is always a TTL.
func TestServer_RecordLooksLikeRedissons(t *testing.T) {
	s := realScripts(t)
	m := redistest.Must(lockmgr.DialURL("redis://"+s.addr, lockmgr.Options{Anonymous: true}))(t)
	defer func() { require.NoError(t, m.Close(t.Context())) }()
	for name, suffix := range map[string]string{"plain": "{plain}", "with {tag} inside": "with {tag} inside"} {
		channel := "redisson_lock__channel:" + suffix
		e := listen(t, s, channel)
		l := redistest.Must(m.Lock(t.Context(), name, lockmgr.Fenced()))(t)
		require.Regexp(t, `^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}:[0-9]+$`, l.HolderID())
		require.Equal(t, map[string]string{
			name:                            l.HolderID() + "=1 for 30000",
			"redisson_lock_token:" + suffix: `"1" for -1`,
		}, s.state(t))
		require.NoError(t, l.Unlock(t.Context()))
		require.Equal(t, []string{channel + " 00"}, e.heard(t))
		require.Equal(t, map[string]string{"redisson_lock_token:" + suffix: `"1" for -1`}, s.state(t))
		s.do(t, "FLUSHALL")
	}
}
