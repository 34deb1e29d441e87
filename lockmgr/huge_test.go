package lockmgr_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// hugeRecord returns fields and values of a record that n managers seem to have written.
func hugeRecord(n int) (words []string) {
	for range n {
		words = append(words, uuid.NewString()+":1", "1")
	}
	return words
}

// sent returns how many bytes the server has sent.
func sent(t *testing.T, s *redistest.Server) int {
	for line := range strings.Lines(faults.Do(t, s, "INFO", "stats")) {
		if n, ok := strings.CutPrefix(line, "total_net_output_bytes:"); ok {
			return must(strconv.Atoi(strings.TrimSpace(n)))(t)
		}
	}
	t.Fatal("no such line")
	return 0
}

// Whatever others have written, no call that looks at it reads more than a bounded part of it, and
// ForceUnlock removes a record of any size.
func TestInspect_HugeRecords(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t).Unrestricted()
	m := dial(t, s.Addr(), lockmgr.Options{Process: billing, CommandTimeout: 8 * time.Second})
	c := faults.Patient(t)
	// A record of 100,000 readers, and what has as many fields but is no lock.
	fill := `for i = 1, 100000 do redis.call('HSET', KEYS[1], string.format(ARGV[1], i), '1') end`
	faults.Do(t, s, "EVAL", fill, "1", "app:readers", "%08x-0000-4000-8000-000000000000:1")
	faults.Do(t, s, "HSET", "app:readers", "mode", "read")
	faults.Do(t, s, "PEXPIRE", "app:readers", "3600000")
	faults.Do(t, s, "EVAL", fill, "1", "app:users", "user%d")
	// A token and a record of a process of 64 MiB, and a field, its value, a place in a queue and a
	// permit of 8 MiB.
	text := func(command string, words ...string) {
		faults.Do(t, s, append([]string{"EVAL", "local long = '7'; for _ = 1, 23 do long = long .. long end; " + command, "1"}, words...)...)
	}
	faults.Do(t, s, "SETRANGE", "redisson_lock_token:{app:held}", "67108863", "7")
	held := mustLock(t, dial(t, s.Addr(), lockmgr.Options{}), "app:held")
	manager, _, _ := strings.Cut(held.HolderID(), ":")
	faults.Do(t, s, "SETRANGE", "holdfast:manager:"+strings.ReplaceAll(manager, "-", "")[:16], "67108863", "7")
	text("redis.call('HSET', KEYS[1], long, 1)", "app:longfield")
	text("redis.call('HSET', KEYS[1], ARGV[1], long)", "app:longvalue", manager+":9")
	text("redis.call('HSET', KEYS[1], ARGV[1], 1); redis.call('RPUSH', 'redisson_lock_queue:{app:queue}', long)", "app:queue", manager+":9:f")
	faults.Do(t, s, "SET", "app:permits", "1")
	text("redis.call('ZADD', '{app:permits}:timeout', 9e15, long)", "app:permits")

	read := func(what string, f func()) {
		t.Helper()
		before := sent(t, s)
		f()
		n := sent(t, s) - before
		t.Logf("%s reads %d bytes", what, n)
		require.Less(t, n, 2<<20, what)
	}
	info := func(name string) (info lockmgr.Info) {
		t.Helper()
		read("Inspect of "+name, func() { info = mustInspect(t, m, name) })
		return info
	}
	readers := info("app:readers")
	require.Equal(t, 100_000, readers.HolderCount)
	require.Equal(t, "read", readers.Mode)
	require.Greater(t, len(readers.Holders), 500)
	require.Less(t, len(readers.Holders), 5000)
	require.Len(t, info("app:held").Holders, 1)
	require.Len(t, info("app:longfield").Holders, 1)
	require.Equal(t, manager+":9", info("app:longvalue").Holders[0].Owner)
	require.Len(t, info("app:queue").Queue, 1)
	read("Inspect of permits", func() { _, _ = m.Permits("app:permits", 1).Inspect(c) })
	read("Scan", func() {
		found := map[string]int{}
		for info, err := range m.Scan(c, "app:") {
			require.NoError(t, err)
			found[info.Name] = info.HolderCount
		}
		require.Equal(t, 100_000, found["app:readers"])
		require.NotContains(t, found, "app:users")
		require.NotContains(t, found, "app:longfield")
	})
	read("Explain", func() {
		_, err := m.Lock(endsIn(t, 10*time.Millisecond), "app:held")
		require.ErrorIs(t, err, lockmgr.ErrNotAcquired)
		require.ErrorContains(t, m.Explain(c, err), held.HolderID())
	})
	force := func(name string) (removed bool, err error) {
		read("ForceUnlock of "+name, func() { removed, err = m.ForceUnlock(c, name) })
		require.Equal(t, fmt.Sprint(map[bool]int{true: 1}[err != nil]), faults.Do(t, s, "EXISTS", name))
		return removed, err
	}
	// Of more readers than Inspect reads, those stay that are not named.
	faults.Do(t, s, "EVAL", strings.Replace(fill, "100000", "2000", 1), "1", "app:some", "%08x-0000-4000-8000-000000000000:1")
	faults.Do(t, s, "HSET", "app:some", "mode", "read")
	some := info("app:some").Holders
	faults.Do(t, s, "SET", "{app:some}:"+some[1].Owner+":rwlock_timeout:1", "1", "PX", "3600000")
	require.True(t, must(m.ForceUnlockHolders(c, "app:some", some[0].Owner))(t))
	require.Equal(t, "1", faults.Do(t, s, "HEXISTS", "app:some", some[1].Owner))
	for _, name := range []string{"app:users", "app:longfield"} {
		require.ErrorIs(t, errOf(force(name)), lockmgr.ErrWrongType, name)
	}
	for _, name := range []string{"app:readers", "app:longvalue", "app:queue", "app:held"} {
		require.True(t, must(force(name))(t, name), name)
	}
}

