package lockmgr_test

import (
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/faults"
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
	}, faults.Patience, 5*time.Millisecond, "%+v", m.Stats())
}

// slow is a time-out for commands under leases that are short for a test's
// sake: a tenth of such a lease would be too little for a busy machine.
const slow = 320 * time.Millisecond

// closedPort is one that nobody listens on.
func closedPort(t testing.TB) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	return port
}
