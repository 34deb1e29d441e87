package interop

import (
	"math"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/lockmgr"
)

var (
	reading = lockmgr.Shared()
	writing = lockmgr.Exclusive()
)

// rwRounds is how often each kind of wake-up is measured.
const rwRounds = 7

func rwChannelOf(name string) string { return "redisson_rwlock:" + braced(name) }

// rwRecord returns the record of a read-write lock with these holders.
func rwRecord(mode string, holders ...string) map[string]string {
	r := map[string]string{"mode": mode}
	for _, h := range holders {
		if mode == "write" {
			h += ":write"
		}
		r[h] = "1"
	}
	return r
}

func (j thread) reads() thread { return j.as("read") }

func (j thread) writes() thread { return j.as("write") }

// readers returns threads for the read side.
func (c *client) readers(n int) []thread {
	var all []thread
	for i := range n {
		all = append(all, c.thread("reader "+strconv.Itoa(i)).reads())
	}
	return all
}

// awaitRWListeners waits until at least n processes listen for a read-write lock.
// Redisson 4.7.0 may listen for some 200 ms after its last wait.
func (w *world) awaitRWListeners(t testing.TB, name string, n int64) {
	t.Helper()
	w.awaitChannel(t, rwChannelOf(name), func(have int64) bool { return have >= n })
}

// A goSide is a manager and how often it was refused a lock.
type goSide struct {
	*lockmgr.Manager
	refused *atomic.Int64
}

func (w *world) goSide(t testing.TB, o lockmgr.Options) goSide {
	t.Helper()
	refused := refusals(&o)
	return goSide{w.manager(t, o), refused}
}

// startRefused begins to wait, and returns when Redis has refused it. No other
// goroutine of the manager may wait for the lock already.
func (g goSide) startRefused(t testing.TB, name string, opts ...lockmgr.LockOption) *wait {
	t.Helper()
	before := g.refused.Load()
	waiting := startWait(t, g.Manager, name, opts...)
	eventually(t, func() bool { return g.refused.Load() > before }, func() string { return "Go is refused" })
	require.False(t, waiting.over())
	return waiting
}

// startQueued begins to wait behind other goroutines of the manager.
func (g goSide) startQueued(t testing.TB, name string, opts ...lockmgr.LockOption) *wait {
	t.Helper()
	n := g.Stats().Waiting + 1
	waiting := startWait(t, g.Manager, name, opts...)
	eventually(t, func() bool { return g.Stats().Waiting == n }, func() string { return "another goroutine waits" })
	return waiting
}

// refuses checks that a side can't be had, by one try.
func (g goSide) refuses(t testing.TB, name string, side lockmgr.LockOption) {
	t.Helper()
	_, err := g.TryLock(t.Context(), name, side)
	require.ErrorIs(t, err, lockmgr.ErrNotAcquired)
}

// grants checks that a side can be had, by one try.
func (g goSide) grants(t testing.TB, name string, side lockmgr.LockOption) *lockmgr.Lock {
	t.Helper()
	l, err := g.TryLock(t.Context(), name, side)
	require.NoError(t, err)
	return l
}

func unlock(t testing.TB, locks ...*lockmgr.Lock) {
	t.Helper()
	for _, l := range locks {
		require.NoError(t, l.Unlock(t.Context()))
	}
}

// startJavaSleep is startJavaWait, and returns when the thread sleeps indeed. The message
// of a writer's unlock wakes only those who do: Redisson loses it for a thread that has
// been refused and is about to sleep.
func (w *world) startJavaSleep(t testing.TB, j thread, name string) *call {
	t.Helper()
	c := w.startJavaWait(t, j, name)
	var state string
	eventually(t, func() bool {
		j.send(t, "state", name).into(t, &state)
		return state == "TIMED_WAITING"
	}, func() string { return "the thread sleeps" })
	return c
}

// awaitFree waits until nobody has a lock. After an unlock of a Go manager that has had
// the lock less than others, that may take 2 ms. A Java thread that asks meanwhile would
// be told by the message that Redisson loses: see startJavaSleep.
func (w *world) awaitFree(t testing.TB, name string) {
	t.Helper()
	eventually(t, func() bool { return len(w.record(t, name)) == 0 }, func() string { return name + " is free" })
}

// requireLost waits until a lock is lost, and returns for how long.
func requireLost(t testing.TB, l *lockmgr.Lock, limit time.Duration) time.Duration {
	t.Helper()
	begin := time.Now()
	select {
	case <-l.Lost():
	case <-time.After(eventLimit):
		require.Fail(t, "Lost does not fire")
	}
	took := time.Since(begin)
	require.Less(t, took, limit)
	require.ErrorIs(t, l.Unlock(t.Context()), lockmgr.ErrLeaseLost)
	return took
}

// lives returns the remaining lives of a record and of one reader's own key, taken
// at one instant. They are -2 ms if there is none.
func (w *world) lives(t testing.TB, name, reader string) (record, own time.Duration) {
	t.Helper()
	ms, err := w.redis.Do(background, w.redis.B().Eval().
		Script("return {redis.call('PTTL', KEYS[1]), redis.call('PTTL', KEYS[2])}").Numkeys(2).
		Key(name, braced(name)+":"+reader+":rwlock_timeout:1").Build()).AsIntSlice()
	require.NoError(t, err)
	return time.Duration(ms[0]) * time.Millisecond, time.Duration(ms[1]) * time.Millisecond
}

// requireKept checks that a record lives at least as long as a reader of it. The clock
// of Redis 7.0 goes on while a script runs, so the two may differ a little.
func (w *world) requireKept(t testing.TB, name, reader string) {
	t.Helper()
	record, own := w.lives(t, name, reader)
	require.Positive(t, own, "the key of a reader of %s", name)
	require.GreaterOrEqual(t, record, own-50*time.Millisecond, "the record of %s ends before its reader", name)
}

