package interop

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/lockmgr"
)

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
			one = append(one, wakes(t, func() { unlock(t, l) }, waiting)...)
			ids := waiting.permitIDs(t)
			require.Empty(t, b.tryAcquire(t, name, 1))
			unlock(t, other)
			a.release(t, name, ids...)

			// Both come free at once, for two threads.
			l = take(t, p, 2)
			waits := []*call{w.startJavaTake(t, a, name, 1), w.startJavaTake(t, b, name, 1)}
			both = append(both, wakes(t, func() { unlock(t, l) }, waits...)...)
			a.release(t, name, append(waits[0].permitIDs(t), waits[1].permitIDs(t)...)...)

			// Both come free one after the other, for a thread that wants two.
			if w.several() {
				l, other = take(t, p, 1), take(t, p, 1)
				waiting = w.startJavaTake(t, a, name, 2)
				unlock(t, l)
				pair = append(pair, wakes(t, func() { unlock(t, other) }, waiting)...)
				ids = waiting.permitIDs(t)
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
		g, other, java := w.manager(t, lockmgr.Options{}), w.manager(t, lockmgr.Options{}), w.open(t, request{})
		a, b := java.thread("a").permits(), java.thread("b").permits()
		p, theirs := g.Permits(name, 2), other.Permits(name, 2)
		require.True(t, a.trySetPermits(t, name, 2))
		var one, both, pair []time.Duration
		for range permitRounds {
			// One of two comes free for one goroutine.
			ids := append(a.acquire(t, name, 1, permitLease), b.acquire(t, name, 1, permitLease)...)
			waiting := g.startTake(t, w, p, name, 1)
			one = append(one, wakes(t, func() { b.release(t, name, ids[0]) }, waiting)...)
			l := waiting.granted(t)
			require.Equal(t, []string{ids[1]}, idsOfOthers(t, p))
			a.release(t, name, ids[1])
			unlock(t, l)

			// Both come free, for two managers.
			ids = append(a.acquire(t, name, 1, permitLease), b.acquire(t, name, 1, permitLease)...)
			waits := []*wait{g.startTake(t, w, p, name, 1), other.startTake(t, w, theirs, name, 1)}
			w.awaitChannel(t, permitChannelOf(name), func(have int64) bool { return have >= 2 })
			both = append(both, wakes(t, func() { w.releaseAll(t, a, name, ids) }, waits...)...)
			unlock(t, waits[0].lock, waits[1].lock)

			// Both come free one after the other, for a goroutine that wants two.
			ids = append(a.acquire(t, name, 1, permitLease), b.acquire(t, name, 1, permitLease)...)
			waiting = g.startTake(t, w, p, name, 2)
			a.release(t, name, ids[0])
			require.False(t, waiting.over())
			pair = append(pair, wakes(t, func() { a.release(t, name, ids[1]) }, waiting)...)
			l = waiting.granted(t)
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

// One permit comes free while a Java thread waits for two and another one for one. Redisson wakes
// the first of them only, which can't use it, so the second one sleeps on beside a free permit. It
// is so with Redisson alone. The next message wakes both, or the end of the lease that the thread
// was told.
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
			requireHeard(t, "both threads after the next message", wakes(t, two, wantsOne, wantsTwo))
			greedy.release(t, name, append(wantsOne.permitIDs(t), wantsTwo.permitIDs(t)...)...)
			w.requireAllFree(t, name, 3)
		}
	})
}

// handPermitOver has each side wait for the other once. The Java name is that which the NameMapper
// of its client, if any, turns into the name.
func (w *world) handPermitOver(t testing.TB, g manager, java thread, name, javaName string) []time.Duration {
	t.Helper()
	p := g.Permits(name, 1)
	l := take(t, p, 1)
	require.Empty(t, java.tryAcquire(t, javaName, 1))
	javaWaits := w.startJavaTake(t, java, javaName, 1)
	took := wakes(t, func() { unlock(t, l) }, javaWaits)
	ids := javaWaits.permitIDs(t)
	require.Equal(t, ids, idsOfOthers(t, p), name)

	goWaits := g.startTake(t, w, p, name, 1)
	took = append(took, wakes(t, func() { java.release(t, javaName, ids...) }, goWaits)...)
	l = goWaits.granted(t)
	unlock(t, l)
	w.requireAllFree(t, name, 1)
	return took
}
