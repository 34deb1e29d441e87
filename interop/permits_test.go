package interop

import (
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

const (
	// permitLease is that of Java's permits that shall not end: Redisson does not renew them. It is
	// also the default of Go.
	permitLease = 30 * time.Second
	// noLease is that of Java's permits that have no end.
	noLease = -time.Millisecond
	// permitRounds is how often each kind of wake-up is measured.
	permitRounds = 7
)

// Each side counts the permits of the other, knows them by their IDs, and gets none when all are
// taken.
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
		require.Greater(t, time.Since(begin), wait-5*time.Millisecond, "the JVM waits by another clock")
		_, err := other.Acquire(t.Context(), 1, lockmgr.MaxWait(wait))
		require.ErrorIs(t, err, lockmgr.ErrWaitTimeout)

		a.release(t, name, ids[1])
		two := redistest.Must(other.TryAcquire(t.Context(), 1))(t)
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

// Anybody can give a permit back by its ID: Go one of Java, also of a thread that has no lease and
// never ends.
func TestPermits_GoReturnsJavasPermits(t *testing.T) {
	const limit = 3
	each(t, func(t *testing.T, w *world) {
		name := t.Name()
		g, java := w.manager(t, lockmgr.Options{}), w.open(t, request{})
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
		requireHeard(t, "Go and Java after a Return of Go", wakes[waiter](t, func() { returns(t, p, ids...) }, goWaits, javaWaits))
		theirs := javaWaits.permitIDs(t)
		w.requireCounts(t, p, a, name, limit, 3)

		// They are gone for those who had them, and cannot be given back twice.
		for _, id := range ids {
			a.requireNotTaken(t, name, id)
		}
		done := redistest.Must(p.Return(t.Context(), theirs[0], ids[0]))(t)
		require.False(t, done, "all or none")
		w.requireCounts(t, p, a, name, limit, 3)
		b.release(t, name, theirs...)
		unlock(t, goWaits.lock, ours)
		w.requireAllFree(t, name, limit)
	})
}

// Java gives back permits of Go by their IDs. Their holder hears of it at its next renewal, and
// then gives the rest back. 3.16.8 looks for the digits of an ID, so it finds none of Go.
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
		requireLost(t, l, lease+time.Second)
		w.requireCounts(t, p, a, name, limit, 0)

		l = take(t, p, 2)
		require.Zero(t, a.tryRelease(t, name, l.PermitIDs()[0], strings.Repeat("0", 32)), "all or none")
		require.Equal(t, 2, a.tryRelease(t, name, l.PermitIDs()...))
		w.requireCounts(t, p, a, name, limit, 0)
		ids := a.acquire(t, name, 3, permitLease)
		requireLost(t, l, lease+time.Second)
		w.requireCounts(t, p, a, name, limit, 3)
		require.Zero(t, a.tryRelease(t, name, l.PermitIDs()...))
		require.Equal(t, 3, a.tryRelease(t, name, ids...))
		w.requireAllFree(t, name, limit)
	})
}

// How many permits there are is what the first of either side has said, until one of them changes
// it. More of them wake the other side.
func TestPermits_Limits(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		byJava, byGo := t.Name()+" by Java", t.Name()+" by Go"
		g, java := w.manager(t, lockmgr.Options{}), w.open(t, request{})
		a, b := java.thread("a").permits(), java.thread("b").permits()

		require.True(t, a.trySetPermits(t, byJava, 2))
		require.False(t, a.trySetPermits(t, byJava, 5))
		p := g.Permits(byJava, 7)
		l := take(t, p, 2)
		requireRefused(t, p, 1)
		w.requireCounts(t, p, a, byJava, 2, 2)
		waiting := g.startTake(t, w, p, byJava, 1)
		requireHeard(t, "Go after addPermits of Java", wakes(t, func() { a.change(t, "addPermits", byJava, 1) }, waiting))
		w.requireCounts(t, p, a, byJava, 3, 3)
		a.change(t, "addPermits", byJava, -1)
		require.Equal(t, -1, inspect(t, p).Free)
		unlock(t, waiting.lock)
		w.requireCounts(t, p, a, byJava, 2, 2)
		limit := 2
		if w.several() {
			waiting = g.startTake(t, w, p, byJava, 2)
			requireHeard(t, "Go after setPermits of Java", wakes(t, func() { a.change(t, "setPermits", byJava, 4) }, waiting))
			w.requireCounts(t, p, a, byJava, 4, 4)
			unlock(t, waiting.lock)
			limit = 4
		}
		unlock(t, l)
		w.requireAllFree(t, byJava, limit)

		p = g.Permits(byGo, 1)
		l = take(t, p, 1)
		require.False(t, a.trySetPermits(t, byGo, 9))
		w.requireCounts(t, p, a, byGo, 1, 1)
		waits := []*call{w.startJavaTake(t, a, byGo, 1), w.startJavaTake(t, b, byGo, 1)}
		requireHeard(t, "Java after AddLimit of Go", wakes(t, func() {
			n := redistest.Must(p.AddLimit(t.Context(), 2))(t)
			require.Equal(t, 3, n)
		}, waits...))
		ids := append(waits[0].permitIDs(t), waits[1].permitIDs(t)...)
		w.requireCounts(t, p, a, byGo, 3, 3)
		again := w.startJavaTake(t, a, byGo, 1)
		requireHeard(t, "Java after SetLimit of Go", wakes(t, func() { require.NoError(t, p.SetLimit(t.Context(), 4)) }, again))
		ids = append(ids, again.permitIDs(t)...)

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
		requireHeard(t, "Java after the permit that came free with a lowered limit", wakes(t, func() { b.release(t, byGo, ids[1]) }, again))
		ids = append(ids[2:], again.permitIDs(t)...)
		w.requireCounts(t, p, a, byGo, 2, 2)
		b.release(t, byGo, ids...)
		w.requireAllFree(t, byGo, 2)
	})
}

// Both sides derive the same keys and the same channel from a name.
func TestPermits_Names(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		g, java := w.manager(t, lockmgr.Options{}), w.open(t, request{}).thread("a").permits()
		var took []time.Duration
		for _, name := range oddNames {
			took = append(took, w.handPermitOver(t, g, java, name, name)...)
		}
		requireWoken(t, "both sides, with all names", took)
	})
}

// 3.16.8 maps the name of the counter, and not that of the set of taken permits. So the sides
// exclude each other as long as all permits are given back. Go does not see the permits of Java,
// and can't free those of a killed JVM.
func TestPermits_NameMapper(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		g, java := w.manager(t, lockmgr.Options{}), w.open(t, request{Prefix: "app:"}).thread("a").permits()
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
