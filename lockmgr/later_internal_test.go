package lockmgr

import (
	"context"
	"crypto/tls"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/resp"
)

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
