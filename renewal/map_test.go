package renewal_test

import (
	"math"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/renewal"
)

const s = time.Second

// lease is an item of a Map.
type lease struct {
	entry renewal.Entry
	id    int
}

func (l *lease) RenewalEntry() *renewal.Entry { return &l.entry }

func ids(ls []*lease) (ids []int) {
	for _, l := range ls {
		ids = append(ids, l.id)
	}
	return ids
}

func TestEntry(t *testing.T) {
	require.LessOrEqual(t, unsafe.Sizeof(renewal.Entry{}), uintptr(8))
	require.False(t, new(renewal.Entry).Scheduled())
}

// The slot is one second here, the tick eight.
func TestMap_WhenAnItemComesOut(t *testing.T) {
	for _, test := range []struct {
		name           string
		now, due, want time.Duration
	}{
		{"at a boundary", 0, 8 * s, 8 * s},
		{"a moment after a boundary", 0, 8*s + 1, 9 * s},
		{"a moment before a boundary", 0, 9*s - 1, 9 * s},
		{"within the slot", 5*s + 100, 5*s + 200, 6 * s},
		{"due at the boundary that ends the slot", 5*s + 100, 6 * s, 6 * s},
		{"due now", 5*s + 100, 5*s + 100, 6 * s},
		{"due now, which is a boundary", 5 * s, 5 * s, 6 * s},
		{"overdue", 5*s + 100, 3 * s, 6 * s},
		{"overdue at a boundary", 5 * s, math.MinInt64, 6 * s},
		{"at the end of the window", 0, 64 * s, 64 * s},
		{"past the window", 0, 64*s + 1, 65 * s},
		{"far past the window", 0, 1e6*s + 1, (1e6 + 1) * s},
		{"before the origin", -100*s + 1, -50*s - 1, -50 * s},
		{"overdue before the origin", -100*s + 1, -150 * s, -99 * s},
		{"overdue before the origin at a boundary", -100 * s, -150 * s, -99 * s},
		{"hours after the origin", 5 * time.Hour, 5*time.Hour + 8*s, 5*time.Hour + 8*s},
		{"never", 0, math.MaxInt64, math.MaxInt64 / s * s},
		{"never, at a boundary", 5 * s, math.MaxInt64 - 1, math.MaxInt64 / s * s},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := renewal.NewMap[*lease](8 * s)
			x := &lease{}
			m.Schedule(x, test.now, test.due)
			require.True(t, x.entry.Scheduled())
			require.Equal(t, 1, m.Len())

			next, ok := m.Next()
			require.True(t, ok)
			require.Equal(t, test.want, next)
			require.Empty(t, m.Due(test.want-1, nil))
			require.Equal(t, 1, m.Len())
			require.Equal(t, []*lease{x}, m.Due(test.want, nil))

			require.Zero(t, m.Len())
			require.False(t, x.entry.Scheduled())
			require.Empty(t, m.Due(math.MaxInt64, nil))
			_, ok = m.Next()
			require.False(t, ok)
		})
	}
}

func TestMap_Empty(t *testing.T) {
	m := renewal.NewMap[*lease](8 * s)
	out := []*lease{{id: 1}}
	require.Equal(t, out, m.Due(time.Hour, out), "what was in out stays")
	m.Remove(&lease{})
	_, ok := m.Next()
	require.False(t, ok)
	require.Zero(t, m.Len())
}

func TestNext_AfterRemoval(t *testing.T) {
	m := renewal.NewMap[*lease](8 * s)
	a, b, far, further := &lease{id: 1}, &lease{id: 2}, &lease{id: 3}, &lease{id: 4}
	m.Schedule(b, 0, 9*s)
	m.Schedule(a, 0, 5*s)
	m.Schedule(further, 0, 2000*s)
	m.Schedule(far, 0, 1000*s)
	next := func() time.Duration {
		at, ok := m.Next()
		require.True(t, ok)
		return at
	}
	require.Equal(t, 5*s, next())
	m.Remove(a)
	require.Equal(t, 9*s, next())
	m.Remove(b)
	require.Equal(t, 1000*s, next())

	m.Remove(far)
	require.LessOrEqual(t, next(), 2000*s, "it may be early")
	require.Empty(t, m.Due(1000*s, nil))
	require.Equal(t, 2000*s, next(), "until Due has looked")

	m.Remove(further)
	m.Schedule(a, 3000*s, 3008*s)
	require.Equal(t, 3008*s, next(), "nothing is left outside of the window")
}

// An item that was outside of the window behaves like any other item once the window has reached
// it.
func TestMap_ItemsFarAheadComeIntoTheWindow(t *testing.T) {
	m := renewal.NewMap[*lease](8 * s)
	a, b, c := &lease{id: 1}, &lease{id: 2}, &lease{id: 3}
	m.Schedule(c, 0, 1030*s)
	m.Schedule(b, 0, 1010*s)
	m.Schedule(a, 0, 1000*s)
	require.Equal(t, []*lease{a}, m.Due(1000*s, nil))
	m.Remove(b)
	next, _ := m.Next()
	require.Equal(t, 1030*s, next)
	require.Equal(t, []*lease{c}, m.Due(next, nil))
}

func TestDue_ComesByBoundary(t *testing.T) {
	m := renewal.NewMap[*lease](8 * s)
	for i, due := range []time.Duration{7, 3, 5, 3, 7} {
		m.Schedule(&lease{id: i}, 0, due*s)
	}
	require.Equal(t, []int{1, 3, 2, 0, 4}, ids(m.Due(10*s, nil)))
}

func TestMap_TinyTicks(t *testing.T) {
	for _, tick := range []time.Duration{-s, 0, 1, 7, 8, 9} {
		m := renewal.NewMap[*lease](tick)
		x := &lease{}
		m.Schedule(x, 10, 15)
		next, _ := m.Next()
		require.Equal(t, time.Duration(15), next)
		m.Schedule(x, math.MaxInt64-1, math.MaxInt64)
		require.Equal(t, []*lease{x}, m.Due(math.MaxInt64, nil))
	}
}
