package lockmgr_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/resp"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// A door lets a client reach its servers once it is open.
type door struct {
	open  atomic.Bool
	dials atomic.Int64
}

func (d *door) dial(ctx context.Context, addr string, dialer *net.Dialer, _ *tls.Config) (net.Conn, error) {
	d.dials.Add(1)
	if !d.open.Load() {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}
	return dialer.DialContext(ctx, "tcp", addr)
}

// laterScenes are servers of each topology.
func laterScenes(t *testing.T) map[string]func(t *testing.T) (opt rueidis.ClientOption, masterOf func(name string) *redistest.Server) {
	return map[string]func(t *testing.T) (rueidis.ClientOption, func(string) *redistest.Server){
		"a server": func(t *testing.T) (rueidis.ClientOption, func(string) *redistest.Server) {
			s := redistest.Start(t)
			return rueidis.ClientOption{InitAddress: []string{s.Addr()}}, func(string) *redistest.Server { return s }
		},
		"Sentinels": func(t *testing.T) (rueidis.ClientOption, func(string) *redistest.Server) {
			w := redistest.StartSentinel(t, 0)
			opt := rueidis.ClientOption{InitAddress: w.Addrs(), Sentinel: rueidis.SentinelOption{MasterSet: redistest.MasterSet}}
			return opt, func(string) *redistest.Server { return w.Master() }
		},
		"a cluster": func(t *testing.T) (rueidis.ClientOption, func(string) *redistest.Server) {
			c := redistest.StartCluster(t, 3, 0)
			return rueidis.ClientOption{InitAddress: c.Addrs()[:2]}, c.Owner
		},
	}
}

// A manager that connects later makes requests fail like those for a server that is away, and
// grants them if the server comes in time. From then on it is a manager like others.
func TestConnectLater(t *testing.T) {
	t.Parallel()
	for name, scene := range laterScenes(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := faults.Patient(t)
			opt, masterOf := scene(t)
			plain := opt
			d := new(door)
			opt.DialCtxFn = d.dial
			away := dialOption(t, opt, lockmgr.Options{ConnectLater: true, RetryTime: 200 * time.Millisecond, Lease: 3 * time.Second})
			m := dialOption(t, opt, lockmgr.Options{ConnectLater: true, RetryTime: time.Hour})
			if name == "a server" {
				require.Zero(t, d.dials.Load(), "Dial does no I/O")
			}

			for what, err := range map[string]error{
				"Lock":    errOf(away.Lock(ctx, "a")),
				"TryLock": errOf(away.TryLock(ctx, "a")),
				"Check":   errOf(away.Check(ctx, "")),
				"Inspect": errOf(away.Inspect(ctx, "a")),
				"a wait":  errOf(m.Lock(ctx, "a", lockmgr.MaxWait(100*time.Millisecond))),
			} {
				require.ErrorIs(t, err, lockmgr.ErrUnavailable, what)
				require.ErrorIs(t, err, syscall.ECONNREFUSED, what)
				require.True(t, lockmgr.Temporary(err), what)
			}

			waiting := make(map[string]func() *lockmgr.Lock)
			for _, name := range []string{"a", "b", "c", "d"} { // at several masters of a cluster
				f := m.LockAsync(name)
				waiting[name] = func() *lockmgr.Lock { return mustAwait(t, f) }
			}
			d.open.Store(true)
			other := dialOption(t, plain, lockmgr.Options{})
			question := "NUMSUB"
			if name == "a cluster" {
				question = "SHARDNUMSUB"
			}
			awaitSubscribed := func(name string, n string) {
				faults.Eventually(t, func() bool {
					return strings.HasSuffix(faults.Do(t, masterOf(name), "PUBSUB", question, faults.Channel(name)), "\n"+n)
				})
			}
			for name, await := range waiting {
				l := await()
				require.ErrorIs(t, errOf(other.TryLock(ctx, name)), lockmgr.ErrNotAcquired)
				f := other.LockAsync(name)
				awaitSubscribed(name, "1")
				mustUnlock(t, l)
				held := mustAwait(t, f)
				f = m.LockAsync(name)
				awaitSubscribed(name, "2")
				mustUnlock(t, held)
				mustUnlock(t, mustAwait(t, f))
			}
			require.NoError(t, errOf(m.Check(ctx, "")))
			now := dialOption(t, plain, lockmgr.Options{ConnectLater: true, CommandTimeout: 9 * time.Second})
			mustUnlock(t, must(now.TryLock(ctx, "z"))(t, "a command waits for the first try to connect"))
			faults.Eventually(t, func() bool { return errOf(away.Inspect(ctx, "a")) == nil })
		})
	}
}

