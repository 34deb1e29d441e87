//go:build unix

package child

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/leakcheck"
)

const envChild = "HOLDFAST_CHILD"

// TestMain also runs as a child, which says a line and ends with its input.
func TestMain(m *testing.M) {
	if os.Getenv(envChild) != "" {
		os.Stdout.WriteString("here\n")
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Stdout.WriteString("gone\n")
		os.Exit(3)
	}
	leakcheck.Main(m)
}

func start(t *testing.T, prepare func(*exec.Cmd)) (p *Process, in io.WriteCloser, out *bufio.Reader) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), envChild+"=1")
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	pipe, err := cmd.StdoutPipe()
	require.NoError(t, err)
	prepare(cmd)
	p, err = Start(cmd)
	require.NoError(t, err)
	t.Cleanup(func() { p.Kill(); in.Close(); pipe.Close() })
	out = bufio.NewReader(pipe)
	line, err := out.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "here\n", line)
	return p, in, out
}

// The output of a child that has ended can still be read.
func TestProcess_EndsByItself(t *testing.T) {
	p, in, out := start(t, func(*exec.Cmd) {})
	require.NoError(t, in.Close())
	<-p.Done()
	require.EqualError(t, p.Err(), "exit status 3")
	line, err := out.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "gone\n", line)
	require.ErrorIs(t, p.Signal(syscall.SIGTERM), os.ErrProcessDone)
	p.Kill()
}

func TestKill_EndsAStoppedProcess(t *testing.T) {
	p, _, _ := start(t, func(*exec.Cmd) {})
	require.NoError(t, p.Signal(syscall.SIGSTOP))
	p.Kill()
	require.Error(t, p.Err())
	require.ErrorIs(t, syscall.Kill(p.PID(), 0), syscall.ESRCH)
}

func TestDetach_GivesAGroupOfItsOwn(t *testing.T) {
	p, _, _ := start(t, Detach)
	group, err := syscall.Getpgid(p.PID())
	require.NoError(t, err)
	require.Equal(t, p.PID(), group)
	p, _, _ = start(t, func(*exec.Cmd) {})
	group, err = syscall.Getpgid(p.PID())
	require.NoError(t, err)
	require.NotEqual(t, p.PID(), group)
}

func TestStart_FailsWithoutTheProgram(t *testing.T) {
	_, err := Start(exec.Command("/no/such/program"))
	require.ErrorIs(t, err, os.ErrNotExist)
}
