package interop

import (
	"context"
	"encoding/hex"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/lockmgr"
)

const (
	// permitLease is that of Java's permits that shall not end: Redisson does not renew
	// them. It is also the default of Go.
	permitLease = 30 * time.Second
	// noLease is that of Java's permits that have no end.
	noLease = -time.Millisecond
	// permitRounds is how often each kind of wake-up is measured.
	permitRounds = 7
)

func permitChannelOf(name string) string { return "redisson_sc:" + braced(name) }

func takenKeyOf(name string) string { return braced(name) + ":timeout" }

// several reports whether this Redisson takes and gives back several permits at once.
func (w *world) several() bool { return w.version != oldest }

// ---- the Go side

// inspect returns what Redis knows of permits.
func inspect(t testing.TB, p lockmgr.Permits) lockmgr.PermitsInfo {
	t.Helper()
	info, err := p.Inspect(t.Context())
	require.NoError(t, err)
	return info
}

// take takes permits that are free, or about to be.
func take(t testing.TB, p lockmgr.Permits, n int, opts ...lockmgr.LockOption) *lockmgr.Lock {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), eventLimit)
	defer cancel()
	l, err := p.Acquire(ctx, n, opts...)
	require.NoError(t, err)
	return l
}

// requireRefused checks that permits can't be had, by one try.
func requireRefused(t testing.TB, p lockmgr.Permits, n int) {
	t.Helper()
	_, err := p.TryAcquire(t.Context(), n)
	require.ErrorIs(t, err, lockmgr.ErrNotAcquired)
}

// startTake begins to wait for permits, and returns when Redis has refused them and Go
// listens. No other goroutine of the manager may wait for them already.
func (g goSide) startTake(t testing.TB, w *world, p lockmgr.Permits, name string, n int) *wait {
	t.Helper()
	before := g.refused.Load()
	waiting := &wait{done: make(chan struct{})}
	go func() {
		defer close(waiting.done)
		waiting.lock, waiting.err = p.Acquire(t.Context(), n)
		waiting.at = time.Now()
	}()
	eventually(t, func() bool { return g.refused.Load() > before }, func() string { return "Go is refused" })
	w.awaitChannel(t, permitChannelOf(name), func(have int64) bool { return have >= 1 })
	require.False(t, waiting.over())
	return waiting
}

// ---- the Java side

func (j thread) permits() thread { return j.as("semaphore") }

func (j thread) startAcquire(t testing.TB, name string, n int, lease time.Duration) *call {
	t.Helper()
	return j.sendRequest(t, request{Op: "acquire", Name: name, Permits: n, Wait: -1, Lease: lease.Milliseconds()})
}

// acquire takes permits that are free, or about to be, and returns their IDs.
func (j thread) acquire(t testing.TB, name string, n int, lease time.Duration) (ids []string) {
	t.Helper()
	j.startAcquire(t, name, n, lease).into(t, &ids)
	require.Len(t, ids, n)
	return ids
}

// tryAcquire tries once to take permits, and returns their IDs or none.
func (j thread) tryAcquire(t testing.TB, name string, n int) (ids []string) {
	t.Helper()
	j.sendRequest(t, request{Op: "tryAcquire", Name: name, Permits: n, Wait: 0, Lease: permitLease.Milliseconds()}).into(t, &ids)
	return ids
}

// release gives permits back, one after the other.
func (j thread) release(t testing.TB, name string, ids ...string) {
	t.Helper()
	for _, id := range ids {
		require.NoError(t, j.sendRequest(t, request{Op: "release", Name: name, IDs: []string{id}}).result(t))
	}
}

// tryRelease gives permits back by one command, and returns how many.
func (j thread) tryRelease(t testing.TB, name string, ids ...string) (n int) {
	t.Helper()
	j.sendRequest(t, request{Op: "tryRelease", Name: name, IDs: ids}).into(t, &n)
	return n
}

// requireNotTaken checks that release fails as it does for a permit that is not taken.
func (j thread) requireNotTaken(t testing.TB, name, id string) {
	t.Helper()
	err := j.sendRequest(t, request{Op: "release", Name: name, IDs: []string{id}}).result(t)
	require.ErrorContains(t, err, "RedisException") // caused by an IllegalArgumentException
}

// trySetPermits sets how many permits there are, and reports whether it has.
func (j thread) trySetPermits(t testing.TB, name string, n int) (set bool) {
	t.Helper()
	j.sendRequest(t, request{Op: "trySetPermits", Name: name, Permits: n}).into(t, &set)
	return set
}

// change sends addPermits or setPermits.
func (j thread) change(t testing.TB, op, name string, n int) {
	t.Helper()
	require.NoError(t, j.sendRequest(t, request{Op: op, Name: name, Permits: n}).result(t))
}

