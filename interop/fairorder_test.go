package interop

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/lockmgr"
)

// Members of two managers and of two clients have the lock in the order in which they have joined.
func TestFair_Order(t *testing.T) {
	const rounds, members = 8, 12
	each(t, func(t *testing.T, w *world) {
		name := w.fairName(t, "")
		managers := []manager{w.manager(t, lockmgr.Options{}), w.manager(t, lockmgr.Options{})}
		var clients [2]*client
		clients[0], clients[1] = w.two(t)
		for round := range rounds {
			seed := uint64(round)
			t.Logf("seed %d", seed)
			random := rand.New(rand.NewPCG(seed, 0))
			holder := clients[0].thread("holder").fair()
			holder.lock(t, name)
			var all []*member
			for i := range members {
				if n := random.IntN(4); n < 2 {
					all = append(all, w.goJoins(t.Context(), t, managers[n], name))
				} else {
					all = append(all, w.javaJoins(t, clients[n-2].thread(fmt.Sprint(i)), name, 0))
				}
			}
			w.awaitQueue(t, name, all...)
			holder.unlock(t, name)
			serveAll(t, all...)
		}
	})
}

// Those that give up leave the queue, and those behind them keep their order. Some give up while
// they wait, some when it is their turn.
func TestFair_OrderWhenSomeGiveUp(t *testing.T) {
	const wait = 700 * time.Millisecond
	together(t, func(t *testing.T, w *world) {
		name := w.fairName(t, "")
		one, two := w.manager(t, lockmgr.Options{}), w.manager(t, lockmgr.Options{})
		java := w.open(t, request{})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		first := lock(t, one, name, fairly)
		var stay, leave []*member
		stays := func(m *member) { stay = append(stay, m) }
		leaves := func(m *member) { leave = append(leave, m) }

		leaves(w.javaJoins(t, java.thread("a"), name, wait))
		stays(w.goJoins(t.Context(), t, two, name))
		leaves(w.goJoins(t.Context(), t, one, name, lockmgr.MaxWait(wait)))
		stays(w.javaJoins(t, java.thread("b"), name, 0))
		leaves(w.goJoins(ctx, t, two, name))
		stays(w.goJoins(t.Context(), t, one, name))
		leaves(w.javaJoins(t, java.thread("c"), name, wait))
		leaves(w.goJoins(t.Context(), t, two, name, lockmgr.MaxWait(wait)))
		stays(w.goJoins(t.Context(), t, two, name))
		stays(w.javaJoins(t, java.thread("d"), name, 0))
		leaves(w.goJoins(ctx, t, one, name))
		cancel()
		for _, m := range leave {
			m.gaveUp(t)
		}
		w.awaitQueue(t, name, stay...)
		unlock(t, first)
		serveAll(t, stay...)
	})
}

const (
	// moved is how soon the deadlines of Go are right again when something has changed. Go moves
	// them once in 1.25 s.
	moved = 1500 * time.Millisecond
	// placeTime is for how long a place of Go lasts, beyond the waits of Java before it.
	placeTime = 5 * time.Second
)

// A lineWatch looks at the queue of a fair lock all the time. No place of Go that waits may leave
// the queue or come close to its deadline.
type lineWatch struct {
	members []*member
	done    chan struct{}
	stop    context.CancelFunc
	bad     []string
	least   time.Duration // that any of them had left
}

func (w *world) watchLine(t testing.TB, name string, members []*member) *lineWatch {
	ctx, cancel := context.WithCancel(t.Context())
	v := &lineWatch{members: members, done: make(chan struct{}), stop: cancel, least: time.Hour}
	go func() {
		defer close(v.done)
		gone := make(map[*member]time.Time) // since when they are not in the queue
		for ctx.Err() == nil {
			left := w.left(t, name)
			for _, m := range members {
				if m.wait == nil || m.over() {
					continue
				}
				own, ok := left[m.id]
				switch {
				case ok:
					v.least = min(v.least, own)
					delete(gone, m)
				case gone[m].IsZero():
					gone[m] = time.Now()
				case time.Since(gone[m]) > wakeLimit: // else it may just have got the lock
					v.bad = append(v.bad, m.id+" has no place any more")
					return
				}
			}
			time.Sleep(10 * time.Millisecond)
		}
	}()
	return v
}

// end ends the watch and checks what it has seen.
func (v *lineWatch) end(t testing.TB) {
	t.Helper()
	v.stop()
	<-v.done
	require.Empty(t, v.bad)
	t.Logf("the places of Go lasted for %v more, at the least", v.least)
	require.Greater(t, v.least, placeTime/5)
}

// wrongDeadlines describes the places of Go whose deadline is not that of the waits of the Java
// threads before it and five seconds, or a little less. first is what may be added to the wait of
// the first thread, which can't be read.
func (w *world) wrongDeadlines(t testing.TB, name string, first time.Duration, members []*member, waits map[*member]time.Duration) (text string) {
	t.Helper()
	left, sum := w.left(t, name), time.Duration(0)
	for i, m := range members {
		if m.wait == nil {
			sum += waits[m]
			continue
		}
		if own := left[m.id] - sum; own < placeTime-moved || own > placeTime+wakeLimit+first {
			text += fmt.Sprintf("place %d: %v after the waits before it, which are %v\n", i, own, sum)
		}
	}
	return text
}

// requireDeadlines waits until the deadlines of Go are right. They must be so within a short time.
func (w *world) requireDeadlines(t testing.TB, name string, first time.Duration, members []*member, waits map[*member]time.Duration) {
	t.Helper()
	var wrong string
	begin := time.Now()
	eventually(t, func() bool {
		wrong = w.wrongDeadlines(t, name, first, members, waits)
		return wrong == ""
	}, func() string { return wrong })
	require.Less(t, time.Since(begin), 2*moved)
}

