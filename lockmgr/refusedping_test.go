package lockmgr_test

import (
	"bufio"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

const envLeaver = "HOLDFAST_TEST_LEAVER"

// A server that refuses PING must not end the process of a waiter that leaves.
// The client library follows each UNSUBSCRIBE by a PING and panics at a refusal
// that it does not know, so the waiter is a process of its own.
func TestWaiter_LeavesAServerThatRefusesPing(t *testing.T) {
	if addr := os.Getenv(envLeaver); addr != "" {
		leave(t, addr)
		return
	}
	for what, tt := range map[string]struct {
		args  []string
		begin func(t *testing.T, s *redistest.Server)
	}{
		"MISCONF": {nil, func(t *testing.T, s *redistest.Server) {
			dir := strings.TrimPrefix(faults.Do(t, s, "CONFIG", "GET", "dir"), "dir\n")
			require.NoError(t, os.Mkdir(filepath.Join(dir, "in-the-way"), 0o700))
			faults.Do(t, s, "CONFIG", "SET", "save", "3600 1000000")
			faults.Do(t, s, "BGSAVE")
			require.Eventually(t, func() bool {
				return strings.Contains(faults.Do(t, s, "INFO", "persistence"), "rdb_last_bgsave_status:err")
			}, faults.Patience, time.Millisecond)
		}},
		"MASTERDOWN": {[]string{"--replica-serve-stale-data", "no"}, func(t *testing.T, s *redistest.Server) {
			faults.Do(t, s, "REPLICAOF", "127.0.0.1", closedPort(t))
		}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t, append([]string{"--dbfilename", "in-the-way"}, tt.args...)...)
			faults.Do(t, s, "HSET", "a", "somebody", "1")
			cmd := exec.CommandContext(faults.Patient(t), os.Args[0], "-test.run", "^TestWaiter_LeavesAServerThatRefusesPing$")
			cmd.Env = append(os.Environ(), envLeaver+"="+s.Addr())
			in, err := cmd.StdinPipe()
			require.NoError(t, err)
			out, err := cmd.StdoutPipe()
			require.NoError(t, err)
			cmd.Stderr = os.Stderr
			require.NoError(t, cmd.Start())
			lines := bufio.NewReader(out)
			said, err := lines.ReadString('\n')
			require.NoError(t, err)
			require.Equal(t, "waiting\n", said)
			tt.begin(t, s)
			require.NoError(t, in.Close())
			rest, _ := io.ReadAll(lines)
			require.NoError(t, cmd.Wait(), "%s", rest)
			require.Contains(t, string(rest), "survived\n")
		})
	}
}

// leave waits for a lock, and stops waiting when its input ends.
func leave(t *testing.T, addr string) {
	var log lockedBuffer
	m := dialTroubled(t, addr, lockmgr.Options{Linger: -1, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	f := m.LockAsync("a")
	require.Eventually(t, func() bool { return m.Stats().Wakes > 0 }, faults.Patience, time.Millisecond)
	os.Stdout.WriteString("waiting\n")
	_, _ = io.Copy(io.Discard, os.Stdin)
	f.Cancel()
	require.Eventually(t, func() bool { return strings.Contains(log.String(), "unsubscribe refused") }, faults.Patience, time.Millisecond)
	_ = m.Close(faults.Patient(t))
	os.Stdout.WriteString("survived\n")
}