// startJavaTake has a Java thread wait for permits, and returns when it sleeps: it has
// tried, subscribed, and tried again. Each refused try asks for the first permit that
// ends, and nobody else may do so meanwhile.
func (w *world) startJavaTake(t testing.TB, j thread, name string, n int) *call {
	t.Helper()
	c := w.untilRefused(t, "zrange", func() *call { return j.startAcquire(t, name, n, permitLease) })
	var state string
	eventually(t, func() bool {
		j.send(t, "state", name).into(t, &state)
		return strings.HasSuffix(state, "WAITING")
	}, func() string { return "the thread sleeps" })
	require.False(t, c.answered())
	return c
}

// permitIDs waits for the answer of startJavaTake.
func (c *call) permitIDs(t testing.TB) (ids []string) {
	t.Helper()
	c.into(t, &ids)
	return ids
}

// ---- Redis

// requireCounts checks that both sides count the permits alike. What was given back
// before may take a moment.
func (w *world) requireCounts(t testing.TB, p lockmgr.Permits, j thread, name string, limit, taken int) {
	t.Helper()
	var info lockmgr.PermitsInfo
	eventually(t, func() bool {
		info = inspect(t, p)
		return info.Free == limit-taken
	}, func() string { return "permits are free" })
	require.True(t, info.Exists)
	require.Equal(t, limit, info.Limit)
	require.Len(t, info.Taken, taken)
	require.EqualValues(t, limit-taken, j.number(t, "available", name))
	if w.several() {
		require.EqualValues(t, limit, j.number(t, "permits", name))
		require.EqualValues(t, taken, j.number(t, "acquired", name))
	}
}

// requireAllFree checks that nothing is left of the permits but their number, and removes
// that. What was given back before may take a moment.
func (w *world) requireAllFree(t testing.TB, name string, limit int) {
	t.Helper()
	var free string
	eventually(t, func() bool {
		var err error
		free, err = w.redis.Do(background, w.redis.B().Get().Key(name).Build()).ToString()
		require.NoError(t, err)
		return free == strconv.Itoa(limit) && len(w.members(t, name)) == 0
	}, func() string { return "all permits are free: " + strconv.Itoa(limit) + " and not " + free })
	require.EqualValues(t, limit, w.number(t, name))
}

// members returns the taken permits as they are in Redis.
func (w *world) members(t testing.TB, name string) []string {
	t.Helper()
	ids, err := w.redis.Do(background, w.redis.B().Zrange().Key(takenKeyOf(name)).Min("0").Max("-1").Build()).AsStrSlice()
	require.NoError(t, err)
	return ids
}

// Each side counts the permits of the other, knows them by their IDs, and gets none when
// all are taken.
func TestPermits_ExcludesTheOtherSide(t *testing.T) {
	const limit, wait = 3, 300 * time.Millisecond
	together(t, func(t *testing.T, w *world) {
		name := t.Name()
		m, java := w.manager(t, lockmgr.Options{}), w.open(t, request{})
		p, other := m.Permits(name, limit), w.manager(t, lockmgr.Options{}).Permits(name, limit)
		a, b := java.thread("a").permits(), java.thread("b").permits()
		require.False(t, inspect(t, p).Exists)
		require.True(t, a.trySetPermits(t, name, limit))
		w.requireCounts(t, p, a, name, limit, 0)

		l := take(t, p, 1)
		w.requireCounts(t, p, a, name, limit, 1)
		ids := a.acquire(t, name, 1, permitLease)
		w.requireCounts(t, p, a, name, limit, 2)
		var seen []string
		for _, taken := range inspect(t, p).Taken {
			seen = append(seen, taken.ID)
			require.Equal(t, taken.ID == l.PermitIDs()[0], taken.Ours)
			require.True(t, 0 < taken.TTL && taken.TTL <= permitLease+time.Second, "TTL %v", taken.TTL)
		}
		require.ElementsMatch(t, []string{l.PermitIDs()[0], ids[0]}, seen, "IDs are what each side says")
		if w.several() {
			var ms int64
			b.sendRequest(t, request{Op: "leaseTime", Name: name, IDs: l.PermitIDs()}).into(t, &ms)
			require.True(t, 0 < ms && ms <= permitLease.Milliseconds(), "getLeaseTime of a permit of Go: %d", ms)
			require.Empty(t, b.tryAcquire(t, name, 2))
		}
		requireRefused(t, other, 2)

		ids = append(ids, b.tryAcquire(t, name, 1)...)
		require.Len(t, ids, 2)
		w.requireCounts(t, p, a, name, limit, 3)
		require.Empty(t, a.tryAcquire(t, name, 1))
		requireRefused(t, p, 1)
		requireRefused(t, other, 1)
		begin := time.Now()
		var got []string
		b.sendRequest(t, request{Op: "tryAcquire", Name: name, Wait: wait.Milliseconds(), Lease: 1000}).into(t, &got)
		require.Empty(t, got)
		require.GreaterOrEqual(t, time.Since(begin), wait)
		_, err := other.TryAcquire(t.Context(), 1, lockmgr.MaxWait(wait))
		require.ErrorIs(t, err, lockmgr.ErrWaitTimeout)

		a.release(t, name, ids[1])
		two, err := other.TryAcquire(t.Context(), 1)
		require.NoError(t, err)
		require.Empty(t, a.tryAcquire(t, name, 1))
		unlock(t, l, two)
		w.requireCounts(t, p, a, name, limit, 1)
		if w.several() {
			more := b.tryAcquire(t, name, 2)
			require.Len(t, more, 2)
			requireRefused(t, p, 1)
			require.Equal(t, 2, b.tryRelease(t, name, more...))
		}
		a.release(t, name, ids[0])
		w.requireAllFree(t, name, limit)
	})
}

