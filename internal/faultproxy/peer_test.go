package faultproxy

import (
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/resp"
)

// patience is what a test waits for something that must happen.
const patience = 20 * time.Second

// moment is what a test waits to see that something does not happen. Were it to happen later, the
// test would pass in error; it can't fail in error.
const moment = 30 * time.Millisecond

// peer is a scripted server. It keeps what it was sent, and answers by answer: if that says
// nothing, so does the peer.
type peer struct {
	addr   string
	answer func(args []string) string

	mu    sync.Mutex
	got   []string // "conn: words"
	ended int
	conns []net.Conn
}

func startPeer(t *testing.T, answer func(args []string) string) *peer {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &peer{addr: l.Addr().String(), answer: answer}
	var wg sync.WaitGroup
	wg.Go(func() {
		for n := 1; ; n++ {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.mu.Lock()
			p.conns = append(p.conns, c)
			p.mu.Unlock()
			wg.Go(func() { p.serve(n, c) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		p.mu.Lock()
		for _, c := range p.conns {
			c.Close()
		}
		p.mu.Unlock()
		wg.Wait()
	})
	return p
}

func (p *peer) serve(n int, c net.Conn) {
	defer func() {
		c.Close()
		p.mu.Lock()
		p.ended++
		p.mu.Unlock()
	}()
	s := splitter{inline: true}
	buf := make([]byte, 4096)
	for {
		k, err := c.Read(buf)
		s.write(buf[:k])
		for f := s.next(); f != nil; f = s.next() {
			args := parseCommand(f)
			p.mu.Lock()
			p.got = append(p.got, fmt.Sprintf("%d: %s", n, strings.Join(args, " ")))
			p.mu.Unlock()
			_, _ = io.WriteString(c, p.answer(args))
		}
		if err != nil {
			return
		}
	}
}

func (p *peer) commands() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.got...)
}

// ends returns how many connections have ended.
func (p *peer) ends() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ended
}

// startEcho starts a peer that echoes, and a proxy before it.
func startEcho(t *testing.T) (*peer, *Proxy) {
	s := startPeer(t, echo)
	return s, Start(t, s.addr)
}

// echo answers every command with its words.
func echo(args []string) string { return "+" + strings.Join(args, " ") + "\r\n" }

// client is the other end.
type client struct {
	t *testing.T
	net.Conn
	in splitter
}

func connect(t *testing.T, addr string) *client {
	c, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return &client{t: t, Conn: c}
}

// send writes commands at once, each as an array. A connection that broke is noticed by who reads.
func (c *client) send(lines ...string) {
	var b []byte
	for _, l := range lines {
		b = resp.AppendCommand(b, strings.Fields(l)...)
	}
	_, _ = c.Write(b)
}

// read returns the next frame.
func (c *client) read(within time.Duration) (string, error) {
	require.NoError(c.t, c.SetReadDeadline(time.Now().Add(within)))
	buf := make([]byte, 4096)
	for {
		if f := c.in.next(); f != nil {
			return string(f), nil
		}
		n, err := c.Read(buf)
		if n == 0 && err != nil {
			return "", err
		}
		c.in.write(buf[:n])
	}
}

func (c *client) requireReply(want string) {
	c.t.Helper()
	got, err := c.read(patience)
	require.NoError(c.t, err)
	require.Equal(c.t, want, got)
}

func (c *client) requireEnd() {
	c.t.Helper()
	got, err := c.read(patience)
	require.Error(c.t, err, "%q came", got)
	require.NotErrorIs(c.t, err, os.ErrDeadlineExceeded, "the connection is still there")
}

func (c *client) requireSilence() {
	c.t.Helper()
	got, err := c.read(moment)
	require.ErrorIs(c.t, err, os.ErrDeadlineExceeded, "%q came", got)
}

// ask sends a command and requires its echo.
func (c *client) ask(line string) {
	c.t.Helper()
	c.send(line)
	c.requireReplies(line)
}

// requireReplies requires the echoes of these commands.
func (c *client) requireReplies(lines ...string) {
	c.t.Helper()
	for _, line := range lines {
		c.requireReply("+" + line + "\r\n")
	}
}

// greet connects, and returns when the proxy has passed the connection on.
func greet(t *testing.T, p *Proxy) *client {
	t.Helper()
	c := connect(t, p.Addr())
	c.ask("hello")
	return c
}

func eventually(t *testing.T, so func() bool) {
	t.Helper()
	require.Eventually(t, so, patience, time.Millisecond)
}

func awaitClosed(t *testing.T, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(patience):
		require.FailNow(t, "it did not happen")
	}
}

func requireOpen(t *testing.T, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
		require.FailNow(t, "it happened")
	default:
	}
}
