package wire

import (
	"context"
	"crypto/tls"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/resp"
	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
)

// A fakeClient answers each command with an error.
type fakeClient struct {
	rueidis.Client
	do    func() error
	nodes func() map[string]rueidis.Client
}

func newFakeClient() *fakeClient {
	c, _ := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{"127.0.0.1:0"}, ForceSingleClient: true, DisableCache: true})
	return &fakeClient{Client: c} // for its Builder; no server has port 0
}

func (c *fakeClient) Nodes() map[string]rueidis.Client { return c.nodes() }

func (c *fakeClient) Do(context.Context, rueidis.Completed) rueidis.RedisResult {
	return rueidis.NewErrorResult(c.do())
}

func getOf(names ...string) []Command { return []Command{{Args: []string{"GET"}, Keys: names}} }

func execOn(s Server, commands []Command) []Answer {
	answers := make([]Answer, len(commands))
	d := &Deadline{parent: context.Background(), timeout: time.Minute}
	defer d.finish()
	s.Exec(d, commands, answers)
	return answers
}

// Commands for any master wait for each other no longer than for the slowest.
func TestRedis_AnywhereAtTheSameTime(t *testing.T) {
	c := newFakeClient()
	defer c.Close()
	var all sync.WaitGroup
	all.Add(3)
	c.do = func() error {
		all.Done()
		together := make(chan struct{})
		go func() { all.Wait(); close(together) }()
		select {
		case <-together:
		case <-time.After(10 * time.Second):
			t.Error("sent one after the other")
		}
		return rueidis.ErrNoSlot
	}
	commands := append(append(append(getOf("a"), getOf("b")...), getOf("c")...), getOf("a", "b")...)
	answers := execOn(Redis{Client: c, Cluster: true}, commands)
	for i := range 3 {
		require.Equal(t, core.No, answers[i].Failure.Ran)
		require.Equal(t, Unavailable, answers[i].Failure.Kind)
	}
	require.Equal(t, crossSlot, answers[3].Failure)
}

// A script that reached nobody may have run at the new master of a slot. Its message is published
// again, and those who listen are counted.
func TestRedis_TellsThoseWhoListenElsewhere(t *testing.T) {
	answer := func(args []string) string {
		if reply, ok := resp.Greet(args); ok {
			return reply
		}
		switch strings.Join(args[:2], " ") {
		case "SPUBLISH " + Channel("a"):
			return ":3\r\n"
		case "PUBSUB SHARDNUMSUB":
			return "*2\r\n+" + args[2] + "\r\n:4\r\n"
		case "SPUBLISH " + Channel("b"):
			return "-NOPERM no\r\n"
		}
		return ":0\r\n"
	}
	var served sync.WaitGroup
	c, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{"a:1"}, ForceSingleClient: true, DisableCache: true,
		DialCtxFn: func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
			near, far := net.Pipe()
			served.Go(func() { resp.Serve(far, answer) })
			return near, nil
		},
	})
	require.NoError(t, err)
	commands := []Command{
		Encode(manager, released("a", 1)), Encode(manager, &core.Op{Verb: core.VerbTransfer, Name: "a", Number: 2}), Encode(manager, released("b", 1)),
		Encode(manager, released("a", 1)),
	}
	for channels, want := range map[Channels][]int64{Sharded: {3, 4, -1, 3}, Both: {3, 4, -1, 3}, Classic: {0, 0, 0, 0}} {
		var got []int64
		for _, a := range execOn(Redis{Client: c, Cluster: true, Channels: channels}, commands) {
			require.Equal(t, Int, a.Kind, "%+v", a.Failure)
			got = append(got, a.Int)
		}
		require.Equal(t, want, got, channels)
	}
	c.Close()
	served.Wait()
}