func TestReadWrite_ExcludesTheOtherSide(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		name := t.Name()
		g, other, java := w.goSide(t, lockmgr.Options{}), w.goSide(t, lockmgr.Options{}), w.open(t, request{})
		a, b := java.thread("a"), java.thread("b")
		inspect := func(mode string, holders ...lockmgr.Holder) {
			t.Helper()
			info, err := g.Inspect(t.Context(), name)
			require.NoError(t, err)
			require.True(t, info.Locked)
			require.Equal(t, mode, info.Mode)
			require.ElementsMatch(t, holders, entries(info))
			require.True(t, 0 < info.TTL && info.TTL <= 30*time.Second, "TTL %v", info.TTL)
		}

		// Java reads.
		a.reads().lock(t, name)
		require.Equal(t, rwRecord("read", a.owner(t)), w.record(t, name))
		inspect("read", lockmgr.Holder{Owner: a.owner(t), Count: 1})
		g.refuses(t, name, writing)
		l := g.grants(t, name, reading)
		inspect("read", lockmgr.Holder{Owner: a.owner(t), Count: 1}, lockmgr.Holder{Owner: l.HolderID(), Count: 1})
		other.refuses(t, name, writing)
		require.False(t, b.writes().tryLock(t, name))
		a.reads().unlock(t, name)

		// Go reads.
		require.Equal(t, rwRecord("read", l.HolderID()), w.record(t, name))
		require.False(t, a.writes().tryLock(t, name))
		require.True(t, a.reads().is(t, "isLocked", name))
		require.False(t, a.reads().is(t, "isHeld", name))
		require.False(t, a.writes().is(t, "isLocked", name))
		require.Zero(t, a.reads().number(t, "holdCount", name))
		ttl := a.reads().number(t, "ttl", name)
		require.True(t, 0 < ttl && ttl <= 30000, "remainTimeToLive %d", ttl)
		require.True(t, a.reads().tryLock(t, name))
		require.True(t, a.reads().is(t, "isHeld", name))
		a.reads().unlock(t, name)
		require.Equal(t, rwRecord("read", l.HolderID()), w.record(t, name))
		unlock(t, l)
		require.Empty(t, w.record(t, name))

		// Go writes.
		l = g.grants(t, name, writing)
		require.Equal(t, rwRecord("write", l.HolderID()), w.record(t, name))
		inspect("write", lockmgr.Holder{Owner: l.HolderID() + ":write", Count: 1})
		require.False(t, a.reads().tryLock(t, name))
		require.False(t, a.writes().tryLock(t, name))
		require.True(t, a.writes().is(t, "isLocked", name))
		require.False(t, a.reads().is(t, "isLocked", name))
		require.False(t, a.writes().is(t, "isHeld", name))
		require.Equal(t, rwRecord("write", l.HolderID()), w.record(t, name))
		unlock(t, l)

		// Java writes.
		require.True(t, a.writes().tryLock(t, name))
		require.Equal(t, rwRecord("write", a.owner(t)), w.record(t, name))
		inspect("write", lockmgr.Holder{Owner: a.owner(t) + ":write", Count: 1})
		g.refuses(t, name, reading)
		g.refuses(t, name, writing)
		a.writes().unlock(t, name)
		unlock(t, g.grants(t, name, writing))
	})
}

// ---- who wakes whom

func TestReadWrite_LastJavaReaderWakesGoWriter(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		name := t.Name()
		g := w.goSide(t, lockmgr.Options{})
		a, b := w.open(t, request{}).thread("a").reads(), w.open(t, request{}).thread("b").reads()
		var took []time.Duration
		for range rwRounds {
			w.awaitFree(t, name)
			a.lock(t, name)
			b.lock(t, name)
			waiting := g.startRefused(t, name, writing)
			w.awaitRWListeners(t, name, 1)
			a.unlock(t, name)
			require.Equal(t, rwRecord("read", b.owner(t)), w.record(t, name))
			require.False(t, waiting.over())
			begin := time.Now()
			b.unlock(t, name)
			l := waiting.granted(t)
			took = append(took, waiting.at.Sub(begin))
			require.Equal(t, rwRecord("write", l.HolderID()), w.record(t, name))
			unlock(t, l)
		}
		requireWoken(t, "a Go writer after the last reader of Java", took)
	})
}

func TestReadWrite_LastGoReaderWakesJavaWriter(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		name := t.Name()
		g, other := w.goSide(t, lockmgr.Options{}), w.goSide(t, lockmgr.Options{})
		java := w.open(t, request{}).thread("a").writes()
		var took []time.Duration
		for range rwRounds {
			readers := []*lockmgr.Lock{
				lock(t, g.Manager, name, reading), lock(t, g.Manager, name, reading),
				lock(t, other.Manager, name, reading), lock(t, other.Manager, name, reading),
			}
			waiting := w.startJavaSleep(t, java, name)
			unlock(t, readers[:3]...)
			require.Equal(t, rwRecord("read", readers[3].HolderID()), w.record(t, name))
			require.False(t, waiting.answered())
			begin := time.Now()
			unlock(t, readers[3])
			require.NoError(t, waiting.result(t))
			took = append(took, waiting.at.Sub(begin))
			java.unlock(t, name)
		}
		requireWoken(t, "a Java writer after the last reader of Go", took)
	})
}

// Several readers of Go wait for a writer of Java, then a writer, then both.
func TestReadWrite_JavaWriterWakesGo(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		name := t.Name()
		one, two := w.goSide(t, lockmgr.Options{}), w.goSide(t, lockmgr.Options{})
		java := w.open(t, request{}).thread("a").writes()
		var readers, writers []time.Duration
		for range rwRounds {
			w.awaitFree(t, name)
			java.lock(t, name)
			waiting := []*wait{one.startRefused(t, name, reading), two.startRefused(t, name, reading)}
			waiting = append(waiting, one.startQueued(t, name, reading), two.startQueued(t, name, reading))
			w.awaitRWListeners(t, name, 2)
			begin := time.Now()
			java.unlock(t, name)
			var all []*lockmgr.Lock
			for _, r := range waiting {
				all = append(all, r.granted(t)) // all at a time
				readers = append(readers, r.at.Sub(begin))
			}
			require.Equal(t, rwRecord("read", all[0].HolderID(), all[1].HolderID()), w.record(t, name))
			unlock(t, all...)
		}
		for range rwRounds {
			w.awaitFree(t, name)
			java.lock(t, name)
			waiting := one.startRefused(t, name, writing)
			begin := time.Now()
			java.unlock(t, name)
			unlock(t, waiting.granted(t))
			writers = append(writers, waiting.at.Sub(begin))
		}
		for range rwRounds {
			w.awaitFree(t, name)
			java.lock(t, name)
			writer, reader := one.startRefused(t, name, writing), two.startRefused(t, name, reading)
			begin := time.Now()
			java.unlock(t, name)
			first, second := writer, reader
			select {
			case <-writer.done:
			case <-reader.done:
				first, second = reader, writer
			case <-time.After(eventLimit):
				require.FailNow(t, "nobody was woken")
			}
			unlock(t, first.granted(t))
			unlock(t, second.granted(t))
			readers, writers = append(readers, reader.at.Sub(begin)), append(writers, writer.at.Sub(begin))
		}
		requireWoken(t, "Go readers after a writer of Java", readers)
		requireWoken(t, "Go writers after a writer of Java", writers)
	})
}

// The same the other way. Redisson wakes one thread of a client by the message 0,
// and all of them by 1.
func TestReadWrite_GoWriterWakesJava(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		name := t.Name()
		g := w.goSide(t, lockmgr.Options{})
		one, two := w.two(t)
		threads := append(one.readers(3), two.readers(2)...)
		writer := one.thread("writer").writes()
		var readers, writers []time.Duration
		for range rwRounds {
			l := lock(t, g.Manager, name, writing)
			var waiting []*call
			for _, j := range threads {
				waiting = append(waiting, w.startJavaSleep(t, j, name))
			}
			begin := time.Now()
			unlock(t, l)
			for _, c := range waiting {
				require.NoError(t, c.result(t)) // all at a time
				readers = append(readers, c.at.Sub(begin))
			}
			for _, j := range threads {
				j.unlock(t, name)
			}
		}
		for range rwRounds {
			l := lock(t, g.Manager, name, writing)
			waiting := w.startJavaSleep(t, writer, name)
			begin := time.Now()
			unlock(t, l)
			require.NoError(t, waiting.result(t))
			writers = append(writers, waiting.at.Sub(begin))
			writer.unlock(t, name)
		}
		requireWoken(t, "Java readers after a writer of Go", readers)
		requireWoken(t, "Java writers after a writer of Go", writers)
	})
}

