package goredis

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/faultproxy"
	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/internal/leakcheck"
	"github.com/holdfast-go/holdfast/internal/readme"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

func TestMain(m *testing.M) { leakcheck.Main(m) }

func TestReadme_CodeIsInTheExample(t *testing.T) { readme.Check(t) }

// managerFor dials and closes the manager when t ends.
func managerFor[O Options](t *testing.T, opt O) *lockmgr.Manager {
	t.Helper()
	m := redistest.Must(Dial(opt, lockmgr.Options{RetryTime: 20 * time.Second}))(t)
	faults.CloseAtEnd(t, m)
	return m
}

// requireLock takes and releases a lock.
func requireLock(t *testing.T, m *lockmgr.Manager, name string) {
	t.Helper()
	faults.Release(t, faults.Take(t, m, name))
}

// A client of go-redis with the same options sees the lock: it is the same user and the same
// database of the same server.
func TestDial_SameUserAndDatabase(t *testing.T) {
	s := redistest.Start(t).Unrestricted()
	faults.Do(t, s, "ACL", "SETUSER", "anna", "on", ">secret", "~*", "&*", "+@all")
	for name, protocol := range map[string]int{"RESP3": 0, "RESP2": 2} {
		t.Run(name, func(t *testing.T) {
			opt := &redis.Options{
				Addr: s.Addr(), Username: "anna", Password: "secret", DB: 2, ClientName: "orders-" + name, Protocol: protocol,
			}
			mine := *opt
			mine.ClientName = "another"
			client := redis.NewClient(&mine)
			defer client.Close()
			m := managerFor(t, opt)
			l := faults.Take(t, m, "a")
			require.EqualValues(t, 1, redistest.Must(client.Exists(t.Context(), "a").Result())(t))

			ours := 0
			for line := range strings.Lines(faults.Do(t, s, "CLIENT", "LIST")) {
				if strings.Contains(line, "name=orders-"+name+" ") {
					ours++
					require.Contains(t, line, " user=anna ")
					require.Contains(t, line, " db=2 ")
				}
			}
			require.Positive(t, ours)

			// Another manager that waits is woken, with both protocols.
			waiting := managerFor(t, opt).LockAsync("a")
			faults.Eventually(t, func() bool { return redistest.Must(m.Inspect(t.Context(), "a"))(t).Waiting > 0 })
			faults.Release(t, l)
			faults.Release(t, faults.Await(t, waiting))
		})
	}
	_, err := Dial(&redis.Options{Addr: s.Addr(), Username: "anna", Password: "wrong"}, lockmgr.Options{})
	require.ErrorIs(t, err, lockmgr.ErrPermission)
}

// New connections ask for the credentials of then.
func TestDial_CredentialsRotate(t *testing.T) {
	for name, provide := range map[string]func(opt *redis.Options, password func() string){
		"CredentialsProvider": func(opt *redis.Options, password func() string) {
			opt.CredentialsProvider = func() (string, string) { return "anna", password() }
		},
		"CredentialsProviderContext": func(opt *redis.Options, password func() string) {
			opt.CredentialsProvider = func() (string, string) { return "nobody", "" } // must not count
			opt.CredentialsProviderContext = func(ctx context.Context) (string, string, error) {
				if _, ok := ctx.Deadline(); !ok {
					return "", "", context.Canceled
				}
				return "anna", password(), nil
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := redistest.Start(t).Unrestricted()
			faults.Do(t, s, "ACL", "SETUSER", "anna", "on", ">first", "~*", "&*", "+@all")
			var password atomic.Value
			password.Store("first")
			opt := &redis.Options{Addr: s.Addr(), Password: "must not count"}
			provide(opt, func() string { return password.Load().(string) })
			m := managerFor(t, opt)
			requireLock(t, m, "a")

			password.Store("second")
			faults.Do(t, s, "ACL", "SETUSER", "anna", "resetpass", ">second")
			faults.Do(t, s, "CLIENT", "KILL", "USER", "anna")
			requireLock(t, m, "a")
		})
	}
}

// A user without a password logs in nowhere, as in go-redis.
func TestDial_UserWithoutAPassword(t *testing.T) {
	s := redistest.Start(t).Unrestricted()
	faults.Do(t, s, "ACL", "SETUSER", "anna", "on", ">secret", "~*", "&*", "+@all")
	for name, opt := range map[string]*redis.Options{
		"Username":            {Username: "anna"},
		"unknown Username":    {Username: "nobody", Protocol: 2},
		"CredentialsProvider": {CredentialsProvider: func() (string, string) { return "anna", "" }},
		"CredentialsProviderContext": {CredentialsProviderContext: func(context.Context) (string, string, error) {
			return "anna", "", nil
		}},
	} {
		t.Run(name, func(t *testing.T) {
			opt.Addr = s.Addr()
			client := redis.NewClient(opt)
			defer client.Close()
			require.Equal(t, "default", redistest.Must(client.Do(t.Context(), "ACL", "WHOAMI").Text())(t))
			requireLock(t, managerFor(t, opt), "a")
			require.NotContains(t, faults.Do(t, s, "CLIENT", "LIST"), "user=anna")
		})
	}
}

