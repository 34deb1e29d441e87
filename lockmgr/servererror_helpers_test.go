package lockmgr_test

import (
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// What a user of the library meets when the server refuses, is in trouble or
// is gone: typed errors that say what to do, and nothing left behind.

// requireServerError checks a kind, and that the error says more than that.
func requireServerError(t testing.TB, kind, err error) {
	t.Helper()
	require.ErrorIs(t, err, kind)
	var e *lockmgr.ServerError
	require.ErrorAs(t, err, &e)
	require.NotEmpty(t, e.Hint)
	require.Contains(t, err.Error(), e.Hint)
	require.NotContains(t, err.Error(), secret)
}

// secret is the password of all users here: no error may contain it.
const secret = "correct-horse-battery-staple"

// requireAtRest waits until a manager has nothing in hand.
func requireAtRest(t testing.TB, m *lockmgr.Manager) {
	t.Helper()
	require.Eventually(t, func() bool {
		s := m.Stats()
		return s.Locks == 0 && s.Pending == 0 && s.Subscriptions == 0
	}, patience, 5*time.Millisecond, "%+v", m.Stats())
}

// slow is a time-out for commands under leases that are short for a test's
// sake: a tenth of such a lease would be too little for a busy machine.
const slow = 320 * time.Millisecond

// settled tells whether a future has a result.
func settled(f *futures.Future[*lockmgr.Lock]) bool {
	select {
	case <-f.Done():
		return true
	default:
		return false
	}
}

func awaitLost(t testing.TB, l *lockmgr.Lock) {
	t.Helper()
	select {
	case <-l.Lost():
	case <-time.After(patience):
		require.FailNow(t, "not lost", "%s has %v left", l.Name(), l.Remaining())
	}
}

func do(t testing.TB, s *redistest.Server, args ...string) string {
	t.Helper()
	reply, err := s.Do(args...)
	require.NoError(t, err)
	return reply
}

// closedPort is one that nobody listens on.
func closedPort(t testing.TB) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	return port
}
