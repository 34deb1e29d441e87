package script_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The tests of the scripts for several locks use the names a, b and c.

// How a set wants one of its locks.
const (
	wantPlain = "plain"
	wantRead  = "read"
	wantWrite = "write"
)

// A part is one lock of a set with its keys. Prefix is the first part of the keys of its readers.
type part struct{ Lock, Channel, Counter, Prefix string }

// ReaderKey returns the key of a reader.
func (p part) ReaderKey(holder string) string { return p.Prefix + ":" + holder + ":rwlock_timeout:1" }

// severalPart returns a lock as a set that wants it in a way uses it.
func severalPart(name, want string) part {
	p := part{Lock: name, Channel: "redisson_rwlock:{" + name + "}", Counter: "redisson_lock_token:{" + name + "}", Prefix: "{" + name + "}"}
	if want == wantPlain {
		p.Channel, p.Prefix = channelName(name), name
	}
	return p
}

// callSeveral reads the arguments of a script as its header has them, but without n. The words
// plain, read and write stand for the names in this order.
func callSeveral(script, words string, names ...string) (keys, args []string) {
	args = strings.Fields(words)
	var channels, prefixes []string
	first, n := -1, 0
	for i, want := range args {
		if want != wantPlain && want != wantRead && want != wantWrite {
			continue
		}
		if first < 0 {
			first = i
		}
		p := severalPart(names[n], want)
		keys, n = append(keys, p.Lock), n+1
		switch {
		case script == "several_acquire" && args[2] != "0":
			keys = append(keys, p.Counter)
		case script == "several_renew" && want == wantRead:
			keys = append(keys, p.ReaderKey(args[1]))
		case script == "several_renew":
			keys = append(keys, p.Lock)
		}
		channels, prefixes = append(channels, p.Channel), append(prefixes, p.Prefix)
	}
	if script == "several_renew" {
		return keys, args
	}
	if script == "several_acquire" {
		channels = nil
	}
	args = slices.Insert(args, first+n, slices.Concat(channels, prefixes, []string{""})...) // no part in the lines
	return keys, slices.Insert(args, first, strconv.Itoa(n))
}

// severalChannels are the channels of a, b and c of both kinds.
func severalChannels() (all []string) {
	for _, name := range []string{"a", "b", "c"} {
		all = append(all, severalPart(name, wantPlain).Channel, severalPart(name, wantRead).Channel)
	}
	return all
}

// A release returns the most subscribers that one of its messages has reached.
func TestScript_SeveralSubscribers(t *testing.T) {
	onBoth(t, func(t *testing.T, s *scriptServer) {
		held := "plain a me:1; write b me:1; read c me:1"
		for n := range 3 {
			s.prepare(t, held)
			require.Equal(t, fmt.Sprintf("[3 3 %d]", n), s.call(t, s.wire, "several_release", "plain write read me:1"))
			listen(t, s, severalPart("b", wantWrite).Channel)
		}
	})
}

// A set of plain locks needs no command that plain locks of their own do not need.
func TestScript_SeveralPlainCommands(t *testing.T) {
	t.Parallel()
	s := realScripts(t)
	w := s.as(t, strings.Fields("-@all +eval +exists +hexists +pttl +incrby +get +hset +hdel +pexpire +del +publish")...)
	run := func(script, args string) string { return s.call(t, w, script, args) }
	s.prepare(t, "plain b you:1")
	require.Equal(t, "[2 20000]", run("several_acquire", "30000 10000 1 plain plain plain me:1"))
	s.do(t, "DEL", "b")
	require.Equal(t, `["1" "1" "1"]`, run("several_acquire", "10000 10000 1 plain plain plain me:2 me:1"))
	require.Equal(t, "1", run("several_renew", "30000 me:2 plain plain plain"))
	counters := `Ta: "1" for -1; Tb: "1" for -1; Tc: "1" for -1`
	s.requireState(t, "a: me:2=1 for 30000; b: me:2=1 for 30000; c: me:2=1 for 30000; "+counters)
	require.Equal(t, "[3 3 0]", run("several_release", "plain plain plain me:2 me:1"))
	s.requireState(t, counters)
}

