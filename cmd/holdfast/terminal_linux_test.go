package main

import (
	"bytes"
	"debug/elf"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-go/holdfast/lockmgr"
)

// The program is one file, which needs no other.
func TestBuild_IsStatic(t *testing.T) {
	f, err := elf.Open(binary)
	require.NoError(t, err)
	defer f.Close()
	for _, p := range f.Progs {
		require.NotEqual(t, elf.PT_INTERP, p.Type)
	}
	libraries, err := f.ImportedLibraries()
	require.NoError(t, err)
	require.Empty(t, libraries)
}

// A terminal is what a person types into.
type terminal struct {
	*os.File
	t      *testing.T
	screen output
	before unix.Termios // its attributes before the command started
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
	x.before = x.attributes()
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

// attributes are those of the terminal: echo, and whether lines are edited.
func (x *terminal) attributes() unix.Termios {
	x.t.Helper()
	a, err := unix.IoctlGetTermios(int(x.Fd()), unix.TCGETS)
	require.NoError(x.t, err)
	return *a
}

// No command but top asks the terminal or changes it: one that never answers costs no time, and
// what was typed ahead stays where it is.
func TestTerminal_IsLeftAlone(t *testing.T) {
	calls := [][]string{
		nil, {"--help"}, {"--version"}, {"nosuch"}, {"completion", "bash"}, {"man"}, {"run", "a", "--", "true"}, {"run", "-n", "held", "--", "true"}, {"ls"}, {"ls", "--json"},
		{"show", "held"}, {"show", "--json", "held"}, {"show", "a"}, {"break", "a"}, {"break", "--yes", "broken"}, {"check"},
		{"limit", "p"}, {"limit", "p", "3"}, {"limit", "--forget", "p"}, {"top", "--json"}, {"top", "--web", "127.0.0.1:0"},
		{"top", "--help"}, {"top", "--every", "1ms"},
	}
	requireAllCommands(t, calls)
	for _, args := range calls {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			w := newWorld(t)
			for _, name := range []string{"held", "broken"} {
				_, err := w.m.Lock(t.Context(), name)
				require.NoError(t, err)
			}
			x, p := w.inTerminal(exec.Command(binary, args...))
			x.types("typed ahead\n")
			if len(args) > 1 && args[0] == "top" && args[1] != "--help" && args[1] != "--every" {
				x.shows(map[string]string{"--json": `"locks":[`, "--web": "http://"}[args[1]])
				require.NoError(t, p.Process.Signal(os.Interrupt))
			}
			p.wait()
			require.NotContains(t, x.screen.String(), "\x1b")
			require.Equal(t, x.before, x.attributes())
		})
	}
}

// What was typed before the command of run starts is the command's.
func TestRun_TypedAhead(t *testing.T) {
	w := newWorld(t)
	x, p := w.inTerminal(exec.Command(binary, "run", "a", "--", "sh", "-c", `read line; echo "got $line"`))
	x.types("two words\n")
	require.Zero(t, p.wait())
	x.shows("got two words")
	w.free("a")
}

// Ctrl-C leaves the terminal as it was, at whatever moment it comes.
func TestTerminal_CtrlCLeavesTheEcho(t *testing.T) {
	for _, args := range [][]string{{"run", "a", "--", "cat"}, {"top"}, {"top", "--json"}, {"break", "held"}} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			w := newWorld(t)
			_, err := w.m.Lock(t.Context(), "held")
			require.NoError(t, err)
			x, p := w.inTerminal(exec.Command(binary, args...))
			for ended := false; !ended; {
				x.types("\x03")
				select {
				case <-p.ended:
					ended = true
				case <-time.After(20 * time.Millisecond):
				}
			}
			require.Equal(t, x.before, x.attributes())
		})
	}
}

// top shows locks in a terminal that answers nothing, and leaves it as it was.
func TestTop_InATerminalThatAnswersNothing(t *testing.T) {
	w := newWorld(t)
	_, err := w.m.Lock(t.Context(), "orders:1")
	require.NoError(t, err)
	x, p := w.inTerminal(exec.Command(binary, "top"))
	x.shows("orders:1")
	require.NotEqual(t, x.before, x.attributes(), "keys are read one by one")
	x.types("/zzz\r")
	x.shows(`names with "zzz"`)
	x.types("q")
	require.Zero(t, p.wait(), x.screen.String())
	require.Equal(t, x.before, x.attributes())
	x.shows("\x1b[?1049l") // the screen of before is back
}

// sized starts the program in a terminal of 80 columns and 24 lines.
func (w *world) sized(args ...string) (*terminal, *process) {
	return w.inTerminal(exec.Command("sh", append([]string{"-c", `stty cols 80 rows 24; exec "$0" "$@"`, binary}, args...)...))
}