// A writer's unlock that comes just when a Java thread has been refused, and does not
// sleep yet: Redisson releases as many threads as sleep, so the message is lost, and
// the thread sleeps for the TTL that it was told. It is so with Redisson alone. How often
// it happens is a matter of chance, so that nothing is asserted.
func TestReadWrite_JavaMissesMessages(t *testing.T) {
	const (
		lease  = 500 * time.Millisecond
		rounds = 30
	)
	each(t, func(t *testing.T, w *world) {
		m := w.manager(t, lockmgr.Options{})
		one, two := w.two(t)
		waiter, holder := one.thread("waiter").writes(), two.thread("holder").writes()
		for title, takes := range map[string]func(name string) (unlocks func()){
			"a writer of Go": func(name string) func() {
				l := lock(t, m, name, writing, lockmgr.FixedLease(lease))
				return func() { unlock(t, l) }
			},
			"a writer of Java": func(name string) func() {
				holder.lockFor(t, name, lease)
				return func() { holder.unlock(t, name) }
			},
			"a reader of Go, whose message is another": func(name string) func() {
				l := lock(t, m, name, reading, lockmgr.FixedLease(lease))
				return func() { unlock(t, l) }
			},
		} {
			name, missed := t.Name()+" "+title, 0
			for range rounds {
				w.awaitFree(t, name)
				unlocks := takes(name)
				waiting := w.startJavaWait(t, waiter, name)
				begin := time.Now()
				unlocks()
				require.NoError(t, waiting.result(t))
				if waiting.at.Sub(begin) > lease/2 {
					missed++
				}
				waiter.unlock(t, name)
			}
			t.Logf("%s: %d of %d messages were missed", title, missed, rounds)
		}
	})
}

// A Go owner that has both sides gives the write side back: all others who want to
// read are woken, and none who want to write.
func TestReadWrite_GoDowngradeWakesReaders(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		name := t.Name()
		g, other, java := w.goSide(t, lockmgr.Options{}), w.goSide(t, lockmgr.Options{}), w.open(t, request{})
		threads, writer := java.readers(3), java.thread("writer").writes()
		var ours, theirs []time.Duration
		for range rwRounds {
			owner := g.NewOwner()
			l := lock(t, g.Manager, name, writing, lockmgr.AsOwner(owner))
			reads := lock(t, g.Manager, name, reading, lockmgr.AsOwner(owner))
			var calls []*call
			for _, j := range threads {
				calls = append(calls, w.startJavaSleep(t, j, name))
			}
			wait := other.startRefused(t, name, reading)
			w.awaitRWListeners(t, name, 2)
			begin := time.Now()
			unlock(t, l)
			read := wait.granted(t)
			ours = append(ours, wait.at.Sub(begin))
			for _, c := range calls {
				require.NoError(t, c.result(t))
				theirs = append(theirs, c.at.Sub(begin))
			}
			require.Equal(t, rwRecord("read", reads.HolderID(), read.HolderID(), threads[0].owner(t), threads[1].owner(t), threads[2].owner(t)),
				w.record(t, name))
			require.True(t, reads.Valid())
			require.False(t, writer.tryLock(t, name))
			for _, j := range threads {
				j.unlock(t, name)
			}
			unlock(t, read)
			require.False(t, writer.tryLock(t, name))
			unlock(t, reads)
			w.awaitFree(t, name)
		}
		requireWoken(t, "Go readers after a downgrade of Go", ours)
		requireWoken(t, "Java readers after a downgrade of Go", theirs)
	})
}

// Redisson does not tell anybody of a downgrade. Who waits to read, sleeps until the
// TTL is over that it was told.
func TestReadWrite_JavaDowngradeIsSilent(t *testing.T) {
	const lease = 1500 * time.Millisecond
	together(t, func(t *testing.T, w *world) {
		name := t.Name()
		g := w.goSide(t, lockmgr.Options{})
		java := w.open(t, request{Watchdog: lease.Milliseconds()})
		a, reader := java.thread("a"), w.open(t, request{Watchdog: lease.Milliseconds()}).thread("b").reads()
		a.writes().lock(t, name)
		a.reads().lock(t, name)
		theirs := w.startJavaSleep(t, reader, name)
		ours := g.startRefused(t, name, reading)
		w.awaitRWListeners(t, name, 2)

		messages := w.listen(t, rwChannelOf(name))
		begin := time.Now()
		a.writes().unlock(t, name)
		l := ours.granted(t)
		require.NoError(t, theirs.result(t))
		t.Logf("after a downgrade of Java, readers had the lock: Go after %v, Java after %v; the lease is %v",
			ours.at.Sub(begin).Round(time.Millisecond), theirs.at.Sub(begin).Round(time.Millisecond), lease)
		require.Less(t, ours.at.Sub(begin), lease+time.Second)
		select {
		case text := <-messages:
			require.Fail(t, "Redisson publishes a downgrade now", text)
		default:
		}
		require.True(t, l.Valid())
		_, own := w.lives(t, name, a.owner(t))
		t.Logf("the key of the one that was downgraded lives for %v then", own)
		reader.unlock(t, name)
		if w.version == oldest {
			// It no longer renews the lease of an owner that was downgraded. Its field is still in
			// the record until a script removes it, so that the unlock may succeed or fail.
			require.Negative(t, own)
			t.Logf("its unlock: %v", a.reads().send(t, "unlock", name).result(t))
		} else {
			require.Positive(t, own)
			a.reads().unlock(t, name)
		}
		require.Equal(t, rwRecord("read", l.HolderID()), w.record(t, name))
		unlock(t, l)
	})
}

// Redisson 3.16.8 renews one side only of an owner that has both, which is the first one
// that it took. The key of the other side ends, so that the owner does not count as a
// reader after its downgrade: Go writes beside it at once, another Redisson when the
// record has ended.
func TestReadWrite_JavaDowngradeAfterALease(t *testing.T) {
	const lease = time.Second
	together(t, func(t *testing.T, w *world) {
		name := t.Name()
		g, other := w.goSide(t, lockmgr.Options{}), w.open(t, request{}).thread("b").writes()
		a := w.open(t, request{Watchdog: lease.Milliseconds()}).thread("a")
		a.writes().lock(t, name)
		a.reads().lock(t, name)
		// The passing of time is what is tested.
		for end := time.Now().Add(lease * 3 / 2); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
			g.refuses(t, name, reading)
		}
		_, own := w.lives(t, name, a.owner(t))
		require.Equal(t, w.version == oldest, own < 0)
		a.writes().unlock(t, name)
		require.Equal(t, rwRecord("read", a.owner(t)), w.record(t, name))
		require.False(t, other.tryLock(t, name))
		if w.version == oldest {
			l := g.grants(t, name, writing)
			a.reads().requireNotOwner(t, name)
			unlock(t, l)
			return
		}
		g.refuses(t, name, writing)
		a.reads().unlock(t, name)
	})
}