// The error of a provider is told as what it is, at the first connection and at a later one.
func TestDial_ProviderFails(t *testing.T) {
	s := redistest.Start(t).Unrestricted()
	sealed := fmt.Errorf("vault is sealed: %w", context.DeadlineExceeded)
	var fails atomic.Bool
	provide := func(context.Context) (string, string, error) {
		if fails.Load() {
			return "", "", sealed
		}
		return "", "", nil
	}
	requireTold := func(err error) {
		t.Helper()
		require.ErrorIs(t, err, sealed)
		require.ErrorIs(t, err, lockmgr.ErrUnavailable)
		require.ErrorContains(t, err, "CredentialsProviderContext: vault is sealed")
		require.ErrorContains(t, err, "the function that gives the user and the password failed")
		require.NotContains(t, err.Error(), "listening")
	}
	opt := &redis.Options{Addr: s.Addr(), CredentialsProviderContext: provide}
	m, err := Dial(opt, lockmgr.Options{RetryTime: 300 * time.Millisecond, CommandTimeout: 500 * time.Millisecond})
	require.NoError(t, err)
	defer m.Close(context.Background())
	requireLock(t, m, "a")
	fails.Store(true)
	faults.Do(t, s, "CLIENT", "KILL", "TYPE", "normal")
	_, err = m.Lock(t.Context(), "a")
	requireTold(err)
	_, err = Dial(opt, lockmgr.Options{})
	requireTold(err)
	_, err = Dial(&redis.ClusterOptions{Addrs: []string{s.Addr(), s.Addr()}, CredentialsProviderContext: provide}, lockmgr.Options{})
	require.ErrorIs(t, err, sealed)
	require.NotContains(t, err.Error(), "listening")

	fails.Store(false)
	faults.Eventually(t, func() bool {
		l, err := m.TryLock(t.Context(), "b")
		return err == nil && l.Unlock(t.Context()) == nil
	})
}

// A dialer of the caller is asked for each connection, with the network and the address. Its
// context ends at the dial time-out.
func TestDial_Dialer(t *testing.T) {
	s := redistest.Start(t)
	var asked atomic.Int32
	m := managerFor(t, &redis.Options{
		Addr: "somewhere:1", Network: "tcp4",
		Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			asked.Add(1)
			deadline, ok := ctx.Deadline()
			if !ok || time.Until(deadline) > 9*time.Second || network != "tcp4" || addr != "somewhere:1" {
				return nil, net.ErrClosed
			}
			return (&net.Dialer{}).DialContext(ctx, network, s.Addr())
		},
		DialTimeout: 9 * time.Second,
	})
	requireLock(t, m, "a")
	require.Positive(t, asked.Load())
}

func TestDial_UnixSocket(t *testing.T) {
	dir, err := os.MkdirTemp("", "hf") // t.TempDir may be too long for a socket
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "s")
	redistest.Start(t, "--unixsocket", path)
	requireLock(t, managerFor(t, &redis.Options{Network: "unix", Addr: path}), "a")
	requireLock(t, managerFor(t, &redis.Options{Addr: path}), "a")
}

// TLS is used when TLSConfig is set, also with the options that a client of go-redis has completed:
// they have a Dialer, which does TLS itself.
func TestDial_TLS(t *testing.T) {
	web := httptest.NewTLSServer(nil) // it has a certificate
	defer web.Close()
	addr, roots := faultproxy.Start(t, redistest.Start(t).Addr(), faultproxy.WithTLS(web.TLS)).Addr(), x509.NewCertPool()
	roots.AddCert(web.Certificate())
	opt := &redis.Options{Addr: addr, TLSConfig: &tls.Config{RootCAs: roots}}
	requireLock(t, managerFor(t, opt), "a")

	client := redis.NewClient(opt)
	defer client.Close()
	require.NotNil(t, client.Options().Dialer)
	requireLock(t, managerFor(t, client.Options()), "a")

	_, err := Dial(&redis.Options{Addr: addr, TLSConfig: &tls.Config{}}, lockmgr.Options{})
	require.Error(t, err, "the certificate is not checked")
	_, err = Dial(&redis.Options{Addr: addr}, lockmgr.Options{})
	require.Error(t, err)
}

func TestDial_Cluster(t *testing.T) {
	addrs := redistest.StartCluster(t, 3, 0).Addrs()
	for _, m := range []*lockmgr.Manager{
		managerFor(t, &redis.ClusterOptions{Addrs: addrs}),
		managerFor(t, &redis.UniversalOptions{Addrs: addrs}),
		managerFor(t, &redis.UniversalOptions{Addrs: addrs[:1], IsClusterMode: true}),
	} {
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			requireLock(t, m, name)
		}
	}
}

func TestDial_Sentinel(t *testing.T) {
	w := redistest.StartSentinel(t, 1)
	for _, m := range []*lockmgr.Manager{
		managerFor(t, &redis.FailoverOptions{MasterName: redistest.MasterSet, SentinelAddrs: w.Addrs()}),
		managerFor(t, &redis.UniversalOptions{MasterName: redistest.MasterSet, Addrs: w.Addrs()}),
	} {
		requireLock(t, m, "a")
	}
}
