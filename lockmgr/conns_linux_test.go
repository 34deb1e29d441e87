package lockmgr

import (
	"context"
	"crypto/tls"
	"net"
	"syscall"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/resp"
)

// newClient applies DisableTCPNoDelay itself, because the client can't set an option of a
// connection that is tracked.
func TestNewClient_DisableTCPNoDelay(t *testing.T) {
	for _, disabled := range []bool{false, true} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer listener.Close()
		go func() {
			if c, err := listener.Accept(); err == nil {
				resp.Serve(c, func(args []string) string { reply, _ := resp.Greet(args); return reply })
			}
		}()
		opt := TuneClient(rueidis.ClientOption{InitAddress: []string{listener.Addr().String()}, DisableTCPNoDelay: disabled})
		var conn net.Conn
		opt.DialCtxFn = func(ctx context.Context, addr string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
			conn, err = d.DialContext(ctx, "tcp", addr)
			return conn, err
		}
		c, err := newClient(context.Background(), opt, nil)
		require.NoError(t, err)
		raw, err := conn.(*net.TCPConn).SyscallConn()
		require.NoError(t, err)
		noDelay := -1
		require.NoError(t, raw.Control(func(fd uintptr) {
			noDelay, err = syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_NODELAY)
		}))
		require.NoError(t, err)
		require.Equal(t, disabled, noDelay == 0)
		c.Close()
	}
}
