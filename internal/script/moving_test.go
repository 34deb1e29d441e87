package script_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// scriptsOf returns a server on which a test runs scripts.
func scriptsOf(t *testing.T, s *redistest.Server) *scriptServer {
	return &scriptServer{wire: dialWire(t, s.Addr()), addr: s.Addr(), real: s, grain: 10_000}
}

// While a slot is moved, its keys are at two masters. A script that can't see all that it needs
// fails, and leaves the record as it is. The others do what they do elsewhere.
func TestScript_InASlotThatIsMoving(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 2, 0)
	const (
		here  = "here"  // all keys are at the old master
		there = "there" // all are at the new one
		away  = "away"  // the record is at the old one, and you:1 at the new one
		left  = "left"  // the other way round
		apart = "apart" // the reply, if the script fails
	)
	readers := "HSET L mode read me:1 1 you:1 1; PEXPIRE L 50000; SET R:me:1 1 PX 50000; SET R:you:1 1 PX 20000"
	upgrades := "readwrite_transfer write 30000 0 me:2 me:1"
	takesSet, givesSet := "several_acquire 30000 0 0 write me:2", "several_release read me:1"
	for i, tt := range []struct {
		where, given, call, reply string
	}{
		{away, otherReads, "readwrite_acquire write 30000 0 me:1", apart},
		{left, otherReads, "readwrite_acquire write 30000 0 me:1", apart},
		{here, otherReads, "readwrite_acquire write 30000 0 me:1", "20000"},
		{there, otherReads, "readwrite_acquire write 30000 0 me:1", "20000"},
		{here, otherReads, "readwrite_acquire read 30000 0 me:1", apart}, // the old master takes no new key
		{there, otherReads, "readwrite_acquire read 30000 0 me:1", "nil"},
		{here, otherWrite, "readwrite_acquire write 30000 0 me:2 me:1", "20000"},
		{here, otherWrite, "readwrite_acquire read 30000 0 me:2 me:1", "20000"},
		{away, readers, upgrades, apart},
		{left, readers, upgrades, apart},
		{here, readers, upgrades, "[]"},
		{there, readers, upgrades, "[]"},
		{here, oneWriter, upgrades, "0"},
		{there, oneWriter, upgrades, "0"},
		{left, otherReads, "readwrite_transfer read 30000 0 you:2 you:1", apart}, // else its key might end earlier
		{there, otherReads, "readwrite_transfer read 30000 0 you:2 you:1", "0"},
		{here, otherReads, "readwrite_transfer read 30000 0 you:2 you:1", apart},
		{away, readers, "readwrite_release me:1", apart},
		{left, readers, "readwrite_release me:1", apart},
		{here, readers, "readwrite_release me:1", "[0]"},
		{there, readers, "readwrite_release me:1", "[0]"},
		{here, oneReader, "readwrite_release me:1", "0"},
		{left, otherReads, "readwrite_release you:1", "0"}, // its own key ends by itself
		{here, oneWriter, "readwrite_release me:1", "0"},
		{away, otherReads, "readwrite_renew 30000 read you:1", "!TRYAGAIN"},
		{left, otherReads, "readwrite_renew 30000 read you:1", "!TRYAGAIN"},
		{here, otherReads, "readwrite_renew 30000 read you:1", "[]"},
		{there, otherReads, "readwrite_renew 30000 read you:1", "[]"},
		{here, oneWriter, "readwrite_renew 30000 write me:1", "[]"},
		{away, otherReads, takesSet, apart},
		{left, otherReads, takesSet, apart},
		{here, otherReads, takesSet, "[1 20000]"},
		{here, otherReads, "several_acquire 30000 0 0 read me:2", apart},
		{away, readers, givesSet, apart},
		{left, readers, givesSet, apart},
		{here, readers, givesSet, "[1 0 -1]"},
		{here, "HSET L me:1 1; PEXPIRE L 20000", "transfer 30000 0 me:2 me:1", "0"},
		{there, "HSET L me:1 1; PEXPIRE L 20000", "transfer 30000 0 me:2 me:1", "0"},
		{here, "HSET L me:1 1; PEXPIRE L 20000", "release me:1", "0"},
		{there, "HSET L me:1 1; PEXPIRE L 20000", "release me:1", "0"},
		{here, "HSET L me:1 1; PEXPIRE L 20000", "reserve 10000 1 me:1", "0"},
		{here, "HSET L me:1 1; PEXPIRE L 20000", "force me:1", "1"},
		{there, "HSET L me:1 1; PEXPIRE L 20000; SET T 5", "inspect", `[20000 0 "5" 1 "me:1" "1"]`},
	} {
		name := c.Movable(t, fmt.Sprintf("orders:%d:%%d", i))
		renamed := func(words []string) []string {
			out := slices.Clone(words)
			for i := range out {
				out[i] = strings.ReplaceAll(inFull(out[i]), theLock, name)
			}
			return out
		}
		owner := scriptsOf(t, c.Nodes[0])
		for command := range strings.SplitSeq(readersKeys(tt.given), "; ") {
			require.NotContains(t, owner.show(owner.do(t, renamed(strings.Fields(command))...)), "!", command)
		}
		m := c.BeginMove(t, name)
		for _, key := range m.Keys(m.From) {
			you := strings.Contains(key, "you:1")
			if tt.where == there || tt.where == away && you || tt.where == left && !you {
				m.Migrate(key)
			}
		}
		at := m.From
		if tt.where == there || tt.where == left {
			at = m.To
		}
		s := scriptsOf(t, at)
		record := func() any {
			s.do(t, "ASKING")
			return s.do(t, "HGETALL", name)
		}
		before := record()
		words := strings.Fields(tt.call)
		script, args := words[0], words[1:]
		keys := keysOf(script, args)
		switch {
		case strings.HasPrefix(script, "readwrite"):
			keys = rwKeys(script, args)
		case strings.HasPrefix(script, "several"):
			want := args[slices.IndexFunc(args, func(w string) bool { return w == wantRead || w == wantWrite })]
			call := severalCallOn(script, []part{severalPart(theLock, want)}, strings.Join(args, " "))
			keys, args = call.keys, call.args
		}
		s.do(t, "ASKING")
		got := s.eval(t, s.wire, script, renamed(keys), renamed(args))
		what := tt.where + ": " + tt.call + ": " + tt.given
		if tt.reply == apart {
			require.Regexp(t, "^!.*(non local key|undeclared keys were accessed during rehashing)", got, what)
			require.Equal(t, before, record(), what)
		} else {
			s.requireReply(t, tt.reply, got, what)
		}
		m.Finish() // no key is at both masters
	}
}

