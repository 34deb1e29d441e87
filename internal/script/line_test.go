package script_test

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// A lineCall is an acquire by a manager that has a part in the line.
type lineCall struct {
	manager string
	id      int64
	once    bool // the request does not wait
	deaf    bool
	silent  bool   // no grant by message
	place   string // "": the number of the script + 100
	fenced  bool
	others  string // further owners, separated by spaces
}

// wants is what the manager wants of the line.
func (c lineCall) wants() string {
	waits, flags, note, tokens := 50_000, "", "", 0
	if c.once {
		waits = 0
	}
	if c.deaf {
		flags = "d"
	}
	if c.fenced {
		tokens = 1
	}
	if c.place == "" {
		c.place = strconv.FormatInt(c.id+100, 10)
	}
	if !c.silent {
		note = fmt.Sprintf(" %s text 20000 5ec7e7 %d", c.place, tokens)
	}
	return fmt.Sprintf("%s %d %d %s%s", c.manager, c.id, waits, flags, note)
}

func (s *scriptServer) lineAcquire(t testing.TB, c lineCall) string {
	t.Helper()
	args := []string{"30000", "0", c.wants(), fmt.Sprintf("%s:%d", c.manager, c.id)}
	return s.show(s.run(t, s.wire, "acquire", []string{theLock}, append(args, strings.Fields(c.others)...)))
}

// joinBehind is a release by which a manager joins the line.
func (s *scriptServer) joinBehind(t testing.TB, c lineCall) string {
	t.Helper()
	args := append([]string{c.wants()}, strings.Fields(c.others)...)
	return s.show(s.run(t, s.wire, "release", []string{theLock}, append(args, theChannel)))
}

// leave is a release by which a manager leaves the line.
func (s *scriptServer) leave(t testing.TB, manager string, id int64, others string) string {
	t.Helper()
	args := append([]string{fmt.Sprintf("%s %d", manager, id)}, strings.Fields(others)...)
	return s.show(s.run(t, s.wire, "release", []string{theLock}, append(args, theChannel)))
}

func (s *scriptServer) release(t testing.TB, owners ...string) string {
	t.Helper()
	return s.eval(t, s.wire, "release", []string{theLock}, owners)
}

// line returns the holder of the lock with the life of its record, and the managers of the line
// with their flags.
func (s *scriptServer) line(t testing.TB) string {
	t.Helper()
	var out []string
	state := s.state(t)
	if record, there := state[theLock]; there {
		out = append(out, record)
	}
	for _, manager := range s.do(t, "LRANGE", "{"+theLock+"}:lock_line", "0", "-1").([]any) {
		wants, _ := s.do(t, "HGET", "{"+theLock+"}:lock_wants", manager.(string)).(string)
		flags := ""
		if fields := strings.SplitN(wants, " ", 5); len(fields) > 3 {
			flags = fields[3]
		}
		out = append(out, fmt.Sprintf("%s%s", manager, strings.TrimRight("/"+flags, "/")))
	}
	return strings.Join(out, " ")
}

// told returns the messages, each without what the clock decides.
func told(messages []string) string {
	for i, m := range messages {
		words := strings.Fields(strings.TrimPrefix(m, theChannel))
		if len(words) == 7 { // a grant
			words = append(words[:3], words[4], words[5])
		}
		messages[i] = strings.Join(words, " ")
	}
	return strings.Join(messages, ", ")
}

