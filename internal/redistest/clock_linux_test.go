package redistest

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFindCompiler_None(t *testing.T) {
	t.Setenv("CC", "no-such-compiler")
	for required, skips := range map[string]bool{"": true, "1": false} {
		t.Setenv(envRequire, required)
		var out bytes.Buffer
		tb := outcome(t, func(tb testing.TB) { findCompiler(tb, &out) })
		require.Equal(t, skips, tb.skipped != "")
		require.Equal(t, skips, out.Len() > 0, "a skip is loud")
		require.Equal(t, !skips, tb.fatal != "")
	}
}
