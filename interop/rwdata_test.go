package interop

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/lockmgr"
)

func TestReadWrite_Names(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		g := w.manager(t, lockmgr.Options{})
		plain, mapped := w.open(t, request{}).thread("a"), w.open(t, request{Prefix: "app:"}).thread("a")
		prefix := "app:"
		if w.version == oldest {
			prefix = "app:app:" // it maps the name of a read-write lock twice
		}
		var took []time.Duration
		check := func(java thread, name, javaName string) {
			l := g.grants(t, name, reading)
			require.True(t, java.reads().tryLock(t, javaName))
			w.requireKept(t, name, l.HolderID())
			w.requireKept(t, name, java.owner(t))
			java.reads().unlock(t, javaName)
			unlock(t, l)
			took = append(took, w.handOver(t, g, java.writes(), name, javaName)...)
		}
		check(mapped, prefix+"rw", "rw")
		check(mapped, prefix+"{rw}:1", "{rw}:1")
		for _, name := range oddNames {
			check(plain, name, name)
		}
		requireHeard(t, "both sides, with all names", took)
	})
}

// Go refuses both sides while there is a record of a plain lock, and the other way round, and says
// why.
func TestReadWrite_GoRefusesPlainLocks(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		g, java := w.manager(t, lockmgr.Options{}), w.open(t, request{}).thread("a")
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
			unlock(t, lock(t, g, name, way.ours...))
		}
		for _, side := range []lockmgr.LockOption{reading, writing} {
			l := lock(t, g, t.Name(), side)
			require.False(t, java.tryLock(t, t.Name()))
			unlock(t, l)
		}
	})
}

// Redisson's read-write lock does not see that a record is of a plain lock. It adds its fields, and
// takes the record away when it unlocks, with the plain lock.
func TestReadWrite_JavaOverPlainLocks(t *testing.T) {
	const lease = 3 * time.Second
	together(t, func(t *testing.T, w *world) {
		m, other, java := w.manager(t, withLease(lease)), w.manager(t, lockmgr.Options{}), w.open(t, request{})
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
		requireLost(t, l, lease+time.Second)

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
