package interop

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// fairRounds is how often each kind of wake-up is measured.
const fairRounds = 10

func TestFair_ExcludesTheOtherSide(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		name := w.fairName(t, "")
		g, other, java := w.manager(t, lockmgr.Options{}), w.manager(t, lockmgr.Options{}), w.open(t, request{})
		a, b := java.thread("a").fair(), java.thread("b").fair()

		l := lock(t, g, name, fairly)
		require.LessOrEqual(t, a.requireOthers(t, name), 30*time.Second)
		require.Equal(t, map[string]string{l.HolderID(): "1"}, w.record(t, name))
		other.refuses(t, name, fairly)
		require.Empty(t, w.queue(t, name), "a try has no place")
		unlock(t, l)
		require.False(t, a.is(t, "isLocked", name))

		require.True(t, a.tryLock(t, name))
		g.refuses(t, name, fairly)
		require.False(t, b.tryLock(t, name))
		info := redistest.Must(g.Inspect(t.Context(), name))(t)
		require.Equal(t, []lockmgr.Holder{{Owner: a.owner(t), Count: 1}}, faults.Entries(info))
		require.Empty(t, info.Queue)
		require.True(t, 0 < info.TTL && info.TTL <= 30*time.Second, "TTL %v", info.TTL)

		// Inspect tells who waits.
		members := []*member{
			w.goJoins(t.Context(), t, g, name),
			w.javaJoins(t, b, name, 0),
			w.goJoins(t.Context(), t, other, name),
		}
		info = redistest.Must(g.Inspect(t.Context(), name))(t)
		require.Len(t, info.Queue, len(members))
		for i, m := range members {
			require.Equal(t, m.id, info.Queue[i].Owner)
			require.Positive(t, info.Queue[i].TTL)
		}
		a.unlock(t, name)
		serveAll(t, members...)
		unlock(t, g.grants(t, name, fairly))
	})
}

// A request that does not wait fails if anybody waits.
func TestFair_TriesDoNotOvertake(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		name := w.fairName(t, "")
		g, other := w.manager(t, lockmgr.Options{}), w.manager(t, lockmgr.Options{})
		one, two := w.two(t)
		holder, waiter, passer := one.thread("holder").fair(), one.thread("waiter").fair(), two.thread("passer").fair()
		for range fairRounds {
			holder.lock(t, name)
			theirs := w.javaJoins(t, waiter, name, 0)
			ours := w.goJoins(t.Context(), t, g, name)
			holder.unlock(t, name)
			// Meanwhile the lock may be free, and belongs to the one that waits.
			other.refuses(t, name, fairly)
			theirs.hasLock(t, ours)
			theirs.unlock(t)
			require.False(t, passer.tryLock(t, name))
			ours.hasLock(t)
			unlock(t, ours.wait.lock)
		}
	})
}

func TestFair_JavaWaitsForGo(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		m, java := w.manager(t, lockmgr.Options{}), w.open(t, request{}).thread("a").fair()
		requireWoken(t, "Java after an unlock of Go", w.javaWakes(t, m, java, "fair", fairRounds, w.fairName(t, "")))
	})
}

func TestFair_GoWaitsForJava(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		m, java := w.manager(t, lockmgr.Options{}), w.open(t, request{}).thread("a").fair()
		requireWoken(t, "Go after an unlock of Java", w.goWakes(t, m, java, "fair", fairRounds, w.fairName(t, "")))
	})
}

