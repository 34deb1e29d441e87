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

// The tests of the scripts for several locks use the names a, b and c. In their tables Ra:me:1
// stands for the key of a reader me:1 of a, and Ta for the token counter of a.

var (
	severalReader  = regexp.MustCompile(`\bR([abc]):(\w+:\d+)`)
	severalCounter = regexp.MustCompile(`\bT([abc])\b`)
)

// severalKeys spells out the short names of keys.
func severalKeys(s string) string {
	s = severalReader.ReplaceAllString(s, "{$1}:$2:rwlock_timeout:1")
	return severalCounter.ReplaceAllString(s, "redisson_lock_token:{$1}")
}

// How a set wants one of its locks.
const (
	wantPlain = "plain"
	wantRead  = "read"
	wantWrite = "write"
)

// A part is one lock of a set with its keys. Prefix is the first part of the keys of its readers.
type part struct{ Lock, Channel, Counter, Prefix, Want string }

// ReaderKey returns the key of a reader.
func (p part) ReaderKey(holder string) string { return p.Prefix + ":" + holder + ":rwlock_timeout:1" }

// severalPart returns a lock as a set that wants it in a way uses it.
func severalPart(name, want string) part {
	p := part{Lock: name, Channel: "redisson_rwlock:{" + name + "}", Counter: "redisson_lock_token:{" + name + "}", Prefix: "{" + name + "}", Want: want}
	if want == wantPlain {
		p.Channel, p.Prefix = channelName(name), name
	}
	return p
}

// A severalCall is a script with its keys and arguments.
type severalCall struct {
	script     string
	parts      []part
	keys, args []string
}

// callSeveral reads the arguments of a script as its header has them, but without n. The words
// plain, read and write stand for a, b and c in this order.
func callSeveral(script, args string) severalCall {
	var parts []part
	for _, word := range strings.Fields(args) {
		if word == wantPlain || word == wantRead || word == wantWrite {
			parts = append(parts, severalPart("abc"[len(parts):][:1], word))
		}
	}
	return severalCallOn(script, parts, args)
}

// severalCallOn is callSeveral for other names than the first ones.
func severalCallOn(script string, parts []part, args string) severalCall {
	c := severalCall{script: script, parts: parts, args: strings.Fields(args)}
	first := slices.IndexFunc(c.args, func(w string) bool { return w == wantPlain || w == wantRead || w == wantWrite })
	var channels, prefixes []string
	for _, p := range parts {
		c.keys = append(c.keys, p.Lock)
		switch {
		case script == "several_acquire" && c.args[2] != "0":
			c.keys = append(c.keys, p.Counter)
		case script == "several_renew" && p.Want == wantRead:
			c.keys = append(c.keys, p.ReaderKey(c.args[1]))
		case script == "several_renew":
			c.keys = append(c.keys, p.Lock)
		}
		channels, prefixes = append(channels, p.Channel), append(prefixes, p.Prefix)
	}
	if script == "several_renew" {
		return c
	}
	if script == "several_acquire" {
		channels = nil
	}
	c.args = slices.Insert(c.args, first+len(parts), slices.Concat(channels, prefixes, []string{""})...) // no part in the lines
	c.args = slices.Insert(c.args, first, strconv.Itoa(len(parts)))
	return c
}

func (s *scriptServer) runSeveral(t testing.TB, w *wire, c severalCall) string {
	t.Helper()
	return s.eval(t, w, c.script, c.keys, c.args)
}

// severalChannels are the channels of a, b and c of both kinds.
func severalChannels() (all []string) {
	for _, name := range []string{"a", "b", "c"} {
		all = append(all, severalPart(name, wantPlain).Channel, severalPart(name, wantRead).Channel)
	}
	return all
}

// plainBy, readBy and writtenBy prepare a record that lives for 20 seconds.
func plainBy(holder, lock string) string {
	return fmt.Sprintf("HSET %s %s 1; PEXPIRE %s 20000", lock, holder, lock)
}

func readBy(holder, lock string) string {
	return fmt.Sprintf("HSET %s mode read %s 1; PEXPIRE %s 20000; SET R%s:%s 1 PX 20000", lock, holder, lock, lock, holder)
}

func writtenBy(holder, lock string) string {
	return fmt.Sprintf("HSET %s mode write %s:write 1; PEXPIRE %s 20000", lock, holder, lock)
}

// join joins commands, or lines of a state.
func join(some ...string) string { return strings.Join(some, "; ") }

// A set that gathers takes over what it has gathered, try by try, and holds all of it with the full
// lease once it has got the rest.
func TestScript_SeveralGathersAndAcquires(t *testing.T) {
	onBoth(t, func(t *testing.T, s *scriptServer) {
		run := func(script, args string) string { return s.runSeveral(t, s.wire, callSeveral(script, args)) }
		s.prepare(t, join(plainBy("you:1", "a"), writtenBy("you:1", "b")))
		require.Equal(t, "[1 20000]", run("several_acquire", "30000 10000 0 plain write read me:1"))
		s.do(t, "DEL", "a")
		require.Equal(t, "[2 20000]", run("several_acquire", "30000 10000 0 plain write read me:2 me:1"))
		s.requireState(t, severalKeys(`a: me:2=1 for 10000; b: mode=write you:1:write=1 for 20000`))
		require.Equal(t, "[1 10000]", run("several_acquire", "30000 0 0 plain write read you:2"), "another manager waits")
		s.do(t, "DEL", "b")
		require.Equal(t, "nil", run("several_acquire", "30000 10000 0 plain write read me:3 me:2"))
		s.requireState(t, severalKeys(strings.ReplaceAll(allOfMe1, "me:1", "me:3")))
		require.Equal(t, "nil", run("several_release", "plain write read me:1 me:2"), "a late copy")
		require.Equal(t, "[1 30000]", run("several_acquire", "30000 0 0 plain write read me:2 me:1"), "a late copy")
		require.Equal(t, "0", run("several_renew", "50000 me:2 plain write read"), "a late copy")
		s.requireState(t, severalKeys(strings.ReplaceAll(allOfMe1, "me:1", "me:3")))
	})
}

