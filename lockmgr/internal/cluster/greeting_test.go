package cluster

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/lockmgr/internal/wire"
)

// manyOf returns 256 commands for one name.
func manyOf(name string) (commands []wire.Command) {
	for range 256 {
		commands = append(commands, getOf(name)...)
	}
	return commands
}

// opensSlowly makes a node the answer to each dial, after a time. It returns the number of dials.
func opensSlowly(n *Nodes, node *fakeNode, takes time.Duration) *atomic.Int32 {
	opened := new(atomic.Int32)
	n.open = func(string) (rueidis.Client, error) {
		opened.Add(1)
		time.Sleep(takes)
		return node.client, nil
	}
	return opened
}

// Many commands for a node that is not known yet need one dial and one greeting.
func TestNodes_OneDialAndOneGreetingForMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, n := newFakeCluster(t)
		d := newFakeNode(t, "D", ours)
		opened := opensSlowly(n, d, time.Second) // so all are waiting
		d.whileAsked = func() { time.Sleep(time.Second) }
		c.known["a:1"].redirects("ASK 0 d:1")
		for _, a := range execOn(n, manyOf(nameInSlot(0))) {
			require.Nil(t, a.Failure)
		}
		require.EqualValues(t, 1, opened.Load())
		require.Equal(t, 1, d.timesAsked())
		// The same after a connection broke.
		n.Ended("d:1")
		for _, a := range execOn(n, manyOf(nameInSlot(0))) {
			require.Nil(t, a.Failure)
		}
		require.Equal(t, 1, d.timesAsked())
	})
}

// A look at the layout and a greeting share a dial.
func TestNodes_OneDialForALookAndAGreeting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, n := newFakeCluster(t)
		opened := opensSlowly(n, c.known["a:1"], time.Second)
		delete(c.known, "a:1")
		var both sync.WaitGroup
		both.Go(func() { require.NoError(t, n.layoutAt(t.Context(), "a:1").err) })
		both.Go(func() { require.Nil(t, execOn(n.Node("a:1"), getOf("x"))[0].Failure) })
		both.Wait()
		require.EqualValues(t, 1, opened.Load())
	})
}

// A caller whose context ends fails alone. The greeting ends after QuestionTime, and with Close.
func TestNodes_GreetingOutlivesACaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, n := newFakeCluster(t)
		a := c.known["a:1"]
		a.counts()
		a.whileAsked = func() { time.Sleep(time.Second) }
		within := func(limit time.Duration) error {
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			_, err := n.Client(ctx, "a:1")
			return err
		}
		var all sync.WaitGroup
		all.Go(func() { require.Error(t, within(100*time.Millisecond)) })
		all.Go(func() {
			time.Sleep(200 * time.Millisecond)
			begin := time.Now()
			require.NoError(t, within(time.Minute))
			require.Equal(t, 800*time.Millisecond, time.Since(begin))
		})
		all.Wait()
		require.Equal(t, 1, a.timesAsked())

		a.whileAsked = func() { time.Sleep(20 * time.Second) }
		n.greetAgain("a:1")
		begin := time.Now()
		require.Error(t, within(time.Minute))
		require.Equal(t, wire.QuestionTime, time.Since(begin))

		begin = time.Now()
		all.Go(func() { require.Error(t, within(10*time.Second)) })
		synctest.Wait()
		n.Close()
		all.Wait()
		require.Zero(t, time.Since(begin))
		_, err := n.Node("a:1").(node).Dedicate()
		require.ErrorIs(t, err, rueidis.ErrClosing)
	})
}

// A dial that hangs holds up a caller until its context ends. A later caller gets the client.
func TestNodes_DialOutlivesACaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, n := newFakeCluster(t)
		opened := opensSlowly(n, newFakeNode(t, "D", ours), 2*time.Second)
		for range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
			defer cancel()
			_, err := n.Client(ctx, "d:1")
			require.Error(t, err)
		}
		_, err := n.Client(t.Context(), "d:1")
		require.NoError(t, err)
		require.EqualValues(t, 1, opened.Load())
	})
}

