package lockmgr_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// allPrivilege has the rules of docs/redis.md for locks of all kinds.
const allPrivilege = leastPrivilege + " " + otherPrivilege

// otherPrivilege has those that plain locks do not need.
const otherPrivilege = readWritePrivilege + " " + permitsPrivilege + " " + fairPrivilege + " " + watchPrivilege

// Check names each single rule that is missing. It returns an error only if plain locks need the
// rule.
func TestCheck_NamesWhatIsMissing(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	rules := strings.Fields(allPrivilege)
	optional := map[string]bool{
		"+script|load": true, "+pubsub|numsub": true, "+subscribe": true, "+ping": true, "+incrby": true, "+get": true,
		"+hgetall": true, "+hscan": true, "+getrange": true, "+memory|usage": true, "+unlink": true, "~redisson_lock_token:{app:*": true,
	}
	for rule := range strings.FieldsSeq(otherPrivilege) {
		optional[rule] = true
	}
	seen := map[string]bool{}
	for _, rule := range rules {
		if seen[rule] {
			continue
		}
		seen[rule] = true
		if rule == "-@all" || rule == "resetchannels" || rule == "+unsubscribe" {
			continue // without unsubscribe, subscriptions last as long as their connection
		}
		t.Run(rule, func(t *testing.T) {
			t.Parallel()
			user := "without" + rule
			rest := slices.DeleteFunc(slices.Clone(rules), func(r string) bool { return r == rule })
			setUser(t, s, user, rest...)
			m := dialAs(t, s.Addr(), user, lockmgr.Options{CommandTimeout: slow})
			report, err := m.Check(faults.Patient(t), "app:")
			var named []string
			for _, p := range report.Missing {
				named = append(named, p.Rule)
				require.NotEmpty(t, p.For)
			}
			switch rule {
			case "~app:*":
				require.Contains(t, named, rule)
			default:
				require.Equal(t, []string{rule}, named)
			}
			if optional[rule] {
				require.NoError(t, err)
				require.True(t, report.Missing[0].Optional)
				require.Equal(t, rule == "+info", report.Server == "")
				return
			}
			requireServerError(t, lockmgr.ErrPermission, err, rule)
		})
	}
}

func TestReport_String(t *testing.T) {
	r := lockmgr.Report{
		Server:   "Redis 7.0.15",
		Missing:  []lockmgr.Permission{{Rule: "+hset", For: "every lock", Nodes: []string{"a:1", "b:1"}}, {Rule: "+get", For: "Fenced", Optional: true}},
		Warnings: []string{"the server evicts keys"},
	}
	require.Equal(t, "server: Redis 7.0.15\nmissing: +hset (every lock) at a:1, b:1\nmissing: +get (Fenced), not needed by plain locks\nwarning: the server evicts keys", r.String())
	require.Empty(t, lockmgr.Report{}.String())
}

func TestCheck_Warns(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru").Unrestricted() // INFO
	m := dial(t, s.Addr(), lockmgr.Options{})
	report := must(m.Check(faults.Patient(t), ""))(t)
	require.Len(t, report.Warnings, 1)
	require.Contains(t, report.Warnings[0], "allkeys-lru")
	require.Regexp(t, `^(redis|valkey) \d`, report.Server)

	faults.Do(t, s, "CONFIG", "SET", "maxmemory-policy", "noeviction", "maxmemory", "1")
	requireServerError(t, lockmgr.ErrOutOfMemory, errOf(m.Check(faults.Patient(t), "")))
	faults.Do(t, s, "CONFIG", "SET", "maxmemory", "0")
	require.Equal(t, "0", faults.Do(t, s, "DBSIZE"))
}

func TestCheck_OnTheEmbeddedServer(t *testing.T) {
	addr, mini := redistest.Mini(t)
	m := dial(t, addr, lockmgr.Options{})
	must(m.Check(faults.Patient(t), ""))(t)
	require.Empty(t, mini.Keys())
	require.Zero(t, m.Stats().RenewalScripts, "Check renews no lease of the manager")

	require.ErrorIs(t, errOf(m.Check(faults.Patient(t), "redisson_lock_token:{")), lockmgr.ErrInvalidName)
	require.ErrorIs(t, errOf(m.Check(faults.Patient(t), strings.Repeat("x", lockmgr.MaxNameBytes))), lockmgr.ErrInvalidName)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, errOf(m.Check(ended, "")), context.Canceled)
}

// Check succeeds with any lease, whatever time-outs are derived from it.
func TestCheck_WithAnyLease(t *testing.T) {
	for _, lease := range []time.Duration{100 * milli, 10 * second, 20 * second} {
		bubble(t, func(t *testing.T, w *scene) { // on a busy machine a time-out of 10 ms would be too short
			m, _ := w.manager(lockmgr.Options{Lease: lease})
			must(m.Check(ctx, ""))(t, lease)
		})
	}
}

// Check works while locks are taken and released by the same manager. Its commands share batches
// with theirs.
func TestCheck_WhileLocksAreTaken(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	setUser(t, s, "locker", strings.Fields(strings.ReplaceAll(leastPrivilege, "+del ", ""))...)
	m := dialAs(t, s.Addr(), "locker", lockmgr.Options{})
	var stop atomic.Bool
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			for !stop.Load() {
				if l, err := m.TryLock(ctx, fmt.Sprint("app:", i)); err == nil {
					_ = l.Unlock(ctx)
				}
			}
		})
	}
	for range 50 {
		report, err := m.Check(faults.Patient(t), "app:")
		require.ErrorIs(t, err, lockmgr.ErrPermission)
		needed := slices.DeleteFunc(report.Missing, func(p lockmgr.Permission) bool { return p.Optional })
		require.Len(t, needed, 1)
		require.Equal(t, "+del", needed[0].Rule)
	}
	stop.Store(true)
	wg.Wait()
}

func TestCheck_CrossesClose(t *testing.T) {
	addr, mini := redistest.Mini(t)
	for i := range 40 {
		m := must(lockmgr.Dial(rueidis.ClientOption{InitAddress: []string{addr}}, lockmgr.Options{}))(t)
		got := make(chan error, 1)
		go func() { _, err := m.Check(ctx, ""); got <- err }()
		for m.Stats().Scripts == 0 && len(got) == 0 && i > 0 {
			i-- // closes a little later in each round
		}
		mustClose(t, m)
		if err := <-got; err != nil && !errors.Is(err, lockmgr.ErrUnavailable) { // a command under way was cut off
			require.ErrorIs(t, err, lockmgr.ErrClosed)
		}
	}
	for _, key := range mini.Keys() {
		require.Positive(t, mini.TTL(key), "a key that is left expires")
	}
}
