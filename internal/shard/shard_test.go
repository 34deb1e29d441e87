package shard

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestShard_PartsTheWhole(t *testing.T) {
	for n := 1; n <= 5; n++ {
		for i := range 20 {
			in := 0
			for k := 1; k <= n; k++ {
				if (Shard{k, n}).Has(i) {
					in++
				}
			}
			require.Equal(t, 1, in, "item %d of %d shards", i, n)
		}
	}
	require.True(t, Shard{}.Has(7), "the zero Shard is the whole")
}

func TestSet(t *testing.T) {
	var s Shard
	require.Empty(t, s.String())
	require.NoError(t, s.Set("2/3"))
	require.Equal(t, Shard{2, 3}, s)
	require.Equal(t, "2/3", s.String())
	for _, bad := range []string{"", "1", "0/3", "4/3", "1/0", "-1/3", "a/b", "1/2/3", "/"} {
		require.Error(t, s.Set(bad), bad)
	}
	require.Equal(t, Shard{2, 3}, s, "what is refused changes nothing")
}
