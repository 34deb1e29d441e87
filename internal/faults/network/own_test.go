package network

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/faultproxy"
	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// awaitOwn locks and unlocks until the commands of a manager travel on a connection that its sender
// has for itself, and returns that connection. The manager must be the only one behind the proxy. A
// renewal travels on the connection that all share, which may be another one than before.
func awaitOwn(t testing.TB, p *faultproxy.Proxy, m *lockmgr.Manager) *faultproxy.Conn {
	t.Helper()
	observe := func(what string, used *atomic.Pointer[faultproxy.Conn]) *faultproxy.Rule {
		return p.On(script(t, what).Where(func(c faultproxy.Cmd) bool {
			used.Store(c.Conn)
			return false
		})).Observe()
	}
	var released, renewed atomic.Pointer[faultproxy.Conn]
	defer observe("release", &released).Remove()
	defer observe("renew", &renewed).Remove()
	limit := faults.Patient(t)
	// A busy machine may be slower than the time-out of commands. Then it is tried again.
	try := func(extend bool) (ok bool) {
		l, err := m.Lock(limit, t.Name())
		if err == nil && extend {
			err = l.Extend(limit, lease)
		}
		if l != nil {
			err = errors.Join(err, l.Unlock(limit))
		}
		if err != nil {
			require.ErrorIs(t, err, lockmgr.ErrUnavailable)
		}
		return err == nil
	}
	for limit.Err() == nil {
		if !try(released.Load() == nil) {
			continue
		}
		last := released.Load()
		if last != renewed.Load() && try(true) && last != renewed.Load() {
			return last
		}
	}
	require.FailNow(t, "the sender has no connection of its own")
	return nil
}

// lasting are options by which a sender uses its own connection again after a pause of a quarter of
// a second.
func lasting(addr string) rueidis.ClientOption {
	opt := hasty(addr)
	opt.Dialer.KeepAlive = time.Second
	return opt
}

// patient are options by which a client also waits longer for an answer than a test does.
func patient(addr string) rueidis.ClientOption {
	opt := lasting(addr)
	opt.ConnWriteTimeout = 2 * faults.Patience
	return opt
}

// strike plans a fault and acts, until the fault has struck. On a busy machine a sender may have
// given its connection up before.
func strike(t testing.TB, plan func() *faultproxy.Rule, act func()) *faultproxy.Rule {
	t.Helper()
	for limit := faults.Patient(t); limit.Err() == nil; {
		r := plan()
		act()
		select {
		case <-r.Fired():
			return r
		default:
			r.Remove()
		}
	}
	require.FailNow(t, "the fault did not strike")
	return nil
}

// Whatever happens to a sender's own connection, the lock is granted and given back, and a command
// that was held back changes nothing later.
func TestOwnConnection_Faults(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	for what, f := range map[string]ruleOf{
		"cut before the command": faultproxy.Fault.CutBefore,
		"cut after the command":  faultproxy.Fault.CutAfterCommand,
		"reply lost":             faultproxy.Fault.LoseReplyAndCut,
		"black hole":             faultproxy.Fault.BlackHole,
		"late":                   func(f faultproxy.Fault) *faultproxy.Rule { return f.HoldBack(-1) },
		"reply held":             faultproxy.Fault.HoldReply,
	} {
		for _, kind := range []string{"acquire", "release"} {
			t.Run(what+", "+kind, func(t *testing.T) {
				t.Parallel()
				p := faultproxy.Start(t, s.Addr())
				m, other := dialBy(t, lasting(p.Addr()), lateOptions()), dial(t, s.Addr(), lateOptions())
				name := what + kind
				r := strike(t, func() *faultproxy.Rule {
					return f(p.On(script(t, kind).OnConn(awaitOwn(t, p, m)).Nth(1)))
				}, func() {
					l := faults.Await(t, m.LockAsync(name))
					requireTaken(t, other, name)
					faults.Release(t, l)
				})
				next := faults.Await(t, other.LockAsync(name))
				if what == "late" {
					runLate(t, r)
				}
				r.Release()
				require.NoError(t, next.Extend(faults.Patient(t), time.Second), "a late command took the lock away")
				faults.Release(t, next)
				awaitOwn(t, p, m)
				requireNothingLeft(t, s, name, m, other)
			})
		}
	}
}

// A connection that broke while nobody locked costs the next caller nothing: TryLock does not try
// twice.
func TestOwnConnection_BrokenWhileIdle(t *testing.T) {
	_, p := startProxied(t)
	m := dialBy(t, patient(p.Addr()), lateOptions()) // the client is slow to notice
	own := awaitOwn(t, p, m)
	own.Cut()
	time.Sleep(300 * time.Millisecond) // the pause after which a connection is not trusted
	faults.Release(t, redistest.Must(m.TryLock(faults.Patient(t), "a"))(t))
	awaitOwn(t, p, m)
}

