package redistest

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/resp"
)

const envOrphan = "REDISTEST_ORPHAN"

// A test binary that is killed runs no cleanup. The kernel ends its server.
func TestServer_EndsWithItsTestBinary(t *testing.T) {
	find(t)
	cmd := exec.Command(os.Args[0], "-test.run=^TestHelper_InABinaryThatIsKilled$")
	cmd.Env = append(os.Environ(), envOrphan+"=1", "TMPDIR="+t.TempDir()) // it cannot tidy up
	out := Must(cmd.StdoutPipe())(t)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })

	var addr string
	for lines := bufio.NewScanner(out); addr == "" && lines.Scan(); {
		addr, _ = strings.CutPrefix(lines.Text(), "addr=")
	}
	Must(resp.Do(addr, resp.Login{}, roundTripTimeout, "PING"))(t)

	require.NoError(t, cmd.Process.Kill())
	// The port and not the pid: a process nobody waits for keeps its pid.
	require.Eventually(t, func() bool {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			c.Close()
		}
		return err != nil
	}, time.Minute, 10*time.Millisecond)
}

// TestHelper_InABinaryThatIsKilled is what runs in the binary that gets killed above. Elsewhere it
// does nothing.
func TestHelper_InABinaryThatIsKilled(t *testing.T) {
	if os.Getenv(envOrphan) == "" {
		return
	}
	fmt.Printf("addr=%s\n", Start(t).Addr())
	select {}
}

// The child is tied to the thread that forked it, so that thread has to stay, even if the one that
// called Start goes.
func TestServer_StaysAfterTheThreadOfStart(t *testing.T) {
	find(t) // skips here: on another goroutine it would not end this test
	s, tid := startOnDyingThread(t)
	for tid == os.Getpid() { // the main thread never ends
		s, tid = startOnDyingThread(t)
	}
	require.Eventually(t, func() bool {
		_, err := os.Stat(fmt.Sprintf("/proc/self/task/%d", tid))
		return os.IsNotExist(err)
	}, time.Minute, 10*time.Millisecond)
	Must(s.Do("PING"))(t)
}

func startOnDyingThread(t *testing.T) (s *Server, tid int) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		tid = syscall.Gettid()
		s = Start(t)
	}()
	<-done
	return s, tid
}
