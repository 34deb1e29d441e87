package faultproxy

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// What passes is what a server says without the proxy, byte for byte, however the bytes are cut on
// their way.
func TestProxy_ChangesNothingWithoutAFault(t *testing.T) {
	s := redistest.Start(t).Unrestricted()
	p := Start(t, s.Addr())
	var in strings.Builder
	for i := range 500 {
		fmt.Fprintf(&in, "*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$6\r\n\r\n%04d\r\n*2\r\n$3\r\nGET\r\n$3\r\nkey\r\nPING\r\n", i)
		if i == 250 {
			in.WriteString("*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n*3\r\n$9\r\nSUBSCRIBE\r\n$1\r\na\r\n$1\r\nb\r\n*3\r\n$7\r\nPUBLISH\r\n$1\r\na\r\n$1\r\n0\r\n")
		}
	}
	in.WriteString("*1\r\n$4\r\nQUIT\r\n")
	said := func(addr string, chunk int) string {
		c := connect(t, addr)
		go func() {
			for text := in.String(); text != ""; {
				n := min(chunk, len(text))
				_, _ = io.WriteString(c, text[:n])
				text = text[n:]
			}
		}()
		require.NoError(t, c.SetReadDeadline(time.Now().Add(patience)))
		out := redistest.Must(io.ReadAll(c))(t)
		// HELLO tells the number of the connection.
		head, tail, ok := strings.Cut(string(out), "$2\r\nid\r\n:")
		require.True(t, ok)
		_, tail, _ = strings.Cut(tail, "\r\n")
		return head + tail
	}
	want := said(s.Addr(), 1<<20)
	for _, chunk := range []int{17, 1 << 20} {
		require.Equal(t, want, said(p.Addr(), chunk))
	}
	require.Equal(t, map[string]int{"SET": 1000, "GET": 1000, "PING": 1000, "HELLO": 2, "SUBSCRIBE": 2, "PUBLISH": 2, "QUIT": 2}, p.Commands())
	require.Equal(t, 2, p.Connections())
}

func TestProxy_PassesBytesThatAreNoProtocol(t *testing.T) {
	l := redistest.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	go func() {
		if c, err := l.Accept(); err == nil {
			_, _ = io.Copy(c, c)
			c.Close()
		}
	}()
	p := Start(t, l.Addr().String())
	c := connect(t, p.Addr())
	redistest.Must(io.WriteString(c, "not RESP\x00\r\n"))(t)
	first := make([]byte, 11)
	require.NoError(t, c.SetReadDeadline(time.Now().Add(patience)))
	redistest.Must(io.ReadFull(c, first))(t, "they pass as they come")
	require.Equal(t, "not RESP\x00\r\n", string(first))
	text := strings.Repeat("*what\r\nis this\x00\n", 10000)
	go func() {
		_, _ = io.WriteString(c, text)
		_ = c.Conn.(*net.TCPConn).CloseWrite()
	}()
	require.NoError(t, c.SetReadDeadline(time.Now().Add(patience)))
	got := redistest.Must(io.ReadAll(c))(t)
	require.Equal(t, text, string(got))
	eventually(t, func() bool { return len(p.Conns()) == 0 })
}

