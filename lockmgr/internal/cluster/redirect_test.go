package cluster

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/lockmgr/internal/wire"

	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
)

// nameInSlot returns a name in a slot. In a fakeCluster a serves slot 0, b slot 1 and c slot 2.
func nameInSlot(slot int) string {
	for i := 0; ; i++ {
		if name := fmt.Sprint("n", i); wire.SlotOf(name) == slot {
			return name
		}
	}
}

// redirects makes a node answer each command with an error.
func (n *fakeNode) redirects(format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.reply = func([]string) string { return fmt.Sprintf("-"+format+"\r\n", args...) }
}

// A command goes to the master that the layout names, and then where MOVED and ASK lead. A MOVED is
// remembered until the next layout.
func TestNodes_FollowRedirections(t *testing.T) {
	c, n := newFakeCluster(t)
	a, d, name := c.known["a:1"], newFakeNode(t, "D", ours), nameInSlot(0)
	c.elsewhere["d:1"] = d
	counts := func() [4]int {
		toA, askedA := a.counts()
		toD, askedD := d.counts()
		return [4]int{toA, askedA, toD, askedD}
	}
	counts()
	require.Nil(t, execOn(n, getOf(name))[0].Failure)
	require.Equal(t, [4]int{1, 1, 0, 0}, counts())

	a.redirects("MOVED 0 d:1")
	require.Nil(t, execOn(n, getOf(name))[0].Failure)
	require.Equal(t, [4]int{1, 0, 1, 1}, counts(), "d has said that it is one of the cluster")
	require.Nil(t, execOn(n, getOf(name))[0].Failure)
	require.Equal(t, [4]int{0, 0, 1, 0}, counts())
	look(t, n)
	require.Equal(t, "a:1", n.master(0))
	a.redirects("ASK 0 d:1")
	var got []string
	d.mu.Lock()
	d.reply = func(args []string) string { got = append(got, strings.Join(args, " ")); return "+OK\r\n" }
	d.mu.Unlock()
	a.counts()
	for range 2 {
		require.Nil(t, execOn(n, getOf(name))[0].Failure)
	}
	require.Equal(t, 2, a.timesSent(), "an ASK is not remembered")
	require.Equal(t, []string{"ASKING", "GET " + name, "ASKING", "GET " + name}, got)
}

// Each master of a slot may name another one.
func TestNodes_RedirectionsWithoutEnd(t *testing.T) {
	c, n := newFakeCluster(t)
	a, b := c.known["a:1"], c.known["b:1"]
	a.redirects("MOVED 0 b:1")
	b.redirects("MOVED 0 a:1")
	a.counts()
	f := execOn(n, getOf(nameInSlot(0)))[0].Failure
	require.Equal(t, core.No, f.Ran)
	require.Equal(t, wire.Unavailable, f.Kind, "they may agree soon")
	require.False(t, f.Final)
	require.False(t, f.Unanswered(), "a and b serve other slots")
	require.Equal(t, mostRedirections, a.timesSent()+b.timesSent())
	a.redirects("MOVED 0")
	n.move(0, "a:1")
	f = execOn(n, getOf(nameInSlot(0)))[0].Failure
	require.Equal(t, core.No, f.Ran)
	require.False(t, f.Final)
}

// A redirection to a node of another cluster runs nothing there.
func TestNodes_RedirectionToAnotherCluster(t *testing.T) {
	for _, redirection := range []string{"MOVED 0 %s", "ASK 0 %s"} {
		c, n := newFakeCluster(t)
		a, name := c.known["a:1"], nameInSlot(0)
		// A master that the client knows.
		b := c.known["b:1"]
		a.redirects(redirection, "b:1")
		b.becomes("X", theirs)
		require.Equal(t, wire.StrangeNode, execOn(n, getOf(name))[0].Failure)
		// One that it dials now.
		d := newFakeNode(t, "X", theirs)
		c.elsewhere["d:1"] = d
		n.move(0, "a:1")
		a.redirects(redirection, "d:1")
		require.Equal(t, wire.StrangeNode, execOn(n, getOf(name))[0].Failure)
		for _, stranger := range []*fakeNode{b, d} {
			require.Zero(t, stranger.timesSent())
		}
	}
}

// A server that does not know a script gets its text. After an ASK, each command needs an ASKING.
func TestNodes_RedirectionOfAScript(t *testing.T) {
	c, n := newFakeCluster(t)
	name := nameInSlot(0)
	var got []string
	c.known["a:1"].redirects("ASK 0 b:1")
	b := c.known["b:1"]
	b.mu.Lock()
	b.reply = func(args []string) string {
		got = append(got, args[0])
		if args[0] == "EVALSHA" {
			return "-NOSCRIPT No matching script.\r\n"
		}
		return ":1\r\n"
	}
	b.mu.Unlock()
	answers := execOn(n, []wire.Command{wire.Encode(manager, released(name, 1))})
	require.Nil(t, answers[0].Failure)
	require.Equal(t, []string{"ASKING", "EVALSHA", "ASKING", "EVAL"}, got)
}

