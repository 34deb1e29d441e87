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