// Each case sends "one", then "two" and "three" at once; the rule is about "two".
func TestFault_OfACommand(t *testing.T) {
	two, three := "+two\r\n", "+three\r\n"
	all := []string{"1: one", "1: two", "1: three"}
	tests := []struct {
		what    string
		rule    func(Fault) *Rule
		replies []string
		ended   bool // the client sees the end; else silence follows
		server  []string
	}{
		{"CutBefore", Fault.CutBefore, nil, true, all[:1]},
		{"CutAfterCommand", Fault.CutAfterCommand, nil, true, all[:2]},
		{"LoseReplyAndCut", Fault.LoseReplyAndCut, nil, true, all},
		{"BlackHole", Fault.BlackHole, nil, false, all[:1]},
		{"BlackHoleReply", Fault.BlackHoleReply, nil, false, all},
		{"DelayCommand", holdCommand, nil, false, all[:1]},
		{"HoldReply", Fault.HoldReply, nil, false, all},
		{"RepeatCommand", Fault.RepeatCommand, []string{two, three}, false, []string{"1: one", "1: two", "1: two", "1: three"}},
		{"Observe", Fault.Observe, []string{two, three}, false, all},
		{"Refuse", func(f Fault) *Rule { return f.Refuse("LOADING it") }, []string{"-LOADING it\r\n", three}, false, []string{"1: one", "1: PING", "1: three"}},
		{"EditReply", func(f Fault) *Rule {
			return f.EditReply(func(c Cmd, reply []byte) []byte { return []byte(fmt.Sprintf("+%s was %q\r\n", c.Name, reply)) })
		}, []string{"+TWO was \"+two\\r\\n\"\r\n", three}, false, all},
	}
	for _, tt := range tests {
		t.Run(tt.what, func(t *testing.T) {
			t.Parallel()
			s := startPeer(t, echo)
			p := Start(t, s.addr)
			r := tt.rule(p.On(Command("two")))
			c := connect(t, p.Addr())
			c.ask("one") // a reply that is still under way would go with the connection
			c.send("two", "three")
			for _, want := range tt.replies {
				c.requireReply(want)
			}
			awaitClosed(t, r.Fired())
			if tt.ended {
				c.requireEnd()
			} else {
				c.requireSilence()
			}
			// A command that vanished with its connection has vanished for good.
			eventually(t, func() bool { return len(s.commands()) >= len(tt.server) })
			require.Equal(t, tt.server, s.commands())
			eventually(t, func() bool { return r.Count() == 1 })
			require.Equal(t, 1, r.Seen())
			if len(tt.server) < 3 && tt.what != "DelayCommand" {
				require.Zero(t, p.Count("THREE"), "what comes behind the fault is not looked at")
			}

			greet(t, p)
		})
	}
}

func holdCommand(f Fault) *Rule { return f.DelayCommand(-1) }

// A client that waits gets its replies once the rule is released, and the rule keeps nothing from
// then on.
func TestFault_WhatIsHeldIsReleased(t *testing.T) {
	_, p := startEcho(t)
	for name, hold := range map[string]func(Fault) *Rule{
		"command": holdCommand, "reply": Fault.HoldReply, "back": func(f Fault) *Rule { return f.HoldBack(-1) },
	} {
		for end, release := range map[string]func(*Rule){
			"Release": (*Rule).Release, "Remove": (*Rule).Remove, "Heal": func(*Rule) { p.Heal() },
		} {
			t.Run(name+" "+end, func(t *testing.T) {
				r := hold(p.On(Command("two")))
				c, other := connect(t, p.Addr()), greet(t, p)
				c.send("one", "two", "three")
				c.requireReplies("one")
				awaitClosed(t, r.Fired())
				c.requireSilence()
				other.ask("three")
				release(r)
				c.requireReplies("two", "three")
				if name == "back" {
					awaitClosed(t, r.Delivered())
				}
				c.ask("two")
				r.Remove()
			})
		}
	}
}

func TestFault_DelayLastsAsLongAsItSays(t *testing.T) {
	_, p := startEcho(t)
	for name, delay := range map[string]func(Fault, time.Duration) *Rule{"command": Fault.DelayCommand, "reply": Fault.DelayReply} {
		t.Run(name, func(t *testing.T) {
			r := delay(p.On(Command("two")), moment)
			defer r.Remove()
			c := connect(t, p.Addr())
			start := time.Now()
			c.send("two", "three")
			c.requireReplies("two")
			require.GreaterOrEqual(t, time.Since(start), moment)
			c.requireReplies("three")
		})
	}
}

// Confirmations and messages are not replies to commands, and a confirmation belongs to its
// SUBSCRIBE: in both protocols.
func TestProxy_MessagesAreNotReplies(t *testing.T) {
	s := redistest.Start(t).Unrestricted() // the channels here are not those of locks
	p := Start(t, s.Addr())
	c := connect(t, p.Addr())
	c.send("HELLO 3")
	redistest.Must(c.read(patience))(t)
	pings := p.On(Command("PING")).EditReply(func(_ Cmd, reply []byte) []byte { return []byte("+edited " + string(reply[1:])) })
	subscribed := p.On(Command("SUBSCRIBE")).EditReply(func(_ Cmd, reply []byte) []byte {
		require.Contains(t, string(reply), "subscribe")
		return reply
	})
	c.send("SUBSCRIBE a b", "PING", "PUBLISH a 0", "PING", "UNSUBSCRIBE a", "PING", "SUBSCRIBE", "PING")
	expected := []string{
		">3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n", ">3\r\n$9\r\nsubscribe\r\n$1\r\nb\r\n:2\r\n",
		"+edited PONG\r\n",
		">3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1\r\n0\r\n", ":1\r\n",
		"+edited PONG\r\n",
		">3\r\n$11\r\nunsubscribe\r\n$1\r\na\r\n:1\r\n",
		"+edited PONG\r\n",
		"-ERR wrong number of arguments for 'subscribe' command\r\n",
		"+edited PONG\r\n",
	}
	for i := 0; i < len(expected); i++ {
		want := expected[i]
		got := redistest.Must(c.read(patience))(t)
		if strings.HasPrefix(want, ":1") != strings.HasPrefix(got, ":1") { // servers differ in which comes first
			next := redistest.Must(c.read(patience))(t)
			require.ElementsMatch(t, []string{":1\r\n", ">3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1\r\n0\r\n"}, []string{got, next})
			i++
			continue
		}
		require.Equal(t, want, got)
	}
	eventually(t, func() bool { return pings.Count() == 4 })
	eventually(t, func() bool { return subscribed.Count() == 3 })
	require.Len(t, p.PubSub(), 1)

	old := connect(t, p.Addr())
	old.send("SUBSCRIBE a")
	old.requireReply("*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n")
	redistest.Must(s.Do("PUBLISH", "a", "0"))(t)
	old.requireReply("*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1\r\n0\r\n")
	old.send("PING")
	old.requireReply("+edited 2\r\n") // of *2, with these:
	old.requireReply("$4\r\npong\r\n")
	require.Len(t, p.PubSub(), 2)
}

