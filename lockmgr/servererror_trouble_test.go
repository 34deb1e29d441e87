package lockmgr_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// passingTroubles are a server's troubles that end one day.
var passingTroubles = []struct {
	what       string
	args       []string // of the server
	begin, end func(t testing.TB, s *redistest.Server)
	kind       error
}{
	{
		what:  "READONLY",
		begin: func(t testing.TB, s *redistest.Server) { faults.Do(t, s, "REPLICAOF", "127.0.0.1", closedPort(t)) },
		end:   func(t testing.TB, s *redistest.Server) { faults.Do(t, s, "REPLICAOF", "NO", "ONE") },
		kind:  lockmgr.ErrReadOnly,
	},
	{
		what:  "MASTERDOWN",
		args:  []string{"--replica-serve-stale-data", "no"},
		begin: func(t testing.TB, s *redistest.Server) { faults.Do(t, s, "REPLICAOF", "127.0.0.1", closedPort(t)) },
		end:   func(t testing.TB, s *redistest.Server) { faults.Do(t, s, "REPLICAOF", "NO", "ONE") },
		kind:  lockmgr.ErrUnavailable,
	},
	{
		what: "NOREPLICAS",
		begin: func(t testing.TB, s *redistest.Server) {
			faults.Do(t, s, "CONFIG", "SET", "min-replicas-to-write", "1")
		},
		end: func(t testing.TB, s *redistest.Server) {
			faults.Do(t, s, "CONFIG", "SET", "min-replicas-to-write", "0")
		},
		kind: lockmgr.ErrReadOnly,
	},
	{
		what: "MISCONF",
		args: []string{"--enable-protected-configs", "yes"},
		begin: func(t testing.TB, s *redistest.Server) {
			// A folder is where the file should go, so it can't be saved.
			dir := strings.TrimPrefix(faults.Do(t, s, "CONFIG", "GET", "dir"), "dir\n")
			require.NoError(t, os.Mkdir(filepath.Join(dir, "occupied"), 0o700))
			faults.Do(t, s, "CONFIG", "SET", "dbfilename", "occupied")
			faults.Do(t, s, "CONFIG", "SET", "save", "3600 1000000")
			faults.Do(t, s, "BGSAVE")
			require.Eventually(t, func() bool {
				return strings.Contains(faults.Do(t, s, "INFO", "persistence"), "rdb_last_bgsave_status:err")
			}, faults.Patience, 5*time.Millisecond)
		},
		end: func(t testing.TB, s *redistest.Server) {
			faults.Do(t, s, "CONFIG", "SET", "stop-writes-on-bgsave-error", "no")
		},
		kind: lockmgr.ErrReadOnly,
	},
	{
		what: "CLUSTERDOWN",
		args: []string{"--cluster-enabled", "yes", "--cluster-require-full-coverage", "no"}, // a cluster of one, without slots
		end:  func(t testing.TB, s *redistest.Server) { faults.Do(t, s, "CLUSTER", "ADDSLOTSRANGE", "0", "16383") },
		kind: lockmgr.ErrUnavailable,
	},
	{
		what: "BUSY",
		args: []string{"--lua-time-limit", "20"},
		begin: func(t testing.TB, s *redistest.Server) {
			w := dialWire(t, s.Addr())
			require.NoError(t, w.write("EVAL", "while true do end", "0"))
			require.Eventually(t, func() bool {
				_, err := s.Do("GET", "x")
				return err != nil && strings.HasPrefix(err.Error(), "BUSY")
			}, faults.Patience, 5*time.Millisecond)
		},
		end:  func(t testing.TB, s *redistest.Server) { faults.Do(t, s, "SCRIPT", "KILL") },
		kind: lockmgr.ErrUnavailable,
	},
	{
		what:  "down",
		begin: func(t testing.TB, s *redistest.Server) { s.Kill() },
		end:   func(t testing.TB, s *redistest.Server) { s.Restart() },
		kind:  lockmgr.ErrUnavailable,
	},
}

// Who won't wait is told at once; who waits, after RetryTime, unless the
// trouble has passed by then.
func TestServerError_PassingTrouble(t *testing.T) {
	t.Parallel()
	for _, tt := range passingTroubles {
		t.Run(tt.what, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t, tt.args...)
			w := faults.NewWitness()
			hasty := dial(t, s.Addr(), lockmgr.Options{RetryTime: 50 * time.Millisecond})
			steady := dial(t, s.Addr(), lockmgr.Options{RetryTime: time.Minute, Observer: w.Observe})
			if tt.begin != nil {
				tt.begin(t, s)
			}
			waiting := steady.LockAsync("a")
			faults.AwaitEvent(t, w, func(e lockmgr.EventCommandFailed) bool { return e.Consecutive == 2 && errors.Is(e.Err, tt.kind) })

			_, err := hasty.TryLock(faults.Patient(t), "b")
			requireServerError(t, tt.kind, err)
			require.EqualValues(t, 1, hasty.Stats().Failures, "one try")
			_, err = hasty.Lock(faults.Patient(t), "c") // how often it tries depends on the machine
			requireServerError(t, tt.kind, err)
			known := hasty.Stats().Locks
			_, err = hasty.TryLock(faults.Patient(t), "d")
			requireServerError(t, tt.kind, err)
			// A busy machine may answer a try after RetryTime.
			require.Eventually(t, func() bool { return hasty.Stats().Locks <= known }, faults.Patience, time.Millisecond,
				"what did not run leaves nothing to clean up")
			_, err = hasty.Inspect(faults.Patient(t), "d")
			if err != nil { // what only reads may work
				requireServerError(t, tt.kind, err)
			}

			require.False(t, faults.Settled(waiting), "it waits")
			tt.end(t, s)
			l, err := waiting.Await(faults.Patient(t))
			require.NoError(t, err)
			require.NoError(t, l.Unlock(faults.Patient(t)))
			require.Eventually(t, func() bool {
				l, err = hasty.Lock(faults.Patient(t), "b")
				return !lockmgr.Temporary(err) // it waits for 50 ms only
			}, faults.Patience, time.Millisecond)
			require.NoError(t, err)
			require.NoError(t, l.Unlock(faults.Patient(t)))
		})
	}
}