// The leases are 30 s, so what ends a wait is the message that a permit came free.
func TestPermits_GoWakesJava(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		name := t.Name()
		p, java := w.manager(t, lockmgr.Options{}).Permits(name, 2), w.open(t, request{})
		a, b := java.thread("a").permits(), java.thread("b").permits()
		var one, both, pair []time.Duration
		for range permitRounds {
			// One of two comes free for one thread.
			l, other := take(t, p, 1), take(t, p, 1)
			waiting := w.startJavaTake(t, a, name, 1)
			begin := time.Now()
			unlock(t, l)
			ids := waiting.permitIDs(t)
			one = append(one, waiting.at.Sub(begin))
			require.Empty(t, b.tryAcquire(t, name, 1))
			unlock(t, other)
			a.release(t, name, ids...)

			// Both come free at once, for two threads.
			l = take(t, p, 2)
			waits := []*call{w.startJavaTake(t, a, name, 1), w.startJavaTake(t, b, name, 1)}
			begin = time.Now()
			unlock(t, l)
			ids = nil
			for _, waiting := range waits {
				ids = append(ids, waiting.permitIDs(t)...)
				both = append(both, waiting.at.Sub(begin))
			}
			a.release(t, name, ids...)

			// Both come free one after the other, for a thread that wants two.
			if w.several() {
				l, other = take(t, p, 1), take(t, p, 1)
				waiting = w.startJavaTake(t, a, name, 2)
				unlock(t, l)
				begin = time.Now()
				unlock(t, other)
				ids = waiting.permitIDs(t)
				pair = append(pair, waiting.at.Sub(begin))
				require.Equal(t, 2, a.tryRelease(t, name, ids...))
			}
		}
		requireWoken(t, "Java after one permit of Go", one)
		requireWoken(t, "two threads of Java after two permits of Go", both)
		if w.several() {
			requireWoken(t, "Java, which wants two permits, after the second one of Go", pair)
		}
		w.requireAllFree(t, name, 2)
	})
}

// The same the other way round. 3.16.8 gives two permits back by two commands.
func TestPermits_JavaWakesGo(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		name := t.Name()
		g, other, java := w.goSide(t, lockmgr.Options{}), w.goSide(t, lockmgr.Options{}), w.open(t, request{})
		a, b := java.thread("a").permits(), java.thread("b").permits()
		p, theirs := g.Permits(name, 2), other.Permits(name, 2)
		require.True(t, a.trySetPermits(t, name, 2))
		var one, both, pair []time.Duration
		for range permitRounds {
			// One of two comes free for one goroutine.
			ids := append(a.acquire(t, name, 1, permitLease), b.acquire(t, name, 1, permitLease)...)
			waiting := g.startTake(t, w, p, name, 1)
			begin := time.Now()
			b.release(t, name, ids[0])
			l := waiting.granted(t)
			one = append(one, waiting.at.Sub(begin))
			require.Equal(t, []string{ids[1]}, idsOfOthers(t, p))
			a.release(t, name, ids[1])
			unlock(t, l)

			// Both come free, for two managers.
			ids = append(a.acquire(t, name, 1, permitLease), b.acquire(t, name, 1, permitLease)...)
			waits := []*wait{g.startTake(t, w, p, name, 1), other.startTake(t, w, theirs, name, 1)}
			w.awaitChannel(t, permitChannelOf(name), func(have int64) bool { return have >= 2 })
			begin = time.Now()
			w.releaseAll(t, a, name, ids)
			unlock(t, waits[0].granted(t), waits[1].granted(t))
			both = append(both, waits[0].at.Sub(begin), waits[1].at.Sub(begin))

			// Both come free one after the other, for a goroutine that wants two.
			ids = append(a.acquire(t, name, 1, permitLease), b.acquire(t, name, 1, permitLease)...)
			waiting = g.startTake(t, w, p, name, 2)
			a.release(t, name, ids[0])
			require.False(t, waiting.over())
			begin = time.Now()
			a.release(t, name, ids[1])
			l = waiting.granted(t)
			pair = append(pair, waiting.at.Sub(begin))
			unlock(t, l)
		}
		requireWoken(t, "Go after one permit of Java", one)
		requireWoken(t, "two managers after two permits of Java", both)
		requireWoken(t, "Go, which wants two permits, after the second one of Java", pair)
		w.requireAllFree(t, name, 2)
	})
}

// releaseAll gives permits back by one command, if Redisson can do that.
func (w *world) releaseAll(t testing.TB, j thread, name string, ids []string) {
	t.Helper()
	if w.several() {
		require.Equal(t, len(ids), j.tryRelease(t, name, ids...))
		return
	}
	j.release(t, name, ids...)
}

