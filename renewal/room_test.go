package renewal

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

type item struct{ entry Entry }

func (x *item) RenewalEntry() *Entry { return &x.entry }

const tick = 8 * time.Second

// Many leases that are due together move from list to list. All lists share one slice, which is
// made small again when few leases are left.
func TestMap_BurstKeepsItsRoomOnce(t *testing.T) {
	const n = 100_000
	m := NewMap[*item](tick)
	items := make([]item, n)
	straggler := &item{}
	now := time.Duration(0)
	for round := range 12 {
		for i := range items {
			m.Schedule(&items[i], now, now+time.Second)
		}
		if round%3 == 0 {
			m.Schedule(straggler, now, now+time.Second)
			for i := range items {
				m.Remove(&items[i])
			}
		}
		now += time.Second
		m.Due(now, nil)
		require.Zero(t, m.Len())
		require.LessOrEqual(t, cap(m.lists.nodes), 3*n/2)
		require.Greater(t, cap(m.lists.nodes), n, "room that is needed again and again stays")
	}

	m.Schedule(straggler, now, now+tick)
	m.Remove(straggler)
	require.LessOrEqual(t, cap(m.lists.nodes), keep)
	m.Schedule(straggler, now, now+tick)
	require.Equal(t, []*item{straggler}, m.Due(now+tick, nil), "and the Map is as good as new")
}

// The Map keeps no reference to an item that was removed, also not in the unused part of its
// slices.
func TestMap_KeepsNothingTakenOutAlive(t *testing.T) {
	m := NewMap[*item](tick)
	rng := rand.New(rand.NewPCG(1, 1))
	items := make([]item, 1000)
	now := time.Duration(0)
	for range 20_000 {
		x := &items[rng.IntN(len(items))]
		switch rng.IntN(20) {
		case 0:
			now += time.Second / 4
			m.Due(now, nil)
		case 1, 2, 3:
			m.Remove(x)
		default:
			m.Schedule(x, now, now+time.Duration(rng.Int64N(int64(12*tick))))
		}
	}
	kept := 0
	for _, n := range m.lists.nodes {
		if n.item != nil {
			kept++
		}
	}
	require.NotZero(t, m.Len())
	require.Equal(t, m.Len(), kept)
}

// Locks are taken and released, in small and large numbers, while time passes: nothing is
// allocated.
func TestMap_SteadyStateDoesNotAllocate(t *testing.T) {
	for _, n := range []int{1, 10, 100, 1000, 10_000} {
		m := NewMap[*item](tick)
		items := make([]item, n)
		out := make([]*item, 0, n)
		now := time.Duration(0)
		step := func() {
			for i := range items { // half of the locks are released and taken again
				if i%2 == 0 {
					m.Remove(&items[i])
					m.Schedule(&items[i], now, now+tick)
				}
			}
			now += 700 * time.Millisecond
			out = m.Due(now, out[:0])
			for _, x := range out {
				m.Schedule(x, now, now+tick)
			}
		}
		for i := range items {
			m.Schedule(&items[i], now, now+time.Duration(i)*tick/time.Duration(n))
		}
		for range 10 * window {
			step()
		}
		require.Zero(t, testing.AllocsPerRun(2*window, step), "%d locks", n)
	}
}
