package redistest

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/redisserver"
)

func TestFind_WithoutAServer(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv(envServer, "")

	t.Run("skips loudly, once", func(t *testing.T) {
		t.Setenv(envRequire, "")
		var out bytes.Buffer
		var once sync.Once
		for range 2 {
			tb := outcome(t, func(tb testing.TB) { findOr(tb, &out, &once) })
			require.True(t, strings.HasPrefix(tb.skipped, "SKIPPED: no redis-server or valkey-server on PATH"), tb.skipped)
			require.Empty(t, tb.fatal)
		}
		require.Equal(t, notice, out.String())
	})
	t.Run("fails where one is required", func(t *testing.T) {
		t.Setenv(envRequire, "1")
		var out bytes.Buffer
		tb := outcome(t, func(tb testing.TB) { findOr(tb, &out, new(sync.Once)) })
		require.Contains(t, tb.fatal, envRequire)
		require.Empty(t, tb.skipped)
		require.Empty(t, out.String())
	})
	t.Run("fails where the one asked for is missing", func(t *testing.T) {
		t.Setenv(envRequire, "")
		t.Setenv(envServer, "no-such-server")
		tb := outcome(t, func(tb testing.TB) { find(tb) })
		require.Contains(t, tb.fatal, "no-such-server")
		require.Empty(t, tb.skipped)
	})
}

func TestFind_NamedBinary(t *testing.T) {
	path := find(t)
	t.Setenv("PATH", t.TempDir())
	t.Setenv(envServer, path)
	require.Equal(t, path, find(t))
}

func TestArgs_BadOneIsReported(t *testing.T) {
	find(t)
	tb := outcome(t, func(tb testing.TB) { Start(tb, "--no-such-option", "1") })
	require.Contains(t, tb.fatal, redisserver.ErrEnded.Error())
	require.Contains(t, tb.fatal, "no-such-option", "what the server said about it")
}

// recorder is a test that keeps to itself how it ended.
type recorder struct {
	testing.TB
	fatal, skipped string
}

// outcome runs f as a test would, to its end or to the first Fatalf or Skip.
func outcome(t *testing.T, f func(testing.TB)) *recorder {
	tb := &recorder{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(tb)
	}()
	<-done
	return tb
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.fatal = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func (r *recorder) Skip(args ...any) {
	r.skipped = fmt.Sprint(args...)
	runtime.Goexit()
}