// idsOfOthers returns the IDs of permits that other processes have.
func idsOfOthers(t testing.TB, p lockmgr.Permits) (ids []string) {
	t.Helper()
	for _, taken := range inspect(t, p).Taken {
		if !taken.Ours {
			ids = append(ids, taken.ID)
		}
	}
	return ids
}

// One permit comes free while a Java thread waits for two and another one for one.
// Redisson wakes the first of them only, which can't use it, so the second one sleeps on
// beside a free permit. It is so with Redisson alone. The next message wakes both, or the
// end of the lease that the thread was told.
func TestPermits_JavaWakesTheWrongThread(t *testing.T) {
	const asleep = time.Second // how long the thread is seen to sleep
	together(t, func(t *testing.T, w *world) {
		if !w.several() {
			t.Skip("SKIPPED: Redisson " + oldest + " takes one permit at a time")
		}
		p := w.manager(t, lockmgr.Options{}).Permits
		java, another := w.two(t)
		greedy, modest, holder := java.thread("greedy").permits(), java.thread("modest").permits(), another.thread("holder").permits()
		for title, takes := range map[string]func(name string, n int) (givesBack func()){
			"permits of Go": func(name string, n int) func() {
				l := take(t, p(name, 3), n)
				return func() { unlock(t, l) }
			},
			"permits of Java": func(name string, n int) func() {
				ids := holder.acquire(t, name, n, permitLease)
				return func() { require.Equal(t, n, holder.tryRelease(t, name, ids...)) }
			},
		} {
			name := t.Name() + " " + title
			require.True(t, holder.trySetPermits(t, name, 3))
			one, two := takes(name, 1), takes(name, 2)
			wantsTwo := w.startJavaTake(t, greedy, name, 2)
			wantsOne := w.startJavaTake(t, modest, name, 1)
			begin := time.Now()
			one()
			_, err := wantsOne.await(asleep)
			slept := time.Since(begin)
			require.False(t, wantsTwo.answered())
			t.Logf("%s: the thread that wants one got it: %v; %d of 3 are free", title, err == nil, inspect(t, p(name, 3)).Free)
			require.Error(t, err, "Redisson was known to leave it asleep")
			require.GreaterOrEqual(t, slept, asleep)
			begin = time.Now()
			two()
			ids := append(wantsOne.permitIDs(t), wantsTwo.permitIDs(t)...)
			requireHeard(t, "both threads after the next message", []time.Duration{wantsOne.at.Sub(begin), wantsTwo.at.Sub(begin)})
			greedy.release(t, name, ids...)
			w.requireAllFree(t, name, 3)
		}
	})
}

// Anybody can give a permit back by its ID: Go one of Java, also of a thread that has no
// lease and never ends.
func TestPermits_GoReturnsJavasPermits(t *testing.T) {
	const limit = 3
	each(t, func(t *testing.T, w *world) {
		name := t.Name()
		g, java := w.goSide(t, lockmgr.Options{}), w.open(t, request{})
		p := g.Permits(name, limit)
		a, b := java.thread("a").permits(), java.thread("b").permits()
		require.True(t, a.trySetPermits(t, name, limit))
		ids := a.acquire(t, name, 1, permitLease)
		endless := a.acquire(t, name, 1, noLease)
		ids = append(ids, endless...)

		// 3.16.8 writes the digits of an ID, 4.7.0 its bytes.
		for _, member := range w.members(t, name) {
			if w.version == oldest {
				require.Contains(t, ids, member)
			} else {
				require.Contains(t, ids, hex.EncodeToString([]byte(member)))
			}
		}
		taken := inspect(t, p).Taken
		require.Len(t, taken, 2)
		require.Equal(t, ids, []string{taken[0].ID, taken[1].ID})
		require.Positive(t, taken[0].TTL)
		require.Negative(t, taken[1].TTL, "it has no end")

		ours := take(t, p, 1)
		javaWaits := w.startJavaTake(t, b, name, 1)
		goWaits := g.startTake(t, w, p, name, 1)
		begin := time.Now()
		done, err := p.Return(t.Context(), ids...)
		require.NoError(t, err)
		require.True(t, done)
		l, theirs := goWaits.granted(t), javaWaits.permitIDs(t)
		requireHeard(t, "Go and Java after a Return of Go", []time.Duration{goWaits.at.Sub(begin), javaWaits.at.Sub(begin)})
		w.requireCounts(t, p, a, name, limit, 3)

		// They are gone for those who had them, and cannot be given back twice.
		for _, id := range ids {
			a.requireNotTaken(t, name, id)
		}
		done, err = p.Return(t.Context(), theirs[0], ids[0])
		require.NoError(t, err)
		require.False(t, done, "all or none")
		w.requireCounts(t, p, a, name, limit, 3)
		b.release(t, name, theirs...)
		unlock(t, l, ours)
		w.requireAllFree(t, name, limit)
	})
}

