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
		type name struct {
			java           thread
			name, javaName string
		}
		names := []name{{mapped, prefix + "rw", "rw"}, {mapped, prefix + "{rw}:1", "{rw}:1"}}
		for _, odd := range oddNames {
			names = append(names, name{plain, odd, odd})
		}
		for _, c := range names {
			javaWaits := func(j thread, l *lockmgr.Lock) {
				waiting := w.startJavaSleep(t, j, c.javaName)
				w.awaitRWListeners(t, c.name, 1)
				took = append(took, wakes(t, func() { unlock(t, l) }, waiting)...)
			}
			goWaits := func(j thread, side lockmgr.LockOption) *lockmgr.Lock {
				waiting := g.startRefused(t, c.name, side)
				w.awaitRWListeners(t, c.name, 1)
				took = append(took, wakes(t, func() { j.unlock(t, c.javaName) }, waiting)...)
				l := waiting.granted(t)
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

// Go refuses both sides while there is a record of a plain lock, and the other way round, and says
// why.
func TestReadWrite_GoRefusesPlainLocks(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		m, g, java := w.manager(t, lockmgr.Options{}), w.manager(t, lockmgr.Options{}), w.open(t, request{}).thread("a")
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

		// The same with our own plain lock, and Java's beside our read-write lock.
		name := t.Name()
		l := lock(t, m, name)
		refuses(name, reading)
		refuses(name, writing)
		require.Equal(t, map[string]string{l.HolderID(): "1"}, w.record(t, name))
		unlock(t, l)
		for _, side := range []lockmgr.LockOption{reading, writing} {
			l = lock(t, g, name, side)
			require.False(t, java.tryLock(t, name))
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