// What has more than 16 MiB is no lock: to read it would keep the server busy for seconds.
func TestInspect_LargeData(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t).Unrestricted()
	m := dial(t, s.Addr(), lockmgr.Options{})
	c := faults.Patient(t)
	fill := func(command, key string) {
		faults.Do(t, s, "EVAL", "local long = '7'; for _ = 1, 17 do long = long .. long end; for i = 1, 300 do "+command+" end", "1", key)
	}
	id := "'00000000-0000-4000-8000-000000000000:' .. i"
	fill("redis.call('HSET', KEYS[1], "+id+" .. long, 1)", "names")
	fill("redis.call('HSET', KEYS[1], "+id+", long)", "values")
	faults.Do(t, s, "SET", "permits", "3")
	fill("redis.call('ZADD', KEYS[1], 9e15, i .. long)", "{permits}:timeout")
	fill("redis.call('RPUSH', KEYS[1], i .. long)", "redisson_lock_queue:{fair}")
	faults.Do(t, s, "HSET", "fair", "00000000-0000-4000-8000-000000000000:1:f", "1")
	fill("for j = 1, 20 do redis.call('HSET', KEYS[1], "+id+" .. ':' .. j, string.sub(long, 1, 20000)) end", "many")
	for _, name := range []string{"names", "values", "many"} {
		require.ErrorIs(t, errOf(m.Inspect(c, name)), lockmgr.ErrWrongType, name)
		require.ErrorIs(t, errOf(m.ForceUnlock(c, name)), lockmgr.ErrWrongType, name)
	}
	require.ErrorIs(t, errOf(m.Permits("permits", 3).Inspect(c)), lockmgr.ErrWrongType)
	require.Empty(t, mustInspect(t, m, "fair").Queue)
	for info, err := range m.Scan(c, "") {
		require.NoError(t, err)
		require.Equal(t, "fair", info.Name)
	}
	require.True(t, must(m.ForceUnlock(c, "fair"))(t))
}

// A counter of tokens that is none hides no holder.
func TestInspect_BrokenCounter(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	m := dial(t, s.Addr(), lockmgr.Options{})
	held := mustLock(t, m, "a")
	faults.Do(t, s, "SADD", "redisson_lock_token:{a}", "x")
	info := mustInspect(t, m, "a")
	require.Equal(t, held.HolderID(), info.Holders[0].Owner)
	require.Zero(t, info.Token)
}
