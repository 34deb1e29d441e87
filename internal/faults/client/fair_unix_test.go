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
			patient := faults.Patient(t)
			first := redistest.Must(m.Lock(patient, "f", lockmgr.Fair()))(t)

			exe := redistest.Must(os.Executable())(t)
			cmd := exec.Command(exe)
			cmd.Env = append(os.Environ(), waiterEnv+"="+s.Addr())
			cmd.Stderr = os.Stderr
			out := redistest.Must(cmd.StdoutPipe())(t)
			require.NoError(t, cmd.Start())
			hung := time.AfterFunc(2*faults.Patience, func() { _ = cmd.Process.Kill() })
			t.Cleanup(func() { hung.Stop(); _ = cmd.Process.Kill(); _ = cmd.Wait() })
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
			require.NoError(t, first.Unlock(patient))
			l := redistest.Must(behind[0].Await(patient))(t)
			require.Less(t, time.Since(begin), faults.PlaceTime, "a place that was served in vain ends before")
			select {
			case <-behind[1].Done():
				t.Error("both were granted")
			default:
			}
			if !killed {
				lines := bufio.NewReader(out)
				require.NoError(t, cmd.Process.Signal(syscall.SIGCONT))
				f.AwaitWaiting(t, s, 1+waiters)
				require.NoError(t, l.Unlock(patient))
				l = redistest.Must(behind[1].Await(patient))(t)
				require.NoError(t, l.Unlock(patient))
				for i := range waiters {
					line := redistest.Must(lines.ReadString('\n'))(t)
					require.Equal(t, fmt.Sprintf("granted %d true", i), strings.TrimSpace(line))
				}
				require.NoError(t, cmd.Wait())
			} else {
				require.NoError(t, l.Unlock(patient))
				l = redistest.Must(behind[1].Await(patient))(t)
				require.NoError(t, l.Unlock(patient))
			}
			require.NoError(t, m.Close(patient))
			require.Empty(t, f.Left(t, s))
		})
	}
}