// A question to a node ends no dial, although the caller waits no longer. The client has one dial
// for all commands that wait for a connection, and one of them may be an operation.
func TestNodes_QuestionsEndNoDial(t *testing.T) {
	for what, ask := range map[string]func(*Nodes, context.Context){
		"a look": func(n *Nodes, ctx context.Context) { n.layoutAt(ctx, "a:1") },
		"a greeting": func(n *Nodes, ctx context.Context) {
			n.greetAgain("a:1")
			_, _ = n.Client(ctx, "a:1")
		},
		"may be asked": func(n *Nodes, ctx context.Context) { n.MaySendAsking(ctx, "a:1") },
		"knows sharded": func(n *Nodes, _ context.Context) {
			require.True(t, n.KnowsSharded())
		},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, n := newFakeCluster(t)
				a := c.known["a:1"]
				_, err := n.Client(t.Context(), "a:1")
				require.NoError(t, err)
				begun, cut := make(chan struct{}), error(nil)
				a.dialled = func(ctx context.Context) {
					close(begun)
					time.Sleep(3 * time.Second)
					cut = ctx.Err()
				}
				c.known["b:1"].during = func() { <-begun } // answers to the same question come during the dial
				c.known["c:1"].during = c.known["b:1"].during
				require.NoError(t, a.last.Close())
				synctest.Wait()
				ctx, cancel := context.WithTimeout(t.Context(), askTime)
				begin := time.Now()
				ask(n, ctx)
				cancel()
				require.LessOrEqual(t, time.Since(begin), askTime)
				require.False(t, execOn(n.Node("a:1"), getOf("x"))[0].Failure.Unanswered())
				<-begun
				require.NoError(t, cut)
			})
		})
	}
}

// A question that nobody waits for ends with Close, also with a client that was not built with the
// options of lockmgr.TuneClient.
func TestNodes_CloseDuringAQuestion(t *testing.T) {
	for _, pipelining := range []bool{true, false} {
		t.Run(fmt.Sprintf("pipelining %t", pipelining), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, n := newFakeCluster(t)
				a := newFakeNodeOf(t, "A", ours, pipelining)
				c.known["a:1"] = a
				a.whileAsked = func() { time.Sleep(2 * wire.QuestionTime) }
				require.Error(t, n.layoutAt(t.Context(), "a:1").err)
				begin := time.Now()
				n.Close()
				require.Zero(t, time.Since(begin))
			})
		})
	}
}

// A look waits for a dial, and then for the answer of the node. It waits for that answer for
// askTime at most.
func TestNodes_LookAtANodeThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, n := newFakeCluster(t)
		d := newFakeNode(t, "D", ours)
		d.whileAsked = func() { time.Sleep(time.Second) }
		opensSlowly(n, d, time.Second)
		begin := time.Now()
		require.ErrorIs(t, n.layoutAt(t.Context(), "d:1").err, context.DeadlineExceeded)
		require.Equal(t, time.Second+askTime, time.Since(begin))
	})
}

// Nodes that are closed ask no question, and greet no node.
func TestNodes_AskNothingAfterClose(t *testing.T) {
	_, n := newFakeCluster(t)
	n.Close()
	_, ok := question(t.Context(), n, func(context.Context) error {
		t.Error("asked")
		return nil
	})
	require.False(t, ok)
	_, err := n.Client(t.Context(), "a:1")
	require.ErrorIs(t, err, rueidis.ErrClosing)
}

// A client that is dialled while Nodes are closed is closed, too.
func TestNodes_CloseDuringADial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, n := newFakeCluster(t)
		d := newFakeNode(t, "D", ours)
		opensSlowly(n, d, time.Second)
		var asking sync.WaitGroup
		asking.Go(func() {
			_, err := n.Client(t.Context(), "d:1")
			require.ErrorIs(t, err, rueidis.ErrClosing)
		})
		synctest.Wait()
		n.Close()
		asking.Wait()
		require.ErrorIs(t, d.client.Do(t.Context(), d.client.B().Ping().Build()).Error(), rueidis.ErrClosing)
	})
}

