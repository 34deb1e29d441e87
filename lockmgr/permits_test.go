package lockmgr_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// state returns what the server knows of permits.
func state(t *testing.T, p lockmgr.Permits) lockmgr.PermitsInfo {
	t.Helper()
	return must(p.Inspect(faults.Patient(t)))(t)
}

// awaitFree checks that all permits are free, once what is under way has ended.
func awaitFree(t *testing.T, p lockmgr.Permits, limit int) {
	t.Helper()
	faults.Eventually(t, func() bool {
		info := state(t, p)
		return info.Limit == limit && info.Free == limit && len(info.Taken) == 0
	})
}

func TestPermits_AcquireAndGiveBack(t *testing.T) {
	s, m, other := startServer(t, lockmgr.Options{})
	ctx := faults.Patient(t)
	p := m.Permits("jobs", 5)
	require.False(t, state(t, p).Exists)
	l := mustAcquire(t, p, 3)
	require.True(t, l.Valid())
	require.Equal(t, "jobs", l.Name())
	ids := l.PermitIDs()
	require.Len(t, ids, 3)
	for _, id := range ids {
		require.True(t, strings.HasPrefix(id, strings.ReplaceAll(m.ID(), "-", "")[:16]), id)
	}
	info := state(t, p)
	require.Equal(t, 5, info.Limit)
	require.Equal(t, 2, info.Free)
	require.Len(t, info.Taken, 3)
	for _, taken := range info.Taken {
		require.True(t, taken.Ours)
		require.Contains(t, ids, taken.ID)
		require.InDelta(t, 30, taken.TTL.Seconds(), 5)
	}
	require.Equal(t, "2", faults.Do(t, s, "GET", "jobs"))
	require.Equal(t, "3", faults.Do(t, s, "ZCARD", "{jobs}:timeout"))

	theirs := other.Permits("jobs", 77) // the limit that the server has counts
	require.ErrorIs(t, errOf(theirs.TryAcquire(ctx, 3)), lockmgr.ErrNotAcquired)
	two := must(theirs.TryAcquire(ctx, 2))(t)
	require.False(t, state(t, p).Taken[0].Ours && state(t, p).Taken[4].Ours)
	require.ErrorIs(t, errOf(theirs.TryAcquire(ctx, 1)), lockmgr.ErrNotAcquired)
	mustUnlock(t, l)
	require.ErrorIs(t, l.Err(), lockmgr.ErrNotHeld)
	mustUnlock(t, two)
	awaitFree(t, p, 5)

	plain := mustLock(t, m, "plain")
	require.Nil(t, plain.PermitIDs())
	mustUnlock(t, plain)
}

// Each of the ways to wait for a permit ends when one comes free.
func TestPermits_Wait(t *testing.T) {
	_, m, other := startServer(t, lockmgr.Options{})
	ctx := faults.Patient(t)
	p, theirs := m.Permits("jobs", 2), other.Permits("jobs", 2)
	for _, giver := range []lockmgr.Permits{p, theirs} {
		held := mustAcquire(t, giver, 2)
		one := p.AcquireAsync(1)
		requirePending(t, one, "both are taken")
		requireTimesOut(t, func() error { return errOf(p.Acquire(ctx, 1, lockmgr.MaxWait(20*time.Millisecond))) })
		gone := p.AcquireAsync(2)
		gone.Cancel()
		require.ErrorIs(t, errOf(gone.Await(ctx)), lockmgr.ErrCanceled)
		mustUnlock(t, mustPass(t, held, m, one))
		awaitFree(t, p, 2)
	}
}

func TestPermits_BadRequests(t *testing.T) {
	s, m, _ := startServer(t, lockmgr.Options{})
	ctx := faults.Patient(t)
	for what, test := range map[string]struct {
		p lockmgr.Permits
		n int
	}{
		"none": {m.Permits("a", 5), 0}, "negative": {m.Permits("a", 5), -1}, "more than there are": {m.Permits("a", 5), 6},
		"too many": {m.Permits("a", 1000), lockmgr.MaxPermits + 1}, "no limit": {m.Permits("a", 0), 1}, "zero": {lockmgr.Permits{}, 1},
	} {
		_, err := test.p.TryAcquire(ctx, test.n)
		require.ErrorIs(t, err, lockmgr.ErrInvalidOption, what)
		var failed *lockmgr.LockError
		require.ErrorAs(t, err, &failed, what)
	}
	require.ErrorIs(t, errOf(m.Permits("", 5).Acquire(ctx, 1)), lockmgr.ErrInvalidName)
	require.ErrorIs(t, errOf(m.Permits("a", 5).Return(ctx, "abc")), lockmgr.ErrInvalidOption)
	require.ErrorIs(t, errOf(m.Permits("a", 5).Return(ctx)), lockmgr.ErrInvalidOption)
	require.ErrorIs(t, m.Permits("a", 5).SetLimit(ctx, -1), lockmgr.ErrInvalidOption)
	require.Equal(t, "0", faults.Do(t, s, "DBSIZE"))
}

