package lockmgr

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/resp"
	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
	"github.com/holdfast-go/holdfast/lockmgr/internal/wire"
	"github.com/holdfast-go/holdfast/notify"
)

// A pipeServer answers greetings over pipes. Before it lets a dial end, and before it answers the
// first command of a connection, it waits.
type pipeServer struct {
	beforeDial, beforeHello func(conn int)

	dials atomic.Int32
	mu    sync.Mutex
	far   []net.Conn // the ends of the server
	alive sync.WaitGroup
}

func (s *pipeServer) options() rueidis.ClientOption {
	opt := TuneClient(rueidis.ClientOption{InitAddress: []string{"pipe:0"}})
	opt.DialCtxFn = func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
		n := int(s.dials.Add(1))
		s.beforeDial(n)
		near, far := net.Pipe()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.far = append(s.far, far)
		greeted := false
		s.alive.Go(func() {
			resp.Serve(far, func(args []string) string {
				if !greeted {
					greeted = true
					s.beforeHello(n)
				}
				reply, _ := resp.Greet(args)
				return reply
			})
		})
		return near, nil
	}
	return opt
}

// A client that is closed while it dials leaves no connection open.
func TestOwnedClient_ClosedDuringADial(t *testing.T) {
	for name, connect := range map[string]func(rueidis.ClientOption) (rueidis.Client, error){
		"newClient": func(opt rueidis.ClientOption) (rueidis.Client, error) {
			return newClient(context.Background(), opt, nil)
		},
		"opener": func(opt rueidis.ClientOption) (rueidis.Client, error) {
			return opener(context.Background(), opt, nil)("pipe:1")
		},
	} {
		for _, handshake := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, handshake %t", name, handshake), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					closed := make(chan struct{})
					wait := func(conn int) {
						if conn > 1 {
							<-closed
						}
					}
					s := &pipeServer{beforeDial: wait, beforeHello: func(int) {}}
					if handshake {
						s.beforeDial, s.beforeHello = s.beforeHello, s.beforeDial
					}
					c, err := connect(s.options())
					require.NoError(t, err)
					s.far[0].Close()
					synctest.Wait()
					var using sync.WaitGroup
					using.Go(func() {
						for s.dials.Load() == 1 { // the first command may find the end of the connection
							c.Do(context.Background(), c.B().Ping().Build())
						}
					})
					synctest.Wait()
					require.EqualValues(t, 2, s.dials.Load())
					begin := time.Now()
					c.Close()
					require.Zero(t, time.Since(begin))
					close(closed)
					using.Wait()
					ended := make(chan struct{})
					go func() { s.alive.Wait(); close(ended) }()
					select {
					case <-ended:
					case <-time.After(time.Minute):
						t.Error("a connection is still open")
						s.far[1].Close()
					}
				})
			})
		}
	}
}

// A client that can't be made leaves nothing open.
func TestOwnedClient_ThatFails(t *testing.T) {
	s := &pipeServer{beforeDial: func(int) {}, beforeHello: func(int) {}}
	opt := s.options()
	opt.ForceSingleClient, opt.DisableCache = true, false // the server knows no CLIENT TRACKING
	opt.SelectDB = 3                                      // nor SELECT
	opt.Dialer.Timeout = 100 * time.Millisecond
	_, err := newClient(context.Background(), opt, nil)
	require.Error(t, err)
	s.alive.Wait()
}

// A heldConn notes its end.
type heldConn struct {
	net.Conn
	closed bool
}

func (c *heldConn) Close() error { c.closed = true; return nil }

// The end of each connection is told once. All commands share the first one, and those that a
// command dials.
func TestConns_TellOfEnds(t *testing.T) {
	var told []string
	c := newConns(func(addr string, shared bool) { told = append(told, fmt.Sprint(addr, shared)) })
	for _, addr := range []string{"a", "b", "c"} {
		conn := c.add(&heldConn{}, addr, addr == "c")
		for range 2 {
			require.NoError(t, conn.Close())
		}
	}
	c.add(&heldConn{}, "d", true)
	c.close()
	require.Equal(t, []string{"atrue", "bfalse", "ctrue"}, told)
}

// When conns are closed, all connections that are open are closed, none is dialled, and a dial that
// ends later fails. A connection that was closed before is not kept.
func TestConns(t *testing.T) {
	c := newConns(nil)
	var made []*heldConn
	var during func()
	dial := c.track(func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
		made = append(made, &heldConn{})
		if during != nil {
			during()
		}
		return made[len(made)-1], nil
	})
	connect := func() (net.Conn, error) { return dial(t.Context(), "a:1", nil, nil) }
	for range 3 {
		_, err := connect()
		require.NoError(t, err)
	}
	conn, err := connect()
	require.NoError(t, err)
	require.Len(t, c.open, 4)
	require.NoError(t, conn.Close())
	require.True(t, made[3].closed)
	require.Len(t, c.open, 3, "the others")

	during = c.close
	_, err = connect()
	require.ErrorIs(t, err, net.ErrClosed)
	for _, conn := range made {
		require.True(t, conn.closed)
	}
	require.Len(t, made, 5)
	_, err = connect()
	require.ErrorIs(t, err, net.ErrClosed)
	require.Len(t, made, 5, "no dial after that")
}