// The client's own time-out for writes does not cut a command short.
func TestOwnConnection_SlowServer(t *testing.T) {
	_, p := startProxied(t)
	opt := lasting(p.Addr())
	opt.ConnWriteTimeout = timeout / 4
	m := dialBy(t, opt, lockmgr.Options{Lease: 4 * faults.Patience, CommandTimeout: faults.Patience, Linger: -1})
	strike(t, func() *faultproxy.Rule {
		return p.On(script(t, "acquire").OnConn(awaitOwn(t, p, m)).Nth(1)).DelayReply(timeout)
	}, func() {
		faults.Release(t, redistest.Must(m.TryLock(faults.Patient(t), "a"))(t))
	})
}

// A sender reads its own connection itself: nobody reads it while nothing is asked. The connections
// that all share have a reader of their own.
func TestOwnConnection_HasNoReader(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	var mu sync.Mutex
	var conns []*readConn
	opt := lasting(s.Addr())
	opt.DialCtxFn = func(ctx context.Context, addr string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
		c, err := d.DialContext(ctx, "tcp", addr)
		if err != nil {
			return nil, err
		}
		mu.Lock()
		defer mu.Unlock()
		conns = append(conns, &readConn{Conn: c})
		return conns[len(conns)-1], nil
	}
	m := dialBy(t, opt, lockmgr.Options{Linger: -1})
	reading := func() (yes, no int) {
		mu.Lock()
		defer mu.Unlock()
		for _, c := range conns {
			switch {
			case c.closed.Load():
			case c.reading.Load():
				yes++
			default:
				no++
			}
		}
		return yes, no
	}
	quiet := 0 // looks in a row
	require.Eventually(t, func() bool {
		faults.Release(t, take(t, m, "a"))
		time.Sleep(time.Millisecond) // for a reader to come back to its read
		if yes, no := reading(); yes > 0 && no == 1 {
			quiet++
		} else {
			quiet = 0
		}
		return quiet == 20
	}, faults.Patience, time.Millisecond)
}

// A connection that is not let in is not used, and its refusal is nobody's error.
func TestOwnConnection_Refused(t *testing.T) {
	_, p := startProxied(t)
	m := dialBy(t, calm(p.Addr()), lockmgr.Options{Linger: -1})
	faults.Release(t, take(t, m, "a"))
	r := p.On(faultproxy.Command("HELLO")).EditReply(func(faultproxy.Cmd, []byte) []byte {
		return []byte("-WRONGPASS invalid username-password pair or user is disabled.\r\n")
	})
	for after := 0; after < 200; {
		faults.Release(t, redistest.Must(m.TryLock(faults.Patient(t), "a"))(t))
		if r.Count() > 0 {
			after++
		}
	}
}

// Each new connection of a sender asks for the credentials of then. A password that is replaced
// costs no command: connections that are open stay, and new ones know the new one.
func TestOwnConnection_Credentials(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t).Unrestricted()
	p := faultproxy.Start(t, s.Addr())
	var password atomic.Value
	var calls atomic.Int64
	setPassword := func(word string) {
		faults.Do(t, s, "ACL", "SETUSER", "locker", "on", "resetpass", ">"+word, "~*", "&*", "+@all")
		password.Store(word)
	}
	setPassword("first")
	opt := patient(p.Addr())
	opt.AuthCredentialsFn = func(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
		calls.Add(1)
		return rueidis.AuthCredentials{Username: "locker", Password: password.Load().(string)}, nil
	}
	m := dialBy(t, opt, lateOptions())
	own := awaitOwn(t, p, m)
	before := calls.Load()
	require.GreaterOrEqual(t, before, int64(2), "each connection asks")

	setPassword("second")
	l := take(t, m, "a")
	require.NoError(t, l.Unlock(faults.Patient(t)), "open connections stay")
	own.Cut()
	awaitOwn(t, p, m)
	require.Greater(t, calls.Load(), before)
	for line := range strings.Lines(faults.Do(t, s, "CLIENT", "LIST")) {
		require.True(t, strings.Contains(line, " user=locker ") || strings.Contains(line, "cmd=client"), line)
	}
}

// A readConn knows whether somebody reads from it.
type readConn struct {
	net.Conn
	reading, closed atomic.Bool
}

func (c *readConn) Close() error {
	c.closed.Store(true)
	return c.Conn.Close()
}

func (c *readConn) Read(p []byte) (int, error) {
	c.reading.Store(true)
	defer c.reading.Store(false)
	return c.Conn.Read(p)
}
