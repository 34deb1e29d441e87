package resp

import (
	"bufio"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/leakcheck"
)

func TestMain(m *testing.M) { leakcheck.Main(m) }

func TestText_OfWhatIsRead(t *testing.T) {
	for name, c := range map[string]struct {
		in, out, err string
	}{
		"simple string":    {"+OK\r\n", "OK", ""},
		"integer":          {":-2\r\n", "-2", ""},
		"error":            {"-NOPERM no\r\n", "", "NOPERM no"},
		"bulk":             {"$4\r\na\r\nb\r\n", "a\r\nb", ""},
		"empty bulk":       {"$0\r\n\r\n", "", ""},
		"null":             {"$-1\r\n", "", ""},
		"array":            {"*2\r\n$1\r\na\r\n:7\r\n", "a\n7", ""},
		"array in array":   {"*2\r\n*2\r\n:1\r\n:2\r\n:3\r\n", "1\n2\n3", ""},
		"error in array":   {"*2\r\n-ERR no\r\n:7\r\n", "", "ERR no"},
		"null array":       {"*-1\r\n", "", ""},
		"cut off":          {"$4\r\nab", "", io.ErrUnexpectedEOF.Error()},
		"empty line":       {"\r\n", "", "empty line"},
		"not RESP2":        {"%1\r\n", "", "unexpected reply"},
		"not a bulk's len": {"$x\r\n", "", "invalid syntax"},
		"not an integer":   {":x\r\n", "", "invalid syntax"},
	} {
		t.Run(name, func(t *testing.T) {
			r := bufio.NewReader(strings.NewReader(c.in))
			v, err := Read(r)
			var out string
			if err == nil {
				require.Zero(t, r.Buffered(), "read to its end")
				out, err = Text(v)
			}
			require.Equal(t, c.out, out)
			if c.err == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, c.err)
			}
		})
	}
}

func TestAppend_IsReadAgain(t *testing.T) {
	in := []any{int64(-7), "", "a\r\n", Error("ERR no"), []any{}, []any{"x", []any{int64(1)}}}
	v, err := Read(bufio.NewReader(strings.NewReader(string(Append(nil, in)))))
	require.NoError(t, err)
	require.Equal(t, in, v)
	require.Equal(t, "*1\r\n_\r\n", string(Append(nil, []any{nil})))
	require.Equal(t, ">2\r\n+a\r\n:1\r\n", string(Append(nil, Push{Status("a"), int64(1)})))
	require.Panics(t, func() { Append(nil, 1) })
}

func TestCutCommand_WaitsForTheWhole(t *testing.T) {
	want := []string{"SET", "", "a\r\nb", strings.Repeat("x", 1000)}
	whole := AppendCommand(nil, want...)
	for i := range whole {
		args, rest := CutCommand(whole[:i])
		require.Nil(t, args, "%d bytes", i)
		require.Len(t, rest, i)
	}
	args, rest := CutCommand(append(whole, '*'))
	require.Equal(t, want, args)
	require.Equal(t, "*", string(rest))
	require.Panics(t, func() { CutCommand([]byte("PING\r\n")) })
}

// pair returns a client, and ends the server that answers it with the test.
func pair(t *testing.T, timeout time.Duration, answer func(args []string) string) *Conn {
	near, far := net.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		Serve(far, answer)
	}()
	c := NewConn(near, timeout)
	t.Cleanup(func() { c.Close(); <-done })
	return c
}

func TestConn_CountsTheBytesOfADo(t *testing.T) {
	c := pair(t, time.Minute, func(args []string) string { return string(Append(nil, strings.Join(args, " "))) })
	for _, word := range []string{"a", strings.Repeat("b", 10_000)} {
		reply, err := c.DoText("ECHO", word)
		require.NoError(t, err)
		require.Equal(t, "ECHO "+word, reply)
		sent, received := c.Traffic()
		require.Len(t, AppendCommand(nil, "ECHO", word), sent)
		require.Len(t, Append(nil, "ECHO "+word), received)
	}
}

func TestConn_SendsInOneWrite(t *testing.T) {
	near, far := net.Pipe()
	c := NewConn(near, time.Minute)
	go func() {
		defer far.Close()
		buf := make([]byte, 100)
		n, _ := far.Read(buf) // a pipe gives at most one write at a time
		for args, rest := CutCommand(buf[:n]); args != nil; args, rest = CutCommand(rest) {
			_, _ = far.Write(Append(nil, Error(args[0])))
		}
	}()
	defer c.Close()
	c.Send("A")
	c.Send("B", "c")
	require.NoError(t, c.Flush())
	for _, want := range []Error{"A", "B"} {
		reply, err := c.Receive()
		require.NoError(t, err)
		require.Equal(t, want, reply)
	}
	_, err := c.Receive()
	require.Error(t, err) // EOF, or that of a deadline on a pipe whose other end is closed
}

func TestConn_GivesUpOnASilentServer(t *testing.T) {
	c := pair(t, 10*time.Millisecond, func([]string) string { return "" })
	_, err := c.Do("PING")
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	_, err = c.Receive()
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
}

func TestGreet_AnswersOnlyWhatIsNoWork(t *testing.T) {
	reply, ok := Greet([]string{"subscribe", "a", "b"})
	require.True(t, ok)
	require.Equal(t, ">3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n>3\r\n$9\r\nsubscribe\r\n$1\r\nb\r\n:1\r\n", reply)
	_, ok = Greet([]string{"EVALSHA"})
	require.False(t, ok)
}