// A release returns the most subscribers that one of its messages has reached.
func TestScript_SeveralSubscribers(t *testing.T) {
	onBoth(t, func(t *testing.T, s *scriptServer) {
		held := join(plainBy("me:1", "a"), writtenBy("me:1", "b"), readBy("me:1", "c"))
		call := callSeveral("several_release", "plain write read me:1")
		for n := range 3 {
			s.prepare(t, severalKeys(held))
			require.Equal(t, fmt.Sprintf("[3 3 %d]", n), s.runSeveral(t, s.wire, call))
			listen(t, s, call.parts[1].Channel)
		}
	})
}

// A set of plain locks needs no command that plain locks of their own do not need.
func TestScript_SeveralPlainCommands(t *testing.T) {
	t.Parallel()
	s := realScripts(t)
	w := s.as(t, strings.Fields("-@all +eval +exists +hexists +pttl +incrby +get +hset +hdel +pexpire +del +publish")...)
	run := func(script, args string) string { return s.runSeveral(t, w, callSeveral(script, args)) }
	s.prepare(t, plainBy("you:1", "b"))
	require.Equal(t, "[2 20000]", run("several_acquire", "30000 10000 1 plain plain plain me:1"))
	s.do(t, "DEL", "b")
	require.Equal(t, `["1" "1" "1"]`, run("several_acquire", "10000 10000 1 plain plain plain me:2 me:1"))
	require.Equal(t, "1", run("several_renew", "30000 me:2 plain plain plain"))
	counters := `Ta: "1" for -1; Tb: "1" for -1; Tc: "1" for -1`
	s.requireState(t, severalKeys("a: me:2=1 for 30000; b: me:2=1 for 30000; c: me:2=1 for 30000; "+counters))
	require.Equal(t, "[3 3 0]", run("several_release", "plain plain plain me:2 me:1"))
	s.requireState(t, severalKeys(counters))
}

// allOfMe1 is what holder me:1 has of a plain lock, a writer's and a reader's one.
const allOfMe1 = `a: me:1=1 for 30000; b: me:1:write=1 mode=write for 30000; c: me:1=1 mode=read for 30000; Rc:me:1: "1" for 30000`

