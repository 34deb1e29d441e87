package lockmgr_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// A wire is a connection that speaks RESP2 and hides nothing: a client's to a
// real server, or a server's to a client under test.
type wire struct {
	conn net.Conn
	r    *bufio.Reader
}

// respError is an error reply.
type respError string

func newWire(conn net.Conn) *wire {
	return &wire{conn, bufio.NewReader(conn)}
}

func dialWire(t testing.TB, addr string) *wire {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute))) // no test may hang on it
	return newWire(conn)
}

func (w *wire) write(args ...string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, a := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(a), a)
	}
	_, err := io.WriteString(w.conn, b.String())
	return err
}

// read returns a nil, int64, string, []any or respError.
func (w *wire) read() (any, error) {
	line, err := w.r.ReadString('\n')
	if err != nil {
		return nil, err
	}
	kind, rest := line[0], strings.TrimSpace(line[1:])
	if kind == '+' {
		return rest, nil
	}
	if kind == '-' {
		return respError(rest), nil
	}
	n, err := strconv.ParseInt(rest, 10, 64)
	switch {
	case err != nil || kind == ':':
		return n, err
	case n < 0:
		return nil, nil
	case kind == '$':
		buf := make([]byte, n+2)
		_, err := io.ReadFull(w.r, buf)
		return string(buf[:n]), err
	case kind == '*':
		out := make([]any, n)
		for i := range out {
			if out[i], err = w.read(); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	return nil, fmt.Errorf("unexpected reply %q", line)
}

// do sends a command and returns its reply.
func (w *wire) do(t testing.TB, args ...string) any {
	t.Helper()
	require.NoError(t, w.write(args...))
	reply, err := w.read()
	require.NoError(t, err)
	return reply
}

// A scriptServer is a server that scripts are run on by hand. Its clock stands
// still if it is miniredis. Otherwise lives are rounded up to a multiple of
// grain: tests use no others, and take less time than that.
type scriptServer struct {
	*wire
	addr  string
	real  *redistest.Server // nil: miniredis
	mini  *miniredis.Miniredis
	grain int64 // ms
}

func realScripts(t testing.TB, args ...string) *scriptServer {
	s := redistest.Start(t, args...).Unrestricted() // scripts are run by hand here, and data changed
	return &scriptServer{wire: dialWire(t, s.Addr()), addr: s.Addr(), real: s, grain: 10_000}
}

func miniScripts(t testing.TB) *scriptServer {
	m := miniredis.RunT(t)
	return &scriptServer{wire: dialWire(t, m.Addr()), addr: m.Addr(), mini: m, grain: 1}
}

// onBoth runs a test on a real server and on miniredis.
func onBoth(t *testing.T, test func(t *testing.T, s *scriptServer)) {
	t.Run("real", func(t *testing.T) {
		t.Parallel()
		test(t, realScripts(t))
	})
	t.Run("mini", func(t *testing.T) {
		t.Parallel()
		test(t, miniScripts(t))
	})
}

// scripts are the texts as they are shipped.
var scripts = sync.OnceValue(func() map[string]string {
	out := make(map[string]string)
	files, _ := filepath.Glob("internal/wire/script/*.lua")
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			panic(err)
		}
		out[strings.TrimSuffix(filepath.Base(f), ".lua")] = string(text)
	}
	return out
})

// eval runs a script over w, which may be another user's connection, and
// returns its reply as text.
func (s *scriptServer) eval(t testing.TB, w *wire, script string, keys, args []string) string {
	t.Helper()
	return s.show(s.evalRaw(t, w, script, keys, args))
}

func (s *scriptServer) evalRaw(t testing.TB, w *wire, script string, keys, args []string) any {
	t.Helper()
	text := scripts()[script]
	require.NotEmpty(t, text, script)
	return w.do(t, slices.Concat([]string{"EVAL", text, strconv.Itoa(len(keys))}, keys, args)...)
}

// show prints a reply: nil, 1, "text", [1 "text"], !ERROR.
func (s *scriptServer) show(reply any) string {
	switch v := reply.(type) {
	case nil:
		return "nil"
	case int64:
		return strconv.FormatInt(s.round(v), 10)
	case string:
		return strconv.Quote(v)
	case respError:
		return "!" + string(v)
	case []any:
		items := make([]string, len(v))
		for i := range v {
			items[i] = s.show(v[i])
		}
		return "[" + strings.Join(items, " ") + "]"
	}
	return fmt.Sprintf("%T", reply)
}

