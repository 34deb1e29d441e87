package script_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The keys of the read-write lock of the tests. R stands for the first part of the keys of its
// readers.
const (
	rwChannel = "redisson_rwlock:{" + theLock + "}"
	rwPrefix  = "{" + theLock + "}"
)

// rwKeys gives a script the keys that its header asks for.
func rwKeys(script string, args []string) []string {
	switch {
	case script == "readwrite_renew" && args[1] == "read":
		return []string{theLock, readersKeys("R:" + args[2])}
	case script == "readwrite_renew":
		return []string{theLock, theLock}
	case script != "readwrite_release" && args[2] != "0":
		return []string{theLock, theCounter}
	}
	return []string{theLock}
}

// What a record looks like: one reader of ours, one of another's, a writer.
const (
	oneReader  = "HSET L mode read me:1 1; PEXPIRE L 20000; SET R:me:1 1 PX 20000"
	otherReads = "HSET L mode read you:1 1; PEXPIRE L 20000; SET R:you:1 1 PX 20000"
	bothRead   = "HSET L mode read me:1 1 you:1 1; PEXPIRE L 30000; SET R:me:1 1 PX 30000; SET R:you:1 1 PX 20000"
	deadReader = "HSET L mode read you:1 1; PEXPIRE L 20000"
	oneWriter  = "HSET L mode write me:1:write 1; PEXPIRE L 20000"
	otherWrite = "HSET L mode write you:1:write 1; PEXPIRE L 20000"
	plainLock  = "HSET L you:1 1; PEXPIRE L 20000"
)

