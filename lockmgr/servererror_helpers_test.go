package lockmgr_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// The servererror tests check what a caller gets while the server refuses commands,
// is in trouble or is gone: typed errors that say what to do, and nothing left
// behind.

// requireServerError checks that an error is a ServerError of a kind, with a hint and
// without the password.
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

// requireAtRest waits until a manager has no names, requests or subscriptions.
func requireAtRest(t testing.TB, m *lockmgr.Manager) {
	t.Helper()
	require.Eventually(t, func() bool {
		s := m.Stats()
		return s.Locks == 0 && s.Pending == 0 && s.Subscriptions == 0
	}, faults.Patience, 5*time.Millisecond, "%+v", m.Stats())
}

// slow is the command time-out of tests with a short lease. The default, a tenth of
// the lease, would be too short on a busy machine.
const slow = 320 * time.Millisecond