// A key that has something else than permits is left as it is, whatever is asked of it.
func TestPermits_OtherData(t *testing.T) {
	s, m, other := startServer(t, lockmgr.Options{})
	ctx := faults.Patient(t)
	plain := mustLock(t, other, "plain")
	write := mustLock(t, other, "write", lockmgr.Exclusive())
	faults.Do(t, s, "SET", "text", "no number")
	faults.Do(t, s, "SET", "fraction", "1.5")
	faults.Do(t, s, "SET", "empty", "")
	faults.Do(t, s, "SET", "long", strings.Repeat("9", 20))
	faults.Do(t, s, "RPUSH", "list", "x")
	faults.Do(t, s, "SET", "taken", "3")
	faults.Do(t, s, "SET", "{taken}:timeout", "x")
	faults.Do(t, s, "SET", "{new}:timeout", "x")
	size := faults.Do(t, s, "DBSIZE")
	for _, name := range []string{"plain", "write", "text", "fraction", "empty", "long", "list", "taken", "new"} {
		p := m.Permits(name, 5)
		for op, do := range map[string]func() error{
			"acquire": func() error { _, err := p.TryAcquire(ctx, 1); return err },
			"return":  func() error { _, err := p.Return(ctx, strings.Repeat("0", 32)); return err },
			"set":     func() error { return p.SetLimit(ctx, 3) },
			"add":     func() error { _, err := p.AddLimit(ctx, 1); return err },
			"delete":  func() error { _, err := p.Delete(ctx); return err },
			"inspect": func() error { _, err := p.Inspect(ctx); return err },
		} {
			err := do()
			if !errors.Is(err, lockmgr.ErrKind) {
				require.ErrorIs(t, err, lockmgr.ErrWrongType, "%s of %s", op, name)
			}
		}
	}
	require.Equal(t, size, faults.Do(t, s, "DBSIZE"))
	require.Equal(t, "no number", faults.Do(t, s, "GET", "text"))
	require.Equal(t, "1.5", faults.Do(t, s, "GET", "fraction"))
	require.NoError(t, plain.Unlock(ctx), "nobody has removed it")
	mustUnlock(t, write)
}

func TestPermits_Limit(t *testing.T) {
	_, m, other := startServer(t, lockmgr.Options{})
	ctx := faults.Patient(t)
	p := m.Permits("jobs", 100)
	require.ErrorIs(t, errOf(p.AddLimit(ctx, -101)), lockmgr.ErrInvalidOption)
	require.Equal(t, 99, must(p.AddLimit(ctx, -1))(t), "the server knew no limit")
	require.ErrorIs(t, errOf(p.AddLimit(ctx, math.MaxInt32)), lockmgr.ErrInvalidOption)
	require.NoError(t, p.SetLimit(ctx, 1))
	one := mustAcquire(t, p, 1)
	waits := []*futures.Future[*lockmgr.Lock]{other.Permits("jobs", 100).AcquireAsync(1), p.AcquireAsync(1)}
	requirePending(t, waits[0], "the limit is 1")
	faults.Eventually(t, func() bool { return state(t, p).Waiting == 2 })
	require.Equal(t, 3, must(p.AddLimit(ctx, 2))(t))
	for _, f := range waits {
		must(f.Await(ctx))(t, "each hears of it")
	}
	require.NoError(t, p.SetLimit(ctx, 1))
	require.Equal(t, -2, state(t, p).Free)
	for _, f := range waits {
		l, _ := f.Result()
		mustUnlock(t, l)
		require.ErrorIs(t, errOf(p.TryAcquire(ctx, 1)), lockmgr.ErrNotAcquired)
	}
	mustUnlock(t, one)
	awaitFree(t, p, 1)
}

