package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A terminal is what a person types into.
type terminal struct {
	*os.File
	t      *testing.T
	screen output
}

// inTerminal starts a command in the foreground of a terminal of its own.
func (w *world) inTerminal(c *exec.Cmd) (*terminal, *process) {
	keyboard, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(w.t, err)
	x := &terminal{File: keyboard, t: w.t}
	number, err := unix.IoctlGetInt(int(x.Fd()), unix.TIOCGPTN)
	require.NoError(w.t, err)
	require.NoError(w.t, unix.IoctlSetPointerInt(int(x.Fd()), unix.TIOCSPTLCK, 0))
	tty, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(w.t, err)
	defer tty.Close()
	if c.Stdin == nil {
		c.Stdin = tty
	}
	c.Stdout, c.Stderr = tty, tty
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 1}
	read := make(chan struct{})
	go func() { _, _ = io.Copy(&x.screen, keyboard); close(read) }()
	w.t.Cleanup(func() { <-read; _ = keyboard.Close() }) // the terminal hangs up when its last process has ended
	return x, w.command(c)
}

// types types keys.
func (x *terminal) types(keys string) {
	_, err := x.WriteString(keys)
	require.NoError(x.t, err)
}

// shows waits until the screen has shown a text.
func (x *terminal) shows(text string) {
	x.t.Helper()
	require.Eventually(x.t, func() bool { return strings.Contains(x.screen.String(), text) }, patient, 5*time.Millisecond, text)
}

// Ctrl-C reaches the command once, even if its standard input is not the terminal.
func TestRun_CtrlC(t *testing.T) {
	for name, stdin := range map[string]io.Reader{"stdin is the terminal": nil, "stdin is a pipe": new(bytes.Buffer)} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			c := exec.Command(binary, "run", "a", "--", "sh", "-c", `trap "echo caught" INT; trap "echo ends; exit 4" TERM; echo up; while :; do sleep 0.01; done`)
			c.Stdin = stdin
			x, p := w.inTerminal(c)
			x.shows("up")
			x.types("\x03")
			x.shows("caught")
			// The second signal comes after whatever holdfast did with the first.
			require.NoError(t, p.Process.Signal(syscall.SIGTERM))
			require.Equal(t, 4, p.wait())
			require.Equal(t, 1, strings.Count(x.screen.String(), "caught"), x.screen.String())
			w.free("a")
		})
	}
}

// In the background of a terminal the keyboard does not reach the command, so SIGINT is passed on.
func TestRun_SignalInTheBackgroundOfATerminal(t *testing.T) {
	w := newWorld(t)
	x, p := w.inTerminal(exec.Command("bash", "-mc", `"$0" run a -- sh -c 'trap "exit 4" INT; echo up; while :; do sleep 0.01; done' </dev/null & pid=$!; read line; kill -INT $pid; wait $pid`, binary))
	x.shows("up")
	x.types("\n")
	require.Equal(t, 4, p.wait(), x.screen.String())
	w.free("a")
}