var rwScriptTests = []struct {
	what, given, script, args, reply, then string
	told                                   string // the message, if one is published
	again, later                           string // of the second run, if they differ
}{
	{what: "free, read", script: "readwrite_acquire", args: "read 30000 0 me:1", reply: "nil",
		then: `L: me:1=1 mode=read for 30000; R:me:1: "1" for 30000`},
	{what: "free, write", script: "readwrite_acquire", args: "write 30000 0 me:1", reply: "nil",
		then: "L: me:1:write=1 mode=write for 30000"},
	{what: "others read, read", given: otherReads, script: "readwrite_acquire", args: "read 30000 0 me:1", reply: "nil",
		then: `L: me:1=1 mode=read you:1=1 for 30000; R:me:1: "1" for 30000; R:you:1: "1" for 20000`},
	{what: "others read for longer, read", given: otherReads, script: "readwrite_acquire", args: "read 10000 0 me:1", reply: "nil",
		then: `L: me:1=1 mode=read you:1=1 for 20000; R:me:1: "1" for 10000; R:you:1: "1" for 20000`},
	{what: "others read, write", given: otherReads, script: "readwrite_acquire", args: "write 30000 0 me:1", reply: "20000",
		then: `L: mode=read you:1=1 for 20000; R:you:1: "1" for 20000`},
	{what: "a dead reader, write", given: deadReader, script: "readwrite_acquire", args: "write 30000 0 me:1", reply: "nil",
		then: "L: me:1:write=1 mode=write for 30000"},
	{what: "a dead reader, read", given: deadReader, script: "readwrite_acquire", args: "read 30000 0 me:1", reply: "nil",
		then:  `L: me:1=1 mode=read you:1=1 for 30000; R:me:1: "1" for 30000`,
		later: `L: me:1=1 mode=read for 30000; R:me:1: "1" for 30000`},
	{what: "others write, read", given: otherWrite, script: "readwrite_acquire", args: "read 30000 0 me:1", reply: "20000",
		then: "L: mode=write you:1:write=1 for 20000"},
	{what: "others write, write", given: otherWrite, script: "readwrite_acquire", args: "write 30000 0 me:1", reply: "20000",
		then: "L: mode=write you:1:write=1 for 20000"},
	{what: "what an earlier try left", given: oneWriter, script: "readwrite_acquire", args: "read 10000 0 me:2 me:1", reply: "nil", told: "01",
		then: `L: me:2=1 mode=read for 10000; R:me:2: "1" for 10000`},
	{what: "what a reader with a longer lease left", given: bothRead, script: "readwrite_acquire", args: "read 10000 0 me:2 me:1", reply: "nil",
		then: `L: me:2=1 mode=read you:1=1 for 20000; R:me:2: "1" for 10000; R:you:1: "1" for 20000`},
	{what: "what a reader with a much longer lease left", given: "HSET L mode read me:1 1 you:1 1; PEXPIRE L 90000; SET R:me:1 1 PX 90000; SET R:you:1 1 PX 20000",
		script: "readwrite_acquire", args: "read 10000 0 me:2 me:1", reply: "nil", told: "00",
		then: `L: me:2=1 mode=read you:1=1 for 20000; R:me:2: "1" for 10000; R:you:1: "1" for 20000`},
	{what: "what a reader with a longer lease left, write", given: bothRead, script: "readwrite_acquire", args: "write 10000 0 me:2 me:1", reply: "20000",
		then: `L: mode=read you:1=1 for 20000; R:you:1: "1" for 20000`},
	{what: "a plain lock", given: plainLock, script: "readwrite_acquire", args: "read 30000 0 me:1", reply: "[20000]",
		then: "L: you:1=1 for 20000"},
	{what: "a hash with another mode, read", given: "HSET L mode sport made 1", script: "readwrite_acquire", args: "read 30000 0 me:1", reply: "[-1]",
		then: "L: made=1 mode=sport for -1"},
	{what: "a hash with another mode, write", given: "HSET L mode sport made 1", script: "readwrite_acquire", args: "write 30000 0 me:1", reply: "[-1]",
		then: "L: made=1 mode=sport for -1"},
	{what: "a string", given: "SET L hello", script: "readwrite_acquire", args: "read 30000 0 me:1", reply: "!WRONGTYPE", then: `L: "hello" for -1`},
	{what: "a writer's tokens", script: "readwrite_acquire", args: "write 30000 3 me:1", reply: `"3"`,
		then: `L: me:1:write=1 mode=write for 30000; T: "3" for -1`, again: `"6"`, later: `L: me:1:write=1 mode=write for 30000; T: "6" for -1`},
	{what: "a reader's token", given: "SET T 41", script: "readwrite_acquire", args: "read 30000 1 me:1", reply: `"41"`,
		then: `L: me:1=1 mode=read for 30000; R:me:1: "1" for 30000; T: "41" for -1`},
	{what: "a reader's token, the first one", script: "readwrite_acquire", args: "read 30000 1 me:1", reply: `"1"`,
		then: `L: me:1=1 mode=read for 30000; R:me:1: "1" for 30000; T: "1" for -1`},
	{what: "a reader's counter is no number", given: "SET T x", script: "readwrite_acquire", args: "read 30000 1 me:1",
		reply: "!ERR value is not an integer", then: `T: "x" for -1`},

	{what: "to a writer", given: oneWriter, script: "readwrite_transfer", args: "write 30000 0 me:2 me:1", reply: "1",
		then: "L: me:2:write=1 mode=write for 30000"},
	{what: "to a reader", given: oneWriter, script: "readwrite_transfer", args: "read 10000 0 me:2 me:1", reply: "1", told: "01",
		then: `L: me:2=1 mode=read for 10000; R:me:2: "1" for 10000`},
	{what: "from reader to reader", given: bothRead, script: "readwrite_transfer", args: "read 40000 0 me:2 me:1", reply: "1",
		then: `L: me:2=1 mode=read you:1=1 for 40000; R:me:2: "1" for 40000; R:you:1: "1" for 20000`},
	{what: "from reader to reader, shortened", given: bothRead, script: "readwrite_transfer", args: "read 10000 0 me:2 me:1", reply: "1",
		then: `L: me:2=1 mode=read you:1=1 for 20000; R:me:2: "1" for 10000; R:you:1: "1" for 20000`},
	{what: "from reader to reader, a copy does not shorten", given: bothRead, script: "readwrite_transfer", args: "read 10000 0 me:1 me:2", reply: "1",
		then: `L: me:1=1 mode=read you:1=1 for 30000; R:me:1: "1" for 30000; R:you:1: "1" for 20000`},
	{what: "from writer to writer, shortened", given: oneWriter, script: "readwrite_transfer", args: "write 10000 0 me:2 me:1", reply: "1",
		then: "L: me:2:write=1 mode=write for 10000"},
	{what: "from reader to writer", given: oneReader, script: "readwrite_transfer", args: "write 30000 0 me:2 me:1", reply: "1",
		then: "L: me:2:write=1 mode=write for 30000"},
	{what: "from reader to writer, tokens", given: oneReader, script: "readwrite_transfer", args: "write 30000 2 me:1", reply: `[1 "2"]`,
		then: `L: me:1:write=1 mode=write for 30000; T: "2" for -1`, again: `[1 "4"]`, later: `L: me:1:write=1 mode=write for 30000; T: "4" for -1`},
	{what: "from reader to writer, others read", given: bothRead, script: "readwrite_transfer", args: "write 30000 1 me:2 me:1", reply: "[]",
		then: `L: me:1=1 mode=read you:1=1 for 30000; R:me:1: "1" for 30000; R:you:1: "1" for 20000`},
	{what: "from reader to writer, the others are dead", given: "HSET L mode read me:1 1 you:1 1; PEXPIRE L 20000; SET R:me:1 1 PX 20000",
		script: "readwrite_transfer", args: "write 30000 0 me:1", reply: "1", then: "L: me:1:write=1 mode=write for 30000"},
	{what: "from reader to reader, the counter is no number", given: oneReader + "; SET T x", script: "readwrite_transfer", args: "read 30000 1 me:2 me:1",
		reply: "!ERR value is not an integer", then: `L: me:1=1 mode=read for 20000; R:me:1: "1" for 20000; T: "x" for -1`},
	{what: "another's", given: otherWrite, script: "readwrite_transfer", args: "write 30000 0 me:2 me:1", reply: "nil",
		then: "L: mode=write you:1:write=1 for 20000"},

	{what: "the last reader", given: oneReader, script: "readwrite_release", args: "me:1", reply: "1", told: "00", again: "nil"},
	{what: "others still read", given: bothRead, script: "readwrite_release", args: "me:1", reply: "[1]",
		then: `L: mode=read you:1=1 for 20000; R:you:1: "1" for 20000`, again: "nil"},
	{what: "others read, for much less", given: "HSET L mode read me:1 1 you:1 1; PEXPIRE L 30000; SET R:me:1 1 PX 30000; SET R:you:1 1 PX 10000",
		script: "readwrite_release", args: "me:1", reply: "[1]", told: "00", then: `L: mode=read you:1=1 for 10000; R:you:1: "1" for 10000`, again: "nil"},
	{what: "the others are dead", given: "HSET L mode read me:1 1 you:1 1; PEXPIRE L 20000; SET R:me:1 1 PX 20000",
		script: "readwrite_release", args: "me:1", reply: "1", told: "00", again: "nil"},
	{what: "the writer", given: oneWriter, script: "readwrite_release", args: "me:2 me:1", reply: "1", told: "01", again: "nil"},
	{what: "a writer who reads", given: "HSET L mode write you:1:write 1 you:1 1; PEXPIRE L 20000; SET R:you:1 1 PX 20000",
		script: "readwrite_release", args: "me:1", reply: "nil",
		then: `L: mode=write you:1:write=1 you:1=1 for 20000; R:you:1: "1" for 20000`},
	{what: "another's", given: otherReads, script: "readwrite_release", args: "me:1", reply: "nil",
		then: `L: mode=read you:1=1 for 20000; R:you:1: "1" for 20000`},
	{what: "by force, the last reader", given: oneReader, script: "readwrite_release", args: "force me:1", reply: "1", told: "000", again: "nil"},
	{what: "by force, others still read", given: bothRead, script: "readwrite_release", args: "force me:1", reply: "[1]", told: "000",
		then: `L: mode=read you:1=1 for 20000; R:you:1: "1" for 20000`, again: "nil"},
	{what: "by force, others read, for much less", given: "HSET L mode read me:1 1 you:1 1; PEXPIRE L 30000; SET R:me:1 1 PX 30000; SET R:you:1 1 PX 10000",
		script: "readwrite_release", args: "force me:1", reply: "[1]", told: "00 000", then: `L: mode=read you:1=1 for 10000; R:you:1: "1" for 10000`, again: "nil"},
	{what: "by force, one that reads twice", given: bothRead + "; HSET L you:1 2; SET " + rwPrefix + ":you:1:rwlock_timeout:2 1 PX 90000; PEXPIRE L 90000",
		script: "readwrite_release", args: "force you:1", reply: "[1]", told: "00 000", then: `L: me:1=1 mode=read for 30000; R:me:1: "1" for 30000`, again: "nil"},
	{what: "by force, the writer", given: oneWriter, script: "readwrite_release", args: "force me:1", reply: "1", told: "001", again: "nil"},
	{what: "a reader whose record is gone", given: "SET R:me:1 1 PX 90000", script: "readwrite_release", args: "me:2 me:1", reply: "nil"},
	{what: "a reader whose record is another's by now", given: otherReads + "; SET R:me:1 1 PX 90000", script: "readwrite_release", args: "me:2 me:1", reply: "nil",
		then: `L: mode=read you:1=1 for 20000; R:you:1: "1" for 20000`},
	{what: "a plain lock", given: plainLock, script: "readwrite_release", args: "you:1", reply: "nil", then: "L: you:1=1 for 20000"},

	{what: "a reader", given: bothRead, script: "readwrite_renew", args: "50000 read me:1", reply: "[]",
		then: `L: me:1=1 mode=read you:1=1 for 50000; R:me:1: "1" for 50000; R:you:1: "1" for 20000`},
	{what: "a writer", given: oneWriter, script: "readwrite_renew", args: "30000 write me:1", reply: "[]",
		then: "L: me:1:write=1 mode=write for 30000"},
	{what: "a writer who is a reader by now", given: oneReader, script: "readwrite_renew", args: "30000 write me:1", reply: "[1]",
		then: `L: me:1=1 mode=read for 20000; R:me:1: "1" for 20000`},
	{what: "gone", script: "readwrite_renew", args: "30000 read me:1", reply: "[1]"},
	{what: "a string", given: "SET L hello", script: "readwrite_renew", args: "30000 read me:1", reply: "[1]", then: `L: "hello" for -1`},
}

