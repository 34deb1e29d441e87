package lockmgr_test

import (
	"bufio"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

const envLeaver = "HOLDFAST_TEST_LEAVER"

// A server that refuses PING must not end the process of a waiter that leaves. The
// client library sends a PING after each UNSUBSCRIBE, and panics if that is refused
// in a way that it does not know. So the waiter runs in a process of its own.
func TestWaiter_LeavesAServerThatRefusesPing(t *testing.T) {
	if addr := os.Getenv(envLeaver); addr != "" {
		leave(t, addr)
		return
	}
	for _, tt := range faults.Troubles("MISCONF", "MASTERDOWN") {
		t.Run(tt.What, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t, tt.Args...)
			faults.Do(t, s, "HSET", "a", "somebody", "1")
			cmd := exec.CommandContext(faults.Patient(t), os.Args[0], "-test.run", "^TestWaiter_LeavesAServerThatRefusesPing$")
			cmd.Env = append(os.Environ(), envLeaver+"="+s.Addr())
			in := must(cmd.StdinPipe())(t)
			out := must(cmd.StdoutPipe())(t)
			cmd.Stderr = os.Stderr
			require.NoError(t, cmd.Start())
			lines := bufio.NewReader(out)
			require.Equal(t, "waiting\n", must(lines.ReadString('\n'))(t))
			tt.Begin(t, s)
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
	faults.Eventually(t, func() bool { return m.Stats().Wakes > 0 })
	os.Stdout.WriteString("waiting\n")
	_, _ = io.Copy(io.Discard, os.Stdin)
	f.Cancel()
	faults.Eventually(t, func() bool { return strings.Contains(log.String(), "unsubscribe refused") })
	_ = m.Close(faults.Patient(t))
	os.Stdout.WriteString("survived\n")
}
