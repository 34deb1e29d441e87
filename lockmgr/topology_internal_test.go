package lockmgr

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/resp"
	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
	"github.com/holdfast-go/holdfast/lockmgr/internal/wire"
)

// A saying is a server that has an answer for some commands, and answers others with an error.
type saying map[string]wire.Answer

func (s saying) Exec(_ *wire.Deadline, commands []wire.Command, answers []wire.Answer) {
	for i, c := range commands {
		a, ok := s[strings.Join(c.Args, " ")]
		if !ok {
			a = wire.Answer{Kind: wire.Failed, Failure: &wire.Failure{Kind: wire.Permission, Ran: core.No, Err: errors.New("NOPERM")}}
		}
		answers[i] = a
	}
}

func mode(m string) wire.Answer {
	text := func(s string) wire.Answer { return wire.Answer{Kind: wire.Text, Text: s} }
	return wire.Answer{Kind: wire.Array, Array: []wire.Answer{text("server"), text("redis"), text("mode"), text(m), text("modules"), {Kind: wire.Array}}}
}

var replica = wire.Answer{Kind: wire.Array, Array: []wire.Answer{{Kind: wire.Text, Text: "role"}, {Kind: wire.Text, Text: "replica"}}}

func both(a, b wire.Answer) wire.Answer {
	return wire.Answer{Kind: wire.Array, Array: slices.Concat(a.Array, b.Array)}
}

func TestTopology_OfAServer(t *testing.T) {
	info := func(s string) wire.Answer {
		return wire.Answer{Kind: wire.Text, Text: "cluster_state:ok\r\n" + s + "\r\n"}
	}
	for name, test := range map[string]struct {
		server saying
		warn   bool
		err    error
	}{
		"a server of its own":       {saying{"HELLO": mode("standalone")}, false, nil},
		"one that does not say":     {saying{}, false, nil},
		"a Sentinel":                {saying{"HELLO": mode("sentinel")}, false, ErrTopology},
		"a cluster of one":          {saying{"HELLO": mode("cluster"), "CLUSTER INFO": info("cluster_size:1")}, true, nil},
		"a cluster without slots":   {saying{"HELLO": mode("cluster"), "CLUSTER INFO": info("cluster_size:0")}, true, nil},
		"a cluster of three":        {saying{"HELLO": mode("cluster"), "CLUSTER INFO": info("cluster_size:3")}, false, ErrTopology},
		"a cluster of unknown size": {saying{"HELLO": mode("cluster")}, false, ErrPermission},
		"a replica":                 {saying{"HELLO": replica}, false, ErrReadOnly},
		"a replica in a cluster":    {saying{"HELLO": both(replica, mode("cluster")), "CLUSTER INFO": info("cluster_size:3")}, false, ErrTopology},
		"a replica of the one":      {saying{"HELLO": both(replica, mode("cluster")), "CLUSTER INFO": info("cluster_size:1")}, false, ErrReadOnly},
	} {
		t.Run(name, func(t *testing.T) {
			m := &Manager{shell: shell{lanes: wire.NewLanes(wire.Config{
				Server: test.server, Timeout: time.Minute, Now: func() time.Duration { return 0 }, Post: func(*core.Replies) {}, Error: serverError,
			}, nil)}}
			defer m.lanes.Close()
			warning, err := m.topology(t.Context())
			require.ErrorIs(t, err, test.err)
			require.Equal(t, test.warn, warning != "")
		})
	}
}

// The number of subscribers is trusted only where it includes those of all managers.
func TestChannels(t *testing.T) {
	for channels, want := range map[Channels][2]bool{ShardedChannels: {true, true}, ClassicChannels: {false, false}} {
		s := shell{clustered: true, options: Options{Channels: channels}}
		require.Equal(t, want, [2]bool{s.onSharded(), s.countsAll()}, "%d", channels)
		s.clustered = false
		require.Equal(t, [2]bool{false, true}, [2]bool{s.onSharded(), s.countsAll()}, "%d, one server", channels)
	}
	_, err := Options{Channels: ClassicChannels + 1}.complete()
	require.ErrorIs(t, err, ErrInvalidOption)
}

// A manager that connects later uses the layout of its cluster as soon as the nodes have told it,
// though nobody has asked for a lock.
func TestConnectLater_UsesTheLayoutAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slots := "*2\r\n*3\r\n:0\r\n:8191\r\n*3\r\n+a\r\n:1\r\n+A\r\n*3\r\n:8192\r\n:16383\r\n*3\r\n+b\r\n:1\r\n+B\r\n"
		dial := func(_ context.Context, addr string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
			near, far := net.Pipe()
			go resp.Serve(far, func(args []string) string {
				greeting, ok := resp.Greet(args)
				switch strings.Join(args[:min(2, len(args))], " ") {
				case "CLUSTER SLOTS":
					return slots
				case "CLUSTER MYID":
					return "+" + strings.ToUpper(addr[:1]) + "\r\n"
				}
				if ok {
					return greeting
				}
				return "-ERR unknown command\r\n"
			})
			return near, nil
		}
		m, err := Dial(rueidis.ClientOption{InitAddress: []string{"a:1", "b:1"}, DialCtxFn: dial}, Options{ConnectLater: true, Channels: ClassicChannels})
		require.NoError(t, err)
		require.Equal(t, []string{"a:1"}, m.lanes.Masters())
		time.Sleep(time.Second)
		require.ElementsMatch(t, []string{"a:1", "b:1"}, m.lanes.Masters())
		require.NoError(t, m.Close(context.Background()))
		time.Sleep(time.Minute) // goroutines of the client library sleep for seconds after each look at the layout
	})
}