// Close ends a manager that has never been connected, though dials or servers hang.
func TestConnectLater_Close(t *testing.T) {
	t.Parallel()
	hangs := func(ctx context.Context, _ string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	silent := rawServer(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
	talks := func(ctx context.Context, _ string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
		return d.DialContext(ctx, "tcp", silent)
	}
	for what, dial := range map[string]func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error){
		"refused": new(door).dial, "hanging": hangs, "silent": talks,
	} {
		for name, opt := range map[string]rueidis.ClientOption{
			"a server":  {InitAddress: []string{"127.0.0.1:1"}},
			"Sentinels": {InitAddress: []string{"127.0.0.1:1"}, Sentinel: rueidis.SentinelOption{MasterSet: "main"}},
			"a cluster": {InitAddress: []string{"127.0.0.1:1", "127.0.0.1:2"}},
		} {
			t.Run(what+" "+name, func(t *testing.T) {
				t.Parallel()
				opt.DialCtxFn, opt.Dialer.Timeout, opt.ConnWriteTimeout = dial, time.Hour, time.Hour
				m := must(lockmgr.Dial(opt, lockmgr.Options{ConnectLater: true, CommandTimeout: 100 * time.Millisecond}))(t)
				f := m.LockAsync("a")
				_, err := m.TryLock(ctx, "b") // a dial is under way
				require.ErrorIs(t, err, lockmgr.ErrUnavailable)
				mustClose(t, m)
				require.ErrorIs(t, errOf(f.Result()), lockmgr.ErrClosed)
			})
		}
	}
}

// What the first connection finds is told by each request.
func TestConnectLater_WrongServers(t *testing.T) {
	t.Parallel()
	ctx := faults.Patient(t)
	s, c, w := redistest.Start(t).Unrestricted(), redistest.StartCluster(t, 3, 0), redistest.StartSentinel(t, 0)
	for what, tt := range map[string]struct {
		opt  rueidis.ClientOption
		want error
		hint string
	}{
		"a node of a cluster": {rueidis.ClientOption{InitAddress: c.Addrs()[:1]}, lockmgr.ErrTopology, "the same twice"},
		"a node twice":        {rueidis.ClientOption{InitAddress: []string{c.Addrs()[0], c.Addrs()[0]}}, nil, ""},
		"two servers":         {rueidis.ClientOption{InitAddress: []string{s.Addr(), s.Addr()}}, lockmgr.ErrTopology, "give one address"},
		"a Sentinel":          {rueidis.ClientOption{InitAddress: w.Addrs()[:1]}, lockmgr.ErrTopology, "MasterSet"},
		"an unknown master":   {rueidis.ClientOption{InitAddress: w.Addrs(), Sentinel: rueidis.SentinelOption{MasterSet: "nobody"}}, lockmgr.ErrTopology, "SENTINEL MASTERS"},
		"a wrong password":    {rueidis.ClientOption{InitAddress: []string{s.Addr()}, Username: "nobody", Password: "wrong"}, lockmgr.ErrPermission, ""},
		"one more password":   {rueidis.ClientOption{InitAddress: c.Addrs(), Username: "nobody", Password: "wrong"}, lockmgr.ErrPermission, ""},
		"a database":          {rueidis.ClientOption{InitAddress: []string{s.Addr()}, SelectDB: 9999}, lockmgr.ErrTopology, "fewer databases"},
	} {
		t.Run(what, func(t *testing.T) {
			m := dialOption(t, tt.opt, lockmgr.Options{ConnectLater: true, RetryTime: time.Hour})
			for _, name := range []string{"a", "b", "c"} {
				l, err := m.Lock(ctx, name)
				if tt.want == nil {
					require.NoError(t, err)
					mustUnlock(t, l)
					continue
				}
				require.ErrorIs(t, err, tt.want)
				require.ErrorContains(t, err, tt.hint)
			}
		})
	}
	m := dialOption(t, rueidis.ClientOption{InitAddress: c.Addrs()[:1], ForceSingleClient: true}, lockmgr.Options{ConnectLater: true})
	require.ErrorIs(t, errOf(m.Check(ctx, "")), lockmgr.ErrTopology, "a server of three by its own address")
	for _, bad := range []rueidis.ClientOption{{}, {InitAddress: []string{"redis://a"}}} {
		require.ErrorIs(t, errOf(lockmgr.Dial(bad, lockmgr.Options{ConnectLater: true})), lockmgr.ErrInvalidOption, "told at once")
	}
}

// Of addresses that belong to several clusters, the majority counts, also if another comes first.
func TestConnectLater_ASeedOfAnotherCluster(t *testing.T) {
	t.Parallel()
	c, stranger := redistest.StartCluster(t, 3, 0), startCluster(t)
	m := dialOption(t, rueidis.ClientOption{InitAddress: append([]string{stranger.Addr()}, c.Addrs()...)}, lockmgr.Options{ConnectLater: true})
	for _, name := range []string{"a", "b", "c", "d"} {
		l := mustLock(t, m, name)
		require.Equal(t, "1", faults.Do(t, c.Owner(name), "EXISTS", name))
		require.Equal(t, "0", faults.Do(t, stranger, "EXISTS", name))
		mustUnlock(t, l)
	}
}

// oldCluster is a node of a cluster of version 6.2 that has all slots.
func oldCluster(t *testing.T) (addr string) {
	hello := "%3\r\n+server\r\n+redis\r\n+version\r\n+6.2.0\r\n+proto\r\n:3\r\n"
	return rawServer(t, func(c net.Conn) {
		own := c.LocalAddr().(*net.TCPAddr)
		resp.Serve(c, func(args []string) string {
			switch strings.ToUpper(strings.Join(args[:min(2, len(args))], " ")) {
			case "HELLO 3":
				return hello
			case "CLUSTER SLOTS":
				return fmt.Sprintf("*1\r\n*3\r\n:0\r\n:16383\r\n*3\r\n+%s\r\n:%d\r\n+A\r\n", own.IP, own.Port)
			case "CLUSTER MYID":
				return "+A\r\n"
			case "PUBSUB SHARDNUMSUB":
				return "-ERR Unknown PUBSUB subcommand or wrong number of arguments for 'SHARDNUMSUB'\r\n"
			}
			return "-ERR unknown command '" + args[0] + "'\r\n"
		})
	})
}

// A manager that connects later can't choose its channels by the version of the cluster.
func TestConnectLater_OldCluster(t *testing.T) {
	t.Parallel()
	ctx := faults.Patient(t)
	addr := oldCluster(t)
	opt := rueidis.ClientOption{InitAddress: []string{addr, addr}, DisableCache: true}
	_, err := dialOption(t, opt, lockmgr.Options{ConnectLater: true, RetryTime: time.Hour}).Lock(ctx, "a")
	requireServerError(t, lockmgr.ErrTopology, err, "ClassicChannels")
	_, err = dialOption(t, opt, lockmgr.Options{ConnectLater: true, RetryTime: time.Hour, Channels: lockmgr.ClassicChannels}).Lock(ctx, "a")
	require.ErrorIs(t, err, lockmgr.ErrServer, "the command of the lock is sent")
}
