package lockmgr_test

import (
	"bufio"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/resp"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// rawServer starts a server that calls serve for each connection, until the end of the test.
func rawServer(t testing.TB, serve func(c net.Conn)) (addr string) {
	l := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer c.Close()
				_ = c.SetDeadline(time.Now().Add(faults.Patience))
				serve(c)
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		wg.Wait()
	})
	return l.Addr().String()
}

// says returns a server that says a text at once, and reads what comes until the client leaves.
func says(text string) func(c net.Conn) {
	return func(c net.Conn) {
		_, _ = io.WriteString(c, text)
		_ = c.(*net.TCPConn).CloseWrite()
		_, _ = io.Copy(io.Discard, c)
	}
}

// closesOn returns a server that ends the connection at the first of these commands, after reply,
// and does not know others.
func closesOn(reply string, commands ...string) func(c net.Conn) {
	return func(c net.Conn) {
		resp.Serve(c, func(args []string) string {
			for _, command := range commands {
				if strings.EqualFold(args[0], command) {
					_, _ = io.WriteString(c, reply)
					_ = c.Close()
					return ""
				}
			}
			return "-ERR unknown command '" + args[0] + "'\r\n"
		})
	}
}

// A server refuses a connection. The error has what the server said, and the likely reason.
func TestDial_ServerRefusesTheConnection(t *testing.T) {
	t.Parallel()
	const full = "ERR max number of clients reached"
	for what, tt := range map[string]struct {
		serve func(c net.Conn)
		kind  error
		says  []string
	}{
		"too many clients":           {says("-" + full + "\r\n"), lockmgr.ErrUnavailable, []string{full, "maxclients"}},
		"too many cluster bus links": {says("-ERR max number of clients + cluster connections reached\r\n"), lockmgr.ErrUnavailable, []string{"cluster connections", "maxclients"}},
		"protected mode":             {says("-DENIED Redis is running in protected mode\r\n"), lockmgr.ErrPermission, []string{"DENIED", "protected mode"}},
		"a password too many":        {says("-ERR AUTH <password> called without any password configured for the default user.\r\n"), lockmgr.ErrPermission, []string{"check the user name and password"}},
		"another refusal":            {says("-BANNED go away\r\n"), lockmgr.ErrUnavailable, []string{"BANNED go away"}},
		"a proxy that says nothing":  {closesOn("", "HELLO"), lockmgr.ErrUnavailable, []string{"before it said anything", "twemproxy", "TLS"}},
		"a proxy that says why":      {closesOn("-ERR unknown command 'HELLO'\r\n", "HELLO"), lockmgr.ErrServer, []string{"unknown command 'HELLO'", "proxy"}},
		"no HELLO and no AUTH":       {closesOn("", "none"), lockmgr.ErrServer, []string{"unknown command 'AUTH'", "proxy"}},
		"TLS":                        {says("\x15\x03\x01\x00\x02\x02\x46"), lockmgr.ErrUnavailable, []string{"expects TLS"}},
		"HTTP":                       {says("HTTP/1.1 400 Bad Request\r\n\r\n"), lockmgr.ErrUnavailable, []string{"HTTP/1.1 400 Bad Request", "Redis or Valkey"}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			addr := rawServer(t, tt.serve)
			for _, opt := range []rueidis.ClientOption{
				{InitAddress: []string{addr}, Username: "someone", Password: secret},
				{InitAddress: []string{addr, addr}, Username: "someone", Password: secret},
				{InitAddress: []string{addr}, Username: "someone", Password: secret, Sentinel: rueidis.SentinelOption{MasterSet: "m", Username: "someone", Password: secret}},
			} {
				_, err := lockmgr.Dial(opt, lockmgr.Options{})
				require.ErrorIs(t, err, tt.kind)
				require.ErrorAs(t, err, new(*lockmgr.ServerError))
				require.NotContains(t, err.Error(), secret)
				for _, text := range tt.says {
					require.ErrorContains(t, err, text)
				}
			}
		})
	}
}

// A server has no connection left for a manager that has lost its own. Requests and Check say so.
func TestServerError_TooManyClients(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t).Unrestricted()
	m := dialTroubled(t, s.Addr(), lockmgr.Options{RetryTime: 50 * time.Millisecond, Anonymous: true})
	l := mustLock(t, m, "a")
	mustUnlock(t, l)
	var err error
	admin := must(resp.Dial(s.Addr(), faults.Patience))(t)
	defer admin.Close()
	for _, command := range [][]string{{"CONFIG", "SET", "maxclients", "1"}, {"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"}} {
		must(admin.DoText(command...))(t)
	}
	faults.Eventually(t, func() bool { // the first error may be that of the old connection
		_, err = m.TryLock(faults.Patient(t), "a")
		return err != nil && strings.Contains(err.Error(), "max number of clients")
	})
	requireServerError(t, lockmgr.ErrUnavailable, err, "maxclients")
	_, err = m.Check(faults.Patient(t), "app:")
	requireServerError(t, lockmgr.ErrUnavailable, err, "max number of clients", "maxclients")
	require.NoError(t, errOf(admin.DoText("CONFIG", "SET", "maxclients", "100")))
	faults.Eventually(t, func() bool {
		l, err = m.TryLock(faults.Patient(t), "a")
		return err == nil
	})
	mustUnlock(t, l)
}

// If a server takes the connection and says nothing, the error says that. It does not blame a
// context, which the caller has not given.
func TestDial_SaysThatNobodyAnswers(t *testing.T) {
	t.Parallel()
	silent := rawServer(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
	_, err := lockmgr.Dial(rueidis.ClientOption{InitAddress: []string{silent}}, lockmgr.Options{CommandTimeout: 100 * time.Millisecond})
	requireServerError(t, lockmgr.ErrUnavailable, err, "no answer to the first commands of a connection")
	require.NotContains(t, err.Error(), "context")
}

const envLeaver = "HOLDFAST_TEST_LEAVER"

// A server that refuses PING must not end the process of a waiter that leaves. The client library
// sends a PING after each UNSUBSCRIBE, and panics if that is refused in a way that it does not
// know. So the waiter runs in a process of its own.
func TestWaiter_LeavesAServerThatRefusesPing(t *testing.T) {
	if addr := os.Getenv(envLeaver); addr != "" {
		leave(t, addr)
		return
	}
	t.Parallel()
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
