package script_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// While the server is out of memory no set can be taken or gathered, whichever lock
// comes first. A set that is held can be released.
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
			before := s.state(t)
			fill(true)
			reply := s.runSeveral(t, s.wire, callSeveral("several_acquire", how+" "+want+" me:9 me:1"))
			taken := 0
			for key, value := range s.state(t) {
				require.NotContains(t, value, "for -1", "%s of %s: %s, %s", want, given, key, reply)
				if strings.Contains(value, "me:9") {
					taken++
				}
			}
			require.Equal(t, map[bool]int{true: 3}[reply == "nil"], taken, "%s, %s: all or none", want, reply)
			if how[len(how)-1] == '1' {
				require.Equal(t, before, s.state(t), "%s: %s", want, reply)
			}
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

// A script that is stopped half-way, because the user may not use one of its commands,
// must not leave a record without an end or a part of a set, harm another's record, or
// report a loss.
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
	require.Equal(t, []string{release.parts[0].Channel + " 0", release.parts[2].Channel + " 0"}, e.heard(t))
	require.NotContains(t, s.state(t), "a")
	require.NotContains(t, s.state(t), "c")

	s.prepare(t, given)
	reply = s.runSeveral(t, s.as(t, "-publish"), release)
	require.Regexp(t, `^\[3 0 -1 ".*(NOPERM|can't|permission|ACL).*"\]$`, reply, "a text, not an error")
	s.requireState(t, "")

	s.prepare(t, given)
	reply = s.runSeveral(t, s.as(t, "resetchannels", "&"+release.parts[1].Channel), release)
	require.Regexp(t, `^\[3 1 1 ".*(NOPERM|can't|permission|ACL|channel).*"\]$`, reply, "one message is allowed")
	require.Equal(t, []string{release.parts[1].Channel + " 1"}, e.heard(t))
	s.requireState(t, "")
}