// readersKeys spells out the short names of readers' keys.
func readersKeys(s string) string {
	for _, holder := range []string{"me:1", "me:2", "you:1", "a:1", "a:2", "b:1", "b:2"} {
		s = strings.ReplaceAll(s, "R:"+holder, rwPrefix+":"+holder+":rwlock_timeout:1")
	}
	return s
}

func TestScripts_ReadWrite(t *testing.T) {
	onBoth(t, func(t *testing.T, s *scriptServer) {
		e := listen(t, s, rwChannel)
		for _, tt := range rwScriptTests {
			t.Run(tt.script+"/"+tt.what, func(t *testing.T) {
				s.prepare(t, readersKeys(tt.given))
				args := strings.Fields(tt.args)
				keys := rwKeys(tt.script, args)
				s.requireReply(t, tt.reply, s.eval(t, s.wire, tt.script, keys, args))
				s.requireState(t, readersKeys(tt.then))
				var messages []string
				for _, message := range strings.Fields(tt.told) {
					messages = append(messages, rwChannel+" "+message)
				}
				require.Equal(t, messages, e.heard(t))
				again, later := tt.again, tt.later
				if again == "" {
					again = tt.reply
				}
				if later == "" {
					later = tt.then
				}
				s.requireReply(t, again, s.eval(t, s.wire, tt.script, keys, args), "second run")
				s.requireState(t, readersKeys(later), "second run")
				require.Empty(t, e.heard(t), "second run")
			})
		}
	})
}