// An owner of Go that reads gets the write side by a try, unless somebody else reads.
func TestReadWrite_GoUpgrades(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		name := t.Name()
		g, java := w.goSide(t, lockmgr.Options{}), w.open(t, request{})
		a, b := java.thread("a").reads(), java.thread("b").writes()
		owner := g.NewOwner()
		reads := lock(t, g.Manager, name, reading, lockmgr.AsOwner(owner))
		upgrade := func() (*lockmgr.Lock, error) { return g.TryLock(t.Context(), name, writing, lockmgr.AsOwner(owner)) }

		a.lock(t, name)
		_, err := upgrade()
		require.ErrorIs(t, err, lockmgr.ErrNotAcquired)
		require.Equal(t, rwRecord("read", reads.HolderID(), a.owner(t)), w.record(t, name))
		require.True(t, reads.Valid())
		w.requireKept(t, name, a.owner(t))
		a.unlock(t, name)

		// A lease of Java that has ended does not count, though Redisson leaves its field.
		a.lockFor(t, name, 200*time.Millisecond)
		eventually(t, func() bool { _, own := w.lives(t, name, a.owner(t)); return own < 0 }, func() string { return "the lease ends" })
		var took []time.Duration
		for range rwRounds {
			l, err := upgrade()
			require.NoError(t, err)
			info, err := g.Inspect(t.Context(), name)
			require.NoError(t, err)
			require.Equal(t, "write", info.Mode)
			require.False(t, a.tryLock(t, name))
			require.False(t, b.tryLock(t, name))
			waiting := w.startJavaSleep(t, a, name)
			begin := time.Now()
			unlock(t, l)
			require.NoError(t, waiting.result(t))
			took = append(took, waiting.at.Sub(begin))
			// Go's entry has another number now than reads.HolderID says.
			record := w.record(t, name)
			require.Len(t, record, 3)
			require.Equal(t, "read", record["mode"])
			require.Equal(t, "1", record[a.owner(t)])
			require.True(t, reads.Valid())
			a.unlock(t, name)
			require.False(t, b.tryLock(t, name))
		}
		requireHeard(t, "a Java reader after an upgrade and a downgrade of Go", took)
		unlock(t, reads)
		require.True(t, b.tryLock(t, name))
		b.unlock(t, name)
	})
}

// ---- readers of both sides

func TestReadWrite_ReadersShareUntilTheLast(t *testing.T) {
	const short, long = 10 * time.Second, time.Minute
	each(t, func(t *testing.T, w *world) {
		g, other, java := w.goSide(t, lockmgr.Options{}), w.goSide(t, lockmgr.Options{}), w.open(t, request{})
		a, b := java.thread("a").reads(), java.thread("b").writes()
		for _, c := range []struct {
			title               string
			ours, theirs        time.Duration // fixed leases
			goFirst, goOutlives bool
		}{
			{"Go within Java", 0, 0, false, false},
			{"Java within Go", 0, 0, true, true},
			{"Go, then Java", 0, 0, true, false},
			{"Java, then Go", 0, 0, false, true},
			{"Java has a long lease, Go goes", 0, long, false, false},
			{"Java has a long lease and goes", 0, long, true, true},
			{"Java has a short lease, Go goes", 0, short, true, false},
			{"Java has a short lease and goes", 0, short, false, true},
			{"Go has a long lease and goes", long, 0, true, false},
			{"Go has a long lease, Java goes", long, 0, false, true},
			{"Go has a short lease and goes", short, 0, false, false},
			{"Go has a short lease, Java goes", short, 0, true, true},
		} {
			name := t.Name() + " " + c.title
			opts := []lockmgr.LockOption{reading}
			if c.ours > 0 {
				opts = append(opts, lockmgr.FixedLease(c.ours))
			}
			javaReads := func() {
				if c.theirs > 0 {
					a.lockFor(t, name, c.theirs)
				} else {
					a.lock(t, name)
				}
			}
			if !c.goFirst {
				javaReads()
			}
			l := lock(t, g.Manager, name, opts...)
			if c.goFirst {
				javaReads()
			}
			require.Equal(t, rwRecord("read", l.HolderID(), a.owner(t)), w.record(t, name), c.title)
			w.requireKept(t, name, l.HolderID())
			w.requireKept(t, name, a.owner(t))
			if c.goOutlives {
				a.unlock(t, name)
				require.Equal(t, rwRecord("read", l.HolderID()), w.record(t, name), c.title)
				w.requireKept(t, name, l.HolderID())
				remaining := l.Remaining()
				require.Positive(t, remaining)
				require.GreaterOrEqual(t, w.ttl(t, name), remaining-100*time.Millisecond, "%s: the record ends before Go's lock", c.title)
				require.False(t, b.tryLock(t, name))
				unlock(t, l)
			} else {
				unlock(t, l)
				require.Equal(t, rwRecord("read", a.owner(t)), w.record(t, name), c.title)
				w.requireKept(t, name, a.owner(t))
				require.True(t, a.is(t, "isHeld", name))
				other.refuses(t, name, writing)
				a.unlock(t, name)
			}
			require.Empty(t, w.record(t, name), c.title)
		}
	})
}

// Both sides renew for some leases, each on its own and beside the other.
func TestReadWrite_WatchdogsOutlastWaiters(t *testing.T) {
	const (
		lease  = 1500 * time.Millisecond
		leases = 3
	)
	together(t, func(t *testing.T, w *world) {
		both, fixed, byGo, byJava := t.Name()+" both", t.Name()+" fixed", t.Name()+" Go writes", t.Name()+" Java writes"
		g, other := w.goSide(t, withLease(lease)), w.goSide(t, withLease(lease))
		java := w.open(t, request{Watchdog: lease.Milliseconds()})
		a, writer, reader := java.thread("a"), java.thread("writer").writes(), java.thread("reader").reads()
		a.reads().lock(t, both)
		a.reads().lockFor(t, fixed, (leases+1)*lease)
		a.writes().lock(t, byJava)
		locks := []*lockmgr.Lock{
			lock(t, g.Manager, both, reading), lock(t, g.Manager, fixed, reading), lock(t, g.Manager, byGo, writing),
		}
		calls := []*call{w.startJavaSleep(t, writer, both), w.startJavaSleep(t, reader, byGo)}
		waits := []*wait{other.startRefused(t, fixed, writing), other.startRefused(t, byJava, reading)}
		// The passing of time is what is tested.
		for end := time.Now().Add(leases * lease); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
			for i, name := range []string{both, fixed} {
				require.Equal(t, rwRecord("read", locks[i].HolderID(), a.owner(t)), w.record(t, name))
				w.requireKept(t, name, locks[i].HolderID())
				w.requireKept(t, name, a.owner(t))
			}
			require.Equal(t, rwRecord("write", locks[2].HolderID()), w.record(t, byGo))
			require.Equal(t, rwRecord("write", a.owner(t)), w.record(t, byJava))
			require.False(t, calls[0].answered() || calls[1].answered() || waits[0].over() || waits[1].over())
		}
		for _, l := range locks {
			require.True(t, l.Valid())
		}
		a.reads().unlock(t, both)
		w.requireKept(t, both, locks[0].HolderID())
		a.reads().unlock(t, fixed)
		a.writes().unlock(t, byJava)
		unlock(t, locks...)
		for _, c := range calls {
			require.NoError(t, c.result(t))
		}
		writer.unlock(t, both)
		reader.unlock(t, byGo)
		for _, wait := range waits {
			unlock(t, wait.granted(t))
		}
	})
}

