package script_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

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
	{what: "another kind, does not gather", given: join(plainBy("you:1", "b"), plainBy("you:1", "c")), script: "several_acquire",
		args: "30000 10000 0 plain plain read me:1", reply: "[3 20000 1]", then: "b: you:1=1 for 20000; c: you:1=1 for 20000"},

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
		then: `a: me:1=1 mode=read you:1=1 for -1; Ra:me:1: "1" for 30000; Ra:you:1: "1" for 20000; b: me:1=1 for 30000`},
	{what: "a dead reader, write", given: "HSET a mode read you:1 1; PEXPIRE a 20000", script: "several_acquire", args: "30000 0 0 write plain me:1",
		reply: "nil", then: "a: me:1:write=1 mode=write for 30000; b: me:1=1 for 30000"},
	{what: "a dead reader and a live one, write", given: join(readBy("you:1", "a"), "HSET a you:2 1"), script: "several_acquire",
		args: "30000 0 0 write plain me:1", reply: "[1 20000]", then: `a: mode=read you:1=1 you:2=1 for 20000; Ra:you:1: "1" for 20000`},
	{what: "a dead reader, read", given: "HSET a mode read you:1 1; PEXPIRE a 20000", script: "several_acquire", args: "30000 0 0 read plain me:1",
		reply: "nil", then: `a: me:1=1 mode=read you:1=1 for 30000; Ra:me:1: "1" for 30000; b: me:1=1 for 30000`},
	{what: "reads twice, the first key has ended", given: "HSET a mode read you:1 2; PEXPIRE a 20000; SET {a}:you:1:rwlock_timeout:2 1 PX 20000",
		script: "several_acquire", args: "30000 0 0 write plain me:1", reply: "[1 20000]",
		then: `a: mode=read you:1=2 for 20000; {a}:you:1:rwlock_timeout:2: "1" for 20000`},

	// Gathering.
	{what: "gathers what is free", given: plainBy("you:1", "b"), script: "several_acquire", args: "30000 10000 0 plain plain read me:1",
		reply: "[2 20000]", then: `a: me:1=1 for 10000; b: you:1=1 for 20000; c: me:1=1 mode=read for 10000; Rc:me:1: "1" for 10000`},
	{what: "gathers, and tells the first", given: join(writtenBy("you:1", "c"), "HSET a you:1 1; PEXPIRE a 50000"), script: "several_acquire",
		args: "30000 10000 0 plain write read me:1", reply: "[1 50000]",
		then: "a: you:1=1 for 50000; b: me:1:write=1 mode=write for 10000; c: mode=write you:1:write=1 for 20000"},
	{what: "gathers beside readers", given: join(readBy("you:1", "a"), plainBy("you:1", "b")), script: "several_acquire",
		args: "30000 10000 0 read plain me:1", reply: "[2 20000]",
		then: `a: me:1=1 mode=read you:1=1 for 20000; Ra:me:1: "1" for 10000; Ra:you:1: "1" for 20000; b: you:1=1 for 20000`},
	{what: "gathers on, with the time that is left", given: join(plainBy("me:2", "a"), plainBy("you:1", "b"), writtenBy("me:2", "c")), script: "several_acquire",
		args: "30000 10000 0 plain plain write me:1 me:2", reply: "[2 20000]",
		then: "a: me:1=1 for 10000; b: you:1=1 for 20000; c: me:1:write=1 mode=write for 10000"},
	{what: "gathers nothing", given: join(plainBy("you:1", "a"), plainBy("you:2", "b")), script: "several_acquire", args: "30000 10000 0 plain plain me:1",
		reply: "[1 20000]", then: "a: you:1=1 for 20000; b: you:2=1 for 20000"},
	{what: "gathers, takes no token", given: join(plainBy("you:1", "b"), "SET Ta 5"), script: "several_acquire", args: "30000 10000 1 plain plain read me:1",
		reply: "[2 20000]", then: `a: me:1=1 for 10000; Ta: "5" for -1; b: you:1=1 for 20000; c: me:1=1 mode=read for 10000; Rc:me:1: "1" for 10000`},
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
	{what: "a string, after one that is held", given: join(plainBy("you:1", "a"), "SET c hello"), script: "several_acquire",
		args: "30000 10000 0 plain plain read me:1", reply: "!WRONGTYPE", then: `a: you:1=1 for 20000; c: "hello" for -1`},

	{what: "all", given: join(plainBy("me:1", "a"), writtenBy("me:1", "b"), readBy("me:1", "c")), script: "several_release",
		args: "plain write read me:1", reply: "[3 3 1]", told: "a 0; b 1; c 0", again: "nil"},
	{what: "under the name of any", given: join(plainBy("me:2", "a"), writtenBy("me:1", "b"), readBy("me:3", "c")), script: "several_release",
		args: "plain write read me:1 me:2 me:3", reply: "[3 3 1]", told: "a 0; b 1; c 0", again: "nil"},
	{what: "two names at once", given: join("HSET a me:1 1 me:2 1; PEXPIRE a 20000", readBy("me:1", "b"), "HSET b me:2 1; SET Rb:me:2 1 PX 20000"),
		script: "several_release", args: "plain read me:1 me:2", reply: "[2 2 1]", told: "a 0; b 0", again: "nil"},
	{what: "the first is missing", given: writtenBy("me:1", "b"), script: "several_release", args: "plain write read me:1", reply: "[1 1 1]",
		told: "b 1", again: "nil"},
	{what: "others have all but the last", given: join(plainBy("you:1", "a"), writtenBy("you:1", "b"), readBy("me:1", "c")), script: "several_release",
		args: "plain write read me:1", reply: "[1 1 1]", told: "c 0", then: "a: you:1=1 for 20000; b: mode=write you:1:write=1 for 20000", again: "nil"},
	{what: "none", script: "several_release", args: "plain write read me:1", reply: "nil"},
	{what: "others have all", given: join(plainBy("you:1", "a"), writtenBy("you:1", "b"), readBy("you:1", "c")), script: "several_release",
		args: "plain write read me:1 me:2", reply: "nil",
		then: `a: you:1=1 for 20000; b: mode=write you:1:write=1 for 20000; c: mode=read you:1=1 for 20000; Rc:you:1: "1" for 20000`},
	{what: "counters are kept", given: join(plainBy("me:1", "a"), writtenBy("me:1", "b"), "SET Ta 5; SET Tb 6"), script: "several_release",
		args: "plain write me:1", reply: "[2 2 1]", told: "a 0; b 1", then: `Ta: "5" for -1; Tb: "6" for -1`, again: "nil"},
	{what: "others still read one", given: join(plainBy("me:1", "a"), readBy("you:1", "b"), "HSET b me:1 1; SET Rb:me:1 1 PX 20000"), script: "several_release",
		args: "plain read me:1", reply: "[2 1 1]", told: "a 0", then: `b: mode=read you:1=1 for 20000; Rb:you:1: "1" for 20000`, again: "nil"},
	{what: "others still read all", given: join(readBy("you:1", "a"), "HSET a me:1 1; SET Ra:me:1 1 PX 20000",
		readBy("you:1", "b"), "HSET b me:1 1; SET Rb:me:1 1 PX 20000"), script: "several_release", args: "read read me:1", reply: "[2 0 -1]",
		then:  `a: mode=read you:1=1 for 20000; Ra:you:1: "1" for 20000; b: mode=read you:1=1 for 20000; Rb:you:1: "1" for 20000`,
		again: "nil"},
	{what: "others read, for much less", given: "HSET a mode read me:1 1 you:1 1; PEXPIRE a 30000; SET Ra:me:1 1 PX 30000; SET Ra:you:1 1 PX 10000",
		script: "several_release", args: "read plain me:1", reply: "[1 1 1]", told: "a 0", then: `a: mode=read you:1=1 for 10000; Ra:you:1: "1" for 10000`,
		again: "nil"},
	{what: "the other readers are dead", given: "HSET a mode read me:1 1 you:1 1; PEXPIRE a 20000; SET Ra:me:1 1 PX 20000", script: "several_release",
		args: "read plain me:1", reply: "[1 1 1]", told: "a 0", again: "nil"},
	{what: "one of the other readers is dead", given: join(readBy("you:1", "a"), "HSET a me:1 1 you:2 1; SET Ra:me:1 1 PX 20000"), script: "several_release",
		args: "read plain me:1", reply: "[1 0 -1]", then: `a: mode=read you:1=1 for 20000; Ra:you:1: "1" for 20000`, again: "nil"},
	{what: "a writer beside readers", given: join(readBy("you:1", "a"), "HSET a mode write me:1:write 1"), script: "several_release",
		args: "write plain me:1", reply: "[1 1 1]", told: "a 1", then: `a: mode=read you:1=1 for 20000; Ra:you:1: "1" for 20000`, again: "nil"},
	{what: "a reader beside a writer", given: join(readBy("me:1", "a"), "HSET a mode write you:1:write 1"), script: "several_release",
		args: "read plain me:1", reply: "[1 0 -1]", then: "a: mode=write you:1:write=1 for 20000", again: "nil"},
	{what: "a plain lock, read", given: plainBy("me:1", "a"), script: "several_release", args: "read plain me:1", reply: "nil", then: "a: me:1=1 for 20000"},
	{what: "no locks between locks", given: join("SET a hello; RPUSH b hello", plainBy("me:1", "c")), script: "several_release",
		args: "read plain plain me:1", reply: "[1 1 1]", told: "c 0", then: `a: "hello" for -1; b: list for -1`, again: "nil"},
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