// allOfMe1 is what holder me:1 has of a plain lock, a writer's and a reader's one.
const allOfMe1 = `a: me:1=1 for 30000; b: me:1:write=1 mode=write for 30000; c: me:1=1 mode=read for 30000; Rc:me:1: "1" for 30000`

func TestScripts_Several(t *testing.T) {
	runTable(t, strings.ReplaceAll(severalScriptTests, "ALL", allOfMe1), severalChannels()...)
}

const severalScriptTests = `
several_acquire:
free | | 30000 0 0 plain write read me:1 | nil | ALL
free, would gather | | 30000 10000 0 plain write read me:1 | nil | ALL
free, further holders | | 30000 0 0 plain write read me:1 me:2 me:3 | nil | ALL
one lock | | 30000 0 0 plain me:1 | nil | a: me:1=1 for 30000
the first is held | plain a you:1 | 30000 0 0 plain write read me:1 | [1 20000] | a: you:1=1 for 20000
the middle one is held | write b you:1 | 30000 0 0 plain write read me:1 | [2 20000] | b: mode=write you:1:write=1 for 20000
the last is held | write c you:1 | 30000 0 0 plain write read me:1 | [3 20000] | c: mode=write you:1:write=1 for 20000
two are held, the first is told | plain c you:1; HSET b you:2 1; PEXPIRE b 50000 | 30000 0 0 plain plain plain me:1 | [2 50000] | b: you:2=1 for 50000; c: you:1=1 for 20000
held without end | HSET b you:1 1 | 30000 0 0 plain plain me:1 | [2 -1] | b: you:1=1 for -1
others read, write | read b you:1 | 30000 0 0 plain write me:1 | [2 20000] | b: mode=read you:1=1 for 20000; Rb:you:1: "1" for 20000
others write, read | write a you:1 | 30000 0 0 read write me:1 | [1 20000] | a: mode=write you:1:write=1 for 20000
a holder is more than its beginning | plain b me:11 | 30000 0 0 plain plain me:1 | [2 20000] | b: me:11=1 for 20000
held, own strays stay | plain a me:1; plain b you:1 | 30000 0 0 plain plain me:2 me:1 | [2 20000] | a: me:1=1 for 20000; b: you:1=1 for 20000
held, own readers stay | read a me:1; plain b you:1 | 30000 0 0 write plain me:2 me:1 | [2 20000] | a: me:1=1 mode=read for 20000; Ra:me:1: "1" for 20000; b: you:1=1 for 20000
held, takes no token | plain b you:1; SET Ta 5 | 30000 0 1 plain plain me:1 | [2 20000] | b: you:1=1 for 20000; Ta: "5" for -1
a plain lock, read | plain b you:1 | 30000 0 0 plain read me:1 | [2 20000 1] | b: you:1=1 for 20000
a plain lock, write | plain a you:1 | 30000 0 0 write plain me:1 | [1 20000 1] | a: you:1=1 for 20000
a read-write lock, plain | write b you:1 | 30000 0 0 plain plain me:1 | [2 20000 1] | b: mode=write you:1:write=1 for 20000
a read-write lock that we read, too, plain | read b you:1; beside b me:1 | 30000 0 0 plain plain me:2 me:1 | [2 20000 1] | b: me:1=1 mode=read you:1=1 for 20000; Rb:me:1: "1" for 20000; Rb:you:1: "1" for 20000
a hash with another mode, read | HSET b mode sport made 1 | 30000 0 0 plain read me:1 | [2 -1 1] | b: made=1 mode=sport for -1
a hash with another mode, write | HSET a mode sport made 1 | 30000 10000 0 write plain me:1 | [1 -1 1] | a: made=1 mode=sport for -1
another kind, does not gather | plain c you:1 | 30000 10000 0 plain plain read me:1 | [3 20000 1] | c: you:1=1 for 20000
own again | plain a me:1; write b me:1; read c me:1 | 30000 0 0 plain write read me:1 | nil | ALL
strays are taken over | plain a me:2; write b me:3; read c me:4 | 30000 0 0 plain write read me:1 me:2 me:3 me:4 | nil | ALL
two strays in each | HSET a me:2 1 me:3 1; PEXPIRE a 20000; read b me:2; beside b me:3; read c me:2; beside c me:3 | 30000 0 0 plain write read me:1 me:2 me:3 | nil | ALL
a stray that reads, write; one that writes, read | read a me:2; write b me:2 | 30000 0 0 write read me:1 me:2 | nil | a: me:1:write=1 mode=write for 30000; b: me:1=1 mode=read for 30000; Rb:me:1: "1" for 30000
a stray without end | HSET a me:2 1; HSET b mode write me:2:write 1 | 30000 0 0 plain write me:1 me:2 | nil | a: me:1=1 for 30000; b: me:1:write=1 mode=write for 30000
an own stray among readers, read | read a you:1; beside a me:2 | 30000 0 0 read plain me:1 me:2 | nil | a: me:1=1 mode=read you:1=1 for 30000; Ra:me:1: "1" for 30000; Ra:you:1: "1" for 20000; b: me:1=1 for 30000
an own stray among readers, write | read a you:1; beside a me:2 | 30000 0 0 write plain me:1 me:2 | [1 20000] | a: me:2=1 mode=read you:1=1 for 20000; Ra:me:2: "1" for 20000; Ra:you:1: "1" for 20000
others read, read | read a you:1; read b you:2 | 30000 0 0 read read me:1 | nil | a: me:1=1 mode=read you:1=1 for 30000; Ra:me:1: "1" for 30000; Ra:you:1: "1" for 20000; b: me:1=1 mode=read you:2=1 for 30000; Rb:me:1: "1" for 30000; Rb:you:2: "1" for 20000
others read for longer, read | read a you:1 | 10000 0 0 read plain me:1 | nil | a: me:1=1 mode=read you:1=1 for 20000; Ra:me:1: "1" for 10000; Ra:you:1: "1" for 20000; b: me:1=1 for 10000
others read without end, read | HSET a mode read you:1 1; SET Ra:you:1 1 PX 20000 | 30000 0 0 read plain me:1 | nil | a: me:1=1 mode=read you:1=1 for -1; Ra:me:1: "1" for 30000; Ra:you:1: "1" for 20000; b: me:1=1 for 30000 | | | a: me:1=1 mode=read you:1=1 for 30000; Ra:me:1: "1" for 30000; Ra:you:1: "1" for 20000; b: me:1=1 for 30000
what a reader with a longer lease left | HSET a mode read me:1 1 you:1 1; PEXPIRE a 90000; SET Ra:me:1 1 PX 90000; SET Ra:you:1 1 PX 20000 | 10000 0 0 read plain me:2 me:1 | nil | a: me:2=1 mode=read you:1=1 for 20000; Ra:me:2: "1" for 10000; Ra:you:1: "1" for 20000; b: me:2=1 for 10000 | rw a 00
a dead reader, write | HSET a mode read you:1 1; PEXPIRE a 20000 | 30000 0 0 write plain me:1 | nil | a: me:1:write=1 mode=write for 30000; b: me:1=1 for 30000
a dead reader and a live one, write | read a you:1; HSET a you:2 1 | 30000 0 0 write plain me:1 | [1 20000] | a: mode=read you:1=1 you:2=1 for 20000; Ra:you:1: "1" for 20000
a dead reader, read | HSET a mode read you:1 1; PEXPIRE a 20000 | 30000 0 0 read plain me:1 | nil | a: me:1=1 mode=read you:1=1 for 30000; Ra:me:1: "1" for 30000; b: me:1=1 for 30000 | | | a: me:1=1 mode=read for 30000; Ra:me:1: "1" for 30000; b: me:1=1 for 30000
reads twice, the first key has ended | HSET a mode read you:1 2; PEXPIRE a 20000; SET {a}:you:1:rwlock_timeout:2 1 PX 20000 | 30000 0 0 write plain me:1 | [1 20000] | a: mode=read you:1=2 for 20000; {a}:you:1:rwlock_timeout:2: "1" for 20000
gathers what is before | plain b you:1 | 30000 10000 0 plain plain read me:1 | [2 20000] | a: me:1=1 for 10000; b: you:1=1 for 20000
gathers beside readers | read a you:1; plain b you:1 | 30000 10000 0 read plain me:1 | [2 20000] | a: me:1=1 mode=read you:1=1 for 20000; Ra:me:1: "1" for 10000; Ra:you:1: "1" for 20000; b: you:1=1 for 20000
gathers on, with the time that is left | plain a me:2; write b me:2; plain c you:1 | 30000 10000 0 plain write plain me:1 me:2 | [3 20000] | a: me:1=1 for 10000; b: me:1:write=1 mode=write for 10000; c: you:1=1 for 20000
gathers nothing | plain a you:1; plain b you:2 | 30000 10000 0 plain plain me:1 | [1 20000] | a: you:1=1 for 20000; b: you:2=1 for 20000
gathers, takes no token | plain b you:1; SET Ta 5 | 30000 10000 1 plain plain read me:1 | [2 20000] | a: me:1=1 for 10000; Ta: "5" for -1; b: you:1=1 for 20000
all, after it has gathered | HSET a me:2 1; PEXPIRE a 10000; HSET b mode write me:2:write 1; PEXPIRE b 10000; HSET c mode read me:2 1; PEXPIRE c 10000; SET Rc:me:2 1 PX 10000 | 30000 10000 0 plain write read me:1 me:2 | nil | ALL
tokens | SET Ta 9007199254740992; SET Tb 41; SET Tc 7 | 30000 0 1 plain write read me:1 | ["9007199254740993" "42" "7"] | ALL; Ta: "9007199254740993" for -1; Tb: "42" for -1; Tc: "7" for -1 | | ["9007199254740994" "43" "7"] | ALL; Ta: "9007199254740994" for -1; Tb: "43" for -1; Tc: "7" for -1
the first tokens | | 30000 0 1 plain write read me:1 | ["1" "1" "1"] | ALL; Ta: "1" for -1; Tb: "1" for -1; Tc: "1" for -1 | | ["2" "2" "1"] | ALL; Ta: "2" for -1; Tb: "2" for -1; Tc: "1" for -1
the last counter is no number | SET Tb x | 30000 0 1 plain write me:1 | !ERR value is not an integer | Ta: "1" for -1; Tb: "x" for -1 | | | Ta: "2" for -1; Tb: "x" for -1
no token left | SET Tb 9223372036854775807; plain a me:2 | 30000 0 1 plain write me:1 me:2 | !ERR increment or decrement would overflow | a: me:2=1 for 20000; Ta: "1" for -1; Tb: "9223372036854775807" for -1 | | | a: me:2=1 for 20000; Ta: "2" for -1; Tb: "9223372036854775807" for -1
a reader's counter is no number | SET Tb x | 30000 0 1 plain read me:1 | !ERR value is not an integer | Ta: "1" for -1; Tb: "x" for -1 | | | Ta: "2" for -1; Tb: "x" for -1
a reader's counter is no string | HSET Tb x 1 | 30000 0 1 plain read me:1 | !WRONGTYPE | Ta: "1" for -1; Tb: x=1 for -1 | | | Ta: "2" for -1; Tb: x=1 for -1
a string, plain | SET b hello | 30000 0 0 plain plain me:1 | !WRONGTYPE | b: "hello" for -1
a list, write | RPUSH b hello; PEXPIRE b 20000 | 30000 0 1 read write me:1 | !WRONGTYPE | b: list for 20000
a string, after one that is kept | plain a me:1; SET c hello | 30000 10000 0 plain plain read me:1 | !WRONGTYPE | a: me:1=1 for 20000; c: "hello" for -1

several_release:
all | plain a me:1; write b me:1; read c me:1 | plain write read me:1 | [3 3 1] | | a 00; rw b 01; rw c 00 | nil
under the name of any | plain a me:2; write b me:1; read c me:3 | plain write read me:1 me:2 me:3 | [3 3 1] | | a 00; rw b 01; rw c 00 | nil
two names at once | HSET a me:1 1 me:2 1; PEXPIRE a 20000; read b me:1; beside b me:2 | plain read me:1 me:2 | [2 2 1] | | a 00; rw b 00 | nil
the first is missing | write b me:1 | plain write read me:1 | [1 1 1] | | rw b 01 | nil
others have all but the last | plain a you:1; write b you:1; read c me:1 | plain write read me:1 | [1 1 1] | a: you:1=1 for 20000; b: mode=write you:1:write=1 for 20000 | rw c 00 | nil
none | | plain write read me:1 | nil
others have all | plain a you:1; write b you:1; read c you:1 | plain write read me:1 me:2 | nil | a: you:1=1 for 20000; b: mode=write you:1:write=1 for 20000; c: mode=read you:1=1 for 20000; Rc:you:1: "1" for 20000
counters are kept | plain a me:1; write b me:1; SET Ta 5; SET Tb 6 | plain write me:1 | [2 2 1] | Ta: "5" for -1; Tb: "6" for -1 | a 00; rw b 01 | nil
others still read one | plain a me:1; read b you:1; beside b me:1 | plain read me:1 | [2 1 1] | b: mode=read you:1=1 for 20000; Rb:you:1: "1" for 20000 | a 00 | nil
others still read all | read a you:1; beside a me:1; read b you:1; beside b me:1 | read read me:1 | [2 0 -1] | a: mode=read you:1=1 for 20000; Ra:you:1: "1" for 20000; b: mode=read you:1=1 for 20000; Rb:you:1: "1" for 20000 | | nil
others read, for much less | HSET a mode read me:1 1 you:1 1; PEXPIRE a 30000; SET Ra:me:1 1 PX 30000; SET Ra:you:1 1 PX 10000 | read plain me:1 | [1 0 -1] | a: mode=read you:1=1 for 10000; Ra:you:1: "1" for 10000 | rw a 00 | nil
the other readers are dead | HSET a mode read me:1 1 you:1 1; PEXPIRE a 20000; SET Ra:me:1 1 PX 20000 | read plain me:1 | [1 1 1] | | rw a 00 | nil
one of the other readers is dead | read a you:1; HSET a me:1 1 you:2 1; SET Ra:me:1 1 PX 20000 | read plain me:1 | [1 0 -1] | a: mode=read you:1=1 for 20000; Ra:you:1: "1" for 20000 | | nil
a writer beside readers | read a you:1; HSET a mode write me:1:write 1 | write plain me:1 | [1 1 1] | a: mode=read you:1=1 for 20000; Ra:you:1: "1" for 20000 | rw a 01 | nil
a reader beside a writer | read a me:1; HSET a mode write you:1:write 1 | read plain me:1 | [1 0 -1] | a: mode=write you:1:write=1 for 20000 | | nil
a reader whose record is gone | SET Ra:me:1 1 PX 90000 | read plain me:2 me:1 | nil
a plain lock, read | plain a me:1 | read plain me:1 | nil | a: me:1=1 for 20000
no locks between locks | SET a hello; RPUSH b hello; plain c me:1 | read plain plain me:1 | [1 1 1] | a: "hello" for -1; b: list for -1 | c 00 | nil
no locks at all | SET a hello; RPUSH b hello | plain write me:1 | nil | a: "hello" for -1; b: list for -1

several_renew:
all | plain a me:1; write b me:1; read c me:1 | 30000 me:1 plain write read | 1 | ALL
not shortened | plain a me:1; write b me:1; read c me:1 | 10000 me:1 plain write read | 1 | a: me:1=1 for 20000; b: me:1:write=1 mode=write for 20000; c: me:1=1 mode=read for 20000; Rc:me:1: "1" for 20000
gets its end back | HSET a me:1 1; HSET b mode write me:1:write 1; HSET c mode read me:1 1; PEXPIRE c 20000; SET Rc:me:1 1 | 30000 me:1 plain write read | 1 | ALL
gets its reader's key back | HSET a mode read me:1 1; PEXPIRE a 20000 | 30000 me:1 read | 1 | a: me:1=1 mode=read for 30000; Ra:me:1: "1" for 30000
the record of readers has no end | HSET a mode read me:1 1 you:1 1; SET Ra:me:1 1 PX 20000 | 30000 me:1 read | 1 | a: me:1=1 mode=read you:1=1 for -1; Ra:me:1: "1" for 30000
beside readers | read a you:1; HSET a me:1 1; SET Ra:me:1 1 PX 10000 | 30000 me:1 read | 1 | a: me:1=1 mode=read you:1=1 for 30000; Ra:me:1: "1" for 30000; Ra:you:1: "1" for 20000
the last is lost | plain a me:1; read b me:1 | 30000 me:1 plain read plain | 0 | a: me:1=1 for 20000; b: me:1=1 mode=read for 20000; Rb:me:1: "1" for 20000
the first is another's | plain a you:1; write b me:1 | 30000 me:1 plain write | 0 | a: you:1=1 for 20000; b: me:1:write=1 mode=write for 20000
a writer who is a reader by now | plain a me:1; read b me:1 | 30000 me:1 plain write | 0 | a: me:1=1 for 20000; b: me:1=1 mode=read for 20000; Rb:me:1: "1" for 20000
gone | | 30000 me:1 plain write read | 0
the last is a string | plain a me:1; SET b hello | 30000 me:1 plain write | 0 | a: me:1=1 for 20000; b: "hello" for -1
`

