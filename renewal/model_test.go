package renewal_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/renewal"
)

// model implements the contract in the simplest way.
type model struct {
	slot time.Duration
	at   map[*lease]time.Duration
}

func (m *model) schedule(x *lease, now, due time.Duration) {
	at := due.Truncate(m.slot)
	for at -= m.slot; at < due || at <= now; {
		if due <= now { // no need to walk
			at = max(at, now.Truncate(m.slot)-m.slot)
		}
		at += m.slot
	}
	m.at[x] = at
}

func (m *model) due(now time.Duration) (out []*lease) {
	for x, at := range m.at {
		if at <= now {
			out = append(out, x)
			delete(m.at, x)
		}
	}
	return out
}

func (m *model) next() (first time.Duration, ok bool) {
	for _, at := range m.at {
		if !ok || at < first {
			first, ok = at, true
		}
	}
	return first, ok
}

// little takes what is due a few at a time.
func little(rng *rand.Rand, m *renewal.Map[*lease], now time.Duration) (out []*lease) {
	for {
		most, before := 1+rng.IntN(8), len(out)
		out = m.DueAtMost(now, most, out)
		switch next, ok := m.Next(); {
		case !ok || next > now:
			return out
		case len(out)-before < most:
			panic("fewer than there are")
		}
	}
}

// TestMap_LikeTheModel makes the same random calls to a Map, to the model and to a second Map. The
// second Map, from which a few items are taken at a time, must return the same order.
func TestMap_LikeTheModel(t *testing.T) {
	for seed := range uint64(120) {
		rng := rand.New(rand.NewPCG(seed, 1))
		between := func(lo, hi time.Duration) time.Duration { return lo + time.Duration(rng.Int64N(int64(hi-lo))) }

		tick := time.Duration(8 + rng.IntN(1000))
		var (
			m    = renewal.NewMap[*lease](tick)
			twin = renewal.NewMap[*lease](tick)
			want = &model{slot: tick / 8, at: make(map[*lease]time.Duration)}

			leases, twins []*lease
			// The longest time for which a lease is scheduled ahead. In half of the runs all items
			// are within the window and Due is called in time, so Next has to be exact. In the
			// others Due is called at random times.
			ahead   = tick * time.Duration(1+4*rng.IntN(2)*rng.IntN(10))
			inside  = ahead == tick
			stale   = !inside && rng.IntN(2) == 0 // sometimes now is an old reading
			now     = between(0, time.Hour)
			origin  = now
			removed bool
		)
		for i := range 40 {
			leases = append(leases, &lease{id: i})
			twins = append(twins, &lease{id: i})
		}

		takeDue := func() {
			got := m.Due(now, nil)
			require.Equal(t, ids(got), ids(little(rng, twin, now)), "seed %d: order", seed)
			require.ElementsMatch(t, ids(got), ids(want.due(now)), "seed %d", seed)
		}

		for range 1000 {
			i := rng.IntN(len(leases))
			op := rng.IntN(10)
			removed = removed || op < 6 && leases[i].entry.Scheduled()
			switch {
			case op < 4:
				at, due := now, now+between(-tick, ahead)
				if stale && rng.IntN(4) == 0 {
					at = max(origin, now-between(0, 3*tick))
				}
				m.Schedule(leases[i], at, due)
				twin.Schedule(twins[i], at, due)
				want.schedule(leases[i], at, due)
			case op < 6:
				m.Remove(leases[i])
				twin.Remove(twins[i])
				delete(want.at, leases[i])
			case op < 8:
				takeDue()
			default:
				now += between(0, tick/4)
				if rng.IntN(50) == 0 {
					now += between(0, 100*tick) // a pause
				}
				if inside {
					takeDue()
				}
			}

			require.Equal(t, len(want.at), m.Len(), "seed %d", seed)
			for _, l := range leases {
				if _, ok := want.at[l]; ok != l.entry.Scheduled() {
					t.Fatalf("seed %d: lease %d: scheduled: %v", seed, l.id, !ok)
				}
			}
			next, ok := m.Next()
			wantNext, wantOK := want.next()
			require.Equal(t, wantOK, ok, "seed %d", seed)
			if inside || !removed {
				require.Equal(t, wantNext, next, "seed %d", seed)
			} else {
				require.LessOrEqual(t, next, wantNext, "seed %d", seed)
			}
		}

		// Following Next alone, everything comes out when it should.
		for m.Len() > 0 {
			now, _ = m.Next()
			require.ElementsMatch(t, ids(want.due(now)), ids(m.Due(now, nil)), "seed %d", seed)
		}
		require.Empty(t, want.at)
	}
}