// The lock goes from one to the next by messages, in all four ways from side to side.
func TestFair_WakesInTurn(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		name := w.fairName(t, "")
		one, two := w.manager(t, lockmgr.Options{}), w.manager(t, lockmgr.Options{})
		java := w.open(t, request{})
		var toGo, toJava []time.Duration
		for range fairRounds {
			first := lock(t, one, name, fairly)
			members := []*member{
				w.goJoins(t.Context(), t, two, name),
				w.javaJoins(t, java.thread("a"), name, 0),
				w.javaJoins(t, java.thread("b"), name, 0),
				w.goJoins(t.Context(), t, two, name),
				w.goJoins(t.Context(), t, one, name),
				w.goJoins(t.Context(), t, one, name),
				w.javaJoins(t, java.thread("c"), name, 0),
			}
			last := members[len(members)-1].id
			w.awaitChannel(t, channelOf(name)+":"+last, func(have int64) bool { return have == 1 })
			begin := time.Now()
			unlock(t, first)
			for i, m := range members {
				m.hasLock(t, members[i+1:]...)
				if m.wait != nil {
					toGo = append(toGo, m.ended().Sub(begin))
				} else {
					toJava = append(toJava, m.ended().Sub(begin))
				}
				begin = time.Now()
				m.unlock(t)
			}
		}
		requireWoken(t, "Go after the one before it", toGo)
		requireWoken(t, "Java after the one before it", toJava)
	})
}

// A force unlock of either side wakes the first one that waits.
func TestFair_ForceUnlock(t *testing.T) {
	const lease = 1500 * time.Millisecond
	together(t, func(t *testing.T, w *world) {
		name := w.fairName(t, "")
		m, other, java := w.manager(t, withLease(lease)), w.manager(t, lockmgr.Options{}), w.open(t, request{})
		a, b := java.thread("a").fair(), java.thread("b").fair()

		l := lock(t, m, name, fairly)
		ours := w.goJoins(t.Context(), t, other, name)
		theirs := w.javaJoins(t, b, name, 0)
		// Go listens where Java tells it when it knows that Java takes part.
		w.awaitChannel(t, channelOf(name)+":"+ours.id, func(have int64) bool { return have == 1 })
		requireHeard(t, "Go after a forceUnlock of Java", wakes(t, func() { require.True(t, a.is(t, "forceUnlock", name)) }, ours))
		ours.hasLock(t, theirs)
		requireLost(t, l, lease+time.Second)
		require.Equal(t, map[string]string{ours.id: "1"}, w.record(t, name))

		again := w.goJoins(t.Context(), t, m, name)
		requireHeard(t, "Java after a ForceUnlock of Go", wakes(t, func() { m.forces(t, name) }, theirs))
		theirs.hasLock(t, again)
		require.ErrorIs(t, ours.wait.lock.Unlock(t.Context()), lockmgr.ErrLeaseLost)
		requireHeard(t, "Go after a ForceUnlock of Go", wakes(t, func() { m.forces(t, name) }, again))
		theirs.java.requireNotOwner(t, name)
		again.unlock(t)
		require.False(t, a.is(t, "forceUnlock", name))
		was := redistest.Must(m.ForceUnlock(t.Context(), name))(t)
		require.False(t, was)
	})
}

// A re-entry needs no turn: it comes before those that wait. The other side sees that the lock is
// held until the last unlock.
func TestFair_Reentry(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		name := w.fairName(t, "")
		m, other, java := w.manager(t, lockmgr.Options{}), w.manager(t, lockmgr.Options{}), w.open(t, request{})
		a, b := java.thread("a").fair(), java.thread("b").fair()

		require.Zero(t, a.number(t, "holdCount", name))
		a.lock(t, name)
		ours, theirs := w.goJoins(t.Context(), t, m, name), w.javaJoins(t, b, name, 0)
		require.True(t, a.tryLock(t, name))
		require.EqualValues(t, 2, a.number(t, "holdCount", name))
		info := redistest.Must(m.Inspect(t.Context(), name))(t)
		require.Equal(t, []lockmgr.Holder{{Owner: a.owner(t), Count: 2}}, faults.Entries(info))
		a.unlock(t, name)
		require.EqualValues(t, 1, a.number(t, "holdCount", name))
		require.Equal(t, map[string]string{a.owner(t): "1"}, w.record(t, name))
		w.awaitQueue(t, name, ours, theirs)
		require.False(t, ours.over())
		a.unlock(t, name)

		ours.hasLock(t, theirs)
		outer := ours.wait.lock
		inner := lock(t, m, name, fairly, lockmgr.AsOwner(outer.Owner()))
		require.Equal(t, outer.HolderID(), inner.HolderID())
		last := w.goJoins(t.Context(), t, other, name)
		unlock(t, inner)
		require.Equal(t, map[string]string{outer.HolderID(): "1"}, w.record(t, name))
		require.False(t, a.tryLock(t, name))
		require.Zero(t, a.number(t, "holdCount", name))
		w.awaitQueue(t, name, theirs, last)
		require.False(t, theirs.over())
		unlock(t, outer)
		serveAll(t, theirs, last)
	})
}

