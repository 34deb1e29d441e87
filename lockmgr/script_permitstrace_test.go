package lockmgr_test

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/thorough"
	"github.com/holdfast-go/holdfast/lockmgr/internal/model"
)

// TestDifferential_Permits runs random operations for two names on servers and on the model.
func TestDifferential_Permits(t *testing.T) {
	const steps = 150
	names := []string{"p", "q"}
	onBoth(t, func(t *testing.T, s *scriptServer) {
		e := listen(t, s, permitKeysOf("p").Channel, permitKeysOf("q").Channel)
		seen := map[string]int{}
		for seed := range uint64(thorough.Choose(8, 24)) {
			r := &permitTrace{Rand: rand.New(rand.NewPCG(seed, 4))}
			s.prepare(t, "")
			var m model.Server
			var said, trace []string
			m.Deliver = func(_ int, channel, payload string) { said = append(said, channel+" "+payload) }
			for _, name := range names {
				m.Subscribe(permitKeysOf(name).Channel, 1)
			}
			for range steps {
				said = nil
				got, want, line := r.step(t, s, &m)
				trace = append(trace, line)
				told := fmt.Sprintf("seed %d\n%s", seed, strings.Join(trace[max(0, len(trace)-20):], "\n"))
				require.Equal(t, want, got, told)
				require.Equal(t, said, e.heard(t), told)
				for _, name := range names {
					require.Equal(t, s.modelPermits(&m, name), s.permits(t, name), told)
				}
				script, _, _ := strings.Cut(line, " ")
				seen[script+" "+severalDigits.ReplaceAllString(got, "N")]++
			}
		}
		for _, form := range []string{
			"permits_acquire [nil]", "permits_acquire [N]", "permits_acquire [-N]", "permits_acquire [[N N]]", "permits_acquire [nil N]",
			"permits_transfer [N]", "permits_transfer [nil]", "permits_transfer [N nil]", "permits_renew []", "permits_renew [N]", "permits_renew [N N]",
			"permits_release [nil]", "permits_release [[N N]]", "permits_release [[N N] nil]", "permits_return N", "permits_limit N", "permits_limit -N",
		} {
			require.NotZero(t, seen[form], "%s among %v", form, seen)
		}
	})
}

type permitTrace struct{ *rand.Rand }

func (r *permitTrace) holder() string { return string("ab"[r.IntN(2)]) + strconv.Itoa(1+r.IntN(4)) }

// op draws an operation. Its holders are of one manager.
func (r *permitTrace) op(life int64) permitOp {
	op := permitOp{name: string("pq"[r.IntN(2)]), n: 1 + r.IntN(3), limit: 6, life: life, most: 3}
	first := r.holder()
	for i := range 1 + r.IntN(3) {
		op.holders = append(op.holders, first[:1]+strconv.Itoa((int(first[1]-'1')+i)%4+1))
	}
	if r.IntN(2) == 0 {
		op.ends = first[:1]
	}
	if r.IntN(3) == 0 {
		op.gather = 10000 * int64(1+r.IntN(2))
	}
	return op
}

