package lockmgr_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

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
	see := func(e lockmgr.Event) { all = append(all, e) }
	a := dialTroubled(t, s.Addr(), lockmgr.Options{Prefix: "a:", Observer: see})
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
	require.ErrorContains(t, errOf(a.ForceUnlockHolders(ctx, "x")), `"a:x"`)
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

// Whatever key or channel the library uses on a server, beside the names of locks, is refused as a
// name: otherwise one would destroy the other.
func TestName_KeysOfTheLibraryAreRefused(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, "--notify-keyspace-events", "KA").Unrestricted()
	var mu sync.Mutex
	seen := make(map[string]bool) // keys that were written, and channels with a message or a subscriber
	watch(t, s.Addr(), func(channel string) {
		mu.Lock()
		defer mu.Unlock()
		seen[strings.TrimPrefix(channel, "__keyspace@0__:")] = true
	})
	ctx := faults.Patient(t)
	o := lockmgr.Options{Process: lockmgr.Process{Program: "test"}, Lease: 3 * time.Second}
	managers := []*lockmgr.Manager{dial(t, s.Addr(), o), dial(t, s.Addr(), o)}
	var names []string
	for _, name := range []string{"plain", "with{brace}"} {
		for kind, opts := range map[string][]lockmgr.LockOption{
			"plain:": {lockmgr.Fenced()}, "fair:": {lockmgr.Fair(), lockmgr.Fenced()},
			"read:": {lockmgr.Shared(), lockmgr.Fenced()}, "write:": {lockmgr.Exclusive()},
		} {
			names = append(names, kind+name)
			held := mustLock(t, managers[0], kind+name, opts...)
			if kind == "read:" {
				opts = []lockmgr.LockOption{lockmgr.Exclusive()}
			}
			f := managers[1].LockAsync(kind+name, opts...)
			requirePending(t, f, "another manager holds it")
			if kind == "plain:" {
				faults.Eventually(t, func() bool { return strings.Contains(faults.Do(t, s, "KEYS", "*_line"), kind+name) })
			}
			time.Sleep(20 * time.Millisecond) // both subscribe
			for _, channel := range strings.Fields(faults.Do(t, s, "PUBSUB", "CHANNELS")) {
				mu.Lock()
				seen[channel] = true
				mu.Unlock()
			}
			mustUnlock(t, held)
			mustUnlock(t, mustAwait(t, f))
		}
		names = append(names, "permits:"+name)
		p, q := managers[0].Permits("permits:"+name, 2), managers[1].Permits("permits:"+name, 2)
		one := mustAcquire(t, p, 1)
		f := q.AcquireAsync(2)
		if name == "plain" { // the record of the process is written meanwhile
			faults.Eventually(t, func() bool { return faults.Do(t, s, "KEYS", "holdfast:manager:*") != "" })
		}
		mustUnlock(t, one)
		mustUnlock(t, mustAwait(t, f))
	}
	l := must(managers[0].LockAll(ctx, lockmgr.Set{Names: []string{"plain:plain"}, Shared: []string{"read:plain"}, Exclusive: []string{"write:plain"}}))(t)
	mustUnlock(t, l)
	faults.Eventually(t, func() bool {
		mu.Lock()
		defer mu.Unlock()
		for key := range seen {
			if strings.HasPrefix(key, "holdfast:manager:") {
				return true
			}
		}
		return false
	})

	mu.Lock()
	keys := slices.Sorted(maps.Keys(seen))
	mu.Unlock()
	reserved := 0
	for _, key := range keys {
		if slices.Contains(names, key) {
			continue
		}
		reserved++
		require.ErrorIs(t, errOf(managers[0].TryLock(ctx, key)), lockmgr.ErrInvalidName, "%q", key)
		require.ErrorIs(t, errOf(managers[0].TryLockAll(ctx, lockmgr.All(key))), lockmgr.ErrInvalidName, "%q", key)
		require.ErrorIs(t, errOf(managers[0].Permits(key, 1).TryAcquire(ctx, 1)), lockmgr.ErrInvalidName, "%q", key)
		require.ErrorIs(t, errOf(managers[0].ForceUnlock(ctx, key)), lockmgr.ErrInvalidName, "%q", key)
	}
	t.Log(keys)
	for _, part := range []string{
		"redisson_lock__channel:", "redisson_lock_token:", "redisson_lock_queue:", "redisson_lock_timeout:", "redisson_rwlock:",
		"redisson_sc:", ":rwlock_timeout:", ":timeout", ":line", ":wants", ":lock_line", ":lock_wants", ":tag_line", ":tag_wants", "holdfast:manager:",
	} {
		require.True(t, slices.ContainsFunc(keys, func(key string) bool { return strings.Contains(key, part) }), "no %s was seen", part)
	}
	require.Greater(t, reserved, 20)
}

// watch calls f with the channel of every message on a server.
func watch(t *testing.T, addr string, f func(channel string)) {
	client := must(rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, ForceSingleClient: true, DisableCache: true}))(t)
	t.Cleanup(client.Close)
	c, cancel := client.Dedicate()
	t.Cleanup(cancel)
	c.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: func(m rueidis.PubSubMessage) { f(m.Channel) }})
	require.NoError(t, c.Do(faults.Patient(t), c.B().Psubscribe().Pattern("*").Build()).Error())
}