func TestFair_UnlockByOthers(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		name := w.fairName(t, "")
		m, java := w.manager(t, lockmgr.Options{}), w.open(t, request{})
		a, b := java.thread("a").fair(), java.thread("b").fair()

		a.lock(t, name)
		ours := w.goJoins(t.Context(), t, m, name)
		b.requireNotOwner(t, name)
		require.Equal(t, map[string]string{a.owner(t): "1"}, w.record(t, name))
		require.False(t, ours.over())
		a.unlock(t, name)

		ours.hasLock(t)
		theirs := w.javaJoins(t, a, name, 0)
		b.requireNotOwner(t, name)
		require.Equal(t, map[string]string{ours.id: "1"}, w.record(t, name))
		require.True(t, ours.wait.lock.Valid())
		require.False(t, theirs.over())
		ours.unlock(t)
		theirs.hasLock(t)
		require.ErrorIs(t, ours.wait.lock.Unlock(t.Context()), lockmgr.ErrNotHeld)
		require.Equal(t, map[string]string{theirs.id: "1"}, w.record(t, name))
		theirs.unlock(t)
		// Redisson's unlock of a fair lock that nobody has succeeds.
		require.NoError(t, b.send(t, "unlock", name).result(t))
	})
}

// A fixed lease ends, the next one gets the lock, and the late unlock of the former holder does not
// touch it.
func TestFair_LateUnlock(t *testing.T) {
	together(t, func(t *testing.T, w *world) {
		name := w.fairName(t, "")
		w.unlockLate(t, w.open(t, request{}).thread("a").fair(), name)
	})
}

// Waits with a limit end by the unlock or by the limit, and then leave no place.
func TestFair_LimitedWait(t *testing.T) {
	const limit = 300 * time.Millisecond
	together(t, func(t *testing.T, w *world) {
		name := w.fairName(t, "")
		m, java := w.manager(t, lockmgr.Options{}), w.open(t, request{})
		a, b := java.thread("a").fair(), java.thread("b").fair()

		l := lock(t, m, name, fairly)
		begin := time.Now()
		theirs := w.javaJoins(t, a, name, limit)
		theirs.gaveUp(t)
		require.GreaterOrEqual(t, theirs.ended().Sub(begin), limit)
		w.awaitQueue(t, name)
		theirs = w.javaJoins(t, a, name, eventLimit)
		unlock(t, l)
		theirs.hasLock(t)

		begin = time.Now()
		ours := w.goJoins(t.Context(), t, m, name, lockmgr.MaxWait(limit))
		ours.gaveUp(t)
		require.ErrorIs(t, ours.wait.err, lockmgr.ErrWaitTimeout)
		require.GreaterOrEqual(t, ours.ended().Sub(begin), limit)
		w.awaitQueue(t, name)
		ours = w.goJoins(t.Context(), t, m, name, lockmgr.MaxWait(eventLimit))
		theirs.unlock(t)
		ours.hasLock(t)
		require.False(t, b.tryLock(t, name))
		ours.unlock(t)
		require.True(t, b.tryLock(t, name))
		b.unlock(t, name)
	})
}

// A manager that is closed takes its requests out of the queue.
func TestFair_CloseInTheQueue(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		name := w.fairName(t, "")
		m, closes, java := w.manager(t, lockmgr.Options{}), w.manager(t, lockmgr.Options{}), w.open(t, request{})
		holder := lock(t, m, name, fairly)
		leave := []*member{w.goJoins(t.Context(), t, closes, name)}
		theirs := w.javaJoins(t, java.thread("a"), name, 0)
		leave = append(leave, w.goJoins(t.Context(), t, closes, name))
		require.NoError(t, closes.Close(t.Context()))
		for _, m := range leave {
			m.gaveUp(t)
			require.ErrorIs(t, m.wait.err, lockmgr.ErrClosed)
		}
		begin := time.Now()
		w.awaitQueue(t, name, theirs)
		t.Logf("their places were gone after %v", time.Since(begin).Round(time.Millisecond))
		unlock(t, holder)
		serveAll(t, theirs)
	})
}

