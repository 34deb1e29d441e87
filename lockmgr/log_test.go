package lockmgr_test

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// A lockedBuffer may be written and read concurrently.
type lockedBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.String()
}

// A name with a line break can't forge a log line, whatever the handler does. No
// line contains the password.
func TestLog_NamesAndPasswords(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	setUser(t, s, "locker", "+@all", "~*", "&*", "-subscribe", "-pttl")
	const name = "a\nlevel=ERROR msg=forged\x1b[31m"
	var log lockedBuffer
	raw := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		require.NotContains(t, a.Value.String(), "\n", a.Key)
		require.NotContains(t, a.Value.String(), "\x1b", a.Key)
		return a
	}}))
	m := dialAs(t, s.Addr(), "locker", lockmgr.Options{Lease: 1500 * time.Millisecond, Logger: raw})
	l := mustLock(t, m, name)
	faults.Do(t, s, "DEL", name)
	faults.AwaitLost(t, l)
	faults.Do(t, s, "SET", name, "x")
	require.Error(t, errOf(m.TryLock(faults.Patient(t), name)))
	faults.Do(t, s, "DEL", name)
	faults.Do(t, s, "HSET", name, "another", "1")
	require.Error(t, errOf(m.TryLock(faults.Patient(t), name)))
	for _, line := range []string{`msg="lock lost" name="\"a\\nlevel=`, `msg="commands fail" name="\"a\\nlevel=`} {
		faults.Eventually(t, func() bool { return strings.Contains(log.String(), line) }, log.String())
	}
	require.NotContains(t, log.String(), secret)
}