// Java gives back permits of Go by their IDs. Their holder hears of it at its next
// renewal, and then gives the rest back. 3.16.8 looks for the digits of an ID, so it finds
// none of Go.
func TestPermits_JavaReleasesGosPermits(t *testing.T) {
	const limit, lease = 3, 3 * time.Second
	together(t, func(t *testing.T, w *world) {
		name := t.Name()
		m := w.manager(t, withLease(lease))
		p, a := m.Permits(name, limit), w.open(t, request{}).thread("a").permits()
		l := take(t, p, 2)
		w.requireCounts(t, p, a, name, limit, 2)
		if w.version == oldest {
			require.Zero(t, a.tryRelease(t, name, l.PermitIDs()[0]))
			a.requireNotTaken(t, name, l.PermitIDs()[1])
			w.requireCounts(t, p, a, name, limit, 2)
			require.True(t, l.Valid())
			unlock(t, l)
			w.requireAllFree(t, name, limit)
			return
		}
		a.release(t, name, l.PermitIDs()[1])
		lost := requireLost(t, l, lease+time.Second)
		t.Logf("Lost fired %v after the release of one permit; the lease is %v", lost.Round(time.Millisecond), lease)
		w.requireCounts(t, p, a, name, limit, 0)

		l = take(t, p, 2)
		require.Zero(t, a.tryRelease(t, name, l.PermitIDs()[0], strings.Repeat("0", 32)), "all or none")
		require.Equal(t, 2, a.tryRelease(t, name, l.PermitIDs()...))
		w.requireCounts(t, p, a, name, limit, 0)
		ids := a.acquire(t, name, 3, permitLease)
		lost = requireLost(t, l, lease+time.Second)
		t.Logf("Lost fired %v after the release of both; the lease is %v", lost.Round(time.Millisecond), lease)
		w.requireCounts(t, p, a, name, limit, 3)
		require.Zero(t, a.tryRelease(t, name, l.PermitIDs()...))
		require.Equal(t, 3, a.tryRelease(t, name, ids...))
		w.requireAllFree(t, name, limit)
	})
}

// A permit of a killed JVM comes free at the end of its lease. One without a lease does
// not, until somebody gives it back.
func TestPermits_GoOutlivesKilledJVM(t *testing.T) {
	together(t, func(t *testing.T, w *world) {
		name := t.Name()
		victim, err := startAgent(w.version, w.classPath)
		require.NoError(t, err)
		t.Cleanup(victim.stop)
		java := w.openIn(t, victim, request{}).thread("a").permits()
		g := w.goSide(t, lockmgr.Options{})
		p := g.Permits(name, 2)
		require.True(t, java.trySetPermits(t, name, 2))
		java.acquire(t, name, 1, deadLease)
		endless := java.acquire(t, name, 1, noLease)
		waiting := g.startTake(t, w, p, name, 1)

		victim.kill()
		begin := time.Now()
		ttl := inspect(t, p).Taken[0].TTL
		require.Positive(t, ttl)
		l := waiting.granted(t)
		requireAtEndOfLease(t, "Go", ttl, begin, waiting.at)
		require.Equal(t, endless, idsOfOthers(t, p))
		requireRefused(t, p, 1)
		done, err := p.Return(t.Context(), endless...)
		require.NoError(t, err)
		require.True(t, done)
		unlock(t, take(t, p, 1), l)
		w.requireAllFree(t, name, 2)
	})
}

// Java gets the permits of Go: at the end of the lease if the process was killed or the
// lease is a fixed one, and at once if the manager is closed.
func TestPermits_JavaOutlivesGo(t *testing.T) {
	const fixed = 1500 * time.Millisecond
	together(t, func(t *testing.T, w *world) {
		a := w.open(t, request{}).thread("a").permits()
		p := w.manager(t, lockmgr.Options{}).Permits
		t.Run("killed", func(t *testing.T) {
			name := t.Name()
			victim := startChild(t, childTask{Addr: w.server.Addr(), Name: name, Lease: deadLease, Permits: 2})
			w.requireCounts(t, p(name, 2), a, name, 2, 2)
			waiting := w.startJavaTake(t, a, name, 1)
			victim.kill()
			begin := time.Now()
			ttl := inspect(t, p(name, 2)).Taken[0].TTL
			require.Positive(t, ttl)
			ids := waiting.permitIDs(t)
			requireAtEndOfLease(t, "Java", ttl, begin, waiting.at)
			w.requireCounts(t, p(name, 2), a, name, 2, 1)
			a.release(t, name, ids...)
			w.requireAllFree(t, name, 2)
		})
		t.Run("fixed lease", func(t *testing.T) {
			name := t.Name()
			l := take(t, p(name, 1), 1, lockmgr.FixedLease(fixed))
			waiting := w.startJavaTake(t, a, name, 1)
			begin := time.Now()
			ttl := inspect(t, p(name, 1)).Taken[0].TTL
			ids := waiting.permitIDs(t)
			// Go counts its lease from the send, less 1 %, and gives back what it has lost.
			late := waiting.at.Sub(begin) - ttl
			t.Logf("Java had a permit %v after the end of the lease", late.Round(time.Millisecond))
			require.False(t, l.Valid())
			require.Greater(t, late, -fixed/10)
			require.Less(t, late, 2*time.Second)
			requireLost(t, l, fixed)
			w.requireCounts(t, p(name, 1), a, name, 1, 1)
			a.release(t, name, ids...)
			w.requireAllFree(t, name, 1)
		})
		t.Run("closed", func(t *testing.T) {
			name := t.Name()
			m := w.manager(t, lockmgr.Options{})
			l := take(t, m.Permits(name, 1), 1)
			waiting := w.startJavaTake(t, a, name, 1)
			begin := time.Now()
			require.NoError(t, m.Close(t.Context()))
			ids := waiting.permitIDs(t)
			requireHeard(t, "Java after the manager was closed", []time.Duration{waiting.at.Sub(begin)})
			require.False(t, l.Valid())
			a.release(t, name, ids...)
			w.requireAllFree(t, name, 1)
		})
	})
}