func TestProxy_AttributesBelongToTheirReply(t *testing.T) {
	s := startPeer(t, func(args []string) string {
		return "|1\r\n+ttl\r\n:1\r\n>2\r\n+invalidate\r\n+x\r\n" + "|1\r\n+ttl\r\n*2\r\n:1\r\n:2\r\n" + echo(args)
	})
	p := Start(t, s.addr)
	p.On(Command("two")).EditReply(func(Cmd, []byte) []byte { return nil })
	c := connect(t, p.Addr())
	c.send("one", "two", "three")
	push, value := "|1\r\n+ttl\r\n:1\r\n>2\r\n+invalidate\r\n+x\r\n", "|1\r\n+ttl\r\n*2\r\n:1\r\n:2\r\n"
	for _, want := range []string{push, value + "+one\r\n", push, push, value + "+three\r\n"} {
		c.requireReply(want)
	}
}

func TestRule_Chooses(t *testing.T) {
	_, p := startEcho(t)
	a, b := greet(t, p), greet(t, p)
	conns := p.Conns()
	require.Len(t, conns, 2)
	require.Less(t, conns[0].ID(), conns[1].ID())

	text := "return 1"
	rules := map[string]*Rule{}
	for name, m := range map[string]Match{
		"any": Any(), "nth": Command("x").Nth(2), "from": Command("X", "y").From(3), "script": Script(text),
		"where": Any().Where(func(c Cmd) bool { return len(c.Args) > 1 && c.Args[1] == "1" }),
		"conn":  Command("x").OnConn(conns[1]),
		"all":   Command("x").Chance(1, 1), "some": Command("x").Chance(0.5, 7), "same": Command("x").Chance(0.5, 7),
		"narrowed": Any().Where(func(Cmd) bool { return false }),
	} {
		rules[name] = p.On(m).Observe()
	}
	for range 40 {
		a.ask("x 1")
	}
	b.ask("X 2")
	b.ask("y 1")
	b.ask("evalsha e0e1f9fabfc9d4800c877a703b823ac0578ff8db 0")
	b.ask("evalsha something 0")
	b.ask("subscribe c") // the peer's answer is none
	b.ask("x 1")
	got := map[string]int{}
	for name, r := range rules {
		got[name] = r.Count()
	}
	require.InDelta(t, 21, got["some"], 19)
	require.Equal(t, got["some"], got["same"])
	delete(got, "some")
	delete(got, "same")
	require.Equal(t, map[string]int{
		"any": 46, "nth": 1, "from": 41, "script": 1, "where": 42, "conn": 2, "all": 42, "narrowed": 0,
	}, got)
	require.Equal(t, 42, p.Count("X"))

	// The first rule that applies has the command; the second counts it.
	first, second := p.On(Command("z").Nth(2)).EditReply(func(Cmd, []byte) []byte { return nil }), p.On(Command("z").From(2)).LoseReplyAndCut()
	a.send("z 1", "z 2", "ping", "z 3")
	a.requireReplies("z 1", "ping")
	a.requireEnd()
	awaitClosed(t, second.Fired()) // counted just after the cut
	require.Equal(t, []int{1, 1, 3, 3}, []int{first.Count(), second.Count(), first.Seen(), second.Seen()})
}