// A request for more permits than there are fails: it tells that from permits that others have.
// With the limit 0, which stops all for a while, requests wait.
func TestPermits_MoreThanThereAre(t *testing.T) {
	_, m, other := startServer(t, lockmgr.Options{})
	ctx := faults.Patient(t)
	p, theirs := m.Permits("jobs", 10), other.Permits("jobs", 20)
	held := mustAcquire(t, p, 10)
	require.ErrorIs(t, errOf(theirs.TryAcquire(ctx, 10)), lockmgr.ErrNotAcquired)
	for _, n := range []int{11, 20} {
		_, err := theirs.TryAcquire(ctx, n)
		require.ErrorIs(t, err, lockmgr.ErrLimit)
		require.NotErrorIs(t, err, lockmgr.ErrNotAcquired)
		require.False(t, lockmgr.Temporary(err))
		require.ErrorContains(t, err, fmt.Sprintf("%d of 10", n))
		require.ErrorIs(t, errOf(theirs.Acquire(ctx, n)), lockmgr.ErrLimit)
		require.ErrorIs(t, theirs.Do(ctx, n, nil), lockmgr.ErrLimit)
	}

	// The limit is lowered while requests wait. One of them may still be served.
	waits := []*futures.Future[*lockmgr.Lock]{theirs.AcquireAsync(6), p.AcquireAsync(7), theirs.AcquireAsync(5), theirs.AcquireAsync(8)}
	faults.Eventually(t, func() bool { return state(t, p).Waiting == 2 })
	require.NoError(t, p.SetLimit(ctx, 5))
	for _, i := range []int{0, 1, 3} {
		require.ErrorIs(t, errOf(waits[i].Await(ctx)), lockmgr.ErrLimit)
	}
	mustUnlock(t, held)
	held = mustAwait(t, waits[2])

	require.NoError(t, p.SetLimit(ctx, 0))
	mustUnlock(t, held)
	require.ErrorIs(t, errOf(theirs.TryAcquire(ctx, 20)), lockmgr.ErrNotAcquired)
	waiting := theirs.AcquireAsync(20)
	faults.Eventually(t, func() bool { return other.Stats().Waiting == 1 })
	require.NoError(t, p.SetLimit(ctx, 20))
	mustUnlock(t, mustAwait(t, waiting))
	awaitFree(t, p, 20)

	// The limit is raised from 0 while permits are taken, and is still too small for a request.
	held = mustAcquire(t, p, 4)
	require.NoError(t, p.SetLimit(ctx, 0))
	waiting = theirs.AcquireAsync(5)
	faults.Eventually(t, func() bool { return other.Stats().Subscriptions > 0 && other.Stats().Waiting == 1 })
	faults.ByMessage(t, other, func() {
		require.NoError(t, p.SetLimit(ctx, 3))
		require.ErrorIs(t, errOf(waiting.Await(ctx)), lockmgr.ErrLimit)
	})
	mustUnlock(t, held)
}

// What the server remembers can be removed while no permit is taken.
func TestPermits_Delete(t *testing.T) {
	s, m, other := startServer(t, lockmgr.Options{})
	ctx := faults.Patient(t)
	p := m.Permits("jobs", 2)
	held := mustAcquire(t, other.Permits("jobs", 2), 1)
	require.False(t, must(p.Delete(ctx))(t))
	require.True(t, held.Valid())
	mustUnlock(t, held)
	require.True(t, must(p.Delete(ctx))(t))
	require.Equal(t, "0", faults.Do(t, s, "DBSIZE"))
	require.False(t, must(p.Delete(ctx))(t), "there was nothing")
	faults.Do(t, s, "SET", "jobs", "1")
	faults.Do(t, s, "ZADD", "{jobs}:timeout", "1", "dead")
	require.True(t, must(p.Delete(ctx))(t), "an expired permit is not taken")
	require.Equal(t, "0", faults.Do(t, s, "DBSIZE"))

	// Those who wait ask again, and set the limit.
	require.NoError(t, p.SetLimit(ctx, 0))
	f := other.Permits("jobs", 5).AcquireAsync(1)
	requirePending(t, f, "the limit is 0")
	faults.Eventually(t, func() bool { return state(t, p).Waiting == 1 })
	faults.ByMessage(t, other, func() {
		require.True(t, must(p.Delete(ctx))(t))
		held = mustAwait(t, f)
	})
	mustUnlock(t, held)
	require.Equal(t, 5, state(t, p).Limit)
	must(p.Delete(ctx))(t)
	mustUnlock(t, must(m.Permits("jobs", 5).Acquire(ctx, 5))(t, "with a new limit"))
}