var severalScriptTests = []struct {
	what, given, script, args, reply, then string
	told                                   string // the messages: name and text
	again, later                           string // of the second run, if they differ
}{
	// All are free.
	{what: "free", script: "several_acquire", args: "30000 0 0 plain write read me:1", reply: "nil", then: allOfMe1},
	{what: "free, would gather", script: "several_acquire", args: "30000 10000 0 plain write read me:1", reply: "nil", then: allOfMe1},
	{what: "free, further holders", script: "several_acquire", args: "30000 0 0 plain write read me:1 me:2 me:3", reply: "nil", then: allOfMe1},
	{what: "one lock", script: "several_acquire", args: "30000 0 0 plain me:1", reply: "nil", then: "a: me:1=1 for 30000"},

	// Others hold one.
	{what: "the first is held", given: plainBy("you:1", "a"), script: "several_acquire", args: "30000 0 0 plain write read me:1",
		reply: "[1 20000]", then: "a: you:1=1 for 20000"},
	{what: "the middle one is held", given: writtenBy("you:1", "b"), script: "several_acquire", args: "30000 0 0 plain write read me:1",
		reply: "[2 20000]", then: "b: mode=write you:1:write=1 for 20000"},
	{what: "the last is held", given: writtenBy("you:1", "c"), script: "several_acquire", args: "30000 0 0 plain write read me:1",
		reply: "[3 20000]", then: "c: mode=write you:1:write=1 for 20000"},
	{what: "two are held, the first is told", given: join(plainBy("you:1", "c"), "HSET b you:2 1; PEXPIRE b 50000"), script: "several_acquire",
		args: "30000 0 0 plain plain plain me:1", reply: "[2 50000]", then: "b: you:2=1 for 50000; c: you:1=1 for 20000"},
	{what: "held without end", given: "HSET b you:1 1", script: "several_acquire", args: "30000 0 0 plain plain me:1", reply: "[2 -1]",
		then: "b: you:1=1 for -1"},
	{what: "others read, write", given: readBy("you:1", "b"), script: "several_acquire", args: "30000 0 0 plain write me:1", reply: "[2 20000]",
		then: `b: mode=read you:1=1 for 20000; Rb:you:1: "1" for 20000`},
	{what: "others write, read", given: writtenBy("you:1", "a"), script: "several_acquire", args: "30000 0 0 read write me:1", reply: "[1 20000]",
		then: "a: mode=write you:1:write=1 for 20000"},
	{what: "a holder is more than its beginning", given: plainBy("me:11", "b"), script: "several_acquire", args: "30000 0 0 plain plain me:1",
		reply: "[2 20000]", then: "b: me:11=1 for 20000"},
	{what: "held, own strays stay", given: join(plainBy("me:1", "a"), plainBy("you:1", "b")), script: "several_acquire",
		args: "30000 0 0 plain plain me:2 me:1", reply: "[2 20000]", then: "a: me:1=1 for 20000; b: you:1=1 for 20000"},
	{what: "held, own readers stay", given: join(readBy("me:1", "a"), plainBy("you:1", "b")), script: "several_acquire",
		args: "30000 0 0 write plain me:2 me:1", reply: "[2 20000]",
		then: `a: me:1=1 mode=read for 20000; Ra:me:1: "1" for 20000; b: you:1=1 for 20000`},
	{what: "held, takes no token", given: join(plainBy("you:1", "b"), "SET Ta 5"), script: "several_acquire", args: "30000 0 1 plain plain me:1",
		reply: "[2 20000]", then: `b: you:1=1 for 20000; Ta: "5" for -1`},

	// Records of another kind.
	{what: "a plain lock, read", given: plainBy("you:1", "b"), script: "several_acquire", args: "30000 0 0 plain read me:1", reply: "[2 20000 1]",
		then: "b: you:1=1 for 20000"},
	{what: "a plain lock, write", given: plainBy("you:1", "a"), script: "several_acquire", args: "30000 0 0 write plain me:1", reply: "[1 20000 1]",
		then: "a: you:1=1 for 20000"},
	{what: "a read-write lock, plain", given: writtenBy("you:1", "b"), script: "several_acquire", args: "30000 0 0 plain plain me:1",
		reply: "[2 20000 1]", then: "b: mode=write you:1:write=1 for 20000"},
	{what: "a read-write lock that we read, too, plain", given: join(readBy("you:1", "b"), "HSET b me:1 1; SET Rb:me:1 1 PX 20000"),
		script: "several_acquire", args: "30000 0 0 plain plain me:2 me:1", reply: "[2 20000 1]",
		then: `b: me:1=1 mode=read you:1=1 for 20000; Rb:me:1: "1" for 20000; Rb:you:1: "1" for 20000`},
	{what: "a hash with another mode, read", given: "HSET b mode sport made 1", script: "several_acquire", args: "30000 0 0 plain read me:1",
		reply: "[2 -1 1]", then: "b: made=1 mode=sport for -1"},
	{what: "a hash with another mode, write", given: "HSET a mode sport made 1", script: "several_acquire", args: "30000 10000 0 write plain me:1",
		reply: "[1 -1 1]", then: "a: made=1 mode=sport for -1"},
	{what: "another kind, does not gather", given: plainBy("you:1", "c"), script: "several_acquire",
		args: "30000 10000 0 plain plain read me:1", reply: "[3 20000 1]", then: "c: you:1=1 for 20000"},

	// Own strays.
	{what: "own again", given: join(plainBy("me:1", "a"), writtenBy("me:1", "b"), readBy("me:1", "c")), script: "several_acquire",
		args: "30000 0 0 plain write read me:1", reply: "nil", then: allOfMe1},
	{what: "strays are taken over", given: join(plainBy("me:2", "a"), writtenBy("me:3", "b"), readBy("me:4", "c")), script: "several_acquire",
		args: "30000 0 0 plain write read me:1 me:2 me:3 me:4", reply: "nil", then: allOfMe1},
	{what: "two strays in each", given: join("HSET a me:2 1 me:3 1; PEXPIRE a 20000", readBy("me:2", "b"), "HSET b me:3 1; SET Rb:me:3 1 PX 20000",
		readBy("me:2", "c"), "HSET c me:3 1; SET Rc:me:3 1 PX 20000"), script: "several_acquire",
		args: "30000 0 0 plain write read me:1 me:2 me:3", reply: "nil", then: allOfMe1},
	{what: "a stray that reads, write; one that writes, read", given: join(readBy("me:2", "a"), writtenBy("me:2", "b")), script: "several_acquire",
		args: "30000 0 0 write read me:1 me:2", reply: "nil",
		then: `a: me:1:write=1 mode=write for 30000; b: me:1=1 mode=read for 30000; Rb:me:1: "1" for 30000`},
	{what: "a stray without end", given: "HSET a me:2 1; HSET b mode write me:2:write 1", script: "several_acquire", args: "30000 0 0 plain write me:1 me:2",
		reply: "nil", then: "a: me:1=1 for 30000; b: me:1:write=1 mode=write for 30000"},
	{what: "an own stray among readers, read", given: join(readBy("you:1", "a"), "HSET a me:2 1; SET Ra:me:2 1 PX 20000"), script: "several_acquire",
		args: "30000 0 0 read plain me:1 me:2", reply: "nil",
		then: `a: me:1=1 mode=read you:1=1 for 30000; Ra:me:1: "1" for 30000; Ra:you:1: "1" for 20000; b: me:1=1 for 30000`},
	{what: "an own stray among readers, write", given: join(readBy("you:1", "a"), "HSET a me:2 1; SET Ra:me:2 1 PX 20000"), script: "several_acquire",
		args: "30000 0 0 write plain me:1 me:2", reply: "[1 20000]",
		then: `a: me:2=1 mode=read you:1=1 for 20000; Ra:me:2: "1" for 20000; Ra:you:1: "1" for 20000`},

	// Readers beside readers.
	{what: "others read, read", given: join(readBy("you:1", "a"), readBy("you:2", "b")), script: "several_acquire", args: "30000 0 0 read read me:1",
		reply: "nil", then: `a: me:1=1 mode=read you:1=1 for 30000; Ra:me:1: "1" for 30000; Ra:you:1: "1" for 20000; ` +
			`b: me:1=1 mode=read you:2=1 for 30000; Rb:me:1: "1" for 30000; Rb:you:2: "1" for 20000`},
	{what: "others read for longer, read", given: readBy("you:1", "a"), script: "several_acquire", args: "10000 0 0 read plain me:1",
		reply: "nil", then: `a: me:1=1 mode=read you:1=1 for 20000; Ra:me:1: "1" for 10000; Ra:you:1: "1" for 20000; b: me:1=1 for 10000`},
	{what: "others read without end, read", given: "HSET a mode read you:1 1; SET Ra:you:1 1 PX 20000", script: "several_acquire",
		args: "30000 0 0 read plain me:1", reply: "nil",
		then:  `a: me:1=1 mode=read you:1=1 for -1; Ra:me:1: "1" for 30000; Ra:you:1: "1" for 20000; b: me:1=1 for 30000`,
		later: `a: me:1=1 mode=read you:1=1 for 30000; Ra:me:1: "1" for 30000; Ra:you:1: "1" for 20000; b: me:1=1 for 30000`},
	{what: "what a reader with a longer lease left", given: "HSET a mode read me:1 1 you:1 1; PEXPIRE a 90000; SET Ra:me:1 1 PX 90000; SET Ra:you:1 1 PX 20000",
		script: "several_acquire", args: "10000 0 0 read plain me:2 me:1", reply: "nil", told: "a 00",
		then: `a: me:2=1 mode=read you:1=1 for 20000; Ra:me:2: "1" for 10000; Ra:you:1: "1" for 20000; b: me:2=1 for 10000`},
	{what: "a dead reader, write", given: "HSET a mode read you:1 1; PEXPIRE a 20000", script: "several_acquire", args: "30000 0 0 write plain me:1",
		reply: "nil", then: "a: me:1:write=1 mode=write for 30000; b: me:1=1 for 30000"},
	{what: "a dead reader and a live one, write", given: join(readBy("you:1", "a"), "HSET a you:2 1"), script: "several_acquire",
		args: "30000 0 0 write plain me:1", reply: "[1 20000]", then: `a: mode=read you:1=1 you:2=1 for 20000; Ra:you:1: "1" for 20000`},
	{what: "a dead reader, read", given: "HSET a mode read you:1 1; PEXPIRE a 20000", script: "several_acquire", args: "30000 0 0 read plain me:1",
		reply: "nil", then: `a: me:1=1 mode=read you:1=1 for 30000; Ra:me:1: "1" for 30000; b: me:1=1 for 30000`,
		later: `a: me:1=1 mode=read for 30000; Ra:me:1: "1" for 30000; b: me:1=1 for 30000`},
	{what: "reads twice, the first key has ended", given: "HSET a mode read you:1 2; PEXPIRE a 20000; SET {a}:you:1:rwlock_timeout:2 1 PX 20000",
		script: "several_acquire", args: "30000 0 0 write plain me:1", reply: "[1 20000]",
		then: `a: mode=read you:1=2 for 20000; {a}:you:1:rwlock_timeout:2: "1" for 20000`},

	// Gathering.
	{what: "gathers what is before", given: plainBy("you:1", "b"), script: "several_acquire", args: "30000 10000 0 plain plain read me:1",
		reply: "[2 20000]", then: `a: me:1=1 for 10000; b: you:1=1 for 20000`},
	{what: "gathers beside readers", given: join(readBy("you:1", "a"), plainBy("you:1", "b")), script: "several_acquire",
		args: "30000 10000 0 read plain me:1", reply: "[2 20000]",
		then: `a: me:1=1 mode=read you:1=1 for 20000; Ra:me:1: "1" for 10000; Ra:you:1: "1" for 20000; b: you:1=1 for 20000`},
	{what: "gathers on, with the time that is left", given: join(plainBy("me:2", "a"), writtenBy("me:2", "b"), plainBy("you:1", "c")), script: "several_acquire",
		args: "30000 10000 0 plain write plain me:1 me:2", reply: "[3 20000]",
		then: "a: me:1=1 for 10000; b: me:1:write=1 mode=write for 10000; c: you:1=1 for 20000"},
	{what: "gathers nothing", given: join(plainBy("you:1", "a"), plainBy("you:2", "b")), script: "several_acquire", args: "30000 10000 0 plain plain me:1",
		reply: "[1 20000]", then: "a: you:1=1 for 20000; b: you:2=1 for 20000"},
	{what: "gathers, takes no token", given: join(plainBy("you:1", "b"), "SET Ta 5"), script: "several_acquire", args: "30000 10000 1 plain plain read me:1",
		reply: "[2 20000]", then: `a: me:1=1 for 10000; Ta: "5" for -1; b: you:1=1 for 20000`},
	{what: "all, after it has gathered", given: "HSET a me:2 1; PEXPIRE a 10000; HSET b mode write me:2:write 1; PEXPIRE b 10000; " +
		"HSET c mode read me:2 1; PEXPIRE c 10000; SET Rc:me:2 1 PX 10000", script: "several_acquire",
		args: "30000 10000 0 plain write read me:1 me:2", reply: "nil", then: allOfMe1},

	// Tokens.
	{what: "tokens", given: "SET Ta 9007199254740992; SET Tb 41; SET Tc 7", script: "several_acquire", args: "30000 0 1 plain write read me:1",
		reply: `["9007199254740993" "42" "7"]`, then: allOfMe1 + `; Ta: "9007199254740993" for -1; Tb: "42" for -1; Tc: "7" for -1`,
		again: `["9007199254740994" "43" "7"]`, later: allOfMe1 + `; Ta: "9007199254740994" for -1; Tb: "43" for -1; Tc: "7" for -1`},
	{what: "the first tokens", script: "several_acquire", args: "30000 0 1 plain write read me:1", reply: `["1" "1" "1"]`,
		then:  allOfMe1 + `; Ta: "1" for -1; Tb: "1" for -1; Tc: "1" for -1`,
		again: `["2" "2" "1"]`, later: allOfMe1 + `; Ta: "2" for -1; Tb: "2" for -1; Tc: "1" for -1`},
	{what: "the last counter is no number", given: "SET Tb x", script: "several_acquire", args: "30000 0 1 plain write me:1",
		reply: "!ERR value is not an integer", then: `Ta: "1" for -1; Tb: "x" for -1`, later: `Ta: "2" for -1; Tb: "x" for -1`},
	{what: "no token left", given: join("SET Tb 9223372036854775807", plainBy("me:2", "a")), script: "several_acquire", args: "30000 0 1 plain write me:1 me:2",
		reply: "!ERR increment or decrement would overflow", then: `a: me:2=1 for 20000; Ta: "1" for -1; Tb: "9223372036854775807" for -1`,
		later: `a: me:2=1 for 20000; Ta: "2" for -1; Tb: "9223372036854775807" for -1`},
	{what: "a reader's counter is no number", given: "SET Tb x", script: "several_acquire", args: "30000 0 1 plain read me:1",
		reply: "!ERR value is not an integer", then: `Ta: "1" for -1; Tb: "x" for -1`, later: `Ta: "2" for -1; Tb: "x" for -1`},
	{what: "a reader's counter is no string", given: "HSET Tb x 1", script: "several_acquire", args: "30000 0 1 plain read me:1",
		reply: "!WRONGTYPE", then: `Ta: "1" for -1; Tb: x=1 for -1`, later: `Ta: "2" for -1; Tb: x=1 for -1`},

	// No lock at all.
	{what: "a string, plain", given: "SET b hello", script: "several_acquire", args: "30000 0 0 plain plain me:1", reply: "!WRONGTYPE", then: `b: "hello" for -1`},
	{what: "a list, write", given: "RPUSH b hello; PEXPIRE b 20000", script: "several_acquire", args: "30000 0 1 read write me:1", reply: "!WRONGTYPE",
		then: `b: list for 20000`},
	{what: "a string, after one that is kept", given: join(plainBy("me:1", "a"), "SET c hello"), script: "several_acquire",
		args: "30000 10000 0 plain plain read me:1", reply: "!WRONGTYPE", then: `a: me:1=1 for 20000; c: "hello" for -1`},

	{what: "all", given: join(plainBy("me:1", "a"), writtenBy("me:1", "b"), readBy("me:1", "c")), script: "several_release",
		args: "plain write read me:1", reply: "[3 3 1]", told: "a 00; b 01; c 00", again: "nil"},
	{what: "under the name of any", given: join(plainBy("me:2", "a"), writtenBy("me:1", "b"), readBy("me:3", "c")), script: "several_release",
		args: "plain write read me:1 me:2 me:3", reply: "[3 3 1]", told: "a 00; b 01; c 00", again: "nil"},
	{what: "two names at once", given: join("HSET a me:1 1 me:2 1; PEXPIRE a 20000", readBy("me:1", "b"), "HSET b me:2 1; SET Rb:me:2 1 PX 20000"),
		script: "several_release", args: "plain read me:1 me:2", reply: "[2 2 1]", told: "a 00; b 00", again: "nil"},
	{what: "the first is missing", given: writtenBy("me:1", "b"), script: "several_release", args: "plain write read me:1", reply: "[1 1 1]",
		told: "b 01", again: "nil"},
	{what: "others have all but the last", given: join(plainBy("you:1", "a"), writtenBy("you:1", "b"), readBy("me:1", "c")), script: "several_release",
		args: "plain write read me:1", reply: "[1 1 1]", told: "c 00", then: "a: you:1=1 for 20000; b: mode=write you:1:write=1 for 20000", again: "nil"},
	{what: "none", script: "several_release", args: "plain write read me:1", reply: "nil"},
	{what: "others have all", given: join(plainBy("you:1", "a"), writtenBy("you:1", "b"), readBy("you:1", "c")), script: "several_release",
		args: "plain write read me:1 me:2", reply: "nil",
		then: `a: you:1=1 for 20000; b: mode=write you:1:write=1 for 20000; c: mode=read you:1=1 for 20000; Rc:you:1: "1" for 20000`},
	{what: "counters are kept", given: join(plainBy("me:1", "a"), writtenBy("me:1", "b"), "SET Ta 5; SET Tb 6"), script: "several_release",
		args: "plain write me:1", reply: "[2 2 1]", told: "a 00; b 01", then: `Ta: "5" for -1; Tb: "6" for -1`, again: "nil"},
	{what: "others still read one", given: join(plainBy("me:1", "a"), readBy("you:1", "b"), "HSET b me:1 1; SET Rb:me:1 1 PX 20000"), script: "several_release",
		args: "plain read me:1", reply: "[2 1 1]", told: "a 00", then: `b: mode=read you:1=1 for 20000; Rb:you:1: "1" for 20000`, again: "nil"},
	{what: "others still read all", given: join(readBy("you:1", "a"), "HSET a me:1 1; SET Ra:me:1 1 PX 20000",
		readBy("you:1", "b"), "HSET b me:1 1; SET Rb:me:1 1 PX 20000"), script: "several_release", args: "read read me:1", reply: "[2 0 -1]",
		then:  `a: mode=read you:1=1 for 20000; Ra:you:1: "1" for 20000; b: mode=read you:1=1 for 20000; Rb:you:1: "1" for 20000`,
		again: "nil"},
	{what: "others read, for much less", given: "HSET a mode read me:1 1 you:1 1; PEXPIRE a 30000; SET Ra:me:1 1 PX 30000; SET Ra:you:1 1 PX 10000",
		script: "several_release", args: "read plain me:1", reply: "[1 0 -1]", told: "a 00", then: `a: mode=read you:1=1 for 10000; Ra:you:1: "1" for 10000`,
		again: "nil"},
	{what: "the other readers are dead", given: "HSET a mode read me:1 1 you:1 1; PEXPIRE a 20000; SET Ra:me:1 1 PX 20000", script: "several_release",
		args: "read plain me:1", reply: "[1 1 1]", told: "a 00", again: "nil"},
	{what: "one of the other readers is dead", given: join(readBy("you:1", "a"), "HSET a me:1 1 you:2 1; SET Ra:me:1 1 PX 20000"), script: "several_release",
		args: "read plain me:1", reply: "[1 0 -1]", then: `a: mode=read you:1=1 for 20000; Ra:you:1: "1" for 20000`, again: "nil"},
	{what: "a writer beside readers", given: join(readBy("you:1", "a"), "HSET a mode write me:1:write 1"), script: "several_release",
		args: "write plain me:1", reply: "[1 1 1]", told: "a 01", then: `a: mode=read you:1=1 for 20000; Ra:you:1: "1" for 20000`, again: "nil"},
	{what: "a reader beside a writer", given: join(readBy("me:1", "a"), "HSET a mode write you:1:write 1"), script: "several_release",
		args: "read plain me:1", reply: "[1 0 -1]", then: "a: mode=write you:1:write=1 for 20000", again: "nil"},
	{what: "a reader whose record is gone", given: "SET Ra:me:1 1 PX 90000", script: "several_release", args: "read plain me:2 me:1", reply: "nil"},
	{what: "a plain lock, read", given: plainBy("me:1", "a"), script: "several_release", args: "read plain me:1", reply: "nil", then: "a: me:1=1 for 20000"},
	{what: "no locks between locks", given: join("SET a hello; RPUSH b hello", plainBy("me:1", "c")), script: "several_release",
		args: "read plain plain me:1", reply: "[1 1 1]", told: "c 00", then: `a: "hello" for -1; b: list for -1`, again: "nil"},
	{what: "no locks at all", given: "SET a hello; RPUSH b hello", script: "several_release", args: "plain write me:1", reply: "nil",
		then: `a: "hello" for -1; b: list for -1`},

	{what: "all", given: join(plainBy("me:1", "a"), writtenBy("me:1", "b"), readBy("me:1", "c")), script: "several_renew",
		args: "30000 me:1 plain write read", reply: "1", then: allOfMe1},
	{what: "not shortened", given: join(plainBy("me:1", "a"), writtenBy("me:1", "b"), readBy("me:1", "c")), script: "several_renew",
		args: "10000 me:1 plain write read", reply: "1",
		then: `a: me:1=1 for 20000; b: me:1:write=1 mode=write for 20000; c: me:1=1 mode=read for 20000; Rc:me:1: "1" for 20000`},
	{what: "gets its end back", given: "HSET a me:1 1; HSET b mode write me:1:write 1; HSET c mode read me:1 1; PEXPIRE c 20000; SET Rc:me:1 1",
		script: "several_renew", args: "30000 me:1 plain write read", reply: "1", then: allOfMe1},
	{what: "gets its reader's key back", given: "HSET a mode read me:1 1; PEXPIRE a 20000", script: "several_renew", args: "30000 me:1 read", reply: "1",
		then: `a: me:1=1 mode=read for 30000; Ra:me:1: "1" for 30000`},
	{what: "the record of readers has no end", given: "HSET a mode read me:1 1 you:1 1; SET Ra:me:1 1 PX 20000", script: "several_renew",
		args: "30000 me:1 read", reply: "1", then: `a: me:1=1 mode=read you:1=1 for -1; Ra:me:1: "1" for 30000`},
	{what: "beside readers", given: join(readBy("you:1", "a"), "HSET a me:1 1; SET Ra:me:1 1 PX 10000"), script: "several_renew",
		args: "30000 me:1 read", reply: "1", then: `a: me:1=1 mode=read you:1=1 for 30000; Ra:me:1: "1" for 30000; Ra:you:1: "1" for 20000`},
	{what: "the last is lost", given: join(plainBy("me:1", "a"), readBy("me:1", "b")), script: "several_renew", args: "30000 me:1 plain read plain", reply: "0",
		then: `a: me:1=1 for 20000; b: me:1=1 mode=read for 20000; Rb:me:1: "1" for 20000`},
	{what: "the first is another's", given: join(plainBy("you:1", "a"), writtenBy("me:1", "b")), script: "several_renew", args: "30000 me:1 plain write",
		reply: "0", then: "a: you:1=1 for 20000; b: me:1:write=1 mode=write for 20000"},
	{what: "a writer who is a reader by now", given: join(plainBy("me:1", "a"), readBy("me:1", "b")), script: "several_renew", args: "30000 me:1 plain write",
		reply: "0", then: `a: me:1=1 for 20000; b: me:1=1 mode=read for 20000; Rb:me:1: "1" for 20000`},
	{what: "gone", script: "several_renew", args: "30000 me:1 plain write read", reply: "0"},
	{what: "the last is a string", given: join(plainBy("me:1", "a"), "SET b hello"), script: "several_renew", args: "30000 me:1 plain write", reply: "0",
		then: `a: me:1=1 for 20000; b: "hello" for -1`},
}

