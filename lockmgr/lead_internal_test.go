package lockmgr

import (
	"context"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
)

// A leader whose lock is over does not lead, even if nobody has noticed.
func TestLeader_NeverLate(t *testing.T) {
	m, err := Dial(rueidis.ClientOption{InitAddress: []string{miniredis.RunT(t).Addr()}}, Options{})
	require.NoError(t, err)
	held, err := m.TryLock(t.Context(), "a", Fenced())
	require.NoError(t, err)
	l := new(Leader)
	l.held.Store(held)
	require.True(t, l.IsLeader())
	require.EqualValues(t, 1, l.Term())
	require.NoError(t, held.Unlock(t.Context()))
	require.False(t, l.IsLeader())
	require.Zero(t, l.Term())
	require.NoError(t, m.Close(context.Background()))
}
