package interop

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// A Go owner that has both sides gives the write side back: all others who want to read are woken,
// and none who want to write.
func TestReadWrite_GoDowngradeWakesReaders(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		name := t.Name()
		g, other, java := w.manager(t, lockmgr.Options{}), w.manager(t, lockmgr.Options{}), w.open(t, request{})
		threads, writer := java.readers(3), java.thread("writer").writes()
		var ours, theirs []time.Duration
		for range rwRounds {
			owner := g.NewOwner()
			l := lock(t, g, name, writing, lockmgr.AsOwner(owner))
			reads := lock(t, g, name, reading, lockmgr.AsOwner(owner))
			var calls []waiter
			for _, j := range threads {
				calls = append(calls, w.startJavaSleep(t, j, name))
			}
			wait := other.startRefused(t, name, reading)
			w.awaitRWListeners(t, name, 2)
			took := wakes(t, func() { unlock(t, l) }, append(calls, wait)...)
			theirs, ours = append(theirs, took[:len(calls)]...), append(ours, took[len(calls)])
			read := wait.lock
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

// Redisson does not tell anybody of a downgrade. Who waits to read, sleeps until the TTL is over
// that it was told.
func TestReadWrite_JavaDowngradeIsSilent(t *testing.T) {
	const lease = 1500 * time.Millisecond
	together(t, func(t *testing.T, w *world) {
		name := t.Name()
		g := w.manager(t, lockmgr.Options{})
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

// Redisson 3.16.8 renews one side only of an owner that has both, which is the first one that it
// took. The key of the other side ends, so that the owner does not count as a reader after its
// downgrade: Go writes beside it at once, another Redisson when the record has ended.
func TestReadWrite_JavaDowngradeAfterALease(t *testing.T) {
	const lease = time.Second
	together(t, func(t *testing.T, w *world) {
		name := t.Name()
		g, other := w.manager(t, lockmgr.Options{}), w.open(t, request{}).thread("b").writes()
		a := w.open(t, request{Watchdog: lease.Milliseconds()}).thread("a")
		a.writes().lock(t, name)
		a.reads().lock(t, name)
		throughout(lease*3/2, func() {
			g.refuses(t, name, reading)
		})
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
		g, java := w.manager(t, lockmgr.Options{}), w.open(t, request{})
		a, b := java.thread("a").reads(), java.thread("b").writes()
		owner := g.NewOwner()
		reads := lock(t, g, name, reading, lockmgr.AsOwner(owner))
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
		w.awaitKeyEnds(t, name, a.owner(t))
		var took []time.Duration
		for range rwRounds {
			l := redistest.Must(upgrade())(t)
			info := redistest.Must(g.Inspect(t.Context(), name))(t)
			require.Equal(t, "write", info.Mode)
			require.False(t, a.tryLock(t, name))
			require.False(t, b.tryLock(t, name))
			waiting := w.startJavaSleep(t, a, name)
			took = append(took, wakes(t, func() { unlock(t, l) }, waiting)...)
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