// While the server is out of memory no side of a free lock can be taken.
func TestScript_ReadWriteOutOfMemory(t *testing.T) {
	t.Parallel()
	s := realScripts(t)
	for _, call := range []string{"read 30000 0 me:1", "read 30000 1 me:1", "write 30000 0 me:1", "write 30000 1 me:1"} {
		args := strings.Fields(call)
		s.do(t, "CONFIG", "SET", "maxmemory", "1")
		s.requireReply(t, "!OOM", s.eval(t, s.wire, "readwrite_acquire", rwKeys("readwrite_acquire", args), args), call)
		s.requireState(t, "", call)
	}
}

// Readers and writers that wait stand in one line. A writer in the line keeps out the readers
// behind it. A script that leaves something free tells the managers up to the first for whom it is
// not enough.
func TestScript_LineOfReadersAndWriters(t *testing.T) {
	onBoth(t, func(t *testing.T, s *scriptServer) {
		s.prepare(t, "")
		e := listen(t, s, rwChannel+":a", rwChannel+":b", rwChannel+":c", rwChannel+":d")
		acquire := func(side, manager string, id int, flags string) string {
			want := ""
			if id > 0 {
				want = fmt.Sprintf("%s %d 50000 %s", manager, id, flags)
			}
			return s.show(s.run(t, s.wire, "readwrite_acquire", []string{theLock}, []string{side, "30000", "0", want, rwPrefix, fmt.Sprintf("%s:%d", manager, id)}))
		}
		release := func(leaves, holder string) string {
			return s.show(s.run(t, s.wire, "readwrite_release", []string{theLock}, []string{leaves, rwPrefix, holder, rwChannel}))
		}
		transfer := func(side string, holders ...string) string {
			return s.eval(t, s.wire, "readwrite_transfer", []string{theLock}, append([]string{side, "30000", "0"}, holders...))
		}
		line := func() string {
			all := s.line(t)
			if _, managers, held := strings.Cut(all, " for 30000"); held {
				all = strings.TrimSpace(managers)
			}
			return all
		}
		told := func() (out []string) {
			for _, m := range e.heard(t) {
				out = append(out, strings.TrimPrefix(m, rwChannel+":"))
			}
			return out
		}
		require.Equal(t, "nil", acquire("read", "you", 0, ""))
		require.Equal(t, "0", transfer("read", "you:0"))
		require.Equal(t, "30000", acquire("write", "a", 1, ""))
		require.Equal(t, "30000", acquire("read", "b", 1, ""), "behind a writer")
		require.Equal(t, "30000", acquire("read", "c", 0, ""), "asks only once")
		require.Equal(t, "30000", acquire("read", "c", 1, "d"))
		require.Equal(t, "30000", acquire("write", "d", 1, ""))
		require.Equal(t, "30000", acquire("write", "a", 2, ""), "asks again")
		require.Equal(t, "a b c/d d", line())
		require.Equal(t, `[4 "" 1]`, transfer("read", "you:0"), "a writer waits")
		require.Empty(t, told())

		require.Equal(t, "[0 1]", release("", "you:0"))
		require.Equal(t, []string{"a 1"}, told(), "the first, and nobody behind a writer")
		require.Equal(t, "a/t b c/d d", line())
		require.NotEqual(t, "nil", acquire("read", "b", 2, ""), "overtakes")
		require.Equal(t, "nil", acquire("write", "a", 3, ""))
		require.Equal(t, "b c/d d", line())

		require.Equal(t, "3", transfer("write", "a:4", "a:3"), "a writer's entry says nothing of the line")
		require.Equal(t, `[3 "" 1]`, transfer("read", "a:5", "a:4"), "lets others read")
		require.Equal(t, []string{"b 1", "c 1"}, told(), "up to the next writer")
		require.Equal(t, "nil", acquire("read", "c", 2, ""), "not the first: enough is left for it")
		require.Equal(t, "nil", acquire("read", "b", 3, ""))
		require.Equal(t, "d", line())
		require.Equal(t, "[0]", release("", "a:5"), "others read")
		require.Equal(t, "[0]", release("", "b:3"))
		require.Empty(t, told())
		require.Equal(t, "30000", acquire("read", "b", 4, ""), "behind a writer")

		require.Equal(t, "nil", release("d 1", "d:1"), "gives up")
		require.Equal(t, []string{"b 1"}, told(), "who waited behind it")
		require.Equal(t, "b/t", line())
		require.Equal(t, "nil", acquire("read", "b", 5, ""))
		require.Equal(t, "[0]", release("", "b:5"))
		require.Equal(t, "30000", acquire("write", "b", 6, ""))
		s.do(t, "DEL", theLock, rwPrefix+":c:2:rwlock_timeout:1") // it ends by itself
		require.Equal(t, "nil", release("", "c:2"))
		require.Equal(t, []string{"b 1"}, told(), "a release that finds nothing serves the line, too")
		require.Equal(t, "nil", acquire("write", "b", 7, ""))
		require.Equal(t, "", line())

		// The manager of a writer gets the lock for a reader, when the writer has left: in the
		// line, or with the lock.
		require.Equal(t, "0", transfer("read", "b:8", "b:7"))
		require.Equal(t, "30000", acquire("write", "a", 4, ""))
		require.Equal(t, "30000", acquire("read", "c", 3, ""))
		require.Equal(t, "nil", acquire("read", "a", 5, ""))
		require.Equal(t, []string{"c 1"}, told())
		require.Equal(t, "c/t", line())
		require.Equal(t, "nil", acquire("read", "c", 4, ""))
		for _, holder := range []string{"b:8", "a:5", "c:4"} {
			release("", holder)
		}
		require.Equal(t, "nil", acquire("write", "a", 6, ""))
		require.Equal(t, "30000", acquire("read", "c", 5, ""))
		require.Equal(t, "nil", s.show(s.run(t, s.wire, "readwrite_acquire", []string{theLock},
			[]string{"read", "30000", "0", "a 7 50000 ", rwPrefix, "a:7", "a:6"})))
		require.Equal(t, []string{"c 1"}, told())
	})
}