// Redisson's watchdog gives a record its own lease, even if others need a longer one.
// 3.16.8 does so to the keys of all readers, too, so that the record ends too early when
// the Java reader has gone. 4.7.0 puts that right then, but not if the client is no more.
// In each case Go's reader does not know, and another can write.
func TestReadWrite_JavaWatchdogShortensOtherReaders(t *testing.T) {
	const theirs = 1500 * time.Millisecond
	together(t, func(t *testing.T, w *world) {
		name := t.Name()
		java, writer := w.open(t, request{Watchdog: theirs.Milliseconds()}), w.open(t, request{}).thread("b").writes()
		a := java.thread("a").reads()
		m := w.manager(t, lockmgr.Options{})
		read := func() *lockmgr.Lock {
			t.Helper()
			l := lock(t, m, name, reading, lockmgr.FixedLease(20*time.Second))
			a.lock(t, name)
			eventually(t, func() bool { return w.ttl(t, name) <= theirs }, func() string { return "Java renews the record" })
			record, own := w.lives(t, name, l.HolderID())
			t.Logf("Go reads for %v; when Java has renewed, the record lives for %v and the key of Go's reader for %v",
				l.Remaining().Round(100*time.Millisecond), record, own)
			return l
		}
		writeBeside := func(l *lockmgr.Lock) {
			t.Helper()
			writer.lock(t, name)
			require.True(t, l.Valid(), "Go can't know")
			require.Greater(t, l.Remaining(), 5*time.Second)
			require.ErrorIs(t, l.Unlock(t.Context()), lockmgr.ErrLeaseLost)
			require.Equal(t, rwRecord("write", writer.owner(t)), w.record(t, name))
			writer.unlock(t, name)
		}

		l := read()
		a.unlock(t, name)
		record, own := w.lives(t, name, l.HolderID())
		t.Logf("when Java has gone, the record lives for %v and the key of Go's reader for %v", record, own)
		if w.version == oldest {
			require.LessOrEqual(t, record, theirs)
			writeBeside(l)
			return
		}
		w.requireKept(t, name, l.HolderID())
		require.GreaterOrEqual(t, record, l.Remaining()-100*time.Millisecond)
		require.False(t, writer.tryLock(t, name))
		unlock(t, l)

		l = read()
		require.NoError(t, a.send(t, "close", name).result(t)) // it unlocks nothing
		writeBeside(l)
		key := braced(name) + ":" + l.HolderID() + ":rwlock_timeout:1"
		require.NoError(t, w.redis.Do(background, w.redis.B().Del().Key(key).Build()).Error())
	})
}

// ---- processes that die

const rwDeadLease = 2 * time.Second

// A writer of Go waits for those who live, and for the dead until their own leases end.
func TestReadWrite_GoOutlivesKilledJVM(t *testing.T) {
	together(t, func(t *testing.T, w *world) {
		alone, leaves, stays, javaStays := t.Name()+" alone", t.Name()+" Go leaves", t.Name()+" Go stays", t.Name()+" Java stays"
		victim, err := startAgent(w.version, w.classPath)
		require.NoError(t, err)
		t.Cleanup(victim.stop)
		dying := w.openIn(t, victim, request{Watchdog: rwDeadLease.Milliseconds()}).thread("a").reads()
		java := w.open(t, request{Watchdog: rwDeadLease.Milliseconds()}).thread("b").reads()
		g, waiter := w.goSide(t, lockmgr.Options{}), w.goSide(t, lockmgr.Options{})
		names := []string{alone, leaves, stays, javaStays}
		for _, name := range names {
			dying.lock(t, name)
		}
		goLeaves, goStays := lock(t, g.Manager, leaves, reading), lock(t, g.Manager, stays, reading)
		java.lock(t, javaStays)
		waits := map[string]*wait{}
		for _, name := range names {
			waits[name] = waiter.startRefused(t, name, writing)
			w.awaitRWListeners(t, name, 1)
		}
		owner := dying.owner(t)

		victim.kill()
		begin := time.Now()
		ttl := w.ttl(t, alone)
		require.Positive(t, ttl)
		leavesAt := time.Now()
		_, own := w.lives(t, leaves, owner)
		unlock(t, goLeaves)
		l := waits[alone].granted(t)
		requireAtEndOfLease(t, "alone: Go", ttl, begin, waits[alone].at)
		unlock(t, l)
		l = waits[leaves].granted(t)
		requireAtEndOfLease(t, "after another reader of Go that left before: Go", own, leavesAt, waits[leaves].at)
		unlock(t, l)

		eventually(t, func() bool { _, own := w.lives(t, stays, owner); return own < 0 }, func() string { return "the dead reader's key ends" })
		require.Equal(t, rwRecord("read", owner, goStays.HolderID()), w.record(t, stays))
		require.False(t, waits[stays].over())
		begin = time.Now()
		unlock(t, goStays)
		l = waits[stays].granted(t)
		requireHeard(t, "Go after the last living reader of Go", []time.Duration{waits[stays].at.Sub(begin)})
		unlock(t, l)

		// The watchdog of 3.16.8 prolongs the life of the dead one, too.
		require.False(t, waits[javaStays].over())
		_, own = w.lives(t, javaStays, owner)
		begin = time.Now()
		java.unlock(t, javaStays)
		l = waits[javaStays].granted(t)
		took := waits[javaStays].at.Sub(begin)
		t.Logf("a reader of Java left %.1f s after the dead one's end, whose key lived for %v then: Go wrote after %v",
			time.Since(leavesAt).Seconds()-rwDeadLease.Seconds(), own, took.Round(10*time.Microsecond))
		require.Less(t, took, rwDeadLease+2*time.Second)
		require.Equal(t, w.version == oldest, own > 0)
		unlock(t, l)
	})
}

func TestReadWrite_JavaOutlivesKilledGo(t *testing.T) {
	together(t, func(t *testing.T, w *world) {
		name := t.Name()
		victim := startChild(t, childTask{Addr: w.server.Addr(), Name: name, Lease: rwDeadLease, Reads: true})
		reader := w.open(t, request{Watchdog: rwDeadLease.Milliseconds()}).thread("reader").reads()
		writer := w.open(t, request{}).thread("writer").writes()
		waiting := w.startJavaSleep(t, writer, name)
		reader.lock(t, name) // beside the one that dies
		reader.unlock(t, name)
		require.False(t, waiting.answered())

		victim.kill()
		begin := time.Now()
		ttl := w.ttl(t, name)
		require.Positive(t, ttl)
		require.NoError(t, waiting.result(t))
		requireAtEndOfLease(t, "Java", ttl, begin, waiting.at)
		writer.unlock(t, name)
	})
}

