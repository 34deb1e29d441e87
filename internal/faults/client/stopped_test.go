//go:build unix

package client

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// startSelf starts the test binary with a variable that makes it something else. line returns the
// next line that the process prints. The process is killed when the test ends, or hangs.
func startSelf(t *testing.T, env string) (cmd *exec.Cmd, in io.Writer, line func() string) {
	t.Helper()
	cmd = exec.Command(redistest.Must(os.Executable())(t))
	cmd.Env = append(os.Environ(), env)
	cmd.Stderr = os.Stderr
	in = redistest.Must(cmd.StdinPipe())(t)
	lines := bufio.NewReader(redistest.Must(cmd.StdoutPipe())(t))
	require.NoError(t, cmd.Start())
	hung := time.AfterFunc(2*faults.Patience, func() { _ = cmd.Process.Kill() })
	t.Cleanup(func() { hung.Stop(); _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd, in, func() string { return strings.TrimSpace(redistest.Must(lines.ReadString('\n'))(t)) }
}

// A process that was stopped for longer than its lease knows at the first look that it holds
// nothing: the server, which is stopped as well by then, has no part in it. Its late unlock does
// not touch whoever has the lock now.
func TestLock_StoppedHolderKnowsAtTheFirstLook(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	cmd, in, line := startSelf(t, holderEnv+"="+s.Addr())
	require.Equal(t, "holding", line())
	require.NoError(t, cmd.Process.Signal(syscall.SIGSTOP))
	stopped := time.Now()
	other := dial(t, s, lockmgr.Options{})
	// It waits as long as the record lives.
	l := faults.Take(t, other, "watched")
	record := faults.Do(t, s, "HGETALL", "watched")
	s.Signal(syscall.SIGSTOP)
	time.Sleep(time.Until(stopped.Add(2 * stoppedLease))) // that is what it must not miss
	require.NoError(t, cmd.Process.Signal(syscall.SIGCONT))
	looks := []string{line(), line()}
	require.ElementsMatch(t, []string{"watched valid=false", "fixed valid=false"}, looks)
	require.Equal(t, "unlocking", line())
	s.Signal(syscall.SIGCONT)
	redistest.Must(io.WriteString(in, "\n"))(t)
	require.Equal(t, "watched lost=true", line())
	require.Equal(t, "fixed lost=true", line())
	require.NoError(t, cmd.Wait())
	require.True(t, l.Valid())
	require.Equal(t, record, faults.Do(t, s, "HGETALL", "watched"))
	faults.Release(t, l)
}
