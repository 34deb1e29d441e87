package lockmgr_test

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/thorough"
	"github.com/holdfast-go/holdfast/lockmgr/internal/model"
)

// A severalTrace draws the steps of a differential test.
type severalTrace struct {
	*rand.Rand
	holders []string
}

// severalKinds says which names are read-write locks. Single-lock scripts use them
// so. A set may want one in another way, as a program does by mistake.
var severalKinds = map[string]bool{"a": false, "b": true, "c": true}

func (r *severalTrace) parts(mistakes bool) (parts []model.Part) {
	for _, name := range []string{"a", "b", "c"} {
		if r.IntN(4) == 0 {
			continue
		}
		readWrite := severalKinds[name]
		if mistakes && r.IntN(10) == 0 {
			readWrite = !readWrite
		}
		want := model.Plain
		if readWrite {
			want = []string{model.Read, model.Write}[r.IntN(2)]
		}
		parts = append(parts, severalPart(name, want))
	}
	return parts
}

func (r *severalTrace) owners() []string {
	some := slices.Clone(r.holders)
	r.Shuffle(len(some), func(i, j int) { some[i], some[j] = some[j], some[i] })
	return some[:1+r.IntN(3)]
}

// life draws a lease. None is twice another one.
func (r *severalTrace) life() int64 { return int64(10000 * (1 + 2*r.IntN(3))) }

// words returns how parts are wanted.
func words(parts []model.Part) string {
	var out []string
	for _, p := range parts {
		out = append(out, p.Want)
	}
	return strings.Join(out, " ")
}

// modelState prints what the model holds, as scriptServer.state does.
func (s *scriptServer) modelState(t testing.TB, m *model.Server, holders []string) map[string]string {
	t.Helper()
	out := map[string]string{}
	put := func(key, value string) {
		end, there := m.End(key)
		if !there {
			return
		}
		ttl := int64(-1)
		if ms := end.Milliseconds(); ms < 1e9 {
			ttl = s.round(ms)
		}
		out[key] = fmt.Sprintf("%s for %d", value, ttl)
	}
	for _, name := range []string{"a", "b", "c"} {
		p := severalPart(name, model.Read)
		in, err := m.Inspect(p.Lock, p.Channel, p.Counter)
		require.NoError(t, err)
		var fields []string
		for _, f := range in.Holders {
			fields = append(fields, f.Name+"="+f.Value)
		}
		slices.Sort(fields)
		put(p.Lock, strings.Join(fields, " "))
		put(p.Counter, strconv.Quote(in.Token))
		for _, h := range holders {
			put(p.ReaderKey(h, 1), `"1"`)
		}
	}
	require.Len(t, out, m.Len())
	return out
}

// The scripts for several locks and those for one lock do the same on a server and on
// the model, whatever was done before.
func TestDifferential_Several(t *testing.T) {
	const steps = 150
	onBoth(t, func(t *testing.T, s *scriptServer) {
		e := listen(t, s, severalChannels()...)
		seen := map[string]int{} // replies by their form
		for seed := range uint64(thorough.Choose(8, 24)) {
			r := &severalTrace{rand.New(rand.NewPCG(seed, 3)), []string{"x:1", "x:2", "y:1", "y:2"}}
			s.prepare(t, "")
			var m model.Server
			var said []string
			m.Deliver = func(_ int, channel, payload string) { said = append(said, channel+" "+payload) }
			for _, c := range severalChannels() {
				m.Subscribe(c, 1)
			}
			var trace []string
			for range steps {
				said = nil
				call, want := r.step(t, s, &m)
				line := call.script + " " + strings.Join(call.keys, " ") + " | " + strings.Join(call.args, " ")
				trace = append(trace, line)
				told := fmt.Sprintf("seed %d\n%s", seed, strings.Join(trace[max(0, len(trace)-20):], "\n"))
				var got string
				if call.script == "DEL" {
					got = fmt.Sprint(s.do(t, append([]string{"DEL"}, call.keys...)...))
				} else {
					got = s.runSeveral(t, s.wire, call)
				}
				require.Equal(t, want, got, told)
				require.Equal(t, said, e.heard(t), told)
				require.Equal(t, s.modelState(t, &m, r.holders), s.state(t), told)
				seen[call.script+" "+severalDigits.ReplaceAllString(got, "N")]++
			}
		}
		// The traces have met every form of a reply.
		for _, form := range strings.Split("several_acquire nil,several_acquire [N N],several_acquire [N N N],"+
			`several_acquire ["N" "N" "N"],several_release nil,several_release [N N N],several_release [N N -N],several_renew N`, ",") {
			require.NotZero(t, seen[form], "%s among %v", form, seen)
		}
	})
}

var severalDigits = regexp.MustCompile(`\d+`)

