//go:build unix

package client

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// startSelf starts the test binary with a variable that makes it something else. line returns the
// next line that the process prints. The process is killed when the test ends, or hangs.
func startSelf(t *testing.T, env string) (cmd *exec.Cmd, line func() string) {
	t.Helper()
	cmd = exec.Command(redistest.Must(os.Executable())(t))
	cmd.Env = append(os.Environ(), env)
	cmd.Stderr = os.Stderr
	lines := bufio.NewReader(redistest.Must(cmd.StdoutPipe())(t))
	require.NoError(t, cmd.Start())
	hung := time.AfterFunc(2*faults.Patience, func() { _ = cmd.Process.Kill() })
	t.Cleanup(func() { hung.Stop(); _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd, func() string { return strings.TrimSpace(redistest.Must(lines.ReadString('\n'))(t)) }
}

// A process that has places in the queue is stopped. Those behind it are served, in their order,
// when its places have ended. When it goes on, its waiters join again, and are served. If it is
// killed instead, nothing is left of it.
func TestFair_StoppedProcessKeepsNobodyWaiting(t *testing.T) {
	t.Parallel()
	for _, killed := range []bool{false, true} {
		t.Run(fmt.Sprintf("killed=%v", killed), func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			f := faults.FairLock{Name: "f"}
			m := dial(t, s, lockmgr.Options{})
			first := faults.Take(t, m, "f", lockmgr.Fair())

			cmd, line := startSelf(t, waiterEnv+"="+s.Addr())
			f.AwaitWaiting(t, s, waiters)

			behind := []*futures.Future[*lockmgr.Lock]{m.LockAsync("f", lockmgr.Fair()), m.LockAsync("f", lockmgr.Fair())}
			f.AwaitWaiting(t, s, waiters+len(behind))
			// It must be dead or stopped before the release, or it may get the lock first.
			if killed {
				require.NoError(t, cmd.Process.Kill())
				_ = cmd.Wait()
			} else {
				require.NoError(t, cmd.Process.Signal(syscall.SIGSTOP))
				var state syscall.WaitStatus
				redistest.Must(syscall.Wait4(cmd.Process.Pid, &state, syscall.WUNTRACED, nil))(t)
				require.True(t, state.Stopped())
			}
			begin := time.Now()
			faults.Release(t, first)
			l := faults.Await(t, behind[0])
			require.Less(t, time.Since(begin), faults.PlaceTime, "a place that was served in vain ends before")
			require.False(t, faults.Settled(behind[1]), "both were granted")
			if !killed {
				require.NoError(t, cmd.Process.Signal(syscall.SIGCONT))
				f.AwaitWaiting(t, s, 1+waiters)
			}
			faults.Release(t, l)
			faults.Release(t, faults.Await(t, behind[1]))
			if !killed {
				for i := range waiters {
					require.Equal(t, fmt.Sprintf("granted %d true", i), line())
				}
				require.NoError(t, cmd.Wait())
			}
			require.NoError(t, m.Close(faults.Patient(t)))
			require.Empty(t, f.Left(t, s))
		})
	}
}
