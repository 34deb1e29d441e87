package script_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The keys of the read-write lock of the tests.
const (
	rwChannel = "redisson_rwlock:{" + theLock + "}"
	rwPrefix  = "{" + theLock + "}"
)

func TestScripts_ReadWrite(t *testing.T) { runTable(t, rwScriptTests, rwChannel) }

const rwScriptTests = `
readwrite_acquire:
free, read | | read 30000 0 me:1 | nil | L: me:1=1 mode=read for 30000; RL:me:1: "1" for 30000
free, write | | write 30000 0 me:1 | nil | L: me:1:write=1 mode=write for 30000
others read, read | read L you:1 | read 30000 0 me:1 | nil | L: me:1=1 mode=read you:1=1 for 30000; RL:me:1: "1" for 30000; RL:you:1: "1" for 20000
others read for longer, read | read L you:1 | read 10000 0 me:1 | nil | L: me:1=1 mode=read you:1=1 for 20000; RL:me:1: "1" for 10000; RL:you:1: "1" for 20000
others read, write | read L you:1 | write 30000 0 me:1 | 20000 | L: mode=read you:1=1 for 20000; RL:you:1: "1" for 20000
a dead reader, write | HSET L mode read you:1 1; PEXPIRE L 20000 | write 30000 0 me:1 | nil | L: me:1:write=1 mode=write for 30000
a dead reader, read | HSET L mode read you:1 1; PEXPIRE L 20000 | read 30000 0 me:1 | nil | L: me:1=1 mode=read you:1=1 for 30000; RL:me:1: "1" for 30000 | | | L: me:1=1 mode=read for 30000; RL:me:1: "1" for 30000
others write, read | write L you:1 | read 30000 0 me:1 | 20000 | L: mode=write you:1:write=1 for 20000
others write, write | write L you:1 | write 30000 0 me:1 | 20000 | L: mode=write you:1:write=1 for 20000
what an earlier try left | write L me:1 | read 10000 0 me:2 me:1 | nil | L: me:2=1 mode=read for 10000; RL:me:2: "1" for 10000 | rw L 01
what a reader with a longer lease left | HSET L mode read me:1 1 you:1 1; PEXPIRE L 30000; SET RL:me:1 1 PX 30000; SET RL:you:1 1 PX 20000 | read 10000 0 me:2 me:1 | nil | L: me:2=1 mode=read you:1=1 for 20000; RL:me:2: "1" for 10000; RL:you:1: "1" for 20000
what a reader with a much longer lease left | HSET L mode read me:1 1 you:1 1; PEXPIRE L 90000; SET RL:me:1 1 PX 90000; SET RL:you:1 1 PX 20000 | read 10000 0 me:2 me:1 | nil | L: me:2=1 mode=read you:1=1 for 20000; RL:me:2: "1" for 10000; RL:you:1: "1" for 20000 | rw L 00
what a reader with a longer lease left, write | HSET L mode read me:1 1 you:1 1; PEXPIRE L 30000; SET RL:me:1 1 PX 30000; SET RL:you:1 1 PX 20000 | write 10000 0 me:2 me:1 | 20000 | L: mode=read you:1=1 for 20000; RL:you:1: "1" for 20000
a plain lock | plain L you:1 | read 30000 0 me:1 | [20000] | L: you:1=1 for 20000
a hash with another mode, read | HSET L mode sport made 1 | read 30000 0 me:1 | [-1] | L: made=1 mode=sport for -1
a hash with another mode, write | HSET L mode sport made 1 | write 30000 0 me:1 | [-1] | L: made=1 mode=sport for -1
a string | SET L hello | read 30000 0 me:1 | !WRONGTYPE | L: "hello" for -1
a writer's tokens | | write 30000 3 me:1 | "3" | L: me:1:write=1 mode=write for 30000; T: "3" for -1 | | "6" | L: me:1:write=1 mode=write for 30000; T: "6" for -1
a reader's token | SET T 41 | read 30000 1 me:1 | "41" | L: me:1=1 mode=read for 30000; RL:me:1: "1" for 30000; T: "41" for -1
a reader's token, the first one | | read 30000 1 me:1 | "1" | L: me:1=1 mode=read for 30000; RL:me:1: "1" for 30000; T: "1" for -1
a reader's counter is no number | SET T x | read 30000 1 me:1 | !ERR value is not an integer | T: "x" for -1

readwrite_transfer:
to a writer | write L me:1 | write 30000 0 me:2 me:1 | 1 | L: me:2:write=1 mode=write for 30000
to a reader | write L me:1 | read 10000 0 me:2 me:1 | 1 | L: me:2=1 mode=read for 10000; RL:me:2: "1" for 10000 | rw L 01
from reader to reader | HSET L mode read me:1 1 you:1 1; PEXPIRE L 30000; SET RL:me:1 1 PX 30000; SET RL:you:1 1 PX 20000 | read 40000 0 me:2 me:1 | 1 | L: me:2=1 mode=read you:1=1 for 40000; RL:me:2: "1" for 40000; RL:you:1: "1" for 20000
from reader to reader, shortened | HSET L mode read me:1 1 you:1 1; PEXPIRE L 30000; SET RL:me:1 1 PX 30000; SET RL:you:1 1 PX 20000 | read 10000 0 me:2 me:1 | 1 | L: me:2=1 mode=read you:1=1 for 20000; RL:me:2: "1" for 10000; RL:you:1: "1" for 20000
from reader to reader, a copy does not shorten | HSET L mode read me:1 1 you:1 1; PEXPIRE L 30000; SET RL:me:1 1 PX 30000; SET RL:you:1 1 PX 20000 | read 10000 0 me:1 me:2 | 1 | L: me:1=1 mode=read you:1=1 for 30000; RL:me:1: "1" for 30000; RL:you:1: "1" for 20000
from writer to writer, shortened | write L me:1 | write 10000 0 me:2 me:1 | 1 | L: me:2:write=1 mode=write for 10000
from reader to writer | read L me:1 | write 30000 0 me:2 me:1 | 1 | L: me:2:write=1 mode=write for 30000
from reader to writer, tokens | read L me:1 | write 30000 2 me:1 | [1 "2"] | L: me:1:write=1 mode=write for 30000; T: "2" for -1 | | [1 "4"] | L: me:1:write=1 mode=write for 30000; T: "4" for -1
from reader to writer, others read | HSET L mode read me:1 1 you:1 1; PEXPIRE L 30000; SET RL:me:1 1 PX 30000; SET RL:you:1 1 PX 20000 | write 30000 1 me:2 me:1 | [] | L: me:1=1 mode=read you:1=1 for 30000; RL:me:1: "1" for 30000; RL:you:1: "1" for 20000
from reader to writer, the others are dead | HSET L mode read me:1 1 you:1 1; PEXPIRE L 20000; SET RL:me:1 1 PX 20000 | write 30000 0 me:1 | 1 | L: me:1:write=1 mode=write for 30000
from reader to reader, the counter is no number | read L me:1; SET T x | read 30000 1 me:2 me:1 | !ERR value is not an integer | L: me:1=1 mode=read for 20000; RL:me:1: "1" for 20000; T: "x" for -1
another's | write L you:1 | write 30000 0 me:2 me:1 | nil | L: mode=write you:1:write=1 for 20000

readwrite_release:
the last reader | read L me:1 | me:1 | 1 | | rw L 00 | nil
others still read | HSET L mode read me:1 1 you:1 1; PEXPIRE L 30000; SET RL:me:1 1 PX 30000; SET RL:you:1 1 PX 20000 | me:1 | [1] | L: mode=read you:1=1 for 20000; RL:you:1: "1" for 20000 | | nil
others read, for much less | HSET L mode read me:1 1 you:1 1; PEXPIRE L 30000; SET RL:me:1 1 PX 30000; SET RL:you:1 1 PX 10000 | me:1 | [1] | L: mode=read you:1=1 for 10000; RL:you:1: "1" for 10000 | rw L 00 | nil
the others are dead | HSET L mode read me:1 1 you:1 1; PEXPIRE L 20000; SET RL:me:1 1 PX 20000 | me:1 | 1 | | rw L 00 | nil
the writer | write L me:1 | me:2 me:1 | 1 | | rw L 01 | nil
a writer who reads | HSET L mode write you:1:write 1 you:1 1; PEXPIRE L 20000; SET RL:you:1 1 PX 20000 | me:1 | nil | L: mode=write you:1:write=1 you:1=1 for 20000; RL:you:1: "1" for 20000
another's | read L you:1 | me:1 | nil | L: mode=read you:1=1 for 20000; RL:you:1: "1" for 20000
by force, the last reader | read L me:1 | force me:1 | 1 | | rw L 000 | nil
by force, others still read | HSET L mode read me:1 1 you:1 1; PEXPIRE L 30000; SET RL:me:1 1 PX 30000; SET RL:you:1 1 PX 20000 | force me:1 | [1] | L: mode=read you:1=1 for 20000; RL:you:1: "1" for 20000 | rw L 000 | nil
by force, others read, for much less | HSET L mode read me:1 1 you:1 1; PEXPIRE L 30000; SET RL:me:1 1 PX 30000; SET RL:you:1 1 PX 10000 | force me:1 | [1] | L: mode=read you:1=1 for 10000; RL:you:1: "1" for 10000 | rw L 00; rw L 000 | nil
by force, one that reads twice | HSET L mode read me:1 1 you:1 2; SET RL:me:1 1 PX 30000; SET RL:you:1 1 PX 20000; SET {orders:42}:you:1:rwlock_timeout:2 1 PX 90000; PEXPIRE L 90000 | force you:1 | [1] | L: me:1=1 mode=read for 30000; RL:me:1: "1" for 30000 | rw L 00; rw L 000 | nil
by force, the writer | write L me:1 | force me:1 | 1 | | rw L 001 | nil
a reader whose record is gone | SET RL:me:1 1 PX 90000 | me:2 me:1 | nil
a reader whose record is another's by now | read L you:1; SET RL:me:1 1 PX 90000 | me:2 me:1 | nil | L: mode=read you:1=1 for 20000; RL:you:1: "1" for 20000
a plain lock | plain L you:1 | you:1 | nil | L: you:1=1 for 20000

readwrite_renew:
a reader | HSET L mode read me:1 1 you:1 1; PEXPIRE L 30000; SET RL:me:1 1 PX 30000; SET RL:you:1 1 PX 20000 | 50000 read me:1 | [] | L: me:1=1 mode=read you:1=1 for 50000; RL:me:1: "1" for 50000; RL:you:1: "1" for 20000
a writer | write L me:1 | 30000 write me:1 | [] | L: me:1:write=1 mode=write for 30000
a writer who is a reader by now | read L me:1 | 30000 write me:1 | [1] | L: me:1=1 mode=read for 20000; RL:me:1: "1" for 20000
gone | | 30000 read me:1 | [1]
a string | SET L hello | 30000 read me:1 | [1] | L: "hello" for -1
`