func TestScripts_Several(t *testing.T) {
	onBoth(t, func(t *testing.T, s *scriptServer) {
		e := listen(t, s, severalChannels()...)
		for _, tt := range severalScriptTests {
			t.Run(tt.script+"/"+tt.what, func(t *testing.T) {
				s.prepare(t, severalKeys(tt.given))
				call := callSeveral(tt.script, tt.args)
				s.requireReply(t, tt.reply, s.runSeveral(t, s.wire, call))
				s.requireState(t, severalKeys(tt.then))
				var messages []string
				for message := range strings.SplitSeq(tt.told, "; ") {
					if name, text, ok := strings.Cut(message, " "); ok {
						messages = append(messages, call.parts[name[0]-'a'].Channel+" "+text)
					}
				}
				require.Equal(t, messages, e.heard(t))
				again, later := tt.again, tt.later
				if again == "" {
					again = tt.reply
				}
				if later == "" {
					later = tt.then
				}
				s.requireReply(t, again, s.runSeveral(t, s.wire, call), "second run")
				s.requireState(t, severalKeys(later), "second run")
				require.Empty(t, e.heard(t), "second run")
			})
		}
	})
}

// While the server is out of memory no set can be taken or gathered, whichever lock comes first. A
// set that is held can be taken once more, and released.
func TestScript_SeveralOutOfMemory(t *testing.T) {
	t.Parallel()
	s := realScripts(t)
	e := listen(t, s, severalChannels()...)
	fill := func(on bool) { s.do(t, "CONFIG", "SET", "maxmemory", map[bool]string{true: "1", false: "0"}[on]) }
	wants := []string{"plain plain plain", "plain write read", "read plain write", "write read plain", "read read read"}
	for _, want := range wants {
		for _, given := range []string{"", "SET Ta 5; SET Tb 6; SET Tc 7", plainBy("you:1", "b"), writtenBy("you:1", "b"), readBy("you:1", "c")} {
			for _, how := range []string{"30000 0 0", "30000 10000 0", "30000 0 1", "30000 10000 1"} {
				fill(false)
				s.prepare(t, severalKeys(given))
				before := s.state(t)
				fill(true)
				reply := s.runSeveral(t, s.wire, callSeveral("several_acquire", how+" "+want+" me:1 me:2"))
				require.Regexp(t, `^(!OOM .*|\[[23] 20000( 1)?\])$`, reply, "%s of %s, %s", want, given, how)
				require.Equal(t, before, s.state(t), "%s of %s, %s: %s", want, given, how, reply)
			}
		}
		// What is held, by an earlier run, too.
		names := strings.Fields(want)
		var held []string
		for i, name := range []string{"a", "b", "c"} {
			held = append(held, map[string]func(holder, lock string) string{wantPlain: plainBy, wantRead: readBy, wantWrite: writtenBy}[names[i]]("me:1", name))
		}
		given := severalKeys(join(held...))
		for _, how := range []string{"30000 0 0", "30000 0 1"} {
			fill(false)
			s.prepare(t, given)
			fill(true)
			reply := s.runSeveral(t, s.wire, callSeveral("several_acquire", how+" "+want+" me:9 me:1"))
			taken := 0
			for key, value := range s.state(t) {
				require.True(t, strings.HasPrefix(key, "redisson_lock_token:") || !strings.Contains(value, "for -1"), "%s of %s: %s, %s", want, given, key, reply)
				if strings.Contains(value, "me:9") {
					taken++
				}
			}
			require.Equal(t, 3, taken, "%s, %s: what it has", want, reply)
			fill(false)
			s.prepare(t, given)
			fill(true)
			require.Regexp(t, `^\[3 3 1\]$`, s.runSeveral(t, s.wire, callSeveral("several_release", want+" me:9 me:1")), want)
			require.Len(t, e.heard(t), 3)
			s.requireState(t, "")
		}
		if !strings.Contains(want, wantRead) {
			fill(false)
			s.prepare(t, given)
			fill(true)
			require.Equal(t, "1", s.runSeveral(t, s.wire, callSeveral("several_renew", "30000 me:1 "+want)))
			for key, value := range s.state(t) {
				require.Contains(t, value, "for 30000", key)
			}
		}
	}
	fill(false)
	s.prepare(t, severalKeys(join(readBy("you:1", "a"), "HSET a mode write me:1:write 1", plainBy("me:1", "b"))))
	fill(true)
	require.Equal(t, "[2 2 1]", s.runSeveral(t, s.wire, callSeveral("several_release", "write plain me:1")), "what is left becomes a reader's")
	s.requireState(t, severalKeys(`a: mode=read you:1=1 for 20000; Ra:you:1: "1" for 20000`))
}

