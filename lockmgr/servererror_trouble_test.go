package lockmgr_test

import (
	"errors"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// TryLock fails at once. A waiting request fails after RetryTime, unless the trouble is over by
// then.
func TestServerError_PassingTrouble(t *testing.T) {
	t.Parallel()
	for _, tt := range faults.Troubles("READONLY", "MASTERDOWN", "NOREPLICAS", "MISCONF", "CLUSTERDOWN", "BUSY", "down") {
		t.Run(tt.What, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t, tt.Args...)
			w := faults.NewWitness()
			// The server without its cluster's slots is a single server to the client.
			opt := rueidis.ClientOption{InitAddress: []string{s.Addr()}, ForceSingleClient: true}
			hasty := dialOption(t, opt, lockmgr.Options{Anonymous: true, RetryTime: 50 * time.Millisecond})
			steady := dialOption(t, opt, lockmgr.Options{Anonymous: true, RetryTime: time.Minute, Observer: w.Observe})
			tt.Begin(t, s)
			waiting := steady.LockAsync("a")
			faults.AwaitEvent(t, w, func(e lockmgr.EventCommandFailed) bool { return e.Consecutive == 2 && errors.Is(e.Err, tt.Kind) })

			_, err := hasty.TryLock(faults.Patient(t), "b")
			requireServerError(t, tt.Kind, err)
			require.EqualValues(t, 1, hasty.Stats().Failures, "one try")
			_, err = hasty.Lock(faults.Patient(t), "c") // how often it tries depends on the machine
			requireServerError(t, tt.Kind, err)
			known := hasty.Stats().Locks
			_, err = hasty.TryLock(faults.Patient(t), "d")
			requireServerError(t, tt.Kind, err)
			// A busy machine may answer a try after RetryTime.
			faults.Eventually(t, func() bool { return hasty.Stats().Locks <= known }, "a script that did not run leaves nothing to release")
			_, err = hasty.Inspect(faults.Patient(t), "d")
			if err != nil { // a script that only reads may work
				requireServerError(t, tt.Kind, err)
			}

			require.False(t, faults.Settled(waiting), "it waits")
			tt.End(t, s)
			l, err := waiting.Await(faults.Patient(t))
			require.NoError(t, err)
			mustUnlock(t, l)
			faults.Eventually(t, func() bool {
				l, err = hasty.Lock(faults.Patient(t), "b")
				return !lockmgr.Temporary(err) // it waits for 50 ms only
			})
			require.NoError(t, err)
			mustUnlock(t, l)
		})
	}
}

// A server that is out of memory grants no lock, but locks that are held can be renewed, passed on
// and always released.
func TestServerError_OutOfMemory(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	w := faults.NewWitness()
	// Within PassTime a lock passes in memory. After it the next holder needs the server's memory.
	m := dial(t, s.Addr(), lockmgr.Options{Lease: 2 * time.Second, CommandTimeout: slow, PassTime: time.Minute, Observer: w.Observe})
	held := mustLockEach(t, m, numbered("held", 50))
	next := m.LockAsync("held0")
	faults.Do(t, s, "CONFIG", "SET", "maxmemory", "1")

	before := m.Stats().Scripts - m.Stats().RenewalScripts
	requireServerError(t, lockmgr.ErrOutOfMemory, errOf(m.TryLock(ctx, "new")))
	requireServerError(t, lockmgr.ErrOutOfMemory, errOf(m.LockAsync("new").Await(faults.Patient(t))))
	require.EqualValues(t, 2, m.Stats().Scripts-m.Stats().RenewalScripts-before, "one try each")

	mustUnlock(t, held[0])
	held[0] = mustAwait(t, next)

	// Two rounds of renewals, because the first may have been on its way before.
	seen := m.Stats().Renewals
	faults.Eventually(t, func() bool { return m.Stats().Renewals > seen+2*uint64(len(held)) })
	for i, l := range held {
		require.NoError(t, l.Err(), i)
		require.NoError(t, l.Unlock(ctx), i)
		require.Equal(t, "0", faults.Do(t, s, "EXISTS", l.Name()))
	}
	awaitAtRest(t, m)
	faults.Do(t, s, "CONFIG", "SET", "maxmemory", "0")
	mustUnlock(t, mustLock(t, m, "new"))
}

// A server dies while a lock is held: the loss is reported at the deadline, and when the server is
// back, locks work as before.
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
	mustUnlock(t, l)
	faults.Eventually(t, func() bool {
		l, err = hasty.Lock(faults.Patient(t), "unlocked", lockmgr.Fenced())
		return !lockmgr.Temporary(err) // it waits for a tenth of a second only
	})
	require.NoError(t, err)
	mustUnlock(t, l)
	require.Equal(t, "redisson_lock_token:{unlocked}", faults.Do(t, s, "KEYS", "*"))
}
