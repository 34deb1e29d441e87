package lockmgr_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// Each call that takes a name puts Options.Prefix before it, unless it is there. Another prefix is
// another name.
func TestOptions_Prefix(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	var all []lockmgr.Event
	a := dialTroubled(t, s.Addr(), lockmgr.Options{Prefix: "a:", Observer: func(e lockmgr.Event) { all = append(all, e) }})
	b, plain := dial(t, s.Addr(), lockmgr.Options{Prefix: "b:"}), dial(t, s.Addr(), lockmgr.Options{})
	taken := func(name string) {
		t.Helper()
		for _, m := range []*lockmgr.Manager{a, plain} {
			_, err := m.TryLock(ctx, "a:"+name)
			require.ErrorIs(t, err, lockmgr.ErrNotAcquired)
			require.ErrorContains(t, err, `"a:`+name+`"`)
		}
		mustUnlock(t, must(b.TryLock(ctx, name))(t))
		mustUnlock(t, must(plain.TryLock(ctx, name))(t))
	}

	l := mustLock(t, a, "x")
	require.Equal(t, "a:x", l.Name())
	require.Equal(t, "1", faults.Do(t, s, "EXISTS", "a:x"))
	taken("x")
	require.True(t, must(a.Inspect(ctx, "x"))(t).Locked)
	require.False(t, must(b.Inspect(ctx, "x"))(t).Locked)
	names := func(m *lockmgr.Manager, prefix string) (out []string) {
		for info, err := range m.Scan(ctx, prefix) {
			require.NoError(t, err)
			out = append(out, info.Name)
		}
		return out
	}
	require.Equal(t, []string{"a:x"}, names(a, ""))
	require.Equal(t, []string{"a:x"}, names(a, "x"))
	require.Empty(t, names(b, ""))
	require.Equal(t, []string{"a:x"}, names(plain, ""))
	require.True(t, must(a.ForceUnlock(ctx, "x"))(t))

	l = must(a.LockAll(ctx, lockmgr.Set{Names: []string{"y", "a:z"}, Exclusive: []string{"w"}}, lockmgr.Fenced()))(t)
	require.Equal(t, []string{"a:w", "a:y", "a:z"}, l.Names())
	taken("y")
	taken("z")
	require.Equal(t, int64(1), l.TokenOf("y"))
	require.Equal(t, int64(1), l.TokenOf("a:w"))
	mustUnlock(t, l)

	l = must(a.Permits("p", 1).TryAcquire(ctx, 1))(t)
	require.ErrorIs(t, errOf(plain.Permits("a:p", 1).TryAcquire(ctx, 1)), lockmgr.ErrNotAcquired)
	mustUnlock(t, must(b.Permits("p", 1).TryAcquire(ctx, 1))(t))
	mustUnlock(t, l)

	require.NoError(t, a.Do(ctx, "d", func(context.Context, *lockmgr.Lock) error { taken("d"); return nil }))
	done, stop := context.WithCancel(ctx)
	require.ErrorIs(t, a.Lead(done, "e", func(context.Context, int64) error { taken("e"); stop(); return context.Canceled }), context.Canceled)

	require.ErrorIs(t, errOf(a.Lock(ctx, "")), lockmgr.ErrInvalidName)
	report := must(a.Check(ctx, ""))(t)
	require.Empty(t, report.Missing)
	mustClose(t, a)
	for _, e := range all {
		if g, ok := e.(lockmgr.EventGranted); ok {
			require.Regexp(t, "^(a:|\"a:)", g.Name)
		}
	}
}

// Prefixes do not keep the records of processes apart: see SECURITY.md. A user with the pattern of
// the records reads and forges those of other prefixes, a user that may only read does not forge
// them, and a user without it does neither.
func TestOptions_PrefixOfRecords(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	rules := func(prefix string) []string { return strings.Fields(strings.ReplaceAll(allPrivilege, "app:", prefix)) }
	without := func(rules []string) []string {
		return slices.DeleteFunc(rules, func(r string) bool { return r == "~holdfast:manager:*" })
	}
	setUser(t, s, "one", rules("one:")...)
	setUser(t, s, "two", rules("two:")...)
	setUser(t, s, "reader", append(without(rules("three:")), "%R~holdfast:manager:*")...)
	setUser(t, s, "stranger", without(rules("four:"))...)
	m := dialAs(t, s.Addr(), "one", lockmgr.Options{Prefix: "one:", Process: billing})
	mustLock(t, m, "a", lockmgr.Note("invoice 42"))
	var record string
	faults.Eventually(t, func() bool { record = faults.Do(t, s, "KEYS", "holdfast:manager:*"); return record != "" }, "the record")
	for user, may := range map[string]struct{ read, write bool }{"two": {true, true}, "reader": {true, false}, "stranger": {}} {
		client, err := rueidis.NewClient(rueidis.ClientOption{
			InitAddress: []string{s.Addr()}, Username: user, Password: secret, DisableCache: true, ForceSingleClient: true,
		})
		require.NoError(t, err)
		defer client.Close()
		do := func(words ...string) (string, error) {
			return client.Do(faults.Patient(t), client.B().Arbitrary(words[0]).Keys(words[1]).Args(words[2:]...).Build()).ToString()
		}
		require.ErrorContains(t, errOf(do("HGETALL", "one:a")), "NOPERM", user)
		text, err := do("GETRANGE", record, "0", "-1")
		if may.read {
			require.NoError(t, err, user)
			require.Contains(t, text, "billing", user)
			require.Contains(t, text, "invoice 42", user)
		} else {
			require.ErrorContains(t, err, "NOPERM", user)
		}
		if _, err = do("SET", record, text, "XX", "KEEPTTL"); may.write {
			require.NoError(t, err, user)
		} else {
			require.ErrorContains(t, err, "NOPERM", user)
		}
	}
}