// has reports whether a holder has a lock. A reader whose own key is gone has none.
func has(state map[string]string, name, holder string) bool {
	fields, _, _ := strings.Cut(state[name], " for ")
	for field := range strings.SplitSeq(fields, " ") {
		switch field {
		case holder + ":write=1":
			return true
		case holder + "=1":
			_, reads := state[severalPart(name, wantRead).ReaderKey(holder)]
			return reads || !strings.Contains(fields, "mode=")
		}
	}
	return false
}

// A script that is stopped half-way, because the user may not use one of its commands, must not
// leave a record without an end or a part of a set, harm another's record, or report a loss.
func TestScript_SeveralStoppedHalfway(t *testing.T) {
	t.Parallel()
	s := realScripts(t)
	states := map[string]string{
		"free":            "",
		"ours":            join(plainBy("me:1", "a"), writtenBy("me:1", "b"), readBy("me:1", "c")),
		"ours, not all":   join(writtenBy("me:1", "b")),
		"another reads":   readBy("you:1", "c"),
		"we read, too":    join(readBy("you:1", "c"), "HSET c me:1 1; SET Rc:me:1 1 PX 20000"),
		"another's first": plainBy("you:1", "a"),
		"another's last":  writtenBy("you:1", "c"),
		"dead reader":     "HSET b mode read you:9 1; PEXPIRE b 20000",
	}
	calls := []string{
		"several_acquire 30000 0 0 plain write read me:5", "several_acquire 30000 0 1 plain write read me:5",
		"several_acquire 30000 10000 0 plain write read me:5", "several_acquire 30000 10000 1 plain write read me:5 me:1",
		"several_acquire 30000 0 0 plain write read me:5 me:1", "several_acquire 30000 0 0 plain write read me:1",
		"several_acquire 30000 0 0 read write plain me:5", "several_acquire 30000 10000 0 read plain read me:5",
		"several_release plain write read me:5 me:1", "several_renew 30000 me:1 plain write read",
	}
	for denied := range strings.FieldsSeq("exists hexists pttl incrby get hget set hset hdel hlen hgetall pexpire del publish") {
		t.Run(denied, func(t *testing.T) {
			w := s.as(t, "-"+denied)
			for state, given := range states {
				for _, line := range calls {
					script, args, _ := strings.Cut(line, " ")
					s.prepare(t, severalKeys(given))
					before := s.state(t)
					reply := s.runSeveral(t, w, callSeveral(script, args))
					after := s.state(t)
					told := fmt.Sprintf("%s, %s: %q became %q, reply %s", state, line, before, after, reply)
					for key, value := range after {
						require.True(t, strings.HasPrefix(key, "redisson_lock_token") || !strings.HasSuffix(value, " for -1"), told)
					}
					for _, name := range []string{"a", "b", "c"} {
						require.Equal(t, has(before, name, "you:1"), has(after, name, "you:1"), told)
						if script == "several_acquire" && reply[0] == '!' {
							require.False(t, has(after, name, "me:5"), told)
							_, left := after[severalPart(name, wantRead).ReaderKey("me:5")]
							require.False(t, left && denied != "del", told)
						}
					}
					if state == "ours" && (script == "several_release" || script == "several_renew") {
						require.NotContains(t, []string{"nil", "0"}, reply, "what can't be read is not lost: "+told)
					}
					if reply[0] == '!' {
						require.NotEqual(t, "publish", denied, told)
					}
				}
			}
		})
	}
}