// Anybody can give back a permit by its ID, once. Its holder learns of it.
func TestPermits_Return(t *testing.T) {
	_, m, other := startServer(t, lockmgr.Options{Lease: 3 * time.Second})
	ctx := faults.Patient(t)
	p, theirs := m.Permits("jobs", 4), other.Permits("jobs", 4)
	here := mustAcquire(t, p, 2)
	there := mustAcquire(t, theirs, 2)
	unknown := strings.Repeat("0", 32)
	for _, ids := range [][]string{{unknown}, {here.PermitIDs()[0], unknown}, {here.PermitIDs()[0], here.PermitIDs()[0]}} {
		require.False(t, must(p.Return(ctx, ids...))(t), "all or none")
	}
	require.Len(t, state(t, p).Taken, 4)
	require.True(t, must(p.Return(ctx, here.PermitIDs()[1]))(t))
	<-here.Lost()
	require.ErrorIs(t, here.Unlock(ctx), lockmgr.ErrLeaseLost)
	faults.Eventually(t, func() bool { return state(t, p).Free == 2 }) // the other one was given back
	require.True(t, must(p.Return(ctx, there.PermitIDs()...))(t))
	<-there.Lost() // at its next renewal
	awaitFree(t, p, 4)
}

// If the counter is lost, a lock can take the name. The permits are given back all the same, and
// the lock stays.
func TestPermits_LockTakesTheName(t *testing.T) {
	s, m, other := startServer(t, lockmgr.Options{})
	permits := mustAcquire(t, m.Permits("jobs", 2), 2)
	faults.Do(t, s, "DEL", "jobs")
	l := mustLock(t, other, "jobs")
	mustUnlock(t, permits)
	require.Equal(t, "0", faults.Do(t, s, "EXISTS", "{jobs}:timeout"))
	mustUnlock(t, l)
}

// A holder in the manager that gives its permit back learns of it at once. IDs have any case, and
// those of old clients are digits on the server.
func TestPermits_ReturnHere(t *testing.T) {
	s, m, _ := startServer(t, lockmgr.Options{})
	p := m.Permits("jobs", 2)
	here := mustAcquire(t, p, 1)
	require.True(t, must(p.Return(faults.Patient(t), strings.ToUpper(here.PermitIDs()[0])))(t))
	begin := time.Now()
	faults.AwaitLost(t, here)
	require.Less(t, time.Since(begin), 5*time.Second, "it is renewed after 10 s only")
	old := strings.Repeat("ab", 16)
	faults.Do(t, s, "ZADD", "{jobs}:timeout", "922337203685477", old, "1", "dead")
	faults.Do(t, s, "DECRBY", "jobs", "2")
	info := state(t, p)
	require.Len(t, info.Taken, 1, "those that have expired are not taken")
	require.Equal(t, old, info.Taken[0].ID)
	require.Negative(t, info.Taken[0].TTL, "it has no end")
	require.False(t, info.Taken[0].Ours)
	require.True(t, must(p.Return(faults.Patient(t), strings.ToUpper(old)))(t))
	awaitFree(t, p, 2)
}

