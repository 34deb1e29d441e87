package server_test

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

var ctx = context.Background()

const (
	// patience is for what must happen, on a machine that may be busy.
	patience = 20 * time.Second
	// steady is the lease of a lock that must not be lost: a test binary that
	// stands still for less than two thirds of it does no harm.
	steady = 9 * time.Second
	// short is the lease of a lock that is to be lost at its deadline.
	short = 900 * time.Millisecond
	// watched is the lease of a lock whose record goes: the next renewal, and
	// no deadline, must tell.
	watched = 5 * time.Second
	// late is what a busy machine may add to any time that is promised. What
	// was noticed by a renewal, and what by a deadline, the reason of a loss
	// tells.
	late = 10 * time.Second
)

// Why a lock was lost, as its error says.
const (
	recordGone = "removed or taken over"
	ranOut     = "ran out before a renewal was confirmed"
)

// with returns options for a lease. The time-out is as long as it may be, as
// the machine may be busy.
func with(lease time.Duration) lockmgr.Options {
	return lockmgr.Options{Lease: lease, CommandTimeout: 3 * lease / 10}
}

// dial connects a manager whose every release must be confirmed in the end.
func dial(t testing.TB, addr string, o lockmgr.Options) *lockmgr.Manager {
	t.Helper()
	return dialOpt(t, rueidis.ClientOption{InitAddress: []string{addr}}, o)
}

func dialOpt(t testing.TB, opt rueidis.ClientOption, o lockmgr.Options) *lockmgr.Manager {
	t.Helper()
	m, err := lockmgr.Dial(opt, o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close(patient(t))) })
	return m
}

// patient is a context for calls that must not hang.
func patient(t testing.TB) context.Context {
	c, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return c
}

func do(t testing.TB, s *redistest.Server, args ...string) string {
	t.Helper()
	reply, err := s.Do(args...)
	require.NoError(t, err)
	return reply
}

func take(t testing.TB, m *lockmgr.Manager, name string, opts ...lockmgr.LockOption) *lockmgr.Lock {
	t.Helper()
	l, err := m.Lock(patient(t), name, opts...)
	require.NoError(t, err)
	return l
}

func release(t testing.TB, l *lockmgr.Lock) {
	t.Helper()
	require.NoError(t, l.Unlock(patient(t)))
}

func granted(t testing.TB, f *futures.Future[*lockmgr.Lock]) *lockmgr.Lock {
	t.Helper()
	l, err := f.Await(patient(t))
	require.NoError(t, err)
	return l
}

func settled(f *futures.Future[*lockmgr.Lock]) bool {
	select {
	case <-f.Done():
		return true
	default:
		return false
	}
}

func isLost(l *lockmgr.Lock) bool {
	select {
	case <-l.Lost():
		return true
	default:
		return false
	}
}

// requireLost waits for the loss of a lock and checks why it was lost.
func requireLost(t testing.TB, l *lockmgr.Lock, why string) {
	t.Helper()
	select {
	case <-l.Lost():
	case <-time.After(patience):
		require.FailNow(t, "not lost", "%s has %v left", l.Name(), l.Remaining())
	}
	require.False(t, l.Valid())
	require.ErrorIs(t, l.Err(), lockmgr.ErrLeaseLost)
	require.ErrorContains(t, l.Err(), why)
}

// requireNoticed checks that the loss of a record which went at an instant is
// known when the README says that it is. It returns how long it took.
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
	eventually(t, func() bool { return m.Stats().Renewals >= want }, "no renewals")
	for _, l := range locks {
		require.NoError(t, l.Err(), l.Name())
		require.True(t, l.Valid(), l.Name())
	}
}

// eventually waits until something is so. Unlike require.Eventually it asks on
// the test's own goroutine, so that what it calls may end the test.
func eventually(t testing.TB, so func() bool, what ...any) {
	t.Helper()
	for end := time.Now().Add(patience); !so(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			require.FailNow(t, "it never was so", what...)
		}
	}
}

// subscribers is how many clients listen for messages about a lock.
func subscribers(t testing.TB, s *redistest.Server, name string) int {
	t.Helper()
	lines := strings.Split(do(t, s, "PUBSUB", "NUMSUB", channel(name)), "\n")
	n, err := strconv.Atoi(lines[len(lines)-1])
	require.NoError(t, err)
	return n
}

func channel(name string) string { return "redisson_lock__channel:{" + name + "}" }

func owners(t testing.TB, s *redistest.Server, name string) []string {
	t.Helper()
	keys := strings.Split(do(t, s, "HKEYS", name), "\n")
	return slices.DeleteFunc(keys, func(k string) bool { return k == "" })
}

// A witness keeps what a manager's observer is told.
type witness struct {
	mu     sync.Mutex
	events []lockmgr.Event
}

func (w *witness) observe(e lockmgr.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, e)
}

// count tells how many events of a kind there were.
func count[E lockmgr.Event](w *witness, so func(E) bool) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, e := range w.events {
		if e, ok := e.(E); ok && so(e) {
			n++
		}
	}
	return n
}

func always[E lockmgr.Event](E) bool { return true }

// percentile returns the duration that a share p of the sorted ones does not
// exceed.
func percentile(sorted []time.Duration, p float64) time.Duration {
	return sorted[min(len(sorted)-1, int(p*float64(len(sorted))))]
}