// A node may not know the host of another one. The layout knows it, if one master has that port.
func TestNodes_RedirectionToAnUnknownHost(t *testing.T) {
	c, n := newFakeCluster(t)
	name := nameInSlot(0)
	c.known["a:1"].redirects("MOVED 0 ?:1")
	f := execOn(n, getOf(name))[0].Failure
	require.Equal(t, wire.Unavailable, f.Kind, "b and c have it")
	require.Equal(t, core.No, f.Ran)
	require.False(t, f.Unanswered(), "a serves other slots")
	require.Contains(t, f.Hint, "does not know the address")
	for _, node := range c.known {
		node.says(strings.Replace(ours, "+b\r\n:1\r\n", "+b\r\n:2\r\n", 1))
	}
	c.elsewhere["b:2"] = c.known["b:1"]
	look(t, n)
	c.known["a:1"].redirects("MOVED 0 ?:2")
	c.known["b:1"].counts()
	require.Nil(t, execOn(n, getOf(name))[0].Failure)
	require.Equal(t, 1, c.known["b:1"].timesSent())
	n.move(0, "a:1")
	c.known["a:1"].redirects("MOVED 0 ?:1")
	c.known["c:1"].counts()
	require.Nil(t, execOn(n, getOf(name))[0].Failure)
	require.Equal(t, 1, c.known["c:1"].timesSent(), "a has the port, too, but does not mean itself")
}

// A command for a slot without a master is refused at once.
func TestNodes_NoMaster(t *testing.T) {
	_, n := newFakeCluster(t)
	require.Equal(t, unserved, execOn(n, getOf(nameInSlot(9)))[0].Failure)
}

// A command without keys goes to the master that Lanes.Call sends it to.
func TestNodes_CommandWithoutKeys(t *testing.T) {
	c, n := newFakeCluster(t)
	c.known["a:1"].counts()
	require.Nil(t, execOn(n, []wire.Command{{Args: []string{"INFO"}}})[0].Failure)
	require.Equal(t, 1, c.known["a:1"].timesSent())
}

// Commands for any master wait for each other no longer than for the slowest.
func TestNodes_AnywhereAtTheSameTime(t *testing.T) {
	c, n := newFakeCluster(t)
	var all sync.WaitGroup
	all.Add(3)
	for _, node := range c.known {
		node.during = func() {
			all.Done()
			together := make(chan struct{})
			go func() { all.Wait(); close(together) }()
			select {
			case <-together:
			case <-time.After(10 * time.Second):
				t.Error("sent one after the other")
			}
		}
	}
	commands := append(append(getOf(nameInSlot(0)), getOf(nameInSlot(1))...), getOf(nameInSlot(2))...)
	for _, a := range execOn(n, commands) {
		require.Nil(t, a.Failure)
	}
}

// A script that reached nobody may have run at the new master of a slot. Its message is published
// again, and those who listen are counted.
func TestNodes_TellThoseWhoListenElsewhere(t *testing.T) {
	x, y := nameInSlot(0), nameInSlot(1)
	answer := func(args []string) string {
		switch strings.Join(args[:2], " ") {
		case "SPUBLISH " + wire.Channel(x):
			return ":3\r\n"
		case "PUBSUB SHARDNUMSUB":
			return "*2\r\n+" + args[2] + "\r\n:4\r\n"
		case "SPUBLISH " + wire.Channel(y):
			return "-NOPERM no\r\n"
		}
		return ":0\r\n"
	}
	commands := []wire.Command{
		wire.Encode(manager, released(x, 1)), wire.Encode(manager, &core.Op{Verb: core.VerbTransfer, Name: x, Number: 2}), wire.Encode(manager, released(y, 1)),
		wire.Encode(manager, released(x, 1)),
	}
	for channels, want := range map[wire.Channels][]int64{wire.Sharded: {3, 4, -1, 3}, wire.Classic: {0, 0, 0, 0}} {
		c, n := newFakeCluster(t)
		n.channels = channels
		for _, node := range c.known {
			node.reply = answer
		}
		var got []int64
		for _, a := range execOn(n, commands) {
			require.Equal(t, wire.Int, a.Kind, "%+v", a.Failure)
			got = append(got, a.Int)
		}
		require.Equal(t, want, got, channels)
	}
}

// A manager that may dial no master lets the client find a master that the client does not know.
// What the client sends for that does nothing at any node.
func TestNodes_MetByTheClient(t *testing.T) {
	c, n := newFakeCluster(t)
	n.open = nil
	name, d := nameInSlot(0), newFakeNode(t, "D", ours)
	c.known["a:1"].redirects("MOVED 0 d:1")
	sent := 0
	refusal := func(text string) error {
		d.redirects("%s", text)
		defer func() { d.reply = nil }()
		return d.client.Do(t.Context(), d.client.B().Get().Key("x").Build()).Error()
	}
	here := refusal("ELSEWHERE this is another node")
	c.do = func() error { sent++; c.known["d:1"] = d; return here }
	require.Nil(t, execOn(n, getOf(name))[0].Failure)
	require.Equal(t, 1, sent)
	require.Nil(t, execOn(n, getOf(name))[0].Failure)
	require.Nil(t, execOn(n, getOf(nameInSlot(1)))[0].Failure)
	require.Equal(t, 1, sent, "the client knows them")

	delete(c.known, "d:1")
	n.greetAgain("d:1")
	c.do = func() error { return here }
	f := execOn(n, getOf(name))[0].Failure
	require.Equal(t, core.No, f.Ran, "the client does not find it")
	require.False(t, f.Final)
	// The client follows some redirections and then returns the last.
	moved := refusal("MOVED 0 z:1")
	c.do = func() error { return moved }
	f = execOn(n, getOf(name))[0].Failure
	require.Equal(t, wire.Unavailable, f.Kind)
	require.Equal(t, core.No, f.Ran)
	require.False(t, f.Final)
	c.do = func() error { return errors.New("the client's own") }
	f = execOn(n, getOf(name))[0].Failure
	require.ErrorContains(t, f.Err, "the client's own")
	require.Equal(t, core.No, f.Ran)
}