// Managers that wait get the lock in their order, each by the message of the release. The message
// has the number that the manager has chosen, and the lease. Then the record is that of the
// manager.
func TestScript_Line(t *testing.T) {
	onReal(t, func(t *testing.T, s *scriptServer) {
		s.prepare(t, "")
		e := listen(t, s, theChannel+":b", theChannel+":c")
		require.Equal(t, "nil", s.lineAcquire(t, lineCall{manager: "a", id: 1}))
		require.Equal(t, "30000", s.lineAcquire(t, lineCall{manager: "b", id: 1}))
		require.Equal(t, "30000", s.lineAcquire(t, lineCall{manager: "c", id: 1, fenced: true}))
		require.Equal(t, "30000", s.lineAcquire(t, lineCall{manager: "b", id: 2, place: "101"}), "asks again")
		require.Equal(t, "30000", s.lineAcquire(t, lineCall{manager: "d", id: 1, once: true}), "does not join")
		require.Equal(t, "a:1=1 for 30000 b c", s.line(t))
		require.Equal(t, "[0 1]", s.release(t, "a:1"))
		require.Equal(t, "b:101=1 for 20000 c", s.line(t))
		require.Equal(t, ":b 101 text 20000 0", told(e.heard(t)))
		require.Equal(t, "nil", s.lineAcquire(t, lineCall{manager: "b", id: 3, others: "b:2 b:101"}), "the message was lost")
		require.Equal(t, "b:3=1 for 30000 c", s.line(t))
		require.Equal(t, "[0 1]", s.release(t, "b:3", "b:2"))
		require.Equal(t, ":c 101 text 20000 1", told(e.heard(t)), "with a token")
		require.Equal(t, "c:101=1 for 20000", s.line(t))
		require.Equal(t, "0", s.release(t, "c:101"))
		require.Equal(t, "", s.line(t))
		s.requireState(t, `T: "1" for -1`)
	})
}

// The locks "a" and "{a}" publish on the same channel. Each has a line of its own.
func TestScript_LineOfATag(t *testing.T) {
	onBoth(t, func(t *testing.T, s *scriptServer) {
		s.prepare(t, "")
		for name, manager := range map[string]string{"a": "b", "{a}": "c"} {
			s.do(t, "HSET", name, "x:1", "1")
			require.Equal(t, int64(-1), s.run(t, s.wire, "acquire", []string{name}, []string{"30000", "0", lineCall{manager: manager, id: 1}.wants(), manager + ":1"}))
		}
		require.Equal(t, []any{[]any{"b"}, []any{"c"}}, s.all(t, []string{"LRANGE", "{a}:lock_line", "0", "-1"}, []string{"LRANGE", "{a}:tag_line", "0", "-1"}))
	})
}

// Nobody overtakes: not a manager that is not in the line, nor one that is not first in it. Who
// asks serves the line of a lock that has ended by itself.
func TestScript_LineIsNotOvertaken(t *testing.T) {
	onReal(t, func(t *testing.T, s *scriptServer) {
		e := listen(t, s, theChannel+":b", theChannel+":c")
		asks := map[string]func() string{
			"acquire":      func() string { return s.eval(t, s.wire, "acquire", []string{theLock}, []string{"30000", "0", "d:1"}) },
			"acquire_many": func() string { return s.eval(t, s.wire, "acquire_many", []string{theLock}, []string{"30000", "d:1"}) },
			"joins":        func() string { return s.lineAcquire(t, lineCall{manager: "d", id: 1}) },
			"joins not":    func() string { return s.lineAcquire(t, lineCall{manager: "d", id: 1, once: true}) },
			"the second":   func() string { return s.lineAcquire(t, lineCall{manager: "c", id: 2}) },
		}
		for what, ask := range asks {
			s.prepare(t, "plain L a:1")
			s.lineAcquire(t, lineCall{manager: "b", id: 1})
			s.lineAcquire(t, lineCall{manager: "c", id: 1})
			s.do(t, "DEL", theLock) // it ends by itself
			require.Equal(t, map[bool]string{false: "20000", true: "[20000]"}[what == "acquire_many"], ask(), what)
			require.Equal(t, ":b 101 text 20000 0", told(e.heard(t)), what)
			require.Regexp(t, "^b:101=1 for 20000 c", s.line(t), what)
			require.Equal(t, what == "joins", strings.HasSuffix(s.line(t), "c d"), what)
		}
		// A release that finds no record serves the line, too.
		s.prepare(t, "plain L a:1")
		s.lineAcquire(t, lineCall{manager: "b", id: 1})
		s.do(t, "DEL", theLock)
		require.Equal(t, "nil", s.release(t, "a:1"))
		require.Equal(t, "b:101=1 for 20000", s.line(t))
		require.Equal(t, ":b 101 text 20000 0", told(e.heard(t)))
	})
}