// An error of one lock does not keep the other ones from being released.
func TestScript_SeveralReleaseForbidden(t *testing.T) {
	t.Parallel()
	s := realScripts(t)
	e := listen(t, s, severalChannels()...)
	given := severalKeys(join(plainBy("me:1", "a"), writtenBy("me:1", "b"), plainBy("me:1", "c")))
	release := callSeveral("several_release", "plain write plain me:1")

	s.prepare(t, given)
	reply := s.runSeveral(t, s.as(t, "-hgetall"), release) // only read-write locks need it
	require.Regexp(t, "^!.*(NOPERM|can't|permission|ACL)", reply)
	require.Equal(t, []string{release.parts[0].Channel + " 00", release.parts[2].Channel + " 00"}, e.heard(t))
	require.NotContains(t, s.state(t), "a")
	require.NotContains(t, s.state(t), "c")

	s.prepare(t, given)
	reply = s.runSeveral(t, s.as(t, "-publish"), release)
	require.Regexp(t, `^\[3 0 -1 ".*(NOPERM|can't|permission|ACL).*"\]$`, reply, "a text, not an error")
	s.requireState(t, "")

	s.prepare(t, given)
	reply = s.runSeveral(t, s.as(t, "resetchannels", "&"+release.parts[1].Channel), release)
	require.Regexp(t, `^\[3 1 1 ".*(NOPERM|can't|permission|ACL|channel).*"\]$`, reply, "one message is allowed")
	require.Equal(t, []string{release.parts[1].Channel + " 01"}, e.heard(t))
	s.requireState(t, "")
}

