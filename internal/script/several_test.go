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

// The tests of the scripts for several locks use the names a, b and c. In their tables
// Ra:me:1 stands for the key of a reader me:1 of a, and Ta for the token counter of a.

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

// callSeveral reads the arguments of a script as its header has them, but without n. The
// words plain, read and write stand for a, b and c in this order.
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
	c.args = slices.Insert(c.args, first+len(parts), append(channels, prefixes...)...)
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

// A set that gathers takes over what it has gathered, try by try, and holds all of it
// with the full lease once it has got the rest.
func TestScript_SeveralGathersAndAcquires(t *testing.T) {
	onBoth(t, func(t *testing.T, s *scriptServer) {
		run := func(script, args string) string { return s.runSeveral(t, s.wire, callSeveral(script, args)) }
		s.prepare(t, join(plainBy("you:1", "a"), writtenBy("you:1", "b")))
		require.Equal(t, "[1 20000]", run("several_acquire", "30000 10000 0 plain write read me:1"))
		s.do(t, "DEL", "a")
		require.Equal(t, "[2 20000]", run("several_acquire", "30000 10000 0 plain write read me:2 me:1"))
		s.requireState(t, severalKeys(`a: me:2=1 for 10000; b: mode=write you:1:write=1 for 20000; c: me:2=1 mode=read for 10000; Rc:me:2: "1" for 10000`))
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