// A Redisson thread that gets the lock or gives up takes its wait, by default five minutes, off the
// deadlines of all behind it. The places of Go stay where they are, for longer than a place lasts,
// over all handoffs, and their deadlines are right again soon.
func TestFair_Deadlines(t *testing.T) {
	const (
		forever = 5 * time.Minute
		long    = 20 * time.Second
		short   = 2500 * time.Millisecond
		lease   = 2 * time.Second
	)
	together(t, func(t *testing.T, w *world) {
		name := w.fairName(t, "")
		one, two, java := w.manager(t, withLease(lease)), w.manager(t, withLease(lease)), w.open(t, request{Watchdog: lease.Milliseconds()})
		waits := make(map[*member]time.Duration)
		javaJoins := func(thread string, wait time.Duration) *member {
			limit := wait
			if wait == forever {
				limit = 0
			}
			m := w.javaJoins(t, java.thread(thread), name, limit)
			waits[m] = wait
			return m
		}
		holder := lock(t, one, name, fairly)
		all := []*member{javaJoins("a", forever)}
		all = append(all, w.goJoins(t.Context(), t, one, name))
		all = append(all, javaJoins("b", long))
		all = append(all, w.goJoins(t.Context(), t, one, name))
		all = append(all, w.goJoins(t.Context(), t, two, name))
		all = append(all, javaJoins("c", forever))
		all = append(all, javaJoins("d", short))
		all = append(all, w.goJoins(t.Context(), t, two, name))
		w.awaitQueue(t, name, all...)
		watch := w.watchLine(t, name, all)
		w.requireDeadlines(t, name, lease, all, waits)

		// One in the middle gives up.
		all[6].gaveUp(t)
		all = append(all[:6:6], all[7])
		w.awaitQueue(t, name, all...)
		w.requireDeadlines(t, name, lease, all, waits)

		unlock(t, holder)
		for len(all) > 0 {
			next := all[0]
			all = all[1:]
			next.hasLock(t, all...)
			w.requireDeadlines(t, name, 0, all, waits)
			// The passing of time is what is tested.
			for end := time.Now().Add(moved); next.wait == nil && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
				require.Empty(t, w.wrongDeadlines(t, name, 0, all, waits))
			}
			w.awaitQueue(t, name, all...)
			next.unlock(t)
		}
		watch.end(t)
	})
}

// A thread of Java waits again, with another wait than before. Go must not take it for the former
// one: the thread takes five minutes off those behind it when it gets the lock.
func TestFair_JavaWaitsAnew(t *testing.T) {
	const short = 300 * time.Millisecond
	together(t, func(t *testing.T, w *world) {
		one, two, java := w.manager(t, lockmgr.Options{}), w.manager(t, lockmgr.Options{}), w.open(t, request{})
		// The last place is that of Go behind the thread.
		check := func(name string, holder *lockmgr.Lock, all ...*member) {
			left := w.left(t, name)[all[len(all)-1].id]
			watch := w.watchLine(t, name, all)
			unlock(t, holder)
			serveAll(t, all...)
			watch.end(t)
			require.Greater(t, left, 5*time.Minute)
		}

		name := w.fairName(t, " gave up")
		a := java.thread("a")
		holder := lock(t, one, name, fairly)
		first, before := w.goJoins(t.Context(), t, one, name), w.javaJoins(t, a, name, short)
		second := w.goJoins(t.Context(), t, two, name) // notes the wait
		before.gaveUp(t)
		third := w.javaJoins(t, a, name, 0)
		check(name, holder, first, second, third, w.goJoins(t.Context(), t, two, name))

		name = w.fairName(t, " had the lock")
		holder = lock(t, two, name, fairly)
		first, before = w.goJoins(t.Context(), t, one, name), w.javaJoins(t, a, name, eventLimit)
		w.goJoins(t.Context(), t, one, name, lockmgr.MaxWait(short)).gaveUp(t) // notes the wait
		unlock(t, holder)
		serveAll(t, first, before)
		holder = lock(t, one, name, fairly)
		first, second = w.goJoins(t.Context(), t, one, name), w.javaJoins(t, a, name, 0)
		check(name, holder, first, second, w.goJoins(t.Context(), t, two, name))
	})
}

// The lock is free, and the first one in the queue has not heard of it. With Redisson alone that is
// so when a thread is told just when its wait ends: it leaves, and tells nobody. The next one
// sleeps for the TTL that it was told, or for ever. Go, which waits behind it, tells it.
func TestFair_GoTellsTheFirst(t *testing.T) {
	together(t, func(t *testing.T, w *world) {
		name := w.fairName(t, "")
		m, java := w.manager(t, lockmgr.Options{}), w.open(t, request{})
		holder := java.thread("holder").fair()
		holder.lock(t, name)
		first := w.javaJoins(t, java.thread("first"), name, 0)
		w.awaitChannel(t, channelOf(name)+":"+first.id, func(have int64) bool { return have == 1 })
		ours := w.goJoins(t.Context(), t, m, name)
		time.Sleep(wakeLimit) // the thread has tried again and sleeps
		begin := time.Now()
		require.NoError(t, w.redis.Do(background, w.redis.B().Del().Key(name).Build()).Error())
		first.hasLock(t, ours)
		took := first.ended().Sub(begin)
		t.Logf("Java had the lock after %v", took.Round(time.Millisecond))
		require.Less(t, took, 2*moved)
		first.unlock(t)
		serveAll(t, ours)
	})
}