// A set stands in the line of the first lock that it can't have, keeps those before if it gathers,
// and leaves the lines of the others. A release serves the lines.
func TestScript_LineOfSets(t *testing.T) {
	onBoth(t, func(t *testing.T, s *scriptServer) {
		s.prepare(t, "")
		e := listen(t, s, "redisson_lock__channel:{a}:set:9", "redisson_lock__channel:{b}:set:9", "redisson_rwlock:{c}:set:9",
			"redisson_lock__channel:{a}:other", "redisson_lock__channel:{b}:other", "redisson_rwlock:{c}:other")
		acquire := func(id int, gather string, holders ...string) string {
			args := []string{"30000", gather, "0", "3", wantPlain, wantPlain, wantWrite, "", "", "{c}", fmt.Sprintf("set:9 %d 50000 ", id)}
			return s.show(s.run(t, s.wire, "several_acquire", []string{"a", "b", "c"}, append(args, holders...)))
		}
		release := func(leaves string, holders ...string) string {
			args := []string{"3", wantPlain, wantPlain, wantWrite, "redisson_lock__channel:{a}", "redisson_lock__channel:{b}", "redisson_rwlock:{c}", "", "", "{c}", leaves}
			return s.show(s.run(t, s.wire, "several_release", []string{"a", "b", "c"}, append(args, holders...)))
		}
		other := func(name string, id int) string { // a manager that asks for a name alone, or reads c
			want := fmt.Sprintf("other %d 50000 ", id)
			if name == "c" {
				return s.show(s.run(t, s.wire, "readwrite_acquire", []string{name}, []string{"read", "30000", "0", want, "{c}", "other:1"}))
			}
			return s.show(s.run(t, s.wire, "acquire", []string{name}, []string{"30000", "0", want, "other:1"}))
		}
		lines := func() (out string) {
			for _, name := range []string{"a", "b", "c"} {
				out += fmt.Sprint(s.do(t, "LRANGE", "{"+name+"}:lock_line", "0", "-1"))
			}
			return out
		}
		require.Equal(t, "nil", other("b", 1))
		require.Equal(t, "nil", other("c", 1))
		require.Equal(t, "[2 30000]", acquire(1, "10000", "me:1"))
		require.Equal(t, "[][set:9][]", lines())
		require.Equal(t, "10000", other("a", 2), "kept for the set")
		require.Equal(t, "[other][set:9][]", lines())
		require.Equal(t, "[0 1]", s.show(s.run(t, s.wire, "release", []string{"b"}, []string{"", "other:1", "redisson_lock__channel:{b}"})))
		require.Equal(t, []string{"redisson_lock__channel:{b}:set:9 1"}, e.heard(t))
		require.Regexp(t, `^(2000|1\d{3})$`, other("b", 3), "the set is first")
		require.Equal(t, "[3 30000]", acquire(2, "10000", "me:2", "me:1"), "takes what was kept for it")
		require.Equal(t, "[other][other][set:9]", lines())
		reads := []string{"read", "30000", "0", "", "{c}", "third:1"}
		require.Equal(t, "30000", s.show(s.run(t, s.wire, "readwrite_acquire", []string{"c"}, reads)), "behind a set that is to write")
		require.Equal(t, "[1 10000]", acquire(3, "0", "me:3"), "another try has kept it")
		require.Equal(t, "[other set:9][other][]", lines(), "it waits for the first only")
		require.Equal(t, "[2 2 0 \"\" 1]", release("set:9 4", "me:2"))
		require.Equal(t, "[other][other][]", lines(), "and the set has left")
		require.Equal(t, []string{"redisson_lock__channel:{a}:other 1", "redisson_lock__channel:{b}:other 1"}, e.heard(t))
		require.Regexp(t, `^\[1 (2000|1\d{3})\]$`, acquire(5, "10000", "me:5"), "others are first")
		require.Equal(t, "nil", other("a", 4))
		require.Equal(t, "nil", other("b", 4))
	})
}

