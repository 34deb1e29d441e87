package interop

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

func TestReadWrite_JavaReentry(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		name := t.Name()
		g, other, java := w.manager(t, lockmgr.Options{}), w.manager(t, lockmgr.Options{}), w.open(t, request{}).thread("a")
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
			info := redistest.Must(g.Inspect(t.Context(), name))(t)
			require.Equal(t, c.mode, info.Mode)
			require.Equal(t, []lockmgr.Holder{{Owner: c.field, Count: 2}}, faults.Entries(info))
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
		g, java := w.manager(t, lockmgr.Options{}), w.open(t, request{})
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
		g, java := w.manager(t, lockmgr.Options{}), w.open(t, request{}).thread("a")
		for _, side := range []lockmgr.LockOption{reading, writing} {
			l := lock(t, g, name, side, lockmgr.FixedLease(lease))
			java.writes().lock(t, name)
			requireLost(t, l, eventLimit)
			require.Equal(t, rwRecord("write", java.owner(t)), w.record(t, name))
			java.writes().unlock(t, name)
		}
		for _, j := range []thread{java.reads(), java.writes()} {
			j.lockFor(t, name, lease)
			l := lock(t, g, name, writing)
			j.requireNotOwner(t, name)
			require.Equal(t, rwRecord("write", l.HolderID()), w.record(t, name))
			require.True(t, l.Valid())
			unlock(t, l)
		}

		// The lease of a Java reader ends while Go reads. Redisson's owner stays in the record, and
		// may unlock; it keeps out nobody.
		l := lock(t, g, name, reading)
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
		g, other := w.manager(t, o), w.manager(t, o)
		java := w.open(t, request{Watchdog: lease.Milliseconds()})
		a, b, c := java.thread("a"), java.thread("b"), java.thread("c")
		mode := func(want string) {
			t.Helper()
			info := redistest.Must(g.Inspect(t.Context(), name))(t)
			require.Equal(t, want, info.Mode)
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
			l := lock(t, g, name, side.ours)
			waiting := other.startRefused(t, name, writing)
			w.awaitRWListeners(t, name, 1)
			mode(side.mode)
			require.False(t, side.wrong.is(t, "forceUnlock", name))
			require.True(t, l.Valid())
			requireHeard(t, "Go after a forceUnlock of Java", wakes(t, func() { require.True(t, side.right.is(t, "forceUnlock", name)) }, waiting))
			next := waiting.granted(t)
			requireLost(t, l, lease+time.Second)
			require.Equal(t, rwRecord("write", next.HolderID()), w.record(t, name))
			unlock(t, next)
		}

		// Go removes what Java has.
		a.reads().lock(t, name)
		b.reads().lock(t, name)
		mode("read")
		waiting := w.startJavaSleep(t, c.writes(), name)
		requireHeard(t, "a Java writer after a ForceUnlock of Go", wakes(t, func() { g.forces(t, name) }, waiting))
		a.reads().requireNotOwner(t, name)
		b.reads().requireNotOwner(t, name)
		mode("write")
		reads := []*call{w.startJavaSleep(t, a.reads(), name), w.startJavaSleep(t, b.reads(), name)}
		requireHeard(t, "Java readers after a ForceUnlock of Go", wakes(t, func() { g.forces(t, name) }, reads...))
		c.writes().requireNotOwner(t, name)
		require.Equal(t, rwRecord("read", a.owner(t), b.owner(t)), w.record(t, name))
		a.reads().unlock(t, name)
		b.reads().unlock(t, name)
	})
}