// The server loses a key of the line: the managers that wait stand in it again after their next
// scripts.
func TestScript_LineIsLost(t *testing.T) {
	onBoth(t, func(t *testing.T, s *scriptServer) {
		for _, key := range []string{"line", "wants"} {
			s.prepare(t, "plain L a:1")
			s.lineAcquire(t, lineCall{manager: "b", id: 1})
			s.lineAcquire(t, lineCall{manager: "c", id: 1})
			s.do(t, "DEL", "{"+theLock+"}:lock_"+key)
			s.lineAcquire(t, lineCall{manager: "c", id: 2})
			s.lineAcquire(t, lineCall{manager: "b", id: 2})
			if key == "line" {
				require.Equal(t, "a:1=1 for 20000 c b", s.line(t))
			} else {
				require.Equal(t, "a:1=1 for 20000 b c c b", s.line(t), "until they are first")
			}
		}
	})
}

// A manager that waits for a short time shortens the life of nobody's position.
func TestScript_LineKeepsItsLife(t *testing.T) {
	onBoth(t, func(t *testing.T, s *scriptServer) {
		s.prepare(t, "plain L a:1")
		s.lineAcquire(t, lineCall{manager: "b", id: 1})
		s.run(t, s.wire, "acquire", []string{theLock}, []string{"30000", "0", "c 1 300 ", "c:1"})
		for _, key := range []string{"line", "wants"} {
			require.Equal(t, "50000", s.show(s.do(t, "PTTL", "{"+theLock+"}:lock_"+key)))
		}
	})
}

// A failover may bring a clock that is minutes behind. A position that would last for minutes by the
// new clock is over, even that of a manager that may be deaf.
func TestScript_LineOfAnotherClock(t *testing.T) {
	onBoth(t, func(t *testing.T, s *scriptServer) {
		s.prepare(t, "plain L a:1")
		s.lineAcquire(t, lineCall{manager: "b", id: 1, deaf: true})
		s.lineAcquire(t, lineCall{manager: "c", id: 1, deaf: true})
		wants := "{" + theLock + "}:lock_wants"
		fields := strings.SplitN(s.do(t, "HGET", wants, "b").(string), " ", 4)
		till, err := strconv.ParseInt(fields[2], 10, 64)
		require.NoError(t, err)
		fields[2] = strconv.FormatInt(till+120_000, 10)
		s.do(t, "HSET", wants, "b", strings.Join(fields, " "))
		s.release(t, "a:1")
		require.Equal(t, "nil", s.lineAcquire(t, lineCall{manager: "c", id: 2, deaf: true}))
	})
}

// A manager is told instead of granted if it cannot be granted by message, or if clients subscribe
// that are in no line. The lock stays free for the manager for two seconds. A manager that should
// listen and does not leaves the line.
func TestScript_LineTells(t *testing.T) {
	onReal(t, func(t *testing.T, s *scriptServer) {
		e := listen(t, s, theChannel+":b")
		for _, tt := range []struct {
			what       string
			b, c       lineCall
			channels   []string // of three more subscribers
			then, told string
		}{
			{what: "no grants by message", b: lineCall{silent: true}, then: "b/t c", told: ":b 1"},
			{what: "clients in no line", channels: []string{theChannel}, then: "b/t c", told: ":b 1"},
			{what: "managers only", channels: []string{theChannel, theChannel + ":line"}, then: "b:101=1 for 20000 c", told: ":b 101 text 20000 0"},
			{what: "deaf", b: lineCall{deaf: true}, then: "b/dt c", told: ":b 1"},
		} {
			s.prepare(t, "plain L a:1")
			var all []*ear
			for range min(3, 3*len(tt.channels)) {
				all = append(all, listen(t, s, tt.channels...))
			}
			tt.b.manager, tt.b.id, tt.c.manager, tt.c.id = "b", 1, "c", 1
			s.lineAcquire(t, tt.b)
			s.lineAcquire(t, tt.c)
			s.release(t, "a:1")
			require.Equal(t, tt.then, s.line(t), tt.what)
			require.Equal(t, tt.told, told(e.heard(t)), tt.what)
			for _, one := range all {
				if strings.HasPrefix(tt.then, "b/") {
					require.Equal(t, []string{theChannel + " 00"}, one.heard(t), tt.what)
				} else {
					require.Empty(t, one.heard(t), tt.what)
				}
				one.Close()
			}
			if strings.HasPrefix(tt.then, "b/") {
				require.Regexp(t, `^(2000|1\d\d\d)$`, s.lineAcquire(t, lineCall{manager: "d", id: 1, once: true}), tt.what)
				require.Equal(t, "nil", s.lineAcquire(t, lineCall{manager: "b", id: 2}), tt.what)
			}
		}
		s.prepare(t, "plain L a:1")
		s.lineAcquire(t, lineCall{manager: "x", id: 1}) // nobody listens
		require.Equal(t, "0", s.release(t, "a:1"))
		require.Equal(t, "", s.line(t))
	})
}