// step draws a step and runs it on the model. It returns what a server must answer.
func (r *severalTrace) step(t *testing.T, s *scriptServer, m *model.Server) (call severalCall, want string) {
	t.Helper()
	owners, lease := r.owners(), r.life()
	var parts []model.Part
	for len(parts) == 0 {
		parts = r.parts(true)
	}
	switch r.IntN(12) {
	case 0, 1, 2, 3: // acquire several
		gather, tokens := int64(0), r.IntN(3) == 0
		if r.IntN(2) == 0 {
			gather = r.life()
		}
		flag := map[bool]int{true: 1}[tokens]
		call = severalCallOn("several_acquire", parts, fmt.Sprintf("%d %d %d %s %s", lease, gather, flag, words(parts), strings.Join(owners, " ")))
		a, err := m.AcquireSeveral(parts, lease, gather, tokens, owners...)
		require.NoError(t, err)
		switch {
		case a.OtherKind:
			want = fmt.Sprintf("[%d %d 1]", a.Item, s.round(a.TTL))
		case !a.OK:
			want = fmt.Sprintf("[%d %d]", a.Item, s.round(a.TTL))
		case tokens:
			want = fmt.Sprintf("%q", a.Tokens)
		default:
			want = "nil"
		}
	case 4, 5: // release several
		for parts = nil; len(parts) == 0; {
			parts = r.parts(false)
		}
		call = severalCallOn("several_release", parts, words(parts)+" "+strings.Join(owners, " "))
		want = "nil"
		if a := m.ReleaseSeveral(parts, owners...); a.Done > 0 {
			want = fmt.Sprintf("[%d %d %d]", a.Done, a.Told, a.Subscribers)
		}
	case 6: // renew several
		// What a holder has is worth renewing, so it is looked for.
		owner := owners[0]
		var held []model.Part
		for _, p := range parts {
			fields, _ := m.Fields(p.Lock)
			for _, f := range fields {
				if f.Name == owner || f.Name == owner+":write" {
					held = append(held, p)
				}
			}
		}
		if len(held) > 0 && r.IntN(4) > 0 {
			parts = held
		}
		call = severalCallOn("several_renew", parts, fmt.Sprintf("%d %s %s", lease, owner, words(parts)))
		ok, err := m.RenewSeveral(parts, lease, owner)
		require.NoError(t, err)
		want = map[bool]string{false: "0", true: "1"}[ok]
	case 7: // acquire one
		name := []string{"a", "b", "c"}[r.IntN(3)]
		tokens := int64(r.IntN(2) * r.IntN(3))
		var a model.Acquired
		var err error
		if severalKinds[name] {
			p := severalPart(name, []string{model.Read, model.Write}[r.IntN(2)])
			call = severalCall{script: "readwrite_acquire", keys: []string{p.Lock, p.Counter},
				args: append([]string{p.Want, fmt.Sprint(lease), fmt.Sprint(tokens)}, owners...)}
			a, err = m.AcquireSide(p.ReadWrite, p.Want, lease, tokens, owners...)
		} else {
			p := severalPart(name, model.Plain)
			call = severalCall{script: "acquire", keys: []string{p.Lock, p.Counter},
				args: append([]string{fmt.Sprint(lease), fmt.Sprint(tokens)}, owners...)}
			a, err = m.Acquire(p.Lock, p.Counter, lease, tokens, owners...)
			fields, _ := m.Fields(p.Lock) // the model of acquire does not tell the kind
			a.OtherKind = !a.OK && slices.ContainsFunc(fields, func(f model.Field) bool { return f.Name == "mode" })
		}
		require.NoError(t, err)
		switch {
		case a.OtherKind:
			want = fmt.Sprintf("[%d]", s.round(a.TTL))
		case !a.OK:
			want = fmt.Sprint(s.round(a.TTL))
		case tokens > 0:
			want = strconv.Quote(a.Token)
		default:
			want = "nil"
		}
	case 8: // release one
		name := []string{"a", "b", "c"}[r.IntN(3)]
		var a model.Released
		var err error
		if severalKinds[name] {
			p := severalPart(name, model.Read)
			call = severalCall{script: "readwrite_release", keys: []string{p.Lock}, args: owners}
			a, err = m.ReleaseSide(p.ReadWrite, owners...)
		} else {
			p := severalPart(name, model.Plain)
			call = severalCall{script: "release", keys: []string{p.Lock}, args: owners}
			a, err = m.Release(p.Lock, p.Channel, owners...)
		}
		require.NoError(t, err)
		switch want = "nil"; {
		case a.Quiet:
			want = fmt.Sprintf("[%d]", a.Subscribers)
		case a.OK:
			want = fmt.Sprint(a.Subscribers)
		}
	case 9: // a record ends
		p := severalPart([]string{"a", "b", "c"}[r.IntN(3)], model.Read)
		call = severalCall{script: "DEL", keys: []string{p.Lock}}
		for _, h := range r.holders {
			call.keys = append(call.keys, p.ReaderKey(h, 1))
		}
	default: // a reader's key ends
		p := severalPart([]string{"b", "c"}[r.IntN(2)], model.Read)
		call = severalCall{script: "DEL", keys: []string{p.ReaderKey(owners[0], 1)}}
	}
	if call.script == "DEL" {
		n := 0
		for _, key := range call.keys {
			if m.Del(key) {
				n++
			}
		}
		want = fmt.Sprint(n)
	}
	return call, want
}