// Go renews its permits while Java waits for one.
func TestPermits_GoRenewsWhileJavaWaits(t *testing.T) {
	const (
		lease  = 2 * time.Second
		leases = 3
	)
	together(t, func(t *testing.T, w *world) {
		name := t.Name()
		p, a := w.manager(t, withLease(lease)).Permits(name, 2), w.open(t, request{}).thread("a").permits()
		l := take(t, p, 2)
		waiting := w.startJavaTake(t, a, name, 1)
		// The passing of time is what is tested.
		for end := time.Now().Add(leases * lease); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
			require.Len(t, inspect(t, p).Taken, 2)
			require.False(t, waiting.answered())
		}
		require.True(t, l.Valid())
		unlock(t, l)
		a.release(t, name, waiting.permitIDs(t)...)
		w.requireAllFree(t, name, 2)
	})
}

// A permit of Java that is given back too late. 3.16.8 does not look at the lease, and
// says that it was given back if nobody has noticed its end. The counts are right with both.
func TestPermits_JavaReleasesTooLate(t *testing.T) {
	const lease = 300 * time.Millisecond
	together(t, func(t *testing.T, w *world) {
		name := t.Name()
		p, a := w.manager(t, lockmgr.Options{}).Permits(name, 2), w.open(t, request{}).thread("a").permits()
		require.True(t, a.trySetPermits(t, name, 2))

		ids := a.acquire(t, name, 1, lease)
		eventually(t, func() bool { return len(inspect(t, p).Taken) == 0 }, func() string { return "the lease has ended" })
		require.Len(t, w.members(t, name), 1, "nobody has noticed")
		require.Equal(t, 2, inspect(t, p).Free)
		done, err := p.Return(t.Context(), ids...)
		require.NoError(t, err)
		require.False(t, done)
		if w.version == oldest {
			a.release(t, name, ids...)
		} else {
			a.requireNotTaken(t, name, ids[0])
		}
		w.requireCounts(t, p, a, name, 2, 0)

		ids = a.acquire(t, name, 1, lease)
		l := take(t, p, 1)
		other := take(t, p, 1) // that of Java, when its lease has ended
		a.requireNotTaken(t, name, ids[0])
		w.requireCounts(t, p, a, name, 2, 2)
		unlock(t, l, other)
		w.requireAllFree(t, name, 2)
	})
}

// How many permits there are is what the first of either side has said, until one of
// them changes it. More of them wake the other side.
func TestPermits_Limits(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		byJava, byGo := t.Name()+" by Java", t.Name()+" by Go"
		g, java := w.goSide(t, lockmgr.Options{}), w.open(t, request{})
		a, b := java.thread("a").permits(), java.thread("b").permits()

		require.True(t, a.trySetPermits(t, byJava, 2))
		require.False(t, a.trySetPermits(t, byJava, 5))
		p := g.Permits(byJava, 7)
		l := take(t, p, 2)
		requireRefused(t, p, 1)
		w.requireCounts(t, p, a, byJava, 2, 2)
		waiting := g.startTake(t, w, p, byJava, 1)
		begin := time.Now()
		a.change(t, "addPermits", byJava, 1)
		third := waiting.granted(t)
		requireHeard(t, "Go after addPermits of Java", []time.Duration{waiting.at.Sub(begin)})
		w.requireCounts(t, p, a, byJava, 3, 3)
		a.change(t, "addPermits", byJava, -1)
		require.Equal(t, -1, inspect(t, p).Free)
		unlock(t, third)
		w.requireCounts(t, p, a, byJava, 2, 2)
		limit := 2
		if w.several() {
			waiting = g.startTake(t, w, p, byJava, 2)
			begin = time.Now()
			a.change(t, "setPermits", byJava, 4)
			more := waiting.granted(t)
			requireHeard(t, "Go after setPermits of Java", []time.Duration{waiting.at.Sub(begin)})
			w.requireCounts(t, p, a, byJava, 4, 4)
			unlock(t, more)
			limit = 4
		}
		unlock(t, l)
		w.requireAllFree(t, byJava, limit)

		p = g.Permits(byGo, 1)
		l = take(t, p, 1)
		require.False(t, a.trySetPermits(t, byGo, 9))
		w.requireCounts(t, p, a, byGo, 1, 1)
		waits := []*call{w.startJavaTake(t, a, byGo, 1), w.startJavaTake(t, b, byGo, 1)}
		var took []time.Duration
		begin = time.Now()
		n, err := p.AddLimit(t.Context(), 2)
		require.NoError(t, err)
		require.Equal(t, 3, n)
		var ids []string
		for _, waiting := range waits {
			ids = append(ids, waiting.permitIDs(t)...)
			took = append(took, waiting.at.Sub(begin))
		}
		requireHeard(t, "Java after AddLimit of Go", took)
		w.requireCounts(t, p, a, byGo, 3, 3)
		again := w.startJavaTake(t, a, byGo, 1)
		begin = time.Now()
		require.NoError(t, p.SetLimit(t.Context(), 4))
		ids = append(ids, again.permitIDs(t)...)
		requireHeard(t, "Java after SetLimit of Go", []time.Duration{again.at.Sub(begin)})

		// With fewer than are taken, a permit comes free when enough were given back. Redisson
		// publishes the negative numbers, too. Its own waiting client throws an
		// IllegalArgumentException at each, which it logs, and goes on waiting.
		require.NoError(t, p.SetLimit(t.Context(), 2))
		require.Equal(t, -2, inspect(t, p).Free)
		require.EqualValues(t, -2, a.number(t, "available", byGo))
		again = w.startJavaTake(t, a, byGo, 1)
		b.release(t, byGo, ids[0])
		unlock(t, l)
		w.requireCounts(t, p, b, byGo, 2, 2)
		require.False(t, again.answered())
		requireRefused(t, p, 1)
		begin = time.Now()
		b.release(t, byGo, ids[1])
		ids = append(ids[2:], again.permitIDs(t)...)
		requireHeard(t, "Java after the permit that came free with a lowered limit", []time.Duration{again.at.Sub(begin)})
		w.requireCounts(t, p, a, byGo, 2, 2)
		b.release(t, byGo, ids...)
		w.requireAllFree(t, byGo, 2)
	})
}

