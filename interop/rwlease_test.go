package interop

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/lockmgr"
)

const rwDeadLease = 2 * time.Second

// Readers of both sides renew the record and their own keys, one beside the other: see also
// TestKinds_WatchdogsOutlastWaiters.
func TestReadWrite_WatchdogsOutlastWaiters(t *testing.T) {
	const (
		lease  = 1500 * time.Millisecond
		leases = 3
	)
	together(t, func(t *testing.T, w *world) {
		both, fixed := t.Name()+" both", t.Name()+" fixed"
		g, other := w.manager(t, withLease(lease)), w.manager(t, withLease(lease))
		java := w.open(t, request{Watchdog: lease.Milliseconds()})
		a, writer := java.thread("a").reads(), java.thread("writer").writes()
		a.lock(t, both)
		a.lockFor(t, fixed, (leases+1)*lease)
		locks := []*lockmgr.Lock{lock(t, g, both, reading), lock(t, g, fixed, reading)}
		theirs, ours := w.startJavaSleep(t, writer, both), other.startRefused(t, fixed, writing)
		throughout(leases*lease, func() {
			for i, name := range []string{both, fixed} {
				require.Equal(t, rwRecord("read", locks[i].HolderID(), a.owner(t)), w.record(t, name))
				w.requireKept(t, name, locks[i].HolderID())
				w.requireKept(t, name, a.owner(t))
			}
			require.False(t, theirs.answered() || ours.over())
		})
		for _, l := range locks {
			require.True(t, l.Valid())
		}
		a.unlock(t, both)
		w.requireKept(t, both, locks[0].HolderID())
		a.unlock(t, fixed)
		unlock(t, locks...)
		require.NoError(t, theirs.result(t))
		writer.unlock(t, both)
		unlock(t, ours.granted(t))
	})
}

// Redisson's watchdog gives a record its own lease, even if others need a longer one. 3.16.8 does
// so to the keys of all readers, too, so that the record ends too early when the Java reader has
// gone. 4.7.0 puts that right then, but not if the client is no more. In each case Go's reader does
// not know, and another can write.
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

// A writer of Go waits for those who live, and for the dead until their own leases end.
func TestReadWrite_GoOutlivesKilledJVM(t *testing.T) {
	together(t, func(t *testing.T, w *world) {
		alone, leaves, stays, javaStays := t.Name()+" alone", t.Name()+" Go leaves", t.Name()+" Go stays", t.Name()+" Java stays"
		dying := w.openDoomed(t, request{Watchdog: rwDeadLease.Milliseconds()}).thread("a").reads()
		java := w.open(t, request{Watchdog: rwDeadLease.Milliseconds()}).thread("b").reads()
		g, waiter := w.manager(t, lockmgr.Options{}), w.manager(t, lockmgr.Options{})
		names := []string{alone, leaves, stays, javaStays}
		for _, name := range names {
			dying.lock(t, name)
		}
		goLeaves, goStays := lock(t, g, leaves, reading), lock(t, g, stays, reading)
		java.lock(t, javaStays)
		waits := map[string]*wait{}
		for _, name := range names {
			waits[name] = waiter.startRefused(t, name, writing)
			w.awaitRWListeners(t, name, 1)
		}
		owner := dying.owner(t)

		dying.agent.kill()
		begin := time.Now()
		ttl := w.ttl(t, alone)
		require.Positive(t, ttl)
		leavesAt := time.Now()
		_, own := w.lives(t, leaves, owner)
		unlock(t, goLeaves)
		requireAtEndOfLease(t, ttl, begin, waits[alone].got(t))
		requireAtEndOfLease(t, own, leavesAt, waits[leaves].got(t))
		unlock(t, waits[alone].lock, waits[leaves].lock)

		w.awaitKeyEnds(t, stays, owner)
		// A look of the waiter may have removed the dead reader already.
		require.Contains(t, []map[string]string{rwRecord("read", owner, goStays.HolderID()), rwRecord("read", goStays.HolderID())}, w.record(t, stays))
		require.False(t, waits[stays].over())
		requireHeard(t, "Go after the last living reader of Go", wakes(t, func() { unlock(t, goStays) }, waits[stays]))
		unlock(t, waits[stays].lock)

		// The watchdog of 3.16.8 prolongs the life of the dead one, too.
		require.False(t, waits[javaStays].over())
		_, own = w.lives(t, javaStays, owner)
		took := wakes(t, func() { java.unlock(t, javaStays) }, waits[javaStays])[0]
		t.Logf("a reader of Java left %.1f s after the dead one's end, whose key lived for %v then: Go wrote after %v",
			time.Since(leavesAt).Seconds()-rwDeadLease.Seconds(), own, took.Round(10*time.Microsecond))
		require.Less(t, took, rwDeadLease+2*time.Second)
		require.Equal(t, w.version == oldest, own > rwDeadLease/2)
		unlock(t, waits[javaStays].lock)
	})
}

func TestReadWrite_JavaOutlivesKilledGo(t *testing.T) {
	together(t, func(t *testing.T, w *world) {
		name := t.Name()
		victim := startChild(t, childTask{Addr: w.server.Addr(), Name: name, Lease: rwDeadLease, Kind: "read"})
		reader := w.open(t, request{Watchdog: rwDeadLease.Milliseconds()}).thread("reader").reads()
		writer := w.open(t, request{}).thread("writer").writes()
		waiting := w.startJavaSleep(t, writer, name)
		reader.lock(t, name) // beside the one that dies
		reader.unlock(t, name)
		require.False(t, waiting.answered())

		outlives(t, waiting, victim, func() time.Duration { return w.ttl(t, name) })
		writer.unlock(t, name)
	})
}