// step draws a step, and runs it on the server and on the model.
func (r *permitTrace) step(t *testing.T, s *scriptServer, m *model.Server) (got, want, line string) {
	t.Helper()
	full := func(op permitOp) (holders []string) {
		for _, h := range op.holders {
			holders = append(holders, permitHolder(h))
		}
		return holders
	}
	script := []string{"permits_acquire", "permits_acquire", "permits_acquire", "permits_transfer", "permits_release", "permits_renew", "expire",
		"permits_return", "permits_limit", "forget"}[r.IntN(10)]
	life := 10000 * int64(1+r.IntN(5))
	switch script {
	case "expire", "permits_return":
		k := permitKeysOf(string("pq"[r.IntN(2)]))
		id := r.holder() + "." + strconv.Itoa(r.IntN(3))
		if taken := m.Taken(k.Taken); len(taken) > 0 && r.IntN(4) > 0 {
			id = shortMember(taken[r.IntN(len(taken))].Name)
		}
		line = script + " " + k.Counter + " " + id
		if script == "expire" {
			s.do(t, "ZADD", k.Taken, "XX", "1", permitMember(id))
			m.SetScore(k.Taken, permitMember(id), 0)
			return "", "", line
		}
		ids := []string{permitMember(id)}
		if taken := m.Taken(k.Taken); len(taken) > 0 && r.IntN(2) == 0 {
			ids = append(ids, taken[r.IntN(len(taken))].Name)
		}
		var digits []string
		for _, id := range ids {
			digits = append(digits, hex.EncodeToString([]byte(id)))
		}
		want = "0"
		if len(ids) == 1 || ids[0] != ids[1] {
			want = map[bool]string{false: "0", true: "1"}[m.ReturnPermits(k, ids...)]
		}
		return s.eval(t, s.wire, script, []string{k.Counter, k.Taken}, append([]string{k.Channel}, digits...)), want, line
	case "permits_limit":
		k, add := permitKeysOf(string("pq"[r.IntN(2)])), r.IntN(2) == 0
		how, n := "set", int64(r.IntN(8))
		if add {
			how, n = "add", int64(r.IntN(5)-2)
		}
		line = fmt.Sprintf("%s %s %s %d", script, k.Counter, how, n)
		got = s.eval(t, s.wire, script, []string{k.Counter, k.Taken}, []string{how, strconv.FormatInt(n, 10), "4", k.Channel})
		return got, strconv.FormatInt(m.LimitPermits(k, add, n, 4), 10), line
	case "forget":
		key := []string{"p", "{p}:gathers", "{q}:gathers"}[r.IntN(3)]
		s.do(t, "DEL", key)
		m.Del(key)
		return "", "", "forget " + key
	}
	ops := []permitOp{r.op(life)}
	if r.IntN(4) == 0 {
		ops = append(ops, r.op(life))
	}
	var answers []string
	for i, op := range ops {
		if script == "permits_release" && r.IntN(4) == 0 {
			op.holders, ops[i].holders = nil, nil // it has kept nothing
		}
		k, holders := permitKeysOf(op.name), full(op)
		switch script {
		case "permits_acquire":
			a, err := m.AcquirePermits(k, op.n, op.limit, life, op.gather, op.most, holders[0][:8], holders...)
			require.NoError(t, err)
			switch {
			case a.OK:
				answers = append(answers, "nil")
			case a.Limit > 0:
				answers = append(answers, fmt.Sprintf("[-2 %d]", a.Limit))
			case op.gather > 0:
				answers = append(answers, fmt.Sprintf("[%d %d]", s.round(a.TTL), map[bool]int{true: 1}[a.Gathered]))
			default:
				answers = append(answers, strconv.FormatInt(s.round(a.TTL), 10))
			}
		case "permits_transfer":
			a, err := m.TransferPermits(k, op.n, life, holders...)
			require.NoError(t, err)
			answers = append(answers, map[bool]string{false: "nil", true: strconv.FormatInt(a.Subscribers, 10)}[a.OK])
		case "permits_release":
			a, err := m.ReleasePermits(k, op.most, gathererOf(op.ends), holders...)
			require.NoError(t, err)
			answers = append(answers, map[bool]string{false: "nil", true: fmt.Sprintf("[%d %d]", a.Given, a.Subscribers)}[a.Given > 0])
		case "permits_renew":
			ops[i].holders = op.holders[:1]
			if !m.RenewPermits(k, op.n, life, holders[0]) {
				answers = append(answers, strconv.Itoa(i+1))
			}
		}
	}
	line = fmt.Sprintf("%s %+v", script, ops)
	return s.runPermits(t, s.wire, script, ops...), "[" + strings.Join(answers, " ") + "]", line
}