// Each side renews its lease while the other one waits.
func TestFair_WatchdogsOutlastWaiters(t *testing.T) {
	const (
		lease  = 1500 * time.Millisecond
		leases = 2
	)
	together(t, func(t *testing.T, w *world) {
		byGo, byJava := w.fairName(t, " held by Go"), w.fairName(t, " held by Java")
		m, java := w.manager(t, withLease(lease)), w.open(t, request{Watchdog: lease.Milliseconds()})
		holder := java.thread("holder").fair()
		l := lock(t, m, byGo, fairly)
		holder.lock(t, byJava)
		ours, theirs := w.goJoins(t.Context(), t, m, byJava), w.javaJoins(t, java.thread("waiter"), byGo, 0)
		goRecord, javaRecord := map[string]string{l.HolderID(): "1"}, map[string]string{holder.owner(t): "1"}
		// The passing of time is what is tested.
		for end := time.Now().Add(leases * lease); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
			require.Equal(t, goRecord, w.record(t, byGo))
			require.Equal(t, javaRecord, w.record(t, byJava))
			require.False(t, theirs.over())
			require.False(t, ours.over())
		}
		require.True(t, l.Valid())
		unlock(t, l)
		holder.unlock(t, byJava)
		serveAll(t, ours)
		serveAll(t, theirs)
	})
}

// Redisson's fair lock that is not reentrant has the same records. It throws when its own thread
// asks again.
func TestFair_NotReentrant(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		if w.version == oldest {
			t.Skip("SKIPPED: Redisson " + oldest + " has no fair locks that are not reentrant")
		}
		name := w.fairName(t, "")
		m, java := w.manager(t, lockmgr.Options{}), w.open(t, request{})
		a, b := java.thread("a").as("nonReentrantFair"), java.thread("b").fair()
		a.lock(t, name)
		ours, theirs := w.goJoins(t.Context(), t, m, name), w.javaJoins(t, b, name, 0)
		require.Error(t, a.send(t, "lock", name).result(t))
		require.Error(t, a.send(t, "tryLock", name).result(t))
		require.Equal(t, map[string]string{a.owner(t): "1"}, w.record(t, name))
		w.awaitQueue(t, name, ours, theirs)
		a.unlock(t, name)
		ours.hasLock(t, theirs)
		owner := a.owner(t)
		again := w.joins(t, name, func() { a.send(t, "lock", name) })
		require.Equal(t, owner, again)
		ours.unlock(t)
		theirs.hasLock(t)
		theirs.unlock(t)
		w.awaitRecord(t, name, again)
		a.unlock(t, name)
	})
}

// Both sides derive the same keys and the same channels from a name.
func TestFair_Names(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		m := w.manager(t, lockmgr.Options{})
		var took []time.Duration
		for _, name := range oddNames {
			took = append(took, w.handOver(t, m, w.open(t, request{}).thread("a").fair(), name, name)...)
		}
		requireWoken(t, "both sides, with all names", took)
	})
}

// 3.16.8 maps the name of the lock, and not those of the queue and of the deadlines. So the sides
// exclude each other, and have two queues.
func TestFair_NameMapper(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		m, java := w.manager(t, lockmgr.Options{}), w.open(t, request{Prefix: "app:"}).thread("a").fair()
		if w.version == oldest {
			l := lock(t, m, "app:orders", fairly)
			require.False(t, java.tryLock(t, "orders"))
			unlock(t, l)
			java.lock(t, "orders")
			m.refuses(t, "app:orders", fairly)
			java.unlock(t, "orders")
			return
		}
		took := w.handOver(t, m, java, "app:orders", "orders")
		took = append(took, w.handOver(t, m, java, "app:{orders}:1", "{orders}:1")...)
		requireHeard(t, "both sides, with a NameMapper", took)
	})
}