// A manager for which nobody waits any more leaves the line, and gives up what was granted to it
// meanwhile. The next one is served. A copy that runs late does nothing if a newer script has
// joined.
func TestScript_LineLeave(t *testing.T) {
	onReal(t, func(t *testing.T, s *scriptServer) {
		e := listen(t, s, theChannel+":b", theChannel+":c")
		wait := func() {
			s.prepare(t, "plain L a:1")
			s.lineAcquire(t, lineCall{manager: "b", id: 1})
			s.lineAcquire(t, lineCall{manager: "c", id: 1})
		}
		wait()
		require.Equal(t, "nil", s.leave(t, "b", 2, "b:101"))
		require.Equal(t, "a:1=1 for 20000 c", s.line(t))
		require.Empty(t, e.heard(t))

		wait()
		s.release(t, "a:1")
		require.Equal(t, ":b 101 text 20000 0", told(e.heard(t)))
		require.Equal(t, "[0 1]", s.leave(t, "b", 2, "b:101"), "granted meanwhile")
		require.Equal(t, ":c 101 text 20000 0", told(e.heard(t)))
		require.Equal(t, "c:101=1 for 20000", s.line(t))

		wait()
		s.do(t, "DEL", theLock) // it ends by itself
		require.Equal(t, "nil", s.leave(t, "b", 2, ""))
		require.Equal(t, ":c 101 text 20000 0", told(e.heard(t)))

		wait()
		s.lineAcquire(t, lineCall{manager: "b", id: 3})
		require.Equal(t, "nil", s.leave(t, "b", 2, ""), "a late copy")
		require.Equal(t, "a:1=1 for 20000 b c", s.line(t))

		wait()
		s.do(t, "SET", theLock, "of another type")
		require.Contains(t, s.leave(t, "b", 2, "b:101"), "WRONGTYPE")
		s.do(t, "DEL", theLock)
		require.Equal(t, "c", s.line(t), "b has left all the same")
	})
}

// A reader that was told counts nobody before it: what its acquire costs does not depend on how many
// readers the end of a writer has told. A writer of its manager counts them.
func TestScript_LineOfToldReaders(t *testing.T) {
	t.Parallel()
	s := realScripts(t)
	acquire := func(c lineCall, side string) string {
		return s.sideAcquire(t, side, c.wants(), fmt.Sprintf("%s:%d", c.manager, c.id))
	}
	reader := func(i int) lineCall {
		return lineCall{manager: fmt.Sprint("r", i), id: 1, deaf: true, silent: true}
	}
	steps := func(readers int) (n int) {
		s.prepare(t, "write L a:1")
		for i := range readers {
			require.NotEqual(t, "nil", acquire(reader(i), "read"))
		}
		require.Equal(t, "[0 1]", s.sideRelease(t, "", "a:1"))
		last := reader(readers - 1)
		require.NotEqual(t, "nil", acquire(lineCall{manager: last.manager, id: 2, once: true}, "write"))
		s.do(t, "CONFIG", "RESETSTAT")
		require.Equal(t, "nil", acquire(last, "read"))
		for _, m := range regexp.MustCompile(`cmdstat_(lindex|hget):calls=(\d+)`).FindAllStringSubmatch(s.do(t, "INFO", "commandstats").(string), -1) {
			n += redistest.Must(strconv.Atoi(m[2]))(t)
		}
		return n
	}
	require.LessOrEqual(t, steps(50), steps(5))
}