// Both sides derive the same keys and the same channel from a name.
func TestPermits_Names(t *testing.T) {
	names := []string{
		"a",
		"with  two spaces, 'quotes' and a \"\\\" ",
		"Straße, 鍵, مفتاح, 🔒👩‍👩‍👧",
		"{order}",
		"{order}:items",
		"a{order}b",
		"a{b}c{d}",
		strings.Repeat("n", 512),
	}
	each(t, func(t *testing.T, w *world) {
		g, java := w.goSide(t, lockmgr.Options{}), w.open(t, request{}).thread("a").permits()
		var took []time.Duration
		for _, name := range names {
			took = append(took, w.handPermitOver(t, g, java, name, name)...)
		}
		requireWoken(t, "both sides, with all names", took)
	})
}

// 3.16.8 maps the name of the counter, and not that of the set of taken permits. So the
// sides exclude each other as long as all permits are given back. Go does not see the
// permits of Java, and can't free those of a killed JVM.
func TestPermits_NameMapper(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		g, java := w.goSide(t, lockmgr.Options{}), w.open(t, request{Prefix: "app:"}).thread("a").permits()
		if w.version == oldest {
			p := g.Permits("app:jobs", 1)
			require.True(t, java.trySetPermits(t, "jobs", 1))
			ids := java.acquire(t, "jobs", 1, permitLease)
			requireRefused(t, p, 1)
			require.Empty(t, w.members(t, "app:jobs"))
			require.Equal(t, ids, w.members(t, "jobs"))
			info := inspect(t, p)
			require.Zero(t, info.Limit)
			require.Empty(t, info.Taken)
			waiting := g.startTake(t, w, p, "app:jobs", 1)
			java.release(t, "jobs", ids...)
			unlock(t, waiting.granted(t))
			w.requireAllFree(t, "app:jobs", 1)
			return
		}
		took := w.handPermitOver(t, g, java, "app:jobs", "jobs")
		took = append(took, w.handPermitOver(t, g, java, "app:{jobs}:1", "{jobs}:1")...)
		requireHeard(t, "both sides, with a NameMapper", took)
	})
}

// handPermitOver has each side wait for the other once. The Java name is that which the
// NameMapper of its client, if any, turns into the name.
func (w *world) handPermitOver(t testing.TB, g goSide, java thread, name, javaName string) []time.Duration {
	t.Helper()
	p := g.Permits(name, 1)
	l := take(t, p, 1)
	require.Empty(t, java.tryAcquire(t, javaName, 1))
	javaWaits := w.startJavaTake(t, java, javaName, 1)
	begin := time.Now()
	unlock(t, l)
	ids := javaWaits.permitIDs(t)
	took := []time.Duration{javaWaits.at.Sub(begin)}
	require.Equal(t, ids, idsOfOthers(t, p), name)

	goWaits := g.startTake(t, w, p, name, 1)
	begin = time.Now()
	java.release(t, javaName, ids...)
	l = goWaits.granted(t)
	took = append(took, goWaits.at.Sub(begin))
	unlock(t, l)
	w.requireAllFree(t, name, 1)
	return took
}

