//go:build unix

package redistest

import (
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/resp"
)

func TestServer_EndsWithItsTest(t *testing.T) {
	Need(t)
	var pid int
	t.Run("test", func(t *testing.T) { pid = Start(t).PID() })
	require.ErrorIs(t, syscall.Kill(pid, 0), syscall.ESRCH)
}

func TestSignal_StopsAndContinues(t *testing.T) {
	s := Start(t)
	s.Signal(syscall.SIGSTOP)
	_, err := resp.Do(s.Addr(), resp.Login{}, 50*time.Millisecond, "PING")
	require.ErrorIs(t, err, os.ErrDeadlineExceeded, "a stopped server takes connections and says nothing")
	s.Signal(syscall.SIGCONT)
	Must(s.Do("PING"))(t)

	s.Signal(syscall.SIGSTOP)
	s.Kill() // must not wait for it to go on
}