// round makes up for the time that has passed since a life was given.
func (s *scriptServer) round(n int64) int64 {
	if n < s.grain/2 {
		return n // no life but a count, or one of PTTL's negative answers
	}
	return (n + s.grain - 1) / s.grain * s.grain
}

// state prints all that a server holds, by key.
func (s *scriptServer) state(t testing.TB) map[string]string {
	t.Helper()
	out := make(map[string]string)
	for _, k := range s.do(t, "KEYS", "*").([]any) {
		key := k.(string)
		ttl := s.show(s.do(t, "PTTL", key))
		switch kind := s.do(t, "TYPE", key).(string); kind {
		case "hash":
			flat := s.do(t, "HGETALL", key).([]any)
			var fields []string
			for i := 0; i < len(flat); i += 2 {
				fields = append(fields, fmt.Sprintf("%v=%v", flat[i], flat[i+1]))
			}
			slices.Sort(fields)
			out[key] = strings.Join(fields, " ") + " for " + ttl
		case "string":
			out[key] = fmt.Sprintf("%q for %s", s.do(t, "GET", key), ttl)
		default:
			out[key] = kind + " for " + ttl
		}
	}
	return out
}

// An ear hears what is published on some channels.
type ear struct {
	*wire
	mouth *wire
	mark  string // a channel of its own
}

func listen(t testing.TB, s *scriptServer, channels ...string) *ear {
	t.Helper()
	w := dialWire(t, s.addr)
	e := &ear{w, s.wire, "ear " + w.conn.LocalAddr().String()}
	for _, c := range append(channels, e.mark) {
		e.do(t, "SUBSCRIBE", c)
	}
	return e
}

// heard returns what has been published since the last call, as
// "channel payload". A server delivers in order, so the mark comes last.
func (e *ear) heard(t testing.TB) []string {
	t.Helper()
	e.mouth.do(t, "PUBLISH", e.mark, "")
	var out []string
	for {
		reply, err := e.read()
		require.NoError(t, err)
		m := reply.([]any)
		require.Equal(t, "message", m[0])
		if m[1] == e.mark {
			return out
		}
		out = append(out, fmt.Sprintf("%v %v", m[1], m[2]))
	}
}

// dialAs connects as a user.
func dialAs(t testing.TB, addr, user, password string, o lockmgr.Options) *lockmgr.Manager {
	t.Helper()
	m, err := lockmgr.Dial(rueidis.ClientOption{InitAddress: []string{addr}, Username: user, Password: password}, o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close(faults.Patient(t))) })
	return m
}

// dialTroubled connects to a server that won't confirm everything before the
// manager is closed.
func dialTroubled(t testing.TB, addr string, o lockmgr.Options) *lockmgr.Manager {
	t.Helper()
	m, err := lockmgr.Dial(rueidis.ClientOption{InitAddress: []string{addr}}, o)
	require.NoError(t, err)
	t.Cleanup(func() { _ = m.Close(faults.Patient(t)) })
	return m
}

// A fakeServer says what a test wants it to say, for as long as the test runs.
// It knows how to greet a client; the rest is up to answer, which returns what
// goes over the wire, or "" to say nothing.
func fakeServer(t testing.TB, answer func(args []string) string) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var wg sync.WaitGroup
	var mu sync.Mutex
	var conns []net.Conn
	serve := func(conn net.Conn) {
		defer conn.Close()
		for w := newWire(conn); ; {
			command, err := w.read()
			if err != nil {
				return
			}
			var args []string
			for _, a := range command.([]any) {
				args = append(args, a.(string))
			}
			reply := "+OK\r\n"
			switch strings.ToUpper(args[0]) {
			case "HELLO":
				reply = "%3\r\n+server\r\n+redis\r\n+version\r\n+7.0.0\r\n+proto\r\n:3\r\n"
			case "CLIENT":
			case "PING":
				reply = "+PONG\r\n"
			case "SUBSCRIBE":
				reply = fmt.Sprintf(">3\r\n+subscribe\r\n$%d\r\n%s\r\n:1\r\n", len(args[1]), args[1])
			default:
				reply = answer(args)
			}
			if _, err := io.WriteString(conn, reply); err != nil {
				return
			}
		}
	}
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns = append(conns, conn)
			mu.Unlock()
			wg.Go(func() { serve(conn) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		for _, c := range conns {
			c.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	return l.Addr().String()
}