// A release joins the line behind those who wait. It joins no empty line, and a copy that runs late
// changes nothing.
func TestScript_LineJoinedByARelease(t *testing.T) {
	onReal(t, func(t *testing.T, s *scriptServer) {
		s.prepare(t, "plain L a:1")
		e := listen(t, s, theChannel+":a", theChannel+":b")
		again := lineCall{manager: "a", id: 2, others: "a:1"}
		require.Equal(t, "20000", s.lineAcquire(t, lineCall{manager: "b", id: 1}))
		require.Equal(t, "[0 2]", s.joinBehind(t, again))
		require.Equal(t, ":b 101 text 20000 0", told(e.heard(t)))
		require.Equal(t, "b:101=1 for 20000 a", s.line(t))
		require.Equal(t, "nil", s.joinBehind(t, again), "a late copy")
		require.Equal(t, "b:101=1 for 20000 a", s.line(t))
		require.Equal(t, "[0 1]", s.release(t, "b:101"))
		require.Equal(t, ":a 102 text 20000 0", told(e.heard(t)))
		require.Equal(t, "a:102=1 for 20000", s.line(t))
		require.Equal(t, "nil", s.joinBehind(t, again), "a late copy, while the manager holds the lock")
		require.Equal(t, "a:102=1 for 20000", s.line(t))
		require.Equal(t, "0", s.joinBehind(t, lineCall{manager: "a", id: 3, others: "a:102"}), "nobody waits")
		require.Equal(t, "", s.line(t))

		s.prepare(t, "write L a:1")
		e = listen(t, s, rwChannel+":a", rwChannel+":b")
		require.Equal(t, "20000", s.sideAcquire(t, "write", lineCall{manager: "b", id: 1}.wants(), "b:1"))
		require.Equal(t, "[0 2]", s.sideRelease(t, again.wants(), "a:1"))
		require.Len(t, e.heard(t), 1)
		require.Equal(t, "[0 1]", s.sideRelease(t, "", "b:101"))
		require.Contains(t, e.heard(t)[0], rwChannel+":a 102 text")
	})
}

// A grant by message is signed with the manager's secret. The server grants only what it has noted
// itself, and what somebody hears. Else the manager is told.
func TestScript_LineGrantByMessage(t *testing.T) {
	t.Parallel()
	s := realScripts(t)
	const waits = "{" + theLock + "}:lock_wants"
	e := listen(t, s, theChannel+":b")
	for _, tt := range []struct {
		what    string
		between func(t *testing.T)
		granted bool
	}{
		{"noted here", func(*testing.T) {}, true},
		{"noted by another server", func(t *testing.T) {
			noted := s.do(t, "HGET", waits, "b").(string)
			s.do(t, "HSET", waits, "b", noted[:len(noted)-40]+strings.Repeat("0", 40))
		}, false},
		{"a failover", func(t *testing.T) {
			s.do(t, "REPLICAOF", "127.0.0.1", "1")
			s.do(t, "REPLICAOF", "NO", "ONE")
		}, false},
		{"nobody hears it, though a message reaches somebody", func(t *testing.T) {
			e.heard(t) // else a message is taken for the answer
			e.do(t, "UNSUBSCRIBE", theChannel+":b")
			e.do(t, "PSUBSCRIBE", theChannel+":*")
		}, false},
	} {
		t.Run(tt.what, func(t *testing.T) {
			s.prepare(t, "plain L a:1")
			s.lineAcquire(t, lineCall{manager: "b", id: 1})
			tt.between(t)
			if s.release(t, "a:1"); !tt.granted {
				require.Equal(t, "b/t", s.line(t))
				return
			}
			words := strings.Fields(e.heard(t)[0])
			sum := sha1.Sum([]byte("5ec7e7" + theLock + " " + strings.Join(words[1:6], " ")))
			require.Equal(t, hex.EncodeToString(sum[:]), words[6])
			elapsed, err := strconv.Atoi(words[3])
			require.NoError(t, err)
			require.InDelta(t, 500_000, elapsed, 499_999, "microseconds since b's script")
		})
	}
}

// A copy that runs late changes nothing of what a newer script of its manager has noted. What a
// copy has joined although its manager has the lock ends with the hold.
func TestScript_LineLateJoin(t *testing.T) {
	t.Parallel()
	s := realScripts(t)
	e := listen(t, s, theChannel+":a", theChannel+":b")
	s.prepare(t, "plain L a:2")
	s.lineAcquire(t, lineCall{manager: "b", id: 3})
	s.lineAcquire(t, lineCall{manager: "b", id: 2})
	s.lineAcquire(t, lineCall{manager: "a", id: 1})
	require.Equal(t, "a:2=1 for 20000 b a", s.line(t))
	s.release(t, "a:2")
	require.Equal(t, ":b 103 text 20000 0", told(e.heard(t)))
	require.Equal(t, "b:103=1 for 20000", s.line(t))
}