// A permit ends with its lease: a fixed one, or that of a process that has died.
func TestPermits_Lease(t *testing.T) {
	s, m, other := startServer(t, lockmgr.Options{Lease: 600 * time.Millisecond})
	ctx := faults.Patient(t)
	p, theirs := m.Permits("jobs", 2), other.Permits("jobs", 2)
	fixed := mustAcquire(t, p, 1, lockmgr.FixedLease(200*time.Millisecond))
	watched := mustAcquire(t, p, 1)
	waits := must(theirs.Acquire(ctx, 1))(t, "the fixed one ends")
	require.ErrorIs(t, fixed.Unlock(ctx), lockmgr.ErrLeaseLost)
	mustUnlock(t, waits)
	before := m.Stats().Renewals
	faults.Eventually(t, func() bool { return m.Stats().Renewals >= before+5 }, "no lease lasts that long without a renewal")
	require.True(t, watched.Valid(), "the watchdog renews it")
	require.NoError(t, watched.Extend(ctx, 2*time.Second))
	require.Greater(t, state(t, p).Taken[0].TTL, 1500*time.Millisecond)
	mustUnlock(t, watched)

	// One of a dead process.
	faults.Do(t, s, "ZADD", "{jobs}:timeout", "1", "dead")
	faults.Do(t, s, "DECRBY", "jobs", "1")
	require.Equal(t, 2, state(t, p).Free, "those that have expired are free")
	mustUnlock(t, mustAcquire(t, p, 2))
	awaitFree(t, p, 2)
}

// takeOneByOne takes a permit, holds it and gives it back, again and again until ctx ends. It
// counts the grants. Each hold lasts for hold or up to a tenth less. If all holds ended at one
// instant of fake time, the order of goroutines would decide the shares.
func takeOneByOne(ctx context.Context, p lockmgr.Permits, hold time.Duration, grants *atomic.Int64) {
	for {
		l, err := p.Acquire(ctx, 1)
		if err != nil {
			return
		}
		grants.Add(1)
		time.Sleep(hold - rand.N(hold/10))
		_ = l.Unlock(context.WithoutCancel(ctx))
	}
}

// Managers that contend leave no permit unused, and get equal shares if they want equally many.
func TestPermits_AllInUseAndShared(t *testing.T) {
	for _, workers := range [][]int{{100, 1}, {100, 5}, {100, 100}, {25, 25, 25, 25}} {
		bubble(t, func(t *testing.T, w *scene) {
			const limit, hold = 20, 20 * milli
			window := second / 2
			if len(workers) == 4 { // over a short time, the shares are those of a few turns
				window = 2 * second
			}
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			var group sync.WaitGroup
			grants := make([]atomic.Int64, len(workers))
			for i, n := range workers {
				m, _ := w.manager(lockmgr.Options{})
				for range n {
					group.Go(func() { takeOneByOne(ctx, m.Permits("jobs", limit), hold, &grants[i]) })
				}
			}
			time.Sleep(second / 2)
			sum, before := int64(0), make([]int64, len(workers))
			for i := range grants {
				before[i] = grants[i].Load()
			}
			time.Sleep(window)
			for i := range grants {
				before[i] = grants[i].Load() - before[i]
				sum += before[i]
			}
			cancel()
			group.Wait()
			require.GreaterOrEqual(t, sum, int64(95*limit/100*(window/hold)), "of 20 permits at least 19 are in use: %v", before)
			for i, n := range before {
				if len(workers) == 4 {
					require.InEpsilon(t, sum/4, n, 0.15, "%d of %v", i, before)
				}
			}
		})
	}
}

// A request for many waits for the longest hold and a run, however many take one each without a
// pause. If the other manager stands first in the line, the other manager gets one more run and one
// more hold first.
func TestPermits_ManyWaitForTheLongestHold(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, other := w.managers(lockmgr.Options{})
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		var group sync.WaitGroup
		for i := range 30 {
			group.Go(func() { takeOneByOne(ctx, other.Permits("jobs", 10), time.Duration(50+5*i)*milli, new(atomic.Int64)) })
		}
		var sum time.Duration
		const times, longest = 10, 195 * milli
		for range times {
			time.Sleep(300 * milli)
			asked := time.Now()
			l := must(m.Permits("jobs", 10).Acquire(ctx, 10))(t)
			sum += time.Since(asked)
			require.LessOrEqual(t, time.Since(asked), 2*longest+100*milli)
			require.NoError(t, l.Unlock(ctx))
		}
		require.LessOrEqual(t, sum/times, longest+100*milli)
		cancel()
		group.Wait()
	})
}

