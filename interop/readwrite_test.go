package interop

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

var (
	reading = lockmgr.Shared()
	writing = lockmgr.Exclusive()
)

func TestReadWrite_ExcludesTheOtherSide(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		name := t.Name()
		g, other, java := w.manager(t, lockmgr.Options{}), w.manager(t, lockmgr.Options{}), w.open(t, request{})
		a, b := java.thread("a"), java.thread("b")
		held := func(mode string, holders ...string) {
			t.Helper()
			record := rwRecord(mode, holders...)
			require.Equal(t, record, w.record(t, name))
			info := redistest.Must(g.Inspect(t.Context(), name))(t)
			require.True(t, info.Locked)
			require.Equal(t, mode, info.Mode)
			for _, h := range faults.Entries(info) {
				require.Equal(t, record[h.Owner], fmt.Sprint(h.Count), h.Owner)
			}
			require.Len(t, info.Holders, len(holders))
			require.True(t, 0 < info.TTL && info.TTL <= 30*time.Second, "TTL %v", info.TTL)
			other.refuses(t, name, writing)
			require.False(t, b.writes().tryLock(t, name))
		}

		a.reads().lock(t, name)
		held("read", a.owner(t))
		l := g.grants(t, name, reading)
		held("read", a.owner(t), l.HolderID())
		a.reads().unlock(t, name)
		held("read", l.HolderID())
		require.True(t, a.reads().is(t, "isLocked", name))
		require.False(t, a.writes().is(t, "isLocked", name))
		require.False(t, a.reads().is(t, "isHeld", name))
		require.Zero(t, a.reads().number(t, "holdCount", name))
		ttl := a.reads().number(t, "ttl", name)
		require.True(t, 0 < ttl && ttl <= 30000, "remainTimeToLive %d", ttl)
		require.True(t, a.reads().tryLock(t, name))
		require.True(t, a.reads().is(t, "isHeld", name))
		a.reads().unlock(t, name)
		held("read", l.HolderID())
		unlock(t, l)
		require.Empty(t, w.record(t, name))

		l = g.grants(t, name, writing)
		held("write", l.HolderID())
		require.False(t, a.reads().tryLock(t, name))
		a.writes().requireOthers(t, name)
		require.False(t, a.reads().is(t, "isLocked", name))
		held("write", l.HolderID())
		unlock(t, l)

		require.True(t, a.writes().tryLock(t, name))
		held("write", a.owner(t))
		g.refuses(t, name, reading)
		a.writes().unlock(t, name)
		unlock(t, g.grants(t, name, writing))
	})
}

func TestReadWrite_ReadersShareUntilTheLast(t *testing.T) {
	const short, long = 10 * time.Second, time.Minute
	each(t, func(t *testing.T, w *world) {
		g, other, java := w.manager(t, lockmgr.Options{}), w.manager(t, lockmgr.Options{}), w.open(t, request{})
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
			l := lock(t, g, name, opts...)
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
