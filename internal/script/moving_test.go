package script_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

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
	readers := "HSET L mode read me:1 1 you:1 1; PEXPIRE L 50000; SET RL:me:1 1 PX 50000; SET RL:you:1 1 PX 20000"
	upgrades := "readwrite_transfer write 30000 0 me:2 me:1"
	takesSet, givesSet := "several_acquire 30000 0 0 write me:2", "several_release read me:1"
	for i, tt := range []struct {
		where, given, call, reply string
	}{
		{away, "read L you:1", "readwrite_acquire write 30000 0 me:1", apart},
		{left, "read L you:1", "readwrite_acquire write 30000 0 me:1", apart},
		{here, "read L you:1", "readwrite_acquire write 30000 0 me:1", "20000"},
		{there, "read L you:1", "readwrite_acquire write 30000 0 me:1", "20000"},
		{here, "read L you:1", "readwrite_acquire read 30000 0 me:1", apart}, // the old master takes no new key
		{there, "read L you:1", "readwrite_acquire read 30000 0 me:1", "nil"},
		{here, "write L you:1", "readwrite_acquire write 30000 0 me:2 me:1", "20000"},
		{here, "write L you:1", "readwrite_acquire read 30000 0 me:2 me:1", "20000"},
		{away, readers, upgrades, apart},
		{left, readers, upgrades, apart},
		{here, readers, upgrades, "[]"},
		{there, readers, upgrades, "[]"},
		{here, "write L me:1", upgrades, "0"},
		{there, "write L me:1", upgrades, "0"},
		{left, "read L you:1", "readwrite_transfer read 30000 0 you:2 you:1", apart}, // else its key might end earlier
		{there, "read L you:1", "readwrite_transfer read 30000 0 you:2 you:1", "0"},
		{here, "read L you:1", "readwrite_transfer read 30000 0 you:2 you:1", apart},
		{away, readers, "readwrite_release me:1", apart},
		{left, readers, "readwrite_release me:1", apart},
		{here, readers, "readwrite_release me:1", "[0]"},
		{there, readers, "readwrite_release me:1", "[0]"},
		{here, "read L me:1", "readwrite_release me:1", "0"},
		{left, "read L you:1", "readwrite_release you:1", "0"}, // its own key ends by itself
		{here, "write L me:1", "readwrite_release me:1", "0"},
		{away, "read L you:1", "readwrite_renew 30000 read you:1", "!TRYAGAIN"},
		{left, "read L you:1", "readwrite_renew 30000 read you:1", "!TRYAGAIN"},
		{here, "read L you:1", "readwrite_renew 30000 read you:1", "[]"},
		{there, "read L you:1", "readwrite_renew 30000 read you:1", "[]"},
		{here, "write L me:1", "readwrite_renew 30000 write me:1", "[]"},
		{away, "read L you:1", takesSet, apart},
		{left, "read L you:1", takesSet, apart},
		{here, "read L you:1", takesSet, "[1 20000]"},
		{here, "read L you:1", "several_acquire 30000 0 0 read me:2", apart},
		{away, readers, givesSet, apart},
		{left, readers, givesSet, apart},
		{here, readers, givesSet, "[1 0 -1]"},
		{here, "plain L me:1", "transfer 30000 0 me:2 me:1", "0"},
		{there, "plain L me:1", "transfer 30000 0 me:2 me:1", "0"},
		{here, "plain L me:1", "release me:1", "0"},
		{there, "plain L me:1", "release me:1", "0"},
		{here, "plain L me:1", "reserve 10000 1 me:1", "0"},
		{here, "plain L me:1", "force me:1", "1"},
		{there, "plain L me:1; SET T 5", "inspect", `[20000 0 "5" 1 "me:1" "1"]`},
	} {
		name := c.Movable(t, fmt.Sprintf("orders:%d:%%d", i))
		renamed := func(words []string) []string {
			out := slices.Clone(words)
			for i := range out {
				out[i] = strings.ReplaceAll(out[i], theLock, name)
			}
			return out
		}
		owner := scriptsOf(t, c.Nodes[0])
		for _, command := range commandsOf(tt.given) {
			require.NotContains(t, owner.show(owner.do(t, renamed(command)...)), "!", command)
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
		script, words, _ := strings.Cut(tt.call, " ")
		keys, args := callOf(script, words)
		if strings.HasPrefix(script, "several") {
			keys, args = callSeveral(script, words, theLock)
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
	const transfer, release, gathers = "2 a2 a1", "2 a1", "3/3 gather a5"
	for i, tt := range []struct {
		migrated string // c: the counter, t: those that are taken
		free     string
		script   string
		op       string
		reply    string
		then     string // what is there after it
	}{
		{"", "0", "permits_transfer", transfer, "[0]", "0 a2.0~30000 a2.1~30000"},
		{"", "0", "permits_release", release, "[[2 0]]", "2"},
		{"", "1", "permits_acquire", "1/3 a5", "[nil]", "0 a1.0~20000 a1.1~20000 a5.0~30000"},
		{"", "1", "permits_acquire", gathers, "[[20000 0 0]]", "1 a1.0~20000 a1.1~20000"},
		{"ct", "1", "permits_acquire", gathers, "[[20000 0 0]]", "1 a1.0~20000 a1.1~20000"},
		{"ct", "0", "permits_transfer", transfer, "[0]", "0 a2.0~30000 a2.1~30000"},
		{"ct", "0", "permits_release", release, "[[2 0]]", "2"},
		{"t", "1", "permits_acquire", gathers, "!TRYAGAIN", "1 a1.0~20000 a1.1~20000"},
	} {
		op := permitOpOf(c.Movable(t, fmt.Sprintf("p%d:%%d", i)), tt.op)
		k := permitKeysOf(op.name)
		s := scriptsOf(t, c.Nodes[0])
		s.give(t, op.name, tt.free+" a1.0~20000 a1.1~20000")
		m := c.BeginMove(t, op.name)
		for which, key := range map[string]string{"c": k.Counter, "t": k.Taken} {
			if strings.Contains(tt.migrated, which) {
				m.Migrate(key)
			}
		}
		if tt.migrated == "ct" {
			s = scriptsOf(t, m.To)
		}
		s.do(t, "ASKING")
		s.requireReply(t, tt.reply, s.runPermits(t, s.wire, tt.script, op), "%+v", tt)
		m.Finish()
		require.Equal(t, tt.then, scriptsOf(t, m.To).permits(t, op.name), "%+v", tt)
	}
}
