package redistest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestMini_ExpiresKeys(t *testing.T) {
	addr, m := Mini(t)
	reply, err := do(addr, login{}, roundTripTimeout, "SET", "short", "v", "PX", "50")
	require.NoError(t, err)
	require.Equal(t, "OK", reply)
	_, err = do(addr, login{}, roundTripTimeout, "SET", "long", "v", "PX", "3600000")
	require.NoError(t, err)
	require.Eventually(t, func() bool { return !m.Exists("short") }, startTimeout, 5*time.Millisecond)
	require.True(t, m.Exists("long"))
}
