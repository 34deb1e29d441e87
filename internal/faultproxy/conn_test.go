package faultproxy

import (
	"crypto/tls"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// greet connects, and returns when the proxy has passed the connection on.
func greet(t *testing.T, p *Proxy) *client {
	t.Helper()
	c := connect(t, p.Addr())
	c.send("hello")
	c.requireReply("+hello\r\n")
	return c
}

func TestCut_OneConnectionOthersStay(t *testing.T) {
	s := startPeer(t, echo)
	p := Start(t, s.addr)
	a, b := greet(t, p), greet(t, p)
	p.Conns()[0].Cut()
	a.requireEnd()
	b.send("again")
	b.requireReply("+again\r\n")
	require.Eventually(t, func() bool { return len(p.Conns()) == 1 }, patience, time.Millisecond)
	p.Cut()
	b.requireEnd()
}

// Neither end hears of the other, until it is healed: then both do.
func TestBlackHole_HidesTheEndsToo(t *testing.T) {
	s := startPeer(t, echo)
	p := Start(t, s.addr)
	a, b := greet(t, p), greet(t, p)
	p.BlackHole()
	a.send("lost")
	b.Close()
	late := connect(t, p.Addr())
	late.send("lost")
	a.requireSilence()
	late.requireSilence()
	s.mu.Lock()
	require.Zero(t, s.ended, "the server does not hear that a client has gone")
	s.conns[0].Close()
	s.mu.Unlock()
	a.requireSilence()
	require.Len(t, s.commands(), 2)

	p.Heal()
	a.requireEnd()
	late.requireEnd()
	require.Eventually(t, func() bool { s.mu.Lock(); defer s.mu.Unlock(); return s.ended == 2 }, patience, time.Millisecond)
	c := connect(t, p.Addr())
	c.send("hello")
	c.requireReply("+hello\r\n")
	require.Len(t, s.commands(), 3)
}

// What was stalled comes late, even if nobody waits for it any more.
func TestStall_LosesNothing(t *testing.T) {
	s := startPeer(t, echo)
	p := Start(t, s.addr)
	a, b := greet(t, p), greet(t, p)
	p.Stall()
	late := connect(t, p.Addr())
	a.send("one", "two")
	b.send("left")
	b.Close()
	late.send("late")
	a.requireSilence()
	late.requireSilence()
	require.Len(t, s.commands(), 2)
	p.Heal()
	a.requireReply("+one\r\n")
	a.requireReply("+two\r\n")
	late.requireReply("+late\r\n")
	require.Eventually(t, func() bool { return strings.Contains(strings.Join(s.commands(), "\n"), "left") }, patience, time.Millisecond)

	p.Conns()[0].Stall()
	a.send("three")
	late.send("more")
	late.requireReply("+more\r\n")
	a.requireSilence()
	p.Heal()
	a.requireReply("+three\r\n")
}

func TestRefuse_NewConnections(t *testing.T) {
	s := startPeer(t, echo)
	p := Start(t, s.addr)
	a := connect(t, p.Addr())
	a.send("hello")
	a.requireReply("+hello\r\n")
	p.Refuse()
	requireRefused(t, p.Addr())
	a.send("still here")
	a.requireReply("+still here\r\n")
	p.Heal()
	b := connect(t, p.Addr())
	b.send("hello")
	b.requireReply("+hello\r\n")
	require.Equal(t, 3, p.Connections())
}

func TestProxy_ResetsWithoutAServer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := l.Addr().String()
	l.Close()
	requireRefused(t, Start(t, addr).Addr())
}

func requireRefused(t *testing.T, addr string) {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return // the reset was faster
	}
	defer c.Close()
	(&client{t: t, Conn: c}).requireEnd()
}

func TestProxy_PassesEndsOn(t *testing.T) {
	s := startPeer(t, echo)
	p := Start(t, s.addr)
	c := connect(t, p.Addr())
	c.send("last words")
	require.NoError(t, c.Conn.(*net.TCPConn).CloseWrite())
	c.requireReply("+last words\r\n")
	c.requireEnd()
	require.Eventually(t, func() bool { return len(p.Conns()) == 0 }, patience, time.Millisecond)
}

func TestProxy_ClientsSpeakTLS(t *testing.T) {
	s := startPeer(t, echo)
	server, roots := selfSigned(t)
	p := Start(t, s.addr, WithTLS(server))
	dial := func(within time.Duration) (*client, error) {
		c, err := tls.DialWithDialer(&net.Dialer{Timeout: within}, "tcp", p.Addr(), &tls.Config{RootCAs: roots, ServerName: "server.test"})
		if err != nil {
			return nil, err
		}
		t.Cleanup(func() { c.Close() })
		return &client{t: t, Conn: c}, nil
	}
	c, err := dial(patience)
	require.NoError(t, err)
	lost := p.On(Command("two")).LoseReplyAndCut()
	c.send("one", "two", "three")
	c.requireReply("+one\r\n")
	c.requireEnd()
	require.Eventually(t, func() bool { return lost.Count() == 1 }, patience, time.Millisecond)

	p.StallHandshakes()
	_, err = dial(moment)
	var timeout net.Error
	require.ErrorAs(t, err, &timeout)
	require.True(t, timeout.Timeout(), "%v", err)
	p.Heal()
	c, err = dial(patience)
	require.NoError(t, err)
	c.send("hello")
	c.requireReply("+hello\r\n")

	plain := connect(t, p.Addr())
	plain.send("hello")
	plain.requireEnd()
}