// While a slot is moved, no script makes a key that may be at the other master, or an empty set of
// permits.
func TestScript_PermitsInASlotThatIsMoving(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 2, 0)
	ours := permitTaken{"a1.0": 20000, "a1.1": 20000}
	transfer, release := permitOp{n: 2, life: 30000, holders: []string{"a2", "a1"}}, permitOp{most: 2, holders: []string{"a1"}}
	one := permitOp{n: 1, limit: 3, life: 30000, most: 1, holders: []string{"a5"}}
	gathers := permitOp{n: 3, limit: 3, life: 30000, gather: 10000, waits: 50000, most: 3, holders: []string{"a5"}}
	for i, tt := range []struct {
		migrated string // c: the counter, t: those that are taken
		free     string
		script   string
		op       permitOp
		reply    string
		then     string // what is there after it
	}{
		{"", "0", "permits_transfer", transfer, "[0]", "0 a2.0~30000 a2.1~30000"},
		{"", "0", "permits_release", release, "[[2 0]]", "2"},
		{"", "1", "permits_acquire", one, "[nil]", "0 a1.0~20000 a1.1~20000 a5.0~30000"},
		{"", "1", "permits_acquire", gathers, "[[20000 0 0]]", "1 a1.0~20000 a1.1~20000"},
		{"ct", "1", "permits_acquire", gathers, "[[20000 0 0]]", "1 a1.0~20000 a1.1~20000"},
		{"ct", "0", "permits_transfer", transfer, "[0]", "0 a2.0~30000 a2.1~30000"},
		{"ct", "0", "permits_release", release, "[[2 0]]", "2"},
		{"t", "1", "permits_acquire", gathers, "!TRYAGAIN", "1 a1.0~20000 a1.1~20000"},
	} {
		tt.op.name = c.Movable(t, fmt.Sprintf("p%d:%%d", i))
		k := permitKeysOf(tt.op.name)
		s := scriptsOf(t, c.Nodes[0])
		s.give(t, tt.op.name, tt.free, ours)
		m := c.BeginMove(t, tt.op.name)
		for which, key := range map[string]string{"c": k.Counter, "t": k.Taken} {
			if strings.Contains(tt.migrated, which) {
				m.Migrate(key)
			}
		}
		if tt.migrated == "ct" {
			s = scriptsOf(t, m.To)
		}
		s.do(t, "ASKING")
		s.requireReply(t, tt.reply, s.runPermits(t, s.wire, tt.script, tt.op), "%+v", tt)
		m.Finish()
		require.Equal(t, tt.then, scriptsOf(t, m.To).permits(t, tt.op.name), "%+v", tt)
	}
}
