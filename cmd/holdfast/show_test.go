//go:build unix

package main

import (
	"encoding/json"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// A permit that never expires is shown as such, beside one that does.
func TestShow_PermitWithoutEnd(t *testing.T) {
	w := newWorld(t)
	l, err := w.m.Permits("p", 3).Acquire(t.Context(), 1)
	require.NoError(t, err)
	_, err = w.Do("ZADD", "{p}:timeout", "9223372036854775807", "0123456789abcdef")
	require.NoError(t, err)
	_, out, _ := w.run("show", "p")
	require.Contains(t, out, "no end")
	require.NoError(t, l.Unlock(t.Context()))
	_, err = w.Do("DEL", "{p}:timeout")
	require.NoError(t, err)
	require.NoError(t, w.m.Permits("p", 3).SetLimit(t.Context(), 3))
	_, out, _ = w.run("show", "p")
	require.Equal(t, "p (permits 0/3)\n  waiting  0\n", out, "nobody has one, so there is no TTL")
}

// ls, show and break tell of all kinds of locks.
func TestLs_ShowAndBreak(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	_, err := w.m.Lock(ctx, "app:a", lockmgr.Fenced(), lockmgr.Note("invoice 42"))
	require.NoError(t, err)
	_, err = w.m.Permits("app:p", 3).Acquire(ctx, 2)
	require.NoError(t, err)
	_, err = w.m.Lock(ctx, "app:\x1b[31m\n", lockmgr.Shared())
	require.NoError(t, err)
	_, err = w.m.Lock(ctx, "other")
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		_, out, _ := w.run("ls", "app:")
		require.NotContains(t, out, "\x1b")
		require.NotContains(t, out, "other")
		return strings.Count(out, "billing@web-3, pid 411") == 3 && strings.Contains(out, "invoice 42") &&
			strings.Contains(out, "permits 2/3") && strings.Contains(out, `"app:\x1b[31m\n"`)
	}, patient, 100*time.Millisecond)
	code, out, _ := w.run("ls", "--json", "app:a")
	require.Zero(t, code)
	var r row
	require.NoError(t, json.Unmarshal([]byte(out), &r))
	require.Equal(t, "app:a", r.Name)
	require.Equal(t, "billing", r.Holders[0].Program)
	require.NotNil(t, r.Holders[0].Since)
	require.Positive(t, r.TTL)

	code, out, _ = w.run("show", "app:a")
	require.Zero(t, code)
	for _, text := range []string{"app:a (plain)", "billing@web-3, pid 411", "invoice 42", "token    1", "TTL"} {
		require.Contains(t, out, text)
	}
	code, out, _ = w.run("show", "nothing")
	require.Equal(t, 1, code)
	require.Equal(t, "nothing is free\n", out)

	code, _, text := w.run("break", "app:a")
	require.Equal(t, 64, code)
	require.Contains(t, text, "--yes")
	for _, name := range []string{"app:a", "app:p", "app:\x1b[31m\n"} {
		code, out, text = w.run("break", "--yes", name)
		require.Zero(t, code, text)
		require.Contains(t, out, "billing@web-3, pid 411")
		require.Contains(t, out, "broken: "+shown(name))
		code, _, text = w.run("break", "--yes", name)
		require.Equal(t, 1, code)
		require.Contains(t, text, "is free")
	}
	code, out, _ = w.run("show", "app:a")
	require.Equal(t, 1, code)
	require.Equal(t, "app:a is free, its last token is 1\n", out)
	_, out, _ = w.run("ls", "app:")
	require.Equal(t, 1, strings.Count(out, "\n"), out)
}