// sideAcquire is an acquire of a side, by a manager that may want a part in the line.
func (s *scriptServer) sideAcquire(t testing.TB, side, want string, holders ...string) string {
	t.Helper()
	return s.show(s.run(t, s.wire, "readwrite_acquire", []string{theLock}, append([]string{side, "30000", "0", want, rwPrefix}, holders...)))
}

// sideRelease is a release by a manager that may leave the line, or join it.
func (s *scriptServer) sideRelease(t testing.TB, want, holder string) string {
	t.Helper()
	return s.show(s.run(t, s.wire, "readwrite_release", []string{theLock}, []string{want, rwPrefix, holder, rwChannel}))
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
			return s.sideAcquire(t, side, want, fmt.Sprintf("%s:%d", manager, id))
		}
		release := func(leaves, holder string) string { return s.sideRelease(t, leaves, holder) }
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
		require.Equal(t, "1", transfer("read", "a:5"), "no writer waits")
		require.Equal(t, "nil", acquire("read", "c", 4, ""))
		for _, holder := range []string{"b:8", "a:5", "c:4"} {
			release("", holder)
		}
		require.Equal(t, "nil", acquire("write", "a", 6, ""))
		require.Equal(t, "30000", acquire("read", "c", 5, ""))
		require.Equal(t, "nil", s.sideAcquire(t, "read", "a 7 50000 ", "a:7", "a:6"))
		require.Equal(t, []string{"c 1"}, told())

		// Copies that run late change nothing of what a newer script has noted, and tell nobody.
		s.prepare(t, "")
		require.Equal(t, "nil", acquire("write", "a", 2, ""))
		require.Equal(t, "30000", acquire("write", "b", 3, ""))
		require.Equal(t, "30000", acquire("read", "c", 1, ""))
		require.Equal(t, "30000", acquire("read", "b", 2, ""), "joins late, as a reader")
		require.Equal(t, "30000", acquire("write", "a", 1, ""), "joins late, and its manager writes")
		require.Equal(t, "nil", release("b 2", "b:2"), "leaves late")
		require.Equal(t, "b c a", line())
		require.Equal(t, "[0 1]", release("", "a:2"))
		require.Equal(t, []string{"b 1"}, told(), "b is to write: c is not told")
		require.Equal(t, "nil", release("", "a:2"), "serves late")
		require.Equal(t, "nil", acquire("write", "b", 4, ""))
		require.Equal(t, "nil", release("", "a:2"), "serves late, and b writes")
		require.Empty(t, told())
		require.Equal(t, "b:4:write=1 mode=write for 30000 c", s.line(t), "what a copy of a has joined has gone with a's release")
		require.Equal(t, "[0 1]", release("", "b:4"))
		require.Equal(t, "nil", acquire("read", "c", 2, ""))
		require.Equal(t, "0", release("", "c:2"))
		require.Equal(t, []string{"c 1"}, told())
		require.Equal(t, "nil", release("a 3", "a:2"))
		require.Empty(t, s.state(t))
	})
}

// A release of a read-write lock grants the lock to the first manager of the line by message, on
// the side that the manager wants. After a reader the next readers are told.
func TestScript_LineGrantsSides(t *testing.T) {
	onReal(t, func(t *testing.T, s *scriptServer) {
		s.prepare(t, "SET T 41")
		e := listen(t, s, rwChannel+":a", rwChannel+":b", rwChannel+":c", rwChannel+":d")
		acquire := func(side, manager string, id int, others ...string) string {
			want := fmt.Sprintf("%s %d 50000  %d text 20000 5ec7e7 1", manager, id, 100+id)
			return s.sideAcquire(t, side, want, append([]string{fmt.Sprintf("%s:%d", manager, id)}, others...)...)
		}
		release := func(holder string) string { return s.sideRelease(t, "", holder) }
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