// Go wants all permits, while threads of Java take one each without a pause.
func TestPermits_GoTakesAllBesideJava(t *testing.T) {
	const (
		limit  = 3
		window = 8 * time.Second
	)
	together(t, func(t *testing.T, w *world) {
		name := t.Name()
		p, java := w.manager(t, lockmgr.Options{}).Permits(name, limit), w.open(t, request{}).thread("load").permits()
		require.True(t, java.trySetPermits(t, name, limit))
		running := java.sendRequest(t, request{
			Op: "grants", Name: name, Threads: 6, Most: 1, Lease: permitLease.Milliseconds(),
			Hold: time.Millisecond.Microseconds(), Millis: window.Milliseconds(),
		})
		eventually(t, func() bool { return inspect(t, p).Free == 0 }, func() string { return "Java has all permits" })
		begin := time.Now()
		l := take(t, p, limit)
		took := time.Since(begin)
		for range 20 { // Java tries meanwhile
			require.Len(t, inspect(t, p).Taken, limit)
			require.Empty(t, idsOfOthers(t, p))
		}
		unlock(t, l)
		r := running.report(t)
		t.Logf("Go had %d of %[1]d permits after %v; grants of Java: %d, longest wait %.2f s", limit, took.Round(time.Millisecond), r.Grants, float64(r.Longest)/1000)
		require.Empty(t, r.Errors)
		w.requireAllFree(t, name, limit)
	})
}

const (
	permitGrants  = 4_000
	permitWorkers = 4 // of each side
)

// Both sides take one or two of three permits, 4,000 times in all, and count what is
// taken. It is never more than three, and at the end all are free. 3.16.8 can't take two
// at once, so its threads take one.
func TestPermits_MixedGrants(t *testing.T) {
	// A thread that was not woken sleeps for as long: see JavaWakesTheWrongThread.
	const limit, lease = 3, 5 * time.Second
	each(t, func(t *testing.T, w *world) {
		name, counter, inside := t.Name(), t.Name()+" counter", t.Name()+" inside"
		m, java := w.manager(t, withLease(lease)), w.open(t, request{}).thread("load").permits()
		p := m.Permits(name, limit)
		require.True(t, java.trySetPermits(t, name, limit))
		most := 2
		if !w.several() {
			most = 1
		}
		begin := time.Now()
		running := java.sendRequest(t, request{
			Op: "grants", Name: name, Threads: permitWorkers, Most: most, Lease: lease.Milliseconds(),
			Permits: limit, Limit: permitGrants, Counter: counter, Inside: inside,
		})
		var grants, overlaps atomic.Int64
		var longest [permitWorkers]time.Duration
		var wg sync.WaitGroup
		for i := range permitWorkers {
			wg.Go(func() {
				for more := true; more && !t.Failed(); {
					asked, n := time.Now(), 1+rand.IntN(2)
					l, err := p.Acquire(t.Context(), n)
					if err != nil {
						t.Errorf("Acquire: %v", err)
						return
					}
					longest[i] = max(longest[i], time.Since(asked))
					var fits bool
					if fits, more, err = w.countPermits(counter, inside, int64(n), limit); err != nil {
						t.Errorf("count: %v", err)
					}
					if !fits {
						overlaps.Add(1)
					}
					if more {
						grants.Add(1)
					}
					if err := l.Unlock(t.Context()); err != nil {
						t.Errorf("Unlock: %v", err)
					}
				}
			})
		}
		wg.Wait()
		r := running.report(t)
		t.Logf("%d grants of Go, %d of Java in %.1f s: more than %d were taken %d times; longest wait: Go %.2f s, Java %.2f s",
			grants.Load(), r.Grants, time.Since(begin).Seconds(), limit, overlaps.Load()+r.Overlaps,
			slices.Max(longest[:]).Seconds(), float64(r.Longest)/1000)
		require.Empty(t, r.Errors)
		require.Zero(t, overlaps.Load()+r.Overlaps, "more permits were taken than there are")
		require.EqualValues(t, permitGrants, grants.Load()+r.Grants)
		require.GreaterOrEqual(t, grants.Load(), int64(permitGrants/100))
		require.GreaterOrEqual(t, r.Grants, int64(permitGrants/100))
		require.Zero(t, w.number(t, inside))
		require.Greater(t, w.number(t, counter), int64(permitGrants))
		w.requireAllFree(t, name, limit)
	})
}

// countPermits counts n permits as taken for a moment, as Load.java does. fits reports
// whether no more were taken than there are. more reports whether the grant is one of
// those that are wanted.
func (w *world) countPermits(counter, inside string, n, limit int64) (fits, more bool, err error) {
	c := w.redis
	taken, err := c.Do(background, c.B().Incrby().Key(inside).Increment(n).Build()).AsInt64()
	if err != nil {
		return false, false, err
	}
	grants, err := c.Do(background, c.B().Incr().Key(counter).Build()).AsInt64()
	if err != nil {
		return false, false, err
	}
	err = c.Do(background, c.B().Decrby().Key(inside).Decrement(n).Build()).Error()
	return taken <= limit, grants <= permitGrants, err
}