// With the prefix of the programs, all commands take and print their names. A name with the prefix is
// the same name. The flag goes before the variable.
func TestPrefix(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	w.lock("jobs:customer:stuck")
	w.lock("customer:other")
	_, err := w.m.Permits("jobs:exports", 3).Acquire(ctx, 2)
	require.NoError(t, err)
	code, out, _ := w.run("show", "customer:stuck")
	require.Equal(t, 1, code)
	require.Equal(t, "customer:stuck is free\n", out)
	with := func(code int, args ...string) string {
		t.Helper()
		for _, call := range [][]string{append([]string{binary, "--prefix", "jobs:"}, args...), append([]string{"env", "HOLDFAST_PREFIX=jobs:", binary}, args...)} {
			p := w.command(exec.Command(call[0], call[1:]...))
			require.Equal(t, code, p.wait(), p.err.String())
			out = p.out.String() + p.err.String()
		}
		return out
	}
	require.Contains(t, with(0, "show", "customer:stuck"), "jobs:customer:stuck (plain)\n")
	require.Contains(t, with(0, "show", "jobs:customer:stuck"), "jobs:customer:stuck (plain)\n")
	require.Contains(t, with(1, "show", "customer:other"), "jobs:customer:other is free\n")
	require.Contains(t, with(0, "--prefix", "", "show", "customer:other"), "customer:other (plain)\n")
	require.Contains(t, with(0, "show", "exports"), "jobs:exports (permits 2/3)\n")
	require.Contains(t, with(0, "ls", "customer:"), "jobs:customer:stuck ")
	out = with(0, "ls")
	require.Contains(t, out, "jobs:exports ")
	require.NotContains(t, out, "customer:other")
	require.Empty(t, with(0, "limit", "exports", "4"))
	require.Equal(t, "4\n", with(0, "limit", "exports"))
	require.Contains(t, with(64, "limit", "customer:stuck"), "jobs:customer:stuck has no permits")
	require.Contains(t, with(1, "limit", "--forget", "exports"), "jobs:exports is not forgotten")
	require.Contains(t, with(1, "limit", "nothing"), "set for jobs:nothing\n")
	require.Contains(t, with(75, "run", "-n", "customer:stuck", "--", "true"), `"jobs:customer:stuck"`)
	require.Contains(t, with(0, "run", "--permits", "9", "exports", "--", "true"), "jobs:exports has 4 permits")
	show := `echo $HOLDFAST_NAME $HOLDFAST_PREFIX; exec "$0" --redis "$1" show $HOLDFAST_NAME`
	out = with(0, "run", "customer:7", "--", "sh", "-c", show, binary, "redis://"+w.Addr())
	require.Contains(t, out, "jobs:customer:7 jobs:\njobs:customer:7 (plain)\n")
	require.Equal(t, "free\n", with(0, "--prefix", "", "run", "free", "--", "sh", "-c", `echo $HOLDFAST_NAME $HOLDFAST_PREFIX`))
	require.Contains(t, with(0, "check"), "plain locks work")
	p := w.start("--prefix", "jobs:", "top", "--json", "customer:")
	require.Eventually(t, func() bool { return strings.Contains(p.out.String(), "jobs:customer:stuck") }, patient, 5*time.Millisecond)
	require.NotContains(t, p.out.String(), "customer:other")
	require.Contains(t, with(1, "break", "--yes", "customer:free"), "jobs:customer:free is free\n")
	code, out, _ = w.run("--prefix", "jobs:", "break", "--yes", "customer:stuck")
	require.Zero(t, code)
	require.Contains(t, out, "broken: jobs:customer:stuck\n")
	w.free("jobs:customer:stuck")
	code, out, _ = w.run("--prefix", "jobs:", "break", "--yes", "exports")
	require.Zero(t, code)
	require.Contains(t, out, "broken: jobs:exports\n")
}

// check names what is missing, and ends with 77 if plain locks need it.
func TestCheck(t *testing.T) {
	w := newWorld(t)
	code, out, _ := w.run("check", "app:")
	require.Zero(t, code)
	require.Contains(t, out, "plain locks work")
	require.Contains(t, out, "server: ")
	_, err := w.Do("ACL", "SETUSER", "locker", "on", ">secret", "~*", "&*", "+@all", "-pttl", "-scan")
	require.NoError(t, err)
	code, out, text := w.run("--redis", "redis://locker:secret@"+w.Addr(), "check")
	require.Equal(t, 77, code, text)
	require.Contains(t, out, "missing: +pttl (a lock that somebody holds)\n")
	require.Contains(t, out, "missing: +scan (Scan), not needed by plain locks")
	require.Contains(t, text, "+pttl")
	code, _, text = w.run("--redis", "redis://locker:secret@"+w.Addr(), "ls")
	require.Equal(t, 77, code, text)
}

// check says which masters of a cluster lack a permission.
func TestCheck_OfACluster(t *testing.T) {
	w := newWorld(t)
	c := redistest.StartCluster(t, 2, 0)
	_, err := c.Nodes[1].Do("ACL", "SETUSER", "default", "-zcard")
	require.NoError(t, err)
	code, out, text := w.run("--redis", "redis://"+c.Nodes[0].Addr(), "check", "app:")
	require.Zero(t, code, text)
	require.Contains(t, out, "missing: +zcard (Permits) at "+c.Nodes[1].Addr()+", not needed by plain locks\n")
}