// ---- owners

func TestReadWrite_JavaReentry(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		name := t.Name()
		g, other, java := w.goSide(t, lockmgr.Options{}), w.goSide(t, lockmgr.Options{}), w.open(t, request{}).thread("a")
		for _, c := range []struct {
			java  thread
			mode  string
			field string
			side  lockmgr.LockOption
		}{
			{java.reads(), "read", java.owner(t), writing},
			{java.writes(), "write", java.owner(t) + ":write", reading},
			{java.writes(), "write", java.owner(t) + ":write", writing},
		} {
			c.java.lock(t, name)
			c.java.lock(t, name)
			info, err := g.Inspect(t.Context(), name)
			require.NoError(t, err)
			require.Equal(t, c.mode, info.Mode)
			require.Equal(t, []lockmgr.Holder{{Owner: c.field, Count: 2}}, entries(info))
			waiting := g.startRefused(t, name, c.side)
			c.java.unlock(t, name)
			require.EqualValues(t, 1, c.java.number(t, "holdCount", name))
			other.refuses(t, name, c.side)
			require.False(t, waiting.over())
			c.java.unlock(t, name)
			unlock(t, waiting.granted(t))
		}

		// Go beside the two holds of a reader.
		java.reads().lock(t, name)
		java.reads().lock(t, name)
		l := g.grants(t, name, reading)
		require.Equal(t, map[string]string{"mode": "read", java.owner(t): "2", l.HolderID(): "1"}, w.record(t, name))
		unlock(t, l)
		w.requireKept(t, name, java.owner(t))
		other.refuses(t, name, writing)
		java.reads().unlock(t, name)
		w.requireKept(t, name, java.owner(t))
		java.reads().unlock(t, name)
		require.Empty(t, w.record(t, name))

		// A Java owner with both sides: Go sees its writing only.
		java.writes().lock(t, name)
		java.reads().lock(t, name)
		g.refuses(t, name, reading)
		java.reads().unlock(t, name)
		require.Equal(t, rwRecord("write", java.owner(t)), w.record(t, name))
		g.refuses(t, name, reading)
		java.writes().unlock(t, name)
	})
}

func TestReadWrite_UnlockByOthers(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		name := t.Name()
		g, java := w.goSide(t, lockmgr.Options{}), w.open(t, request{})
		a, b := java.thread("a"), java.thread("b")
		refused := func(record map[string]string, threads ...thread) {
			t.Helper()
			for _, j := range threads {
				j.requireNotOwner(t, name)
				require.Equal(t, record, w.record(t, name))
			}
		}
		a.reads().lock(t, name)
		refused(rwRecord("read", a.owner(t)), a.writes(), b.reads(), b.writes())
		l := g.grants(t, name, reading)
		refused(rwRecord("read", a.owner(t), l.HolderID()), a.writes(), b.reads(), b.writes())
		a.reads().unlock(t, name)
		refused(rwRecord("read", l.HolderID()), a.reads(), a.writes())
		unlock(t, l)
		require.ErrorIs(t, l.Unlock(t.Context()), lockmgr.ErrNotHeld)

		l = g.grants(t, name, writing)
		refused(rwRecord("write", l.HolderID()), a.reads(), a.writes())
		unlock(t, l)

		// 3.16.8 says nothing if the lock is free.
		for _, j := range []thread{a.reads(), a.writes()} {
			err := j.send(t, "unlock", name).result(t)
			if w.version == oldest {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, "IllegalMonitorStateException")
			}
		}
	})
}

// Fixed leases end, and those who come late give nothing back that is another's.
func TestReadWrite_LateUnlock(t *testing.T) {
	const lease = 250 * time.Millisecond
	together(t, func(t *testing.T, w *world) {
		name := t.Name()
		g, java := w.goSide(t, lockmgr.Options{}), w.open(t, request{}).thread("a")
		for _, side := range []lockmgr.LockOption{reading, writing} {
			l := lock(t, g.Manager, name, side, lockmgr.FixedLease(lease))
			java.writes().lock(t, name)
			requireLost(t, l, eventLimit)
			require.Equal(t, rwRecord("write", java.owner(t)), w.record(t, name))
			java.writes().unlock(t, name)
		}
		for _, j := range []thread{java.reads(), java.writes()} {
			j.lockFor(t, name, lease)
			l := lock(t, g.Manager, name, writing)
			j.requireNotOwner(t, name)
			require.Equal(t, rwRecord("write", l.HolderID()), w.record(t, name))
			require.True(t, l.Valid())
			unlock(t, l)
		}

		// The lease of a Java reader ends while Go reads. Redisson's owner stays in the
		// record, and may unlock; it keeps out nobody.
		l := lock(t, g.Manager, name, reading)
		java.reads().lockFor(t, name, lease)
		eventually(t, func() bool { _, own := w.lives(t, name, java.owner(t)); return own < 0 }, func() string { return "the lease ends" })
		w.requireKept(t, name, l.HolderID())
		require.True(t, java.reads().is(t, "isHeld", name))
		java.reads().unlock(t, name)
		require.Equal(t, rwRecord("read", l.HolderID()), w.record(t, name))
		w.requireKept(t, name, l.HolderID())
		java.reads().lockFor(t, name, lease)
		eventually(t, func() bool { _, own := w.lives(t, name, java.owner(t)); return own < 0 }, func() string { return "the lease ends" })
		unlock(t, l)
		require.Empty(t, w.record(t, name), "the record goes with the last living reader")
	})
}

