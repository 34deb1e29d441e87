package wire

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each script publishes on the channels that are used, and counts the subscribers of sharded ones
// if it can.
func TestScript_Channels(t *testing.T) {
	publishing := []*Script{Acquire, acquireMany, release, releaseMany, reserve, force, fairAcquire, fairTransfer, fairRelease, permitsAcquire, permitsRelease, permitsReturn, permitsLimit, permitsDelete, rwAcquire, rwTransfer, rwRelease, severalRelease}
	for _, s := range publishing {
		classic, sharded := s.clustered[Classic].Text, s.clustered[Sharded].Text
		require.Equal(t, onlyAt+forClassic.Replace(s.Text), classic)
		n := strings.Count(classic, "redis.pcall('PUBLISH', ")
		require.Positive(t, n, s.Name)
		require.Equal(t, n, strings.Count(classic, "'PUBLISH'"), s.Name)
		require.Equal(t, n, strings.Count(sharded, "'SPUBLISH'"), s.Name)
		require.NotContains(t, sharded, "'PUBLISH'")
		require.NotEqual(t, s.clustered[Classic].sha, s.clustered[Sharded].sha)
	}
	for _, s := range []*Script{transfer, permitsTransfer, inspect} {
		require.Contains(t, s.Text, "'NUMSUB'")
		require.NotContains(t, s.clustered[Sharded].Text, "'NUMSUB'", s.Name)
		require.Contains(t, s.clustered[Sharded].Text, "'SHARDNUMSUB'", s.Name)
	}
	for _, s := range []*Script{renew, rwRenew} {
		require.Equal(t, *s.clustered[Classic], *s.clustered[Sharded], s.Name)
	}
}
