package wire

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/resp"
)

// fakeServer returns a client of a server that answers by reply, once the first commands of a
// connection are over.
func fakeServer(t *testing.T, reply func(args []string) string) rueidis.Client {
	var served sync.WaitGroup
	c, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{"a:1"}, ForceSingleClient: true, DisableCache: true,
		DisableRetry: true, AlwaysPipelining: true, PipelineMultiplex: -1, // as lockmgr.TuneClient sets them
		DialCtxFn: func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
			near, far := net.Pipe()
			served.Go(func() {
				resp.Serve(far, func(args []string) string {
					if greeting, ok := resp.Greet(args); ok {
						return greeting
					}
					return reply(args)
				})
			})
			return near, nil
		},
	})
	require.NoError(t, err)
	t.Cleanup(func() { c.Close(); served.Wait() })
	return c
}

func getOf(names ...string) []Command { return []Command{{Args: []string{"GET"}, Keys: names}} }
