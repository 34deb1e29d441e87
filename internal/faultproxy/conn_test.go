package faultproxy

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestCut_OneConnectionOthersStay(t *testing.T) {
	_, p := startEcho(t)
	a, b := greet(t, p), greet(t, p)
	p.Conns()[0].Cut()
	a.requireEnd()
	b.ask("again")
	eventually(t, func() bool { return len(p.Conns()) == 1 })
	p.Cut()
	b.requireEnd()
}

// Neither end hears of the other, until it is healed: then both do.
func TestBlackHole_HidesTheEndsToo(t *testing.T) {
	s, p := startEcho(t)
	a, b := greet(t, p), greet(t, p)
	p.BlackHole()
	a.send("lost")
	b.Close()
	late := connect(t, p.Addr())
	late.send("lost")
	a.requireSilence()
	late.requireSilence()
	require.Zero(t, s.ends(), "the server does not hear that a client has gone")
	s.mu.Lock()
	s.conns[0].Close()
	s.mu.Unlock()
	a.requireSilence()
	require.Len(t, s.commands(), 2)

	p.Heal()
	a.requireEnd()
	late.requireEnd()
	eventually(t, func() bool { return s.ends() == 2 })
	greet(t, p)
	require.Len(t, s.commands(), 3)
}

// What was stalled comes late, even if nobody waits for it any more.
func TestStall_LosesNothing(t *testing.T) {
	s, p := startEcho(t)
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
	a.requireReplies("one", "two")
	late.requireReplies("late")
	eventually(t, func() bool { return strings.Contains(strings.Join(s.commands(), "\n"), "left") })

	p.Conns()[0].Stall()
	a.send("three")
	late.ask("more")
	a.requireSilence()
	p.Conns()[0].Heal()
	a.requireReplies("three")
}

func TestRefuse_NewConnections(t *testing.T) {
	_, p := startEcho(t)
	a := greet(t, p)
	p.Refuse()
	requireRefused(t, p.Addr())
	a.ask("still here")
	p.Heal()
	greet(t, p)
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

func TestProxy_ClientsSpeakTLS(t *testing.T) {
	s := startPeer(t, echo)
	web := httptest.NewTLSServer(nil) // it has a certificate
	web.Close()
	roots := x509.NewCertPool()
	roots.AddCert(web.Certificate())
	p := Start(t, s.addr, WithTLS(web.TLS))
	dial := func(within time.Duration) (*client, error) {
		c, err := tls.DialWithDialer(&net.Dialer{Timeout: within}, "tcp", p.Addr(), &tls.Config{RootCAs: roots})
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
	c.requireReplies("one")
	c.requireEnd()
	eventually(t, func() bool { return lost.Count() == 1 })

	p.StallHandshakes()
	_, err = dial(moment)
	var timeout net.Error
	require.ErrorAs(t, err, &timeout)
	require.True(t, timeout.Timeout(), "%v", err)
	p.Heal()
	c, err = dial(patience)
	require.NoError(t, err)
	c.ask("hello")

	plain := connect(t, p.Addr())
	plain.send("hello")
	plain.requireEnd()
}