// A manager whose request gives up makes no pause for clients that stand in no line: a script that
// gave nothing back says nothing of such clients.
func TestPermits_NoPauseAfterAWaitInVain(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, other := w.managers(lockmgr.Options{})
		p, theirs := m.Permits("jobs", 1), other.Permits("jobs", 1)
		held, next, waits := mustAcquire(t, p, 1), p.AcquireAsync(1), theirs.AcquireAsync(1)
		time.Sleep(50 * milli)
		mustUnlock(t, held)
		held = mustAwait(t, next)
		time.Sleep(40 * milli) // a transfer has reported that the other manager waits
		mustUnlock(t, held)
		held = mustAwait(t, waits)

		requireTimesOut(t, func() error { return errOf(p.Acquire(faults.Patient(t), 1, lockmgr.MaxWait(200*milli))) })
		mustUnlock(t, held)
		asked := time.Now()
		mustUnlock(t, mustAcquire(t, p, 1))
		require.Zero(t, time.Since(asked))
	})
}

// With ForgetPermits the server keeps no limit of a name that nobody uses.
func TestPermits_ForgetPermits(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, other := w.managers(lockmgr.Options{ForgetPermits: true, Anonymous: true})
		keeps, _ := w.manager(lockmgr.Options{Anonymous: true})
		p, theirs, kept := m.Permits("jobs", 3), other.Permits("jobs", 3), keeps.Permits("jobs", 3)
		gone := func(why string) {
			t.Helper()
			synctest.Wait()
			require.Empty(t, w.server.Keys(), why)
		}
		mustUnlock(t, mustAcquire(t, p, 2))
		gone("nobody has a permit")

		// A holder keeps its permit. The stored limit counts.
		watched, fixed := mustAcquire(t, kept, 1), mustAcquire(t, kept, 1, lockmgr.FixedLease(lockmgr.MaxLease))
		mustUnlock(t, mustAcquire(t, m.Permits("jobs", 9), 1))
		require.Equal(t, 3, state(t, p).Limit)
		time.Sleep(time.Hour)
		require.True(t, watched.Valid())
		f := p.AcquireAsync(2)
		requirePending(t, f, "one is free")
		mustUnlock(t, watched)
		both := mustAwait(t, f)
		mustUnlock(t, fixed)
		require.Equal(t, 3, state(t, p).Limit)
		mustUnlock(t, both)
		gone("nobody has a permit any more")

		// A manager without the option keeps the limit.
		mustUnlock(t, mustAcquire(t, kept, 1))
		synctest.Wait()
		require.True(t, state(t, p).Exists)
		mustAcquire(t, theirs, 3, lockmgr.FixedLease(second))
		time.Sleep(time.Minute)
		gone("the lease is over")
		returned := mustAcquire(t, theirs, 1)
		require.True(t, must(p.Return(ctx, returned.PermitIDs()...))(t))
		time.Sleep(time.Minute)
		require.True(t, state(t, p).Exists, "Return gave it back")
		require.NoError(t, w.server.Set("jobs", "2"))
		must(w.server.ZAdd("{jobs}:timeout", 1, "dead"))(t)
		mustUnlock(t, mustAcquire(t, p, 1))
		gone("a permit of a dead process is free")

		// A limit that was changed stays.
		require.NoError(t, p.SetLimit(ctx, 5))
		mustUnlock(t, mustAcquire(t, p, 1))
		synctest.Wait()
		require.Equal(t, 5, state(t, p).Limit)
		require.NoError(t, p.SetLimit(ctx, 0))
		f = p.AcquireAsync(1)
		requirePending(t, f, "the limit is 0")
		f.Cancel()
		synctest.Wait()
		require.True(t, state(t, p).Exists)

		// A request that has waited does the same.
		require.NoError(t, p.SetLimit(ctx, 3))
		held := mustAcquire(t, kept, 3)
		f = p.AcquireAsync(1)
		requirePending(t, f, "none is free")
		mustUnlock(t, held)
		mustUnlock(t, mustAwait(t, f))
		gone("nobody waits")
	})
}

// A permit passes in memory: many grants cost few scripts.
func TestPermits_PassInMemory(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, _ := w.manager(lockmgr.Options{})
		p := m.Permits("jobs", 10)
		var group sync.WaitGroup
		for range 100 {
			group.Go(func() {
				for range 50 {
					require.NoError(t, p.Do(ctx, 1, func(context.Context, *lockmgr.Lock) error { time.Sleep(milli); return nil }))
				}
			})
		}
		group.Wait()
		st := m.Stats()
		require.EqualValues(t, 5000, st.Grants)
		require.Greater(t, st.Passes, uint64(4500), fmt.Sprint(st))
		awaitFree(t, p, 10)
	})
}
