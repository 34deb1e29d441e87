package faultproxy

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A command is held back with what follows it. The client gives up and repeats it on another
// connection; the first one runs after its repetition, on the connection on which it was sent, in
// order, followed by the client's end.
func TestHoldBack_RunsAfterItsRetry(t *testing.T) {
	s, p := startEcho(t)
	r := p.On(Command("two").Nth(1)).HoldBack(-1)
	a := connect(t, p.Addr())
	a.send("one", "two", "three")
	a.requireReplies("one")
	awaitClosed(t, r.Fired())
	a.send("four")
	a.requireSilence()
	requireOpen(t, r.GivenUp())
	a.Close()
	awaitClosed(t, r.GivenUp())

	b := connect(t, p.Addr())
	b.ask("two")
	require.Equal(t, []string{"1: one", "2: two"}, s.commands())
	requireOpen(t, r.Delivered())
	require.Zero(t, s.ends(), "the server does not hear that the client has gone")

	r.Release()
	awaitClosed(t, r.Delivered())
	require.Equal(t, []string{"1: one", "2: two", "1: two", "1: three", "1: four"}, s.commands())
	eventually(t, func() bool { return s.ends() == 1 })
	require.Equal(t, 1, r.Count())
	b.ask("two")
}

// With a time, what is held back runs by itself, and no sooner than that after the client's end.
func TestHoldBack_RunsAfterItsTime(t *testing.T) {
	s, p := startEcho(t)
	r := p.On(Command("two")).HoldBack(moment)
	a := connect(t, p.Addr())
	a.send("two")
	awaitClosed(t, r.Fired())
	start := time.Now()
	a.Close()
	awaitClosed(t, r.Delivered())
	require.GreaterOrEqual(t, time.Since(start), moment)
	require.Equal(t, []string{"1: two"}, s.commands())
}

// What is held back goes with a connection that is cut.
func TestHoldBack_IsLostWithItsConnection(t *testing.T) {
	s, p := startEcho(t)
	r := p.On(Command("two")).HoldBack(-1)
	a := greet(t, p)
	a.send("two")
	awaitClosed(t, r.Fired())
	p.Cut()
	a.requireEnd()
	awaitClosed(t, r.Delivered())
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
		awaitClosed(t, r.Fired())
		gone.Close()
		awaitClosed(t, r.GivenUp())
	})
}
