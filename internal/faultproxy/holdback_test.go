package faultproxy

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func awaitClosed(t *testing.T, c <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(patience):
		require.FailNow(t, "did not happen: "+what)
	}
}

func requireOpen(t *testing.T, c <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-c:
		require.FailNow(t, "happened: "+what)
	default:
	}
}

// A command is held back with what follows it. The client gives up and repeats
// it on another connection; the first one runs after its repetition, on the
// connection on which it was sent, in order, followed by the client's end.
func TestHoldBack_RunsAfterItsRetry(t *testing.T) {
	s := startPeer(t, echo)
	p := Start(t, s.addr)
	r := p.On(Command("two").Nth(1)).HoldBack(-1)
	a := connect(t, p.Addr())
	a.send("one", "two", "three")
	a.requireReply("+one\r\n")
	awaitFired(t, r)
	a.send("four")
	a.requireSilence()
	requireOpen(t, r.GivenUp(), "the client gave up")
	a.Close()
	awaitClosed(t, r.GivenUp(), "the client gave up")

	b := connect(t, p.Addr())
	b.send("two")
	b.requireReply("+two\r\n")
	require.Equal(t, []string{"1: one", "2: two"}, s.commands())
	requireOpen(t, r.Delivered(), "it ran")
	s.mu.Lock()
	require.Zero(t, s.ended, "the server does not hear that the client has gone")
	s.mu.Unlock()

	r.Release()
	awaitClosed(t, r.Delivered(), "it ran")
	require.Equal(t, []string{"1: one", "2: two", "1: two", "1: three", "1: four"}, s.commands())
	require.Eventually(t, func() bool { s.mu.Lock(); defer s.mu.Unlock(); return s.ended == 1 }, patience, time.Millisecond)
	require.Equal(t, 1, r.Count())
	b.send("two")
	b.requireReply("+two\r\n")
}

// With a time, what is held back runs by itself, and no sooner than that after
// the client's end.
func TestHoldBack_RunsAfterItsTime(t *testing.T) {
	s := startPeer(t, echo)
	p := Start(t, s.addr)
	r := p.On(Command("two")).HoldBack(moment)
	a := connect(t, p.Addr())
	a.send("two")
	awaitFired(t, r)
	start := time.Now()
	a.Close()
	awaitClosed(t, r.Delivered(), "it ran")
	require.GreaterOrEqual(t, time.Since(start), moment)
	require.Equal(t, []string{"1: two"}, s.commands())
}

// A client that has not given up gets its replies once the rule is released,
// and the rule keeps nothing from then on.
func TestHoldBack_IsReleasedToAClientThatWaits(t *testing.T) {
	for end, release := range map[string]func(*Proxy, *Rule){
		"Release": func(_ *Proxy, r *Rule) { r.Release() },
		"Remove":  func(_ *Proxy, r *Rule) { r.Remove() },
		"Heal":    func(p *Proxy, _ *Rule) { p.Heal() },
	} {
		t.Run(end, func(t *testing.T) {
			s := startPeer(t, echo)
			p := Start(t, s.addr)
			r := p.On(Command("two")).HoldBack(-1)
			a, b := connect(t, p.Addr()), connect(t, p.Addr())
			a.send("two", "three")
			awaitFired(t, r)
			a.requireSilence()
			b.send("three")
			b.requireReply("+three\r\n")
			release(p, r)
			a.requireReply("+two\r\n")
			a.requireReply("+three\r\n")
			awaitClosed(t, r.Delivered(), "it ran")
			a.send("two")
			a.requireReply("+two\r\n")
		})
	}
}

// What is held back goes with a connection that is cut.
func TestHoldBack_IsLostWithItsConnection(t *testing.T) {
	s := startPeer(t, echo)
	p := Start(t, s.addr)
	r := p.On(Command("two")).HoldBack(-1)
	a := greet(t, p)
	a.send("two")
	awaitFired(t, r)
	p.Cut()
	a.requireEnd()
	awaitClosed(t, r.Delivered(), "the connection ended")
	require.Equal(t, []string{"1: hello"}, s.commands())
}

// A rule may be left alone at the end of a test.
func TestHoldBack_EndsWithTheTest(t *testing.T) {
	s := startPeer(t, echo)
	t.Run("held", func(t *testing.T) {
		p := Start(t, s.addr)
		r := p.On(Command("two")).HoldBack(time.Hour)
		gone, here := connect(t, p.Addr()), connect(t, p.Addr())
		gone.send("two")
		here.send("two")
		awaitFired(t, r)
		gone.Close()
		awaitClosed(t, r.GivenUp(), "the client gave up")
	})
}
