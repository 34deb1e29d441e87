package redistest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/resp"
)

func TestMini_ExpiresKeys(t *testing.T) {
	addr, m := Mini(t)
	reply := Must(resp.Do(addr, resp.Login{}, roundTripTimeout, "SET", "short", "v", "PX", "50"))(t)
	require.Equal(t, "OK", reply)
	Must(resp.Do(addr, resp.Login{}, roundTripTimeout, "SET", "long", "v", "PX", "3600000"))(t)
	require.Eventually(t, func() bool { return !m.Exists("short") }, time.Minute, 5*time.Millisecond)
	require.True(t, m.Exists("long"))
}
