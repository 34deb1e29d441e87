package wire

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each script publishes on the channels that are used, and counts the subscribers of sharded ones if
// it can.
func TestScript_Channels(t *testing.T) {
	publishing := []*Script{release, releaseMany, reserve, force, fairAcquire, fairTransfer, fairRelease, permitsAcquire, permitsRelease, permitsReturn, permitsLimit, permitsDelete, rwTransfer, rwRelease, severalRelease}
	for _, s := range publishing {
		classic, sharded := s.forms[Classic].Text, s.forms[Sharded].Text
		require.Equal(t, s.Text, classic)
		n := strings.Count(classic, "redis.pcall('PUBLISH', ")
		require.Positive(t, n, s.Name)
		require.Equal(t, n, strings.Count(classic, "'PUBLISH'"), s.Name)
		require.Equal(t, n, strings.Count(sharded, "'SPUBLISH'"), s.Name)
		require.NotContains(t, sharded, "'PUBLISH'")
		require.NotEqual(t, s.sha, s.forms[Sharded].sha)
	}
	for _, s := range []*Script{transfer, permitsTransfer, inspect} {
		require.Contains(t, s.Text, "'NUMSUB'")
		require.NotContains(t, s.forms[Sharded].Text, "'NUMSUB'", s.Name)
		require.Contains(t, s.forms[Sharded].Text, "'SHARDNUMSUB'", s.Name)
	}
	for _, s := range []*Script{Acquire, acquireMany, renew} {
		require.Equal(t, [...]*Script{s, s}, s.forms, s.Name)
	}
}