// A server that is out of memory grants nothing, but what is held can be
// renewed, passed on and, every time, given back.
func TestServerError_OutOfMemory(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	w := faults.NewWitness()
	m := dial(t, s.Addr(), lockmgr.Options{Lease: 2 * time.Second, CommandTimeout: slow, Observer: w.Observe})
	var held []*lockmgr.Lock
	for i := range 50 {
		l, err := m.Lock(ctx, fmt.Sprint("held", i))
		require.NoError(t, err)
		held = append(held, l)
	}
	next := m.LockAsync("held0")
	faults.Do(t, s, "CONFIG", "SET", "maxmemory", "1")

	before := m.Stats().Scripts - m.Stats().RenewalScripts
	_, err := m.TryLock(ctx, "new")
	requireServerError(t, lockmgr.ErrOutOfMemory, err)
	_, err = m.LockAsync("new").Await(faults.Patient(t))
	requireServerError(t, lockmgr.ErrOutOfMemory, err)
	require.EqualValues(t, 2, m.Stats().Scripts-m.Stats().RenewalScripts-before, "one try each")

	require.NoError(t, held[0].Unlock(faults.Patient(t)))
	held[0], err = next.Await(faults.Patient(t))
	require.NoError(t, err)

	// Twice: the first may have been on its way before.
	seen := m.Stats().Renewals
	require.Eventually(t, func() bool { return m.Stats().Renewals > seen+2*uint64(len(held)) }, faults.Patience, 5*time.Millisecond)
	for i, l := range held {
		require.NoError(t, l.Err(), i)
		require.NoError(t, l.Unlock(faults.Patient(t)), i)
		require.Equal(t, "0", faults.Do(t, s, "EXISTS", l.Name()))
	}
	requireAtRest(t, m)
	faults.Do(t, s, "CONFIG", "SET", "maxmemory", "0")
	l, err := m.Lock(faults.Patient(t), "new")
	require.NoError(t, err)
	require.NoError(t, l.Unlock(ctx))
}

// A server that dies under a holder: the loss is known by the deadline, and
// when the server is back all goes on as if nothing had been.
func TestServerError_KilledWhileHolding(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	w := faults.NewWitness()
	m := dial(t, s.Addr(), lockmgr.Options{Lease: time.Second, CommandTimeout: slow, RetryTime: time.Minute, Observer: w.Observe})
	l, err := m.Lock(ctx, "held")
	require.NoError(t, err)
	hasty := dial(t, s.Addr(), lockmgr.Options{RetryTime: 100 * time.Millisecond})
	unlocked, err := hasty.Lock(ctx, "unlocked")
	require.NoError(t, err)
	work := l.Context(ctx)
	waiting := m.LockAsync("held")

	s.Kill()
	left, start := l.Remaining(), time.Now()
	requireServerError(t, lockmgr.ErrUnavailable, unlocked.Unlock(faults.Patient(t)))
	faults.AwaitLost(t, l)
	<-work.Done()
	require.False(t, l.Valid())
	require.GreaterOrEqual(t, time.Since(start), left-time.Millisecond, "not before the deadline: the server may be back in time")
	faults.AwaitEvent(t, w, func(e lockmgr.EventRenewalFailed) bool { return errors.Is(e.Err, lockmgr.ErrUnavailable) })
	require.ErrorIs(t, l.Unlock(ctx), lockmgr.ErrLeaseLost)

	s.Restart()
	l, err = waiting.Await(faults.Patient(t))
	require.NoError(t, err)
	require.NoError(t, l.Unlock(faults.Patient(t)))
	require.Eventually(t, func() bool {
		l, err = hasty.Lock(faults.Patient(t), "unlocked", lockmgr.Fenced())
		return !lockmgr.Temporary(err) // it waits for a tenth of a second only
	}, faults.Patience, time.Millisecond)
	require.NoError(t, err)
	require.NoError(t, l.Unlock(faults.Patient(t)))
	require.Equal(t, "redisson_lock_token:{unlocked}", faults.Do(t, s, "KEYS", "*"))
}