// In a terminal ls cuts what is too long for a line, but no pid. Elsewhere it cuts nothing.
func TestLs_FitsTheTerminal(t *testing.T) {
	w := newWorld(t)
	name, note := strings.Repeat("customers:", 9), strings.Repeat("invoice ", 9)
	w.lock(name, lockmgr.Note(note))
	w.lock("日本", lockmgr.Note(note))
	require.Eventually(t, func() bool {
		_, out, _ := w.run("ls")
		return strings.Count(out, "billing@web-3, pid 411") == 2 && strings.Count(out, note[:70]) == 2 && strings.Contains(out, name)
	}, patient, 100*time.Millisecond)
	x, p := w.sized("ls")
	require.Zero(t, p.wait())
	x.shows("日本")
	lines := strings.Split(strings.TrimSpace(strings.ReplaceAll(x.screen.String(), "\r", "")), "\n")
	require.Len(t, lines, 3)
	for _, line := range lines {
		require.LessOrEqual(t, ansi.StringWidth(line), 80, line)
	}
	require.Regexp(t, "^customer.*….*omers:  plain", lines[1])
	for _, line := range lines[1:] {
		require.Regexp(t, `billing.*, pid 411 `, line)
	}
}

// In 80 columns top shows who holds a lock, and what its last line says.
func TestTop_In80Columns(t *testing.T) {
	w := newWorld(t)
	w.lock(strings.Repeat("customers:", 9), lockmgr.Note("invoice"))
	x, p := w.sized("top", "--every", "100ms")
	x.shows(", pid 411 ")
	x.shows("q quit")
	x.types("q")
	require.Zero(t, p.wait())
}

// The answer to break decides. Ctrl-C is none.
func TestBreak_Asks(t *testing.T) {
	for answer, code := range map[string]int{"y\n": 0, "YES\n": 0, "n\n": 1, "\n": 1, "yesterday\n": 1, "\x04": 1, "\x03": 128 + 2} {
		t.Run(strconv.Quote(answer), func(t *testing.T) {
			w := newWorld(t)
			_, err := w.m.Lock(t.Context(), "a")
			require.NoError(t, err)
			x, p := w.inTerminal(exec.Command(binary, "break", "a"))
			x.shows("Break it? [y/N]")
			x.types(answer)
			require.Equal(t, code, p.wait(), x.screen.String())
			info, err := w.m.Inspect(t.Context(), "a")
			require.NoError(t, err)
			require.Equal(t, code != 0, info.Locked)
		})
	}
}

// What others wrote reaches no terminal as it is with the question of break either.
func TestBreak_QuestionIsSafeToShow(t *testing.T) {
	w := newWorld(t)
	asked := 0
	for _, name := range w.plant() {
		x, p := w.inTerminal(exec.Command(binary, "break", "--", name))
		x.types("n\n")
		require.NotZero(t, p.wait())
		var text string
		require.Eventually(t, func() bool {
			text = x.screen.String()
			return strings.Contains(text, "[y/N] ") || strings.Contains(text, "holdfast: ")
		}, patient, 5*time.Millisecond)
		asked += strings.Count(text, "[y/N] ")
		requireShowable(t, strings.ReplaceAll(text, "\r\n", "\n"), name)
	}
	require.GreaterOrEqual(t, asked, 6)
}

// break takes a lock from the holders that it has shown, and from nobody who came before the
// answer.
func TestBreak_OnlyThoseThatItHasShown(t *testing.T) {
	for name, take := range map[string]func(*world) *lockmgr.Lock{
		"plain": func(w *world) *lockmgr.Lock { return w.lock("a") },
		"fair":  func(w *world) *lockmgr.Lock { return w.lock("a", lockmgr.Fair()) },
		"read":  func(w *world) *lockmgr.Lock { return w.lock("a", lockmgr.Shared()) },
		"write": func(w *world) *lockmgr.Lock { return w.lock("a", lockmgr.Exclusive()) },
		"permits": func(w *world) *lockmgr.Lock {
			l, err := w.m.Permits("a", 3).Acquire(t.Context(), 1)
			require.NoError(w.t, err)
			return l
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			first := take(w)
			x, p := w.inTerminal(exec.Command(binary, "break", "a"))
			x.shows("Break it? [y/N]")
			require.NoError(t, first.Unlock(t.Context()))
			second := take(w)
			x.types("y\n")
			require.Equal(t, 1, p.wait(), x.screen.String())
			x.shows("and others do")
			require.NoError(t, second.Unlock(t.Context()), "it was lost")
		})
	}
}

// Of the readers of another process those stay who came after the look.
func TestBreak_ReaderThatJoined(t *testing.T) {
	w := newWorld(t)
	java := uuid.NewString() + ":1"
	_, err := w.Do("HSET", "a", "mode", "read", java, "1")
	require.NoError(t, err)
	_, err = w.Do("SET", "{a}:"+java+":rwlock_timeout:1", "1")
	require.NoError(t, err)
	x, p := w.inTerminal(exec.Command(binary, "break", "a"))
	x.shows("Break it? [y/N]")
	reader := w.lock("a", lockmgr.Shared())
	x.types("y\n")
	require.Zero(t, p.wait(), x.screen.String())
	x.shows("broken: a")
	require.NoError(t, reader.Unlock(t.Context()))
	w.free("a")
}

// Output that is lost is a failure.
func TestOutput_DiskIsFull(t *testing.T) {
	w := newWorld(t)
	for _, args := range []string{"ls", "show --json a", "show a", "check", "--help", "completion bash", "man"} {
		full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		require.NoError(t, err)
		c := exec.Command(binary, strings.Fields(args)...)
		p := &process{}
		c.Stdout, c.Stderr = full, &p.err
		code := w.command(c).wait()
		require.NoError(t, full.Close())
		require.Equal(t, 1, code, args)
		require.Contains(t, p.err.String(), "no space left", args)
	}
}