func TestAge(t *testing.T) {
	for d, text := range map[time.Duration]string{
		-time.Second: "0s", 0: "0s", 59 * time.Second: "59s", 125 * time.Second: "2m5s", 250 * time.Minute: "4h10m", 73 * time.Hour: "3d",
	} {
		require.Equal(t, text, age(d))
	}
	for text, want := range map[string]string{"a:b": "a:b", "": `""`, " a": `" a"`, "a\nb": `"a\nb"`, "é": "é", "\xff": `"\xff"`} {
		require.Equal(t, want, shown(text))
	}
}

// A record without a holder is nobody's, and can be removed.
func TestBreak_RecordWithoutHolders(t *testing.T) {
	w := newWorld(t)
	_, err := w.Do("HSET", "a", "mode", "read")
	require.NoError(t, err)
	code, _, text := w.run("break", "--yes", "a")
	require.Zero(t, code, text)
	w.free("a")
}

// A record with very many entries that look like holders is shown in few lines, and can be removed.
func TestBreak_HugeRecord(t *testing.T) {
	w := newWorld(t)
	const entries = 200_000
	for name, mode := range map[string]string{"plain": "", "readers": "read"} {
		for from := 1; from <= entries; from += 5000 {
			_, err := w.Do("EVAL", `
				if ARGV[2] ~= '' then redis.call('HSET', KEYS[1], 'mode', ARGV[2]) end
				for i = ARGV[1], ARGV[1] + 4999 do redis.call('HSET', KEYS[1], string.format('%08x-1234-4234-8234-123456789012:1', i), 1) end`,
				"1", name, strconv.Itoa(from), mode)
			require.NoError(t, err)
		}
		code, out, text := w.run("show", name)
		require.Zero(t, code, text)
		require.Less(t, len(out), 4000)
		require.Contains(t, out, "held by  "+strconv.Itoa(entries-mostDescribed)+" more")
		_, out, text = w.run("ls")
		require.Contains(t, out, "and "+strconv.Itoa(entries-1)+" more", text)
		require.Less(t, len(out), 1000)
		code, out, text = w.run("show", "--json", name)
		require.Zero(t, code, text)
		require.Less(t, len(out), 500_000)
		require.Equal(t, entries, requireJSON[row](t, out)[0].Count)
		code, _, text = w.run("break", "--yes", name)
		require.Zero(t, code, text)
		exists, err := w.Do("EXISTS", name)
		require.NoError(t, err)
		require.Equal(t, "0", exists)
	}
}

// break with IDs leaves the other holders alone.
func TestBreak_OfIDs(t *testing.T) {
	w := newWorld(t)
	p := w.m.Permits("p", 3)
	permit := func() *lockmgr.Lock {
		l, err := p.Acquire(t.Context(), 1)
		require.NoError(t, err)
		return l
	}
	first, second := permit(), permit()
	_, out, _ := w.run("show", "p")
	require.Contains(t, out, first.PermitIDs()[0])
	code, out, text := w.run("break", "--yes", "p", first.PermitIDs()[0])
	require.Zero(t, code, text)
	require.NotContains(t, out, second.PermitIDs()[0])
	info, err := p.Inspect(t.Context())
	require.NoError(t, err)
	require.Len(t, info.Taken, 1)
	require.Equal(t, second.PermitIDs()[0], info.Taken[0].ID)
	code, _, text = w.run("break", "--yes", "p", first.PermitIDs()[0])
	require.Equal(t, 1, code)
	require.Contains(t, text, "none of these is among the holders found of p")

	l := w.lock("a")
	code, _, text = w.run("break", "--yes", "a", "somebody")
	require.Equal(t, 1, code)
	require.Contains(t, text, "none of these is among the holders found of a")
	require.True(t, l.Valid())
	code, out, text = w.run("break", "--yes", "a", "somebody", l.HolderID())
	require.Zero(t, code, text)
	require.Contains(t, out, "no holder: somebody")
	w.free("a")
}