func TestReadWrite_ForceUnlock(t *testing.T) {
	const lease = 1500 * time.Millisecond // also the life of the readers' keys, which stay behind
	together(t, func(t *testing.T, w *world) {
		name := t.Name()
		o := withLease(lease)
		o.Linger = -1 // so that g does not listen when it loses its lock
		g, other := w.goSide(t, o), w.goSide(t, o)
		java := w.open(t, request{Watchdog: lease.Milliseconds()})
		a, b, c := java.thread("a"), java.thread("b"), java.thread("c")
		mode := func(want string) {
			t.Helper()
			info, err := g.Inspect(t.Context(), name)
			require.NoError(t, err)
			require.Equal(t, want, info.Mode)
		}
		force := func() {
			t.Helper()
			was, err := g.ForceUnlock(t.Context(), name)
			require.NoError(t, err)
			require.True(t, was)
		}

		// Java removes what Go has, if it asks for the side that is taken.
		for _, side := range []struct {
			mode         string
			ours         lockmgr.LockOption
			right, wrong thread
		}{
			{"read", reading, a.reads(), a.writes()},
			{"write", writing, a.writes(), a.reads()},
		} {
			l := lock(t, g.Manager, name, side.ours)
			waiting := other.startRefused(t, name, writing)
			w.awaitRWListeners(t, name, 1)
			mode(side.mode)
			require.False(t, side.wrong.is(t, "forceUnlock", name))
			require.True(t, l.Valid())
			begin := time.Now()
			require.True(t, side.right.is(t, "forceUnlock", name))
			next := waiting.granted(t)
			requireHeard(t, "Go after a forceUnlock of Java", []time.Duration{waiting.at.Sub(begin)})
			lost := requireLost(t, l, lease+time.Second)
			t.Logf("Lost fired %v after that; the lease is %v", lost.Round(time.Millisecond), lease)
			require.Equal(t, rwRecord("write", next.HolderID()), w.record(t, name))
			unlock(t, next)
		}

		// Go removes what Java has.
		a.reads().lock(t, name)
		b.reads().lock(t, name)
		mode("read")
		waiting := w.startJavaSleep(t, c.writes(), name)
		begin := time.Now()
		force()
		require.NoError(t, waiting.result(t))
		requireHeard(t, "a Java writer after a ForceUnlock of Go", []time.Duration{waiting.at.Sub(begin)})
		a.reads().requireNotOwner(t, name)
		b.reads().requireNotOwner(t, name)
		mode("write")
		reads := []*call{w.startJavaSleep(t, a.reads(), name), w.startJavaSleep(t, b.reads(), name)}
		begin = time.Now()
		force()
		for _, r := range reads {
			require.NoError(t, r.result(t))
			requireHeard(t, "a Java reader after a ForceUnlock of Go", []time.Duration{r.at.Sub(begin)})
		}
		c.writes().requireNotOwner(t, name)
		require.Equal(t, rwRecord("read", a.owner(t), b.owner(t)), w.record(t, name))
		a.reads().unlock(t, name)
		b.reads().unlock(t, name)
	})
}

// ---- names, and other kinds of lock

func TestReadWrite_Names(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		g := w.goSide(t, lockmgr.Options{})
		plain, mapped := w.open(t, request{}).thread("a"), w.open(t, request{Prefix: "app:"}).thread("a")
		prefix := "app:"
		if w.version == oldest {
			prefix = "app:app:" // it maps the name of a read-write lock twice
		}
		var took []time.Duration
		for _, c := range []struct {
			java           thread
			name, javaName string
		}{
			{plain, "rw", "rw"},
			{plain, "rw with spaces 'and' \"quotes\" %s $0 *?[a]: ", "rw with spaces 'and' \"quotes\" %s $0 *?[a]: "},
			{plain, "zażółć, Straße, 鍵, مفتاح, 🔒👩‍👩‍👧", "zażółć, Straße, 鍵, مفتاح, 🔒👩‍👩‍👧"},
			{plain, "{rw}", "{rw}"},
			{plain, "{rw}:items", "{rw}:items"},
			{plain, "a{rw}b", "a{rw}b"},
			{plain, "a{b}c{d}", "a{b}c{d}"},
			{mapped, prefix + "rw", "rw"},
			{mapped, prefix + "{rw}:1", "{rw}:1"},
		} {
			javaWaits := func(j thread, l *lockmgr.Lock) {
				waiting := w.startJavaSleep(t, j, c.javaName)
				w.awaitRWListeners(t, c.name, 1)
				begin := time.Now()
				unlock(t, l)
				require.NoError(t, waiting.result(t))
				took = append(took, waiting.at.Sub(begin))
			}
			goWaits := func(j thread, side lockmgr.LockOption) *lockmgr.Lock {
				waiting := g.startRefused(t, c.name, side)
				w.awaitRWListeners(t, c.name, 1)
				begin := time.Now()
				j.unlock(t, c.javaName)
				l := waiting.granted(t)
				took = append(took, waiting.at.Sub(begin))
				return l
			}
			l := g.grants(t, c.name, reading)
			require.True(t, c.java.reads().tryLock(t, c.javaName))
			w.requireKept(t, c.name, l.HolderID())
			w.requireKept(t, c.name, c.java.owner(t))
			c.java.reads().unlock(t, c.javaName)
			javaWaits(c.java.writes(), l)
			require.Equal(t, rwRecord("write", c.java.owner(t)), w.record(t, c.name))
			l = goWaits(c.java.writes(), writing)
			require.Equal(t, rwRecord("write", l.HolderID()), w.record(t, c.name))
			unlock(t, l)
			c.java.reads().lock(t, c.javaName)
			unlock(t, goWaits(c.java.reads(), writing))
		}
		requireHeard(t, "both sides, with all names", took)
	})
}

// Go refuses both sides while there is a record of a plain lock, and the other way
// round, and says why.
func TestReadWrite_GoRefusesPlainLocks(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		m, g, java := w.manager(t, lockmgr.Options{}), w.goSide(t, lockmgr.Options{}), w.open(t, request{}).thread("a")
		refuses := func(name string, options ...lockmgr.LockOption) {
			t.Helper()
			record := w.record(t, name)
			_, err := g.TryLock(t.Context(), name, options...)
			require.ErrorIs(t, err, lockmgr.ErrKind)
			_, err = g.Lock(t.Context(), name, options...)
			require.ErrorIs(t, err, lockmgr.ErrKind)
			require.Equal(t, record, w.record(t, name))
		}
		for _, way := range []struct {
			title  string
			theirs thread
			ours   []lockmgr.LockOption
		}{
			{"plain, then read", java, []lockmgr.LockOption{reading}},
			{"plain, then write", java, []lockmgr.LockOption{writing}},
			{"read, then plain", java.reads(), nil},
			{"write, then plain", java.writes(), nil},
		} {
			name := t.Name() + " " + way.title
			way.theirs.lock(t, name)
			refuses(name, way.ours...)
			way.theirs.unlock(t, name)
			unlock(t, lock(t, g.Manager, name, way.ours...))
		}

		// The same with our own plain lock, and Java's beside our read-write lock.
		name := t.Name()
		l := lock(t, m, name)
		refuses(name, reading)
		refuses(name, writing)
		require.Equal(t, map[string]string{l.HolderID(): "1"}, w.record(t, name))
		unlock(t, l)
		for _, side := range []lockmgr.LockOption{reading, writing} {
			l = lock(t, g.Manager, name, side)
			require.False(t, java.tryLock(t, name))
			unlock(t, l)
		}
	})
}

