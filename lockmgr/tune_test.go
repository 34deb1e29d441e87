package lockmgr_test

import (
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/lockmgr"
)

// TuneClient overrides what would make a command run twice or out of order, and leaves
// sizes alone that somebody has set.
func TestTuneClient(t *testing.T) {
	opt := lockmgr.TuneClient(rueidis.ClientOption{DisableAutoPipelining: true, ReadBufferEachConn: 1 << 20})
	require.False(t, opt.DisableAutoPipelining, "it would switch AlwaysPipelining off")
	require.True(t, opt.AlwaysPipelining)
	require.True(t, opt.DisableRetry)
	require.True(t, opt.DisableCache)
	require.Equal(t, -1, opt.PipelineMultiplex)
	require.Equal(t, 1<<20, opt.ReadBufferEachConn)
	require.Equal(t, 64<<10, opt.WriteBufferEachConn)
}

func TestDial_BadAddresses(t *testing.T) {
	for _, addresses := range [][]string{nil, {"redis://127.0.0.1:6379"}, {"rediss://user:correct-horse@host:1"}} {
		_, err := lockmgr.Dial(rueidis.ClientOption{InitAddress: addresses}, lockmgr.Options{})
		require.ErrorIs(t, err, lockmgr.ErrInvalidOption, "%q", addresses)
		require.NotContains(t, err.Error(), "correct-horse")
	}
}