// limit shows, sets and forgets how many permits there are.
func TestLimit(t *testing.T) {
	w := newWorld(t)
	limit := func(code int, args ...string) (out, text string) {
		t.Helper()
		got, out, text := w.run(append([]string{"limit"}, args...)...)
		require.Equal(t, code, got, text)
		return out, text
	}
	_, text := limit(1, "p")
	require.Contains(t, text, "no number of permits is set for p")
	limit(0, "p", "2")
	out, _ := limit(0, "p")
	require.Equal(t, "2\n", out)
	l, err := w.m.Permits("p", 9).Acquire(t.Context(), 2)
	require.NoError(t, err)
	code, _, _ := w.run("run", "--permits", "9", "--nowait", "p", "--", "true")
	require.Equal(t, 75, code, "two are taken")
	limit(0, "p", "3")
	code, _, text = w.run("run", "--permits", "9", "--nowait", "p", "--", "true")
	require.Zero(t, code, text)
	_, text = limit(1, "--forget", "p")
	require.Contains(t, text, "permits are taken")
	require.NoError(t, l.Unlock(t.Context()))
	limit(0, "--forget", "p")
	limit(1, "p")
	for _, args := range [][]string{{}, {"p", "many"}, {"p", "-1"}, {"--", "p", "-1"}, {"--forget", "p", "3"}} {
		limit(64, args...)
	}
	w.lock("plain")
	for _, args := range [][]string{{"plain"}, {"plain", "3"}, {"--forget", "plain"}} {
		_, text := limit(64, args...)
		require.Contains(t, text, "plain has no permits: it is in use as a lock", args)
	}
}

// ls and top show permits of which nobody can get one, if they are asked for the name.
func TestLs_LimitOfZero(t *testing.T) {
	w := newWorld(t)
	require.NoError(t, w.m.Permits("p", 1).SetLimit(t.Context(), 0))
	require.NoError(t, w.m.Permits("free", 1).SetLimit(t.Context(), 1))
	_, err := w.Do("SET", "text", "no number")
	require.NoError(t, err)
	_, out, _ := w.run("ls", "p")
	require.Regexp(t, `^NAME .*\np +permits 0/0 +- +- +- +0\n$`, out)
	require.Len(t, newSource(w.m, "p").look(t.Context(), time.Now()).Locks, 1)
	for _, name := range []string{"free", "text", "nothing", "a{b"} {
		code, out, text := w.run("ls", name)
		require.Zero(t, code, text)
		require.Equal(t, 1, strings.Count(out, "\n"), out)
	}
	_, err = w.Do("ZADD", "{p}:timeout", "9223372036854775807", "0123456789abcdef")
	require.NoError(t, err)
	_, out, _ = w.run("ls", "p")
	require.Equal(t, 2, strings.Count(out, "\n"), "it is shown once: %s", out)
}

// Very many permits are given back in several calls.
func TestBreak_ManyPermits(t *testing.T) {
	w := newWorld(t)
	_, err := w.Do("EVAL", `
		redis.call('SET', KEYS[1], 0)
		for i = 1, 2500 do redis.call('ZADD', KEYS[2], 9e15, string.format('%016d', i)) end`, "2", "p", "{p}:timeout")
	require.NoError(t, err)
	code, out, text := w.run("break", "--yes", "p")
	require.Zero(t, code, text)
	require.Contains(t, out, "held by  2480 more")
	require.Contains(t, out, "1500 more permits are taken")
	require.Less(t, len(out), 4000)
	code, out, _ = w.run("break", "--yes", "p")
	require.Zero(t, code)
	require.Contains(t, out, "500 more permits are taken")
	code, out, _ = w.run("break", "--yes", "p")
	require.Zero(t, code)
	require.NotContains(t, out, "more permits")
	code, _, _ = w.run("break", "--yes", "p")
	require.Equal(t, 1, code)
}

// break says by when the holder knows: a living holder renews its lock while at least two thirds of
// the lease are left, so the TTL is at least twice the time between two renewals.
func TestBreak_SaysWhenTheHolderKnows(t *testing.T) {
	w := newWorld(t)
	hold := func(args ...string) {
		for _, args := range [][]string{{"HSET", "a", uuid.NewString() + ":1", "1"}, args} {
			_, err := w.Do(args...)
			require.NoError(t, err)
		}
	}
	hold("PEXPIRE", "a", "7200000")
	_, out, _ := w.run("break", "--yes", "a")
	m := regexp.MustCompile(`at its next renewal, in at most (\S+), or sooner by a message\n`).FindStringSubmatch(out)
	require.NotNil(t, m, out)
	within, err := time.ParseDuration(m[1])
	require.NoError(t, err)
	require.LessOrEqual(t, within, time.Hour)
	require.Greater(t, within, time.Hour-patient)

	hold("PERSIST", "a")
	_, out, _ = w.run("break", "--yes", "a")
	require.Contains(t, out, "when it unlocks")
	require.NotContains(t, out, "at most")

	code, _, _ := w.run("run", "--keep", "1h", "a", "--", "true")
	require.Zero(t, code)
	_, out, _ = w.run("break", "--yes", "a")
	require.True(t, strings.HasSuffix(out, "broken: a\n"), "nobody is there to know: %s", out)
}
