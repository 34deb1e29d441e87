package lockmgr_test

import (
	"context"
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

// scan returns what Scan finds, by name. Each name must come once.
func scan(t *testing.T, m *lockmgr.Manager, prefix string) map[string]lockmgr.Info {
	t.Helper()
	found := map[string]lockmgr.Info{}
	for info, err := range m.Scan(faults.Patient(t), prefix) {
		require.NoError(t, err)
		require.NotContains(t, found, info.Name)
		found[info.Name] = info
	}
	return found
}

// Scan finds the locks of each kind, also those of Redisson, and nothing else.
func TestScan_EveryKind(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t).Unrestricted()
	m := dial(t, s.Addr(), lockmgr.Options{Process: billing})
	other := dial(t, s.Addr(), lockmgr.Options{})
	note := lockmgr.Note("n")
	for name, opts := range map[string][]lockmgr.LockOption{
		"app:plain": {}, "app:fair": {lockmgr.Fair()}, "app:read": {lockmgr.Shared()}, "app:write": {lockmgr.Exclusive()},
		"app:kept": {lockmgr.KeepFor(time.Hour)}, "app:{tag}x": {}, "other": {}, "ap": {}, "xapp:x": {},
	} {
		mustLock(t, m, name, append(opts, note)...)
	}
	mustLockAll(t, m, lockmgr.Set{Names: []string{"app:s1"}, Shared: []string{"app:s2"}}, note)
	for _, name := range []string{"app:permits", "app:{p}ermits", "other:permits"} {
		mustAcquire(t, m.Permits(name, 3), 2, note)
	}
	waiting := other.LockAsync("app:plain")
	defer waiting.Cancel()

	java := uuid.NewString() + ":17"
	for _, words := range [][]string{
		{"HSET", "app:java", java, "2"},
		{"HSET", "app:user", "name", "Ann"}, {"HSET", "app:mode", "mode", "dark"}, {"SET", "app:string", "x"}, {"RPUSH", "app:list", "x"},
		{"ZADD", "app:zset", "1", "x"}, {"ZADD", "{app:z}:timeout", "1", "x"}, {"HSET", "redisson_lock_queue:{app:q}:waits", java, "1"},
		{"ZADD", "redisson_lock_timeout:{app:q}", "1", "x"}, {"SET", "app:free", "3"}, {"HSET", "app:half", java, "1", "x", "1"},
	} {
		faults.Do(t, s, words...)
	}
	big := []string{"HSET", "app:big"}
	for range 1001 {
		big = append(big, uuid.NewString()+":1", "1")
	}
	faults.Do(t, s, big...)

	own := scan(t, m, "app:")
	kinds := map[string]string{}
	for name, info := range own {
		kinds[name] = info.Kind
		require.True(t, info.Locked, name)
		if name != "app:java" && name != "app:big" && info.Permits == nil {
			require.Equal(t, "n", info.Holders[0].Note, name)
		}
	}
	require.Equal(t, map[string]string{
		"app:plain": "plain", "app:fair": "fair", "app:read": "read-write", "app:write": "read-write", "app:kept": "plain", "app:{tag}x": "plain",
		"app:s1": "plain", "app:s2": "read-write", "app:permits": "permits", "app:{p}ermits": "permits", "app:java": "plain", "app:big": "plain",
	}, kinds)
	require.Equal(t, 1001, own["app:big"].HolderCount)
	require.Equal(t, []lockmgr.Holder{{Owner: java, Count: 2}}, own["app:java"].Holders)

	faults.Eventually(t, func() bool {
		found := scan(t, other, "app:")
		for name, info := range found {
			if name == "app:java" || name == "app:big" {
				continue
			}
			if p := info.Permits; p != nil {
				require.Len(t, p.Taken, 2)
				require.Equal(t, 1, p.Free)
				if p.Taken[1].Process != billing || p.Taken[1].Note != "n" || p.Taken[1].Since.IsZero() {
					return false
				}
			} else if info.Holders[0].Process != billing || info.Holders[0].Note != "n" || info.Holders[0].Since.IsZero() {
				return false
			}
		}
		return len(found) == len(own) && found["app:plain"].Waiting == 1
	}, "a second after the grants the other manager sees who has them")
	require.Contains(t, scan(t, other, ""), "other")
	require.Contains(t, scan(t, other, ""), "other:permits")
	require.Empty(t, scan(t, other, "app:plain:"))
}

// A prefix is not a pattern.
func TestScan_PrefixIsNoPattern(t *testing.T) {
	_, m, _ := startServer(t, lockmgr.Options{})
	names := []string{`a*b`, `a?b`, `a[x]b`, `a\b`, `a^b`, "a\x00b", "a-b", "axb", "aéb"}
	for _, name := range names {
		mustLock(t, m, name)
		mustAcquire(t, m.Permits("p"+name, 1), 1)
	}
	for _, name := range names {
		for _, prefix := range []string{name, "p" + name} {
			found := scan(t, m, prefix)
			require.Len(t, found, 1, prefix)
			require.Contains(t, found, prefix)
		}
	}
}

// Locks among tens of thousands of other keys are found, each once, and the walk can be stopped.
func TestScan_ManyKeys(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t).Unrestricted()
	m := dial(t, s.Addr(), lockmgr.Options{Anonymous: true})
	faults.Do(t, s, "EVAL", "for i = 1, 30000 do redis.call('SET', 'key' .. i, i) end", "0")
	for i := range 300 {
		mustLock(t, m, fmt.Sprint("a:", i))
	}
	require.Len(t, scan(t, m, "a:"), 300)
	n := 0
	for range m.Scan(faults.Patient(t), "a:") {
		if n++; n == 5 {
			break
		}
	}
	require.Equal(t, 5, n)
	faults.Do(t, s, "CONFIG", "RESETSTAT")
	scan(t, m, "a:17")
	require.LessOrEqual(t, s.Commands(t)["scan"], 2*31+10, "each SCAN is for about 1,000 keys")
	require.Equal(t, 2*11, s.Commands(t)["hlen"], "of the record, and of the line")
}