// Redisson's read-write lock does not see that a record is of a plain lock. It adds
// its fields, and takes the record away when it unlocks, with the plain lock.
func TestReadWrite_JavaOverPlainLocks(t *testing.T) {
	const lease = 3 * time.Second
	together(t, func(t *testing.T, w *world) {
		m, other, java := w.manager(t, withLease(lease)), w.goSide(t, lockmgr.Options{}), w.open(t, request{})
		a, b := java.thread("a"), java.thread("b")

		// A reader that comes and goes.
		name := t.Name() + " reader goes"
		l := lock(t, m, name)
		require.True(t, a.reads().tryLock(t, name), "Redisson reads while a plain lock is held")
		record := rwRecord("read", a.owner(t))
		record[l.HolderID()] = "1"
		require.Equal(t, record, w.record(t, name))
		_, err := other.TryLock(t.Context(), name)
		require.ErrorIs(t, err, lockmgr.ErrKind)
		other.refuses(t, name, writing)
		a.reads().unlock(t, name)
		require.Empty(t, w.record(t, name), "its unlock removes the plain lock")
		t.Logf("a reader of Java took the plain lock away; Lost fired %v later, the lease is %v",
			requireLost(t, l, lease+time.Second).Round(time.Millisecond), lease)

		// A plain lock that goes first.
		name = t.Name() + " plain goes"
		l = lock(t, m, name)
		require.True(t, a.reads().tryLock(t, name))
		unlock(t, l)
		require.Empty(t, w.record(t, name), "the unlock removes Redisson's reader")
		require.True(t, b.writes().tryLock(t, name))
		a.reads().requireNotOwner(t, name)
		b.writes().unlock(t, name)

		// A writer that comes and goes leaves the plain lock in the mode read.
		name = t.Name() + " writer goes"
		l = lock(t, m, name)
		require.True(t, a.writes().tryLock(t, name), "Redisson writes while a plain lock is held")
		a.writes().unlock(t, name)
		require.Equal(t, rwRecord("read", l.HolderID()), w.record(t, name))
		require.True(t, l.Valid())
		unlock(t, l)
		require.Empty(t, w.record(t, name))

		// The plain unlock left the reader's own key behind.
		key := braced(t.Name()+" plain goes") + ":" + a.owner(t) + ":rwlock_timeout:1"
		require.NoError(t, w.redis.Do(background, w.redis.B().Del().Key(key).Build()).Error())
	})
}

// ---- many grants

const (
	rwWrites  = 1500
	rwReads   = 750 // of each side
	rwWorkers = 2   // readers, and writers, of each side
)

// Readers and writers of both sides. Writers add to a counter by a GET and a SET.
// Readers see that it stays as it is, and that nobody is inside to write.
func TestReadWrite_MixedGrants(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		name, counter, inside, readers := t.Name(), t.Name()+" counter", t.Name()+" inside", t.Name()+" readers"
		// A thread of Java that misses the message of a writer sleeps for a lease: see
		// startJavaSleep.
		const lease = 3 * time.Second
		g, java := w.goSide(t, withLease(lease)), w.open(t, request{Watchdog: lease.Milliseconds()})
		begin := time.Now()
		load := request{Op: "grants", Name: name, Threads: rwWorkers, Counter: counter, Inside: inside, Readers: readers}
		load.Limit = rwWrites
		theirWrites := java.thread("write").writes().sendRequest(t, load)
		load.Limit = rwReads
		theirReads := java.thread("read").reads().sendRequest(t, load)

		s := &rwLoad{world: w, m: g.Manager, name: name, counter: counter, inside: inside, readers: readers}
		s.run(t)
		writes, reads := theirWrites.report(t), theirReads.report(t)
		require.Empty(t, append(writes.Errors, reads.Errors...))
		overlaps := s.overlaps.Load() + writes.Overlaps + reads.Overlaps
		t.Logf("writes: %d of Go, %d of Java; reads: %d of Go, %d of Java; in %.1f s: %d overlaps, %d lost updates; "+
			"%d writes were seen between the first read of Go and the last; longest wait of Java: writers %.2f s, readers %.2f s",
			s.writes.Load(), writes.Grants, s.reads.Load(), reads.Grants, time.Since(begin).Seconds(), overlaps,
			s.writes.Load()+writes.Grants-rwWrites, s.last.Load()-s.first.Load(), float64(writes.Longest)/1000, float64(reads.Longest)/1000)
		require.Zero(t, overlaps, "overlaps")
		require.EqualValues(t, rwWrites, s.writes.Load()+writes.Grants, "lost updates")
		require.EqualValues(t, 2*rwReads, s.reads.Load()+reads.Grants)
		require.Positive(t, s.writes.Load())
		require.Positive(t, writes.Grants)
		require.Greater(t, s.last.Load(), s.first.Load(), "no writer came between readers")
		require.EqualValues(t, rwWrites, w.number(t, counter))
		require.Zero(t, w.number(t, inside))
		require.Zero(t, w.number(t, readers))
	})
}

// An rwLoad is Go's part of it. Load.java is Java's.
type rwLoad struct {
	*world
	m                              *lockmgr.Manager
	name, counter, inside, readers string

	reads, writes, overlaps atomic.Int64
	first, last             atomic.Int64 // what the first reader and the last found in the counter
}

func (s *rwLoad) run(t *testing.T) {
	var wg sync.WaitGroup
	work := func(side lockmgr.LockOption, do func() (more bool, err error)) {
		for more := true; more && !t.Failed(); {
			l, err := s.m.Lock(t.Context(), s.name, side)
			if err != nil {
				t.Errorf("Lock: %v", err)
				return
			}
			if more, err = do(); err != nil {
				t.Errorf("inside the lock: %v", err)
			}
			if err := l.Unlock(t.Context()); err != nil {
				t.Errorf("Unlock: %v", err)
			}
		}
	}
	s.first.Store(math.MaxInt64)
	for range rwWorkers {
		wg.Go(func() { work(writing, s.write) })
		wg.Go(func() { work(reading, s.read) })
	}
	wg.Wait()
}

// do runs a command whose answer is a number, or nothing, which is zero.
func (s *rwLoad) do(command ...string) (int64, error) {
	n, err := s.redis.Do(background, s.redis.B().Arbitrary(command...).Build()).AsInt64()
	if rueidis.IsRedisNil(err) {
		return 0, nil
	}
	return n, err
}

func (s *rwLoad) write() (more bool, err error) {
	n, err := s.do("GET", s.readers)
	if err != nil {
		return false, err
	}
	alone, more, err := s.count(s.counter, s.inside, rwWrites)
	if !alone || n != 0 {
		s.overlaps.Add(1)
	}
	if more {
		s.writes.Add(1)
	}
	return more, err
}

func (s *rwLoad) read() (more bool, err error) {
	var answers [5]int64
	for i, command := range [][]string{
		{"INCR", s.readers}, {"GET", s.counter}, {"GET", s.inside}, {"GET", s.counter}, {"DECR", s.readers},
	} {
		if answers[i], err = s.do(command...); err != nil {
			return false, err
		}
	}
	before, writers, after := answers[1], answers[2], answers[3]
	if writers != 0 || before != after {
		s.overlaps.Add(1)
	}
	if s.reads.Add(1) > rwReads {
		s.reads.Add(-1)
		return false, nil
	}
	for old := s.first.Load(); before < old && !s.first.CompareAndSwap(old, before); old = s.first.Load() {
	}
	for old := s.last.Load(); before > old && !s.last.CompareAndSwap(old, before); old = s.last.Load() {
	}
	return true, nil
}

// Readers of one manager share its entry, so a try to read succeeds beside them.
func TestReadWrite_TryBesideOwnReaders(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		g := w.goSide(t, lockmgr.Options{})
		l := lock(t, g.Manager, t.Name(), reading)
		unlock(t, lock(t, g.Manager, t.Name(), reading))
		unlock(t, g.grants(t, t.Name(), reading), l)
	})
}