// While slots are moved to a master that has none, it is no master of the layout. It is dialled
// once, and greeted once. Its client is closed when it has had no use for clientRest.
func TestNodes_ClientOfAMasterWithoutSlots(t *testing.T) {
	c, n := newFakeCluster(t)
	now := time.Now()
	n.now = func() time.Time { return now }
	open := func() *fakeNode {
		d := newFakeNode(t, "D", ours)
		c.elsewhere["d:1"] = d
		return d
	}
	d := open()
	c.known["a:1"].redirects("ASK 0 d:1")
	use := func() { require.Nil(t, execOn(n, getOf(nameInSlot(0)))[0].Failure) }
	for range 10 {
		use()
		look(t, n)
		now = now.Add(clientRest - 1)
		look(t, n)
		_, f := n.connect("d:1") // a use without a command
		require.Nil(t, f)
		now = now.Add(clientRest - 1)
		look(t, n)
	}
	require.Equal(t, []string{"d:1"}, c.opened)
	require.Equal(t, 1, d.timesAsked())
	now = now.Add(1)
	look(t, n)
	require.ErrorIs(t, d.client.Do(t.Context(), d.client.B().Ping().Build()).Error(), rueidis.ErrClosing)
	d = open()
	use()
	require.Equal(t, 1, d.timesAsked(), "the greeting went with the client")
}

// After the end of a connection to a node, a greeting comes before the next command, so that the
// client dials for the question.
func TestNode_IsGreetedAfterTheEndOfAConnection(t *testing.T) {
	c, n := newFakeCluster(t)
	a := c.known["a:1"]
	use := func() { require.Nil(t, execOn(n.Node("a:1"), getOf("x"))[0].Failure) }
	use()
	a.counts()
	use()
	n.Ended("b:1")
	use()
	require.Zero(t, a.timesAsked())
	n.Ended("a:1")
	use()
	use()
	require.Equal(t, 1, a.timesAsked())
}

// When Nodes adopt another cluster, the nodes of the old one have to be greeted.
func TestNode_IsGreetedInTheNewCluster(t *testing.T) {
	c, n := newFakeCluster(t)
	a := c.known["a:1"]
	use := func() *wire.Failure { return execOn(n.Node("a:1"), getOf("x"))[0].Failure }
	require.Nil(t, use())
	renewed := slotsReply("a:X", "b:Y", "c:Z")
	c.known["b:1"].becomes("Y", renewed)
	c.known["c:1"].becomes("Z", renewed)
	a.says("-LOADING\r\n")
	layout := look(t, n)
	require.Equal(t, []string{"X"}, layout[0].Nodes)
	a.says(ours)
	require.Equal(t, wire.StrangeNode, use())
}

// A slot that is being moved, or was moved, says nothing about the connection.
func TestNode_NeedsNoGreetingForASlotThatMoves(t *testing.T) {
	c, n := newFakeCluster(t)
	a := c.known["a:1"]
	a.counts()
	for _, refusal := range []string{"TRYAGAIN Multiple keys request during rehashing of slot", "MOVED 0 b:1", "ASK 0 b:1"} {
		a.redirects("%s", refusal)
		for range 10 {
			f := execOn(n.Node("a:1"), getOf("x"))[0].Failure
			require.True(t, f.OnlyThis || f.Elsewhere, refusal)
		}
	}
	require.Equal(t, 1, a.timesAsked())
	a.redirects("LOADING")
	for range 2 {
		execOn(n.Node("a:1"), getOf("x"))
	}
	require.Equal(t, 1, a.timesAsked(), "after the first LOADING")
}

// Masters come and go, each with an address of its own. Nothing is kept of those that have left.
func TestNodes_ForgetTheMastersThatLeft(t *testing.T) {
	c, n := newFakeCluster(t)
	now := time.Now()
	n.now = func() time.Time { return now }
	for i := range 100 {
		addr := fmt.Sprintf("n%d", i)
		c.elsewhere[addr+":1"] = newFakeNode(t, "C", ours)
		for _, node := range c.known {
			node.says(slotsReply("a:A:RA", "b:B:RB", addr+":C:RC"))
		}
		look(t, n)
		require.Nil(t, execOn(n.Node(addr+":1"), getOf("x"))[0].Failure)
		now = now.Add(clientRest)
	}
	look(t, n)
	require.LessOrEqual(t, len(n.peers), 1)
	require.Equal(t, 100, strings.Count(strings.Join(c.opened, " "), "n"))
}