// close ends a dial that heeds its context.
func TestConns_CloseEndsADial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newConns(nil)
		dial := c.track(func(ctx context.Context, _ string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
		var dialling sync.WaitGroup
		dialling.Go(func() {
			_, err := dial(t.Context(), "a:1", nil, nil)
			require.ErrorIs(t, err, context.Canceled)
		})
		synctest.Wait()
		c.close()
		dialling.Wait()
	})
}

// A brokenConn has been ended by the other side, after a text.
type brokenConn struct {
	net.Conn
	said io.Reader
}

func (c *brokenConn) Write([]byte) (int, error) {
	return 0, &net.OpError{Op: "write", Err: syscall.EPIPE}
}
func (c *brokenConn) Read(p []byte) (int, error)  { return c.said.Read(p) }
func (c *brokenConn) SetDeadline(time.Time) error { return nil }
func (c *brokenConn) Close() error                { return nil }

// A server may say why it ends a connection and end it before the client has written to it.
func TestConns_EndedBeforeTheFirstWrite(t *testing.T) {
	for said, want := range map[string]string{
		"":                                       "before it said anything",
		"-ERR max number of clients reached\r\n": "raise maxclients",
	} {
		opt := TuneClient(rueidis.ClientOption{InitAddress: []string{"a:1"}})
		opt.DialFn = func(string, *net.Dialer, *tls.Config) (net.Conn, error) {
			return &brokenConn{said: strings.NewReader(said)}, nil
		}
		_, err := Dial(opt, Options{})
		require.ErrorIs(t, err, ErrUnavailable)
		require.ErrorContains(t, err, want)
	}
}

// A write after Close fails, whatever the error of the connection is: else the client's writer would
// wait for ever.
func TestConns_WriteAfterClose(t *testing.T) {
	near, _ := net.Pipe()
	conn := newConns(nil).add(near, "a:1", false)
	require.NoError(t, conn.Close())
	_, err := conn.Write([]byte("PING"))
	require.ErrorIs(t, err, io.ErrClosedPipe)
}

// A peer that reads nothing does not hold up the end of a TLS connection.
func TestConns_TLS(t *testing.T) {
	web := httptest.NewTLSServer(nil) // it has a certificate
	defer web.Close()
	near, far := net.Pipe()
	server := tls.Server(far, &tls.Config{Certificates: web.TLS.Certificates, MaxVersion: tls.VersionTLS12})
	client := tls.Client(near, &tls.Config{InsecureSkipVerify: true})
	shaken := make(chan error)
	go func() { shaken <- server.Handshake() }()
	require.NoError(t, client.Handshake())
	require.NoError(t, <-shaken)
	c := newConns(nil)
	c.add(client, "a:1", false)
	begin := time.Now()
	c.close()
	require.Less(t, time.Since(begin), 3*time.Second)
	_, err := far.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
}

// The hub of a master that has left is closed when nobody watches a channel there.
func TestHubs_CloseThatOfAMasterThatLeft(t *testing.T) {
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{redistest.Start(t).Addr()}, DisableCache: true})
	require.NoError(t, err)
	defer client.Close()
	var master atomic.Value
	layout := func(context.Context) ([]wire.Shard, error) {
		return []wire.Shard{{Addr: master.Load().(string), Slots: [][2]int{{0, wire.Slots - 1}}}}, nil
	}
	master.Store("a:1")
	first, _ := layout(t.Context())
	lanes := wire.NewLanes(wire.Config{
		Manager: "m", Server: saying{}, Timeout: time.Second, Now: func() time.Duration { return 0 },
		Post: func(*core.Replies) {}, Error: func(*wire.Failure) error { return nil },
	}, &wire.Cluster{
		First: first, Layout: layout, Every: time.Millisecond, OneSlot: true,
		Moved: func() {}, Left: func() {}, Queued: func(core.Queued) {}, Gone: func(uint8) {},
	})
	defer lanes.Close()
	h := newHubs(lanes, func(string, bool) *notify.Hub {
		hub, err := notify.New(client, notify.Options{})
		require.NoError(t, err)
		return hub
	})
	requireWatches := func(hub *notify.Hub, n int) {
		t.Helper()
		require.Eventually(t, func() bool { return hub.Stats().Watches == n }, 10*time.Second, time.Millisecond)
	}
	move := func(to string) {
		t.Helper()
		master.Store(to)
		require.Eventually(t, func() bool { return lanes.Master("x") == to }, 10*time.Second, time.Millisecond)
	}

	atA := h.watch("x", false)
	hubA := h.at[hubKey{"a:1", false}]
	requireWatches(hubA, 1)
	move("b:1")
	h.closeLeft()
	require.Len(t, h.at, 1, "a channel is watched")
	atB := h.watch("x", false)
	hubB := h.at[hubKey{"b:1", false}]
	requireWatches(hubB, 1)
	atA.Close()
	requireWatches(hubA, 0)
	h.closeLeft()
	<-hubA.Done()
	require.Equal(t, map[hubKey]*notify.Hub{{"b:1", false}: hubB}, h.at)

	atB.Close()
	requireWatches(hubB, 0)
	h.closeLeft()
	require.Len(t, h.at, 1, "b serves slots")
	move("a:1")
	again := h.watch("x", false)
	require.NotSame(t, hubA, h.at[hubKey{"a:1", false}])
	_, err = again.Next(0).Await(t.Context())
	require.NoError(t, err)
	h.stop()
	h.closeLeft()
	require.Len(t, h.at, 2, "all are being closed")
	h.wait()
}