// A set stands in the line of b. Another manager is first in the line of a, which is free. Without
// memory the set overtakes nobody, as with memory: it moves to the line of a.
func TestScript_SeveralWithoutMemoryOvertakesNobody(t *testing.T) {
	s := realScripts(t)
	set := func(id string) string {
		args := []string{"30000", "0", "0", "2", wantPlain, wantPlain, "a", "b", "s:5 " + id + " 50000 d", "s:" + id}
		return s.show(s.run(t, s.wire, "several_acquire", []string{"a", "b"}, args))
	}
	waits := func(id string) string {
		return s.show(s.run(t, s.wire, "acquire", []string{"a"}, []string{"30000", "0", "w " + id + " 50000 d", "w:" + id}))
	}
	s.prepare(t, plainBy("x:1", "b"))
	require.Equal(t, "[2 20000]", set("1"))
	s.do(t, "HSET", "a", "x:2", "1")
	require.Equal(t, "-1", waits("1"))
	s.do(t, "DEL", "a", "b")
	s.do(t, "CONFIG", "SET", "maxmemory", "1")
	require.Contains(t, set("2"), "[1 ")
	require.Equal(t, []any{"w", "s:5"}, s.do(t, "LRANGE", "{a}:lock_line", "0", "-1"))
	require.Equal(t, "nil", waits("2"))
	s.do(t, "DEL", "a")
	require.Equal(t, "nil", set("3"))
}
