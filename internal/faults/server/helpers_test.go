package server_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

var ctx = context.Background()

const (
	// steady is the lease of a lock that must not be lost: a test binary that stands still for less
	// than two thirds of it does no harm.
	steady = 9 * time.Second
	// short is the lease of a lock that is to be lost at its deadline.
	short = 900 * time.Millisecond
	// watched is the lease of a lock whose record goes: the next renewal, and no deadline, must
	// tell.
	watched = 5 * time.Second
	// late is what a busy machine may add to any time that is promised. What was noticed by a
	// renewal, and what by a deadline, the reason of a loss tells.
	late = 10 * time.Second
)

// Why a lock was lost, as its error says.
const (
	recordGone = "removed or taken over"
	ranOut     = "ran out before a renewal was confirmed"
)

// with returns options for a lease. The time-out is as long as it may be, as the machine may be
// busy.
func with(lease time.Duration) lockmgr.Options {
	return lockmgr.Options{Lease: lease, CommandTimeout: 3 * lease / 10}
}

// dialWatched connects a manager, and returns what its observer is told, too.
func dialWatched(t testing.TB, s *redistest.Server, lease time.Duration) (*lockmgr.Manager, *faults.Witness) {
	t.Helper()
	w, o := faults.NewWitness(), with(lease)
	o.Observer = w.Observe
	return faults.Dial(t, s.Addr(), o), w
}

// requireLost waits for the loss of a lock and checks why it was lost.
func requireLost(t testing.TB, l *lockmgr.Lock, why string) {
	t.Helper()
	faults.AwaitLost(t, l)
	require.False(t, l.Valid())
	require.ErrorIs(t, l.Err(), lockmgr.ErrLeaseLost)
	require.ErrorContains(t, l.Err(), why)
}

// requireNoticed checks that the loss of a record which went at an instant is known when
// docs/guarantees.md says that it is. It returns how long it took.
func requireNoticed(t testing.TB, l *lockmgr.Lock, lease time.Duration, went time.Time) time.Duration {
	t.Helper()
	requireLost(t, l, recordGone)
	took := time.Since(went)
	require.Less(t, took, 4*lease/10+late)
	return took
}

// requireKept checks that locks survive another renewal each.
func requireKept(t testing.TB, m *lockmgr.Manager, locks ...*lockmgr.Lock) {
	t.Helper()
	// Twice as many, since one of each may have been on its way before.
	want := m.Stats().Renewals + 2*uint64(m.Stats().Watched)
	faults.Eventually(t, func() bool { return m.Stats().Renewals >= want }, "no renewals")
	for _, l := range locks {
		require.NoError(t, l.Err(), l.Name())
		require.True(t, l.Valid(), l.Name())
	}
}

func owners(t testing.TB, s *redistest.Server, name string) []string {
	t.Helper()
	keys := strings.Split(faults.Do(t, s, "HKEYS", name), "\n")
	return slices.DeleteFunc(keys, func(k string) bool { return k == "" })
}

// percentile returns the duration that a share p of the sorted ones does not exceed.
func percentile(sorted []time.Duration, p float64) time.Duration {
	return sorted[min(len(sorted)-1, int(p*float64(len(sorted))))]
}