// An error ends the walk: of the server, of the context, or of a manager that is closed.
func TestScan_Errors(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	setUser(t, s, "locker", "+@all", "-scan", "~*", "&*")
	m := dialAs(t, s.Addr(), "locker", lockmgr.Options{CommandTimeout: slow})
	fails := func(ctx context.Context, m *lockmgr.Manager) error {
		n := 0
		var failed error
		for info, err := range m.Scan(ctx, "") {
			require.Error(t, err)
			require.Zero(t, info)
			n, failed = n+1, err
		}
		require.Equal(t, 1, n)
		return failed
	}
	requireServerError(t, lockmgr.ErrPermission, fails(faults.Patient(t), m))
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	require.ErrorIs(t, fails(ended, m), context.Canceled)
	silent := dial(t, s.Addr(), lockmgr.Options{CommandTimeout: 50 * time.Millisecond})
	s.Freeze()
	require.ErrorIs(t, fails(faults.Patient(t), silent), lockmgr.ErrUnavailable)
	s.Thaw()
	faults.Eventually(t, func() bool {
		for _, err := range silent.Scan(faults.Patient(t), "") {
			return err == nil
		}
		return true
	})
	mustClose(t, silent)
	require.ErrorIs(t, fails(faults.Patient(t), silent), lockmgr.ErrClosed)
}

// In a cluster Scan walks over all masters, and a record of who holds a lock may be on another one.
func TestScan_Cluster(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3, 0)
	m, other := dialCluster(t, c, lockmgr.Options{Process: billing}), dialCluster(t, c, lockmgr.Options{})
	names := map[string]bool{}
	for i := range 100 {
		name := fmt.Sprint("a:", i)
		names[name] = true
		mustLock(t, m, name)
	}
	mustAcquire(t, m.Permits("a:p", 3), 1)
	faults.Eventually(t, func() bool {
		found := scan(t, other, "a:")
		require.Len(t, found, len(names)+1)
		for name := range names {
			if found[name].Holders[0].Process != billing {
				return false
			}
		}
		return found["a:p"].Permits.Taken[0].Process == billing
	})
}

// Scan finds the locks of a slot that is being moved, if one master has all keys of a lock. A key
// of permits may be of another name, which the masters refuse meanwhile.
func TestScan_InASlotThatIsMoving(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 2, 0)
	m := dialCluster(t, c, lockmgr.Options{})
	for _, form := range []string{"{a%d}", "b%d"} {
		name := c.Movable(t, form)
		lock := "lock:{" + strings.Trim(name, "{}") + "}"
		mustLock(t, m, lock)
		mustAcquire(t, m.Permits(name, 3), 1)
		moving := c.BeginMove(t, name)
		for range 2 {
			found := scan(t, m, "")
			require.Contains(t, found, lock)
			require.Contains(t, found, name)
			moving.Migrate(moving.Keys(moving.From)...)
		}
		moving.Finish()
	}
}

// No name makes Scan costly for the server: its patterns take linear time. A prefix behind a star
// took seconds for one long name, in which the server did nothing else.
func TestScan_LongRepetitiveNames(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t).Unrestricted()
	m := dial(t, s.Addr(), lockmgr.Options{})
	for _, prefix := range []string{"", "a", strings.Repeat("a", 30<<10), strings.Repeat("a", 30<<10) + "b", ":timeout"} {
		for i, part := range []string{"a", ":timeout", ":timeou", "{a", "a}"} {
			long := strings.Repeat(part, 64<<10/len(part))
			faults.Do(t, s, "ZADD", long+fmt.Sprint(i), "1", "x")
			faults.Do(t, s, "HSET", long+fmt.Sprint(i)+"h", "x", "1")
		}
		before := serverCPU(t, s)
		scan(t, m, prefix)
		took := serverCPU(t, s) - before
		t.Logf("the scans with a prefix of %d bytes took %.3f s", len(prefix), took)
		require.Less(t, took, 1.0)
	}
}

// serverCPU returns the user CPU time of a server in seconds. Other programs do not count.
func serverCPU(t *testing.T, s *redistest.Server) float64 {
	t.Helper()
	_, rest, _ := strings.Cut(faults.Do(t, s, "INFO", "cpu"), "used_cpu_user:")
	seconds, _, _ := strings.Cut(rest, "\r\n")
	return must(strconv.ParseFloat(seconds, 64))(t)
}

// A holder that had to wait is not counted, although its manager goes on listening.
func TestInspect_CountsWhoWaits(t *testing.T) {
	s, m, other := startServer(t, lockmgr.Options{})
	third := dial(t, s.Addr(), lockmgr.Options{})
	for name, title := range map[string]string{"plain": "plain", "{plain}": "plain", "writer": "writer", "permits": "permits"} {
		ask := kindOf(title).ask
		waiting := func() int64 {
			if title == "permits" {
				return must(third.Permits(name, 1).Inspect(t.Context()))(t).Waiting
			}
			return mustInspect(t, third, name).Waiting
		}
		first := mustAwait(t, ask(m, name))
		require.Zero(t, waiting(), name)
		f := ask(other, name)
		faults.Eventually(t, func() bool { return waiting() == 1 })
		mustUnlock(t, first)
		second := mustAwait(t, f)
		faults.Eventually(t, func() bool { return waiting() == 0 })
		require.NotZero(t, other.Stats().Subscriptions, name)
		mustUnlock(t, second)
	}
}
