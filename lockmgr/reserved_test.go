package lockmgr_test

import (
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
		return slices.ContainsFunc(sortedKeys(seen), func(key string) bool { return strings.HasPrefix(key, "holdfast:manager:") })
	})

	mu.Lock()
	keys := sortedKeys(seen)
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

func sortedKeys(seen map[string]bool) (keys []string) {
	for key := range seen {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
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