// A release of a read-write lock grants the lock to the first manager of the line by message, on
// the side that the manager wants. After a reader the next readers are told.
func TestScript_LineGrantsSides(t *testing.T) {
	onBoth(t, func(t *testing.T, s *scriptServer) {
		if s.mini != nil {
			return // it has no INFO replication
		}
		s.prepare(t, "SET T 41")
		e := listen(t, s, rwChannel+":a", rwChannel+":b", rwChannel+":c", rwChannel+":d")
		acquire := func(side, manager string, id int, others ...string) string {
			want := fmt.Sprintf("%s %d 50000  %d text 20000 5ec7e7 1", manager, id, 100+id)
			args := []string{side, "30000", "0", want, rwPrefix, fmt.Sprintf("%s:%d", manager, id)}
			return s.show(s.run(t, s.wire, "readwrite_acquire", []string{theLock}, append(args, others...)))
		}
		release := func(holder string) string {
			return s.show(s.run(t, s.wire, "readwrite_release", []string{theLock}, []string{"", rwPrefix, holder, rwChannel}))
		}
		grants := func() string {
			messages := e.heard(t)
			for i, m := range messages {
				messages[i] = strings.TrimPrefix(m, rwChannel)
			}
			return told(messages)
		}
		require.Equal(t, "nil", acquire("read", "you", 0))
		require.Equal(t, "30000", acquire("write", "a", 1))
		require.Equal(t, "30000", acquire("read", "b", 1))
		require.Equal(t, "30000", acquire("read", "c", 1))
		require.Equal(t, "30000", acquire("write", "d", 1))
		require.Equal(t, "[0 1]", release("you:0"))
		require.Equal(t, ":a 101 text 20000 42", grants(), "a writer takes a token")
		require.Equal(t, "a:101:write=1 mode=write for 20000 b c d", s.line(t))

		require.Equal(t, "[0 1]", release("a:101"))
		require.Equal(t, ":b 101 text 20000 42, :c 1", grants(), "a reader gets the last token, and the next reader is told")
		require.Equal(t, "nil", acquire("read", "c", 2, "c:101"))
		require.Equal(t, "[0]", release("b:101"), "c reads")
		require.Equal(t, "30000", acquire("write", "d", 2, "d:101"), "not yet")
		require.Equal(t, "[0 1]", release("c:2"))
		require.Equal(t, ":d 102 text 20000 43", grants())
		require.Equal(t, "nil", acquire("write", "d", 3, "d:102"), "the message was lost")
		require.Equal(t, "0", release("d:3"))
		s.requireState(t, `T: "43" for -1`)
	})
}