// While the server is out of memory no set can be taken or gathered, whichever lock comes first. A
// set that is held can be taken once more, and released.
func TestScript_SeveralOutOfMemory(t *testing.T) {
	t.Parallel()
	s := realScripts(t)
	e := listen(t, s, severalChannels()...)
	wants := []string{"plain plain plain", "plain write read", "read plain write", "write read plain", "read read read"}
	for _, want := range wants {
		for _, given := range []string{"", "SET Ta 5; SET Tb 6; SET Tc 7", "plain b you:1", "write b you:1", "read c you:1"} {
			for _, how := range []string{"30000 0 0", "30000 10000 0", "30000 0 1", "30000 10000 1"} {
				s.prepareFull(t, given)
				before := s.state(t)
				reply := s.call(t, s.wire, "several_acquire", how+" "+want+" me:1 me:2")
				require.Regexp(t, `^(!OOM .*|\[[23] 20000( 1)?\])$`, reply, "%s of %s, %s", want, given, how)
				require.Equal(t, before, s.state(t), "%s of %s, %s: %s", want, given, how, reply)
			}
		}
		// What is held, by an earlier run, too.
		names := strings.Fields(want)
		var held []string
		for i, name := range []string{"a", "b", "c"} {
			held = append(held, names[i]+" "+name+" me:1")
		}
		given := strings.Join(held, "; ")
		for _, how := range []string{"30000 0 0", "30000 0 1"} {
			s.prepareFull(t, given)
			reply := s.call(t, s.wire, "several_acquire", how+" "+want+" me:9 me:1")
			taken := 0
			for key, value := range s.state(t) {
				require.True(t, strings.HasPrefix(key, "redisson_lock_token:") || !strings.Contains(value, "for -1"), "%s of %s: %s, %s", want, given, key, reply)
				if strings.Contains(value, "me:9") {
					taken++
				}
			}
			require.Equal(t, 3, taken, "%s, %s: what it has", want, reply)
			s.prepareFull(t, given)
			require.Regexp(t, `^\[3 3 1\]$`, s.call(t, s.wire, "several_release", want+" me:9 me:1"), want)
			require.Len(t, e.heard(t), 3)
			s.requireState(t, "")
		}
		if !strings.Contains(want, wantRead) {
			s.prepareFull(t, given)
			require.Equal(t, "1", s.call(t, s.wire, "several_renew", "30000 me:1 "+want))
			for key, value := range s.state(t) {
				require.Contains(t, value, "for 30000", key)
			}
		}
	}
	s.prepareFull(t, "read a you:1; HSET a mode write me:1:write 1; plain b me:1")
	require.Equal(t, "[2 2 1]", s.call(t, s.wire, "several_release", "write plain me:1"), "what is left becomes a reader's")
	s.requireState(t, `a: mode=read you:1=1 for 20000; Ra:you:1: "1" for 20000`)
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
		"ours":            "plain a me:1; write b me:1; read c me:1",
		"ours, not all":   "write b me:1",
		"another reads":   "read c you:1",
		"we read, too":    "read c you:1; beside c me:1",
		"another's first": "plain a you:1",
		"another's last":  "write c you:1",
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
					s.prepare(t, given)
					before := s.state(t)
					reply := s.call(t, w, script, args)
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
	given := "plain a me:1; write b me:1; plain c me:1"
	release := func(w *wire) string { return s.call(t, w, "several_release", "plain write plain me:1") }
	const first, second, third = "redisson_lock__channel:{a}", "redisson_rwlock:{b}", "redisson_lock__channel:{c}"

	s.prepare(t, given)
	reply := release(s.as(t, "-hgetall")) // only read-write locks need it
	require.Regexp(t, "^!.*(NOPERM|can't|permission|ACL)", reply)
	require.Equal(t, []string{first + " 00", third + " 00"}, e.heard(t))
	require.NotContains(t, s.state(t), "a")
	require.NotContains(t, s.state(t), "c")

	s.prepare(t, given)
	reply = release(s.as(t, "-publish"))
	require.Regexp(t, `^\[3 0 -1 ".*(NOPERM|can't|permission|ACL).*"\]$`, reply, "a text, not an error")
	s.requireState(t, "")

	s.prepare(t, given)
	reply = release(s.as(t, "resetchannels", "&"+second))
	require.Regexp(t, `^\[3 1 1 ".*(NOPERM|can't|permission|ACL|channel).*"\]$`, reply, "one message is allowed")
	require.Equal(t, []string{second + " 01"}, e.heard(t))
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

		// A set that does not gather leaves the lines of what it could have, too, and serves them.
		s.prepare(t, "")
		s.do(t, "HSET", "c", "mode", "write", "x:1:write", "1")
		require.Equal(t, "[3 -1]", acquire(1, "0", "me:1"))
		require.Equal(t, "-1", other("c", 1))
		s.do(t, "DEL", "c")
		s.do(t, "HSET", "a", "x:1", "1")
		require.Equal(t, "[1 -1]", acquire(2, "0", "me:2"))
		require.Equal(t, "[set:9][][other]", lines())
		require.Equal(t, []string{"redisson_rwlock:{c}:other 1"}, e.heard(t))
		s.do(t, "DEL", "a")
		s.do(t, "HSET", "c", "mode", "write", "x:1:write", "1")
		require.Equal(t, "[3 -1]", acquire(3, "0", "me:3"))
		require.Equal(t, "[][][other set:9]", lines())

		// Copies that run late take nobody out of a line where a newer script stands, and tell nobody.
		s.prepare(t, "")
		require.Equal(t, "nil", other("b", 1))
		require.Equal(t, "[2 30000]", acquire(3, "0", "me:3"))
		require.Equal(t, "[2 30000]", acquire(2, "0", "me:2"), "joins late")
		require.Equal(t, "nil", release("set:9 2", "me:2"), "leaves late")
		require.Equal(t, "nil", other("a", 2))
		require.Equal(t, "[1 30000]", acquire(2, "0", "me:2"), "joins the line of a late, and leaves no other")
		require.Equal(t, "[set:9][set:9][]", lines())
		for _, name := range []string{"a", "b"} {
			require.Equal(t, "[0 1]", s.show(s.run(t, s.wire, "release", []string{name}, []string{"", "other:1", "redisson_lock__channel:{" + name + "}"})))
		}
		require.Len(t, e.heard(t), 2)
		require.Equal(t, "nil", acquire(4, "0", "me:4", "me:3"))
		require.Equal(t, "[][][]", lines())
		require.Equal(t, "30000", other("b", 3))
		require.Equal(t, "nil", release("set:9 3", "me:3"), "serves late, and the set holds")
		require.Empty(t, e.heard(t))
		require.Equal(t, "[3 3 0 \"\" 1]", release("", "me:4"))
		require.Equal(t, "nil", release("", "me:4"), "serves late")
		require.Equal(t, []string{"redisson_lock__channel:{b}:other 1"}, e.heard(t))
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
	s.prepare(t, "plain b x:1")
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
