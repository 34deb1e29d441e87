package script_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The tests run each script on each kind of state that it can meet, on a real server and on
// miniredis, and then once more on the state that it left.

const (
	theLock    = "orders:42"
	theChannel = "redisson_lock__channel:{orders:42}"
	theCounter = "redisson_lock_token:{orders:42}"
	java       = "8743c9c0-0795-4907-87fd-6c719a6b4586:17" // a Redisson owner
)

type scriptTest struct{ script, what, given, args, reply, then, told, again, later string }

// readTable reads the tests of a table. A line with a colon at its end names the script of those
// that follow. The columns of another line are the name of the test, the commands that prepare the
// state, the arguments of the script, its reply as show prints it, the whole state afterwards, and
// the messages. If the second run differs from the first, its reply and the state after it follow.
// The second run publishes nothing. An error may be cut short.
func readTable(table string) (tests []scriptTest) {
	script := ""
	for line := range strings.Lines(table) {
		line = strings.TrimSpace(line)
		if name, is := strings.CutSuffix(line, ":"); is {
			script = name
			continue
		} else if line == "" {
			continue
		}
		c := append(strings.Split(line, "|"), "", "", "", "", "", "")
		for i := range c {
			c[i] = strings.TrimSpace(c[i])
		}
		tt := scriptTest{script, c[0], c[1], c[2], c[3], c[4], c[5], c[6], c[7]}
		if tt.again == "" {
			tt.again = tt.reply
		}
		if tt.later == "" {
			tt.later = tt.then
		}
		tests = append(tests, tt)
	}
	return tests
}

// runTable runs the tests of a table. channels are those on which the scripts publish.
func runTable(t *testing.T, table string, channels ...string) {
	short := strings.NewReplacer("redisson_lock__channel:{"+theLock+"}", "L", "redisson_rwlock:{"+theLock+"}", "rw L", "redisson_sc:{p}", "p",
		"redisson_lock__channel:{", "", "redisson_rwlock:{", "rw ", "}", "")
	onBoth(t, func(t *testing.T, s *scriptServer) {
		e := listen(t, s, channels...)
		for _, tt := range readTable(table) {
			t.Run(tt.script+"/"+tt.what, func(t *testing.T) {
				s.prepare(t, "")
				requireState := s.requireState
				if strings.HasPrefix(tt.script, "permits") {
					s.give(t, "p", tt.given)
					requireState = func(t testing.TB, want string, msg ...any) { require.Equal(t, want, s.permits(t, "p"), msg...) }
				} else {
					s.prepare(t, tt.given)
				}
				s.requireReply(t, tt.reply, s.call(t, s.wire, tt.script, tt.args))
				requireState(t, tt.then)
				require.Equal(t, tt.told, short.Replace(strings.Join(e.heard(t), "; ")))
				s.requireReply(t, tt.again, s.call(t, s.wire, tt.script, tt.args), "second run")
				requireState(t, tt.later, "second run")
				require.Empty(t, e.heard(t), "second run")
			})
		}
	})
}

// callOf gives a script the keys and the arguments that its header asks for.
func callOf(script, args string) (keys, words []string) {
	if strings.HasPrefix(script, "several") {
		return callSeveral(script, args, "a", "b", "c")
	}
	words = strings.Fields(args)
	tokens := map[string]int{"acquire": 1, "transfer": 1, "readwrite_acquire": 2, "readwrite_transfer": 2}[script]
	switch {
	case script == "inspect", tokens > 0 && words[tokens] != "0":
		return []string{theLock, theCounter}, words
	case script == "readwrite_renew" && words[1] == "read":
		return []string{theLock, spell("RL:" + words[2])}, words
	case script == "readwrite_renew":
		return []string{theLock, theLock}, words
	}
	return []string{theLock}, words
}

var readerKey = regexp.MustCompile(`^R(\w):(\w+:\d+)$`)

// spell spells out the short name of a key. L is the lock of the tests, T its token counter, and
// RL:me:1 the key of its reader me:1. Ta and Ra:me:1 are those of a lock a.
func spell(word string) string {
	if m := readerKey.FindStringSubmatch(word); m != nil {
		return "{" + spell(m[1]) + "}:" + m[2] + ":rwlock_timeout:1"
	}
	switch word {
	case "L":
		return theLock
	case "T":
		return theCounter
	case "Ta", "Tb", "Tc":
		return "redisson_lock_token:{" + word[1:] + "}"
	}
	return word
}

// records are the commands for a record of a holder, which lives for 20 seconds, or for a reader
// beside others.
var records = map[string]string{
	"plain":  "HSET KEY HOLDER 1; PEXPIRE KEY 20000",
	"write":  "HSET KEY mode write HOLDER:write 1; PEXPIRE KEY 20000",
	"read":   "HSET KEY mode read HOLDER 1; PEXPIRE KEY 20000; SET RKEY:HOLDER 1 PX 20000",
	"beside": "HSET KEY HOLDER 1; SET RKEY:HOLDER 1 PX 20000",
}

// commandsOf returns the commands that prepare a state.
func commandsOf(given string) (commands [][]string) {
	for command := range strings.SplitSeq(given, "; ") {
		words := strings.Fields(command)
		if len(words) == 0 {
			continue
		}
		if record := records[words[0]]; record != "" {
			commands = append(commands, commandsOf(strings.NewReplacer("KEY", words[1], "HOLDER", words[2]).Replace(record))...)
			continue
		}
		for i := range words {
			words[i] = spell(words[i])
		}
		commands = append(commands, words)
	}
	return commands
}

func (s *scriptServer) prepare(t testing.TB, given string) {
	t.Helper()
	s.do(t, "FLUSHALL")
	for _, words := range commandsOf(given) {
		require.NotContains(t, s.show(s.do(t, words...)), "!", words)
	}
}

// prepareFull is prepare on a server that is out of memory then.
func (s *scriptServer) prepareFull(t testing.TB, given string) {
	t.Helper()
	s.fill(t, false)
	s.prepare(t, given)
	s.fill(t, true)
}

// requireState compares all that a server holds with what a test says.
func (s *scriptServer) requireState(t testing.TB, want string, msg ...any) {
	t.Helper()
	all := map[string]string{}
	for line := range strings.SplitSeq(want, "; ") {
		if key, value, ok := strings.Cut(line, ": "); ok {
			all[spell(key)] = value
		}
	}
	require.Equal(t, all, s.state(t), msg...)
}

// requireReply compares a reply with what a test wants. Of an error only a part is compared,
// because servers append the place in the script.
func (s *scriptServer) requireReply(t testing.TB, want, got string, msg ...any) {
	t.Helper()
	if text, ok := strings.CutPrefix(want, "!"); ok {
		// miniredis puts words of its own before the error.
		require.Contains(t, got, text, msg...)
		require.Equal(t, byte('!'), got[0], "%s is no error", got)
		return
	}
	require.Equal(t, want, got, msg...)
}
