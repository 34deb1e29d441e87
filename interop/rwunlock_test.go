package interop

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/lockmgr"
)

func TestReadWrite_JavaReentry(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		name := t.Name()
		g, other, java := w.manager(t, lockmgr.Options{}), w.manager(t, lockmgr.Options{}), w.open(t, request{}).thread("a")
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

// The lease of a Java reader ends while Go reads. Redisson's owner stays in the record, and may
// unlock; it keeps out nobody.
func TestReadWrite_ReadersLeaseEnds(t *testing.T) {
	const lease = 250 * time.Millisecond
	together(t, func(t *testing.T, w *world) {
		name := t.Name()
		g, java := w.manager(t, lockmgr.Options{}), w.open(t, request{}).thread("a")
		l := lock(t, g, name, reading)
		java.reads().lockFor(t, name, lease)
		w.awaitKeyEnds(t, name, java.owner(t))
		w.requireKept(t, name, l.HolderID())
		require.True(t, java.reads().is(t, "isHeld", name))
		java.reads().unlock(t, name)
		require.Equal(t, rwRecord("read", l.HolderID()), w.record(t, name))
		w.requireKept(t, name, l.HolderID())
		java.reads().lockFor(t, name, lease)
		w.awaitKeyEnds(t, name, java.owner(t))
		unlock(t, l)
		require.Empty(t, w.record(t, name), "the record goes with the last living reader")
	})
}
