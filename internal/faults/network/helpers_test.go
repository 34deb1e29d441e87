package network

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/faultproxy"
	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/internal/redistest"
	lua "github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/lockmgr"
)

var ctx = context.Background()

// dial connects a manager, and closes it at the end of the test. What a fault keeps from being
// released then may be left to expire. Unless a test asks for less, trouble is not told before
// Patience ends: a busy machine may be slower than the time-outs here for seconds.
func dial(t testing.TB, addr string, o lockmgr.Options) *lockmgr.Manager {
	t.Helper()
	return dialBy(t, hasty(addr), o)
}

func dialBy(t testing.TB, opt rueidis.ClientOption, o lockmgr.Options) *lockmgr.Manager {
	t.Helper()
	if o.RetryTime == 0 {
		o.RetryTime = faults.Patience
	}
	m, err := lockmgr.Dial(opt, o)
	for end := time.Now().Add(faults.Patience); err != nil && time.Now().Before(end); {
		m, err = lockmgr.Dial(opt, o) // a busy machine may be slower than its time-outs
	}
	require.NoError(t, err)
	t.Cleanup(func() { _ = m.Close(faults.Patient(t)) })
	return m
}

// hasty are options by which a client soon finds out that a connection is silent.
func hasty(addr string) rueidis.ClientOption {
	opt := rueidis.ClientOption{InitAddress: []string{addr}, ConnWriteTimeout: 300 * time.Millisecond}
	opt.Dialer.KeepAlive = 50 * time.Millisecond
	opt.Dialer.Timeout = time.Second
	return opt
}

// calm are options by which a client waits longer for an answer than a test does.
func calm(addr string) rueidis.ClientOption {
	opt := hasty(addr)
	opt.ConnWriteTimeout = 2 * faults.Patience
	return opt
}

// A lease that a test waits for the end of, and the time-out of commands that goes with it: long
// enough for a machine that is busy.
const (
	lease   = 1200 * time.Millisecond
	timeout = 350 * time.Millisecond
)

// scripts are the kinds of commands that concern one lock, in the order of its life.
var scripts = []string{"acquire", "transfer", "renew", "release"}

// script matches the calls of one of them.
func script(t testing.TB, kind string) faultproxy.Match {
	return faultproxy.Script(lua.Text(kind))
}

// startServer starts a server that knows the scripts, so that each is sent once.
func startServer(t testing.TB) *redistest.Server {
	t.Helper()
	s := redistest.Start(t)
	for _, kind := range append([]string{"several_acquire", "several_renew", "several_release",
		"permits_acquire", "permits_transfer", "permits_renew", "permits_release"}, scripts...) {
		faults.Do(t, s, "SCRIPT", "LOAD", lua.Text(kind))
	}
	return s
}

// startProxied starts such a server, and a proxy in front of it. The test is parallel.
func startProxied(t *testing.T) (*redistest.Server, *faultproxy.Proxy) {
	t.Helper()
	t.Parallel()
	s := startServer(t)
	return s, faultproxy.Start(t, s.Addr())
}

// A ruleOf makes a rule of what befalls a command.
type ruleOf func(faultproxy.Fault) *faultproxy.Rule

// eachFault runs a test for each of some faults, with a proxy of its own. The name of the fault is
// also that of a lock.
func eachFault[F any](t *testing.T, faults map[string]F, test func(t *testing.T, s *redistest.Server, p *faultproxy.Proxy, what string, fault F)) {
	t.Parallel()
	s := startServer(t)
	for what, fault := range faults {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			test(t, s, faultproxy.Start(t, s.Addr()), what, fault)
		})
	}
}

// startTime is the zero of the clock that all managers of a test share.
var startTime = time.Now()

func now() time.Duration { return time.Since(startTime) }

// A belief is the time in which an owner was seen to hold a lock: from a clock reading after the
// first time that it was valid, to one before the last time. So the owner was sure of it all the
// time between.
type belief struct {
	lock     *lockmgr.Lock
	owner    string
	from, to time.Duration
}

// beliefs are those about one name.
type beliefs struct {
	mu  sync.Mutex
	all []*belief
}

// begin is called with a fresh grant.
func (b *beliefs) begin(l *lockmgr.Lock) *belief {
	one := &belief{lock: l, owner: l.HolderID(), from: -1}
	one.look()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all = append(b.all, one)
	return one
}

// look samples a belief.
func (b *belief) look() bool {
	before := now()
	valid := b.lock.Valid()
	switch {
	case !valid:
	case b.from < 0:
		b.from = now()
		b.to = b.from
	default:
		b.to = max(b.to, before)
	}
	return valid
}

// lookUntil samples until the lock is lost or done is closed.
func (b *belief) lookUntil(done <-chan struct{}) {
	tick := time.NewTicker(500 * time.Microsecond)
	defer tick.Stop()
	for end := now() + faults.Patience; b.look() && now() < end; {
		select {
		case <-done:
			return
		case <-tick.C:
		}
	}
}

// requireApart checks that no two owners believed to hold at the same time.
func (b *beliefs) requireApart(t testing.TB) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	held := slices.DeleteFunc(slices.Clone(b.all), func(x *belief) bool { return x.from < 0 })
	slices.SortFunc(held, func(x, y *belief) int { return int(x.from - y.from) })
	for i := 1; i < len(held); i++ {
		x, y := held[i-1], held[i]
		require.LessOrEqual(t, x.to, y.from, "%s was valid until %v, %s from %v", x.owner, x.to, y.owner, y.from)
		y.to = max(x.to, y.to)
	}
}

// requireTyped checks that an error is nil or of a kind that users can match.
func requireTyped(t testing.TB, err error) {
	t.Helper()
	if err == nil {
		return
	}
	for _, kind := range []error{
		lockmgr.ErrUnavailable, lockmgr.ErrLeaseLost, lockmgr.ErrNotAcquired, lockmgr.ErrServer, lockmgr.ErrPermission,
		lockmgr.ErrReadOnly, lockmgr.ErrWrongType, lockmgr.ErrOutOfMemory, lockmgr.ErrClosed,
	} {
		if errors.Is(err, kind) {
			return
		}
	}
	require.FailNow(t, "an error of no documented kind", "%T %v", err, err)
}

// requireNothingLeft waits until nothing of a name is on the server, nor in the managers.
func requireNothingLeft(t testing.TB, s *redistest.Server, name string, managers ...*lockmgr.Manager) {
	t.Helper()
	state := func() (string, bool) {
		left := faults.Do(t, s, "EXISTS", name) + " key, subscribers " + strings.ReplaceAll(faults.Do(t, s, "PUBSUB", "NUMSUB", faults.Channel(name)), "\n", " ")
		ok := left == "0 key, subscribers "+faults.Channel(name)+" 0"
		for _, m := range managers {
			st := m.Stats()
			left += fmt.Sprintf(", %d names %d pending %d subscriptions", st.Locks, st.Pending, st.Subscriptions)
			ok = ok && st.Locks == 0 && st.Pending == 0 && st.Subscriptions == 0
		}
		return left, ok
	}
	for deadline := time.Now().Add(faults.Patience); ; time.Sleep(2 * time.Millisecond) {
		left, ok := state()
		if ok {
			return
		}
		if time.Now().After(deadline) {
			require.FailNow(t, "something is left", "%s", left)
		}
	}
}

// take gets a free lock from a manager that is told of trouble so soon that a busy machine may be
// enough.
func take(t testing.TB, m *lockmgr.Manager, name string) *lockmgr.Lock {
	t.Helper()
	limit := faults.Patient(t)
	l, err := m.Lock(limit, name)
	for errors.Is(err, lockmgr.ErrUnavailable) && limit.Err() == nil {
		l, err = m.Lock(limit, name)
	}
	require.NoError(t, err)
	return l
}

// requireTaken checks that a manager can't have a lock, which another one has. The time-outs of the
// manager may be short for a busy machine.
func requireTaken(t testing.TB, m *lockmgr.Manager, name string) {
	t.Helper()
	var err error
	faults.Eventually(t, func() bool {
		_, err = m.TryLock(faults.Patient(t), name)
		return !errors.Is(err, lockmgr.ErrUnavailable)
	}, "the server answers")
	require.ErrorIs(t, err, lockmgr.ErrNotAcquired)
}

// atOnce runs parts of a test at the same time, a few at a time: most of what they do is to wait.
func atOnce[T any](t *testing.T, parts []T, name func(T) string, f func(*testing.T, T)) {
	var wg sync.WaitGroup
	room := make(chan struct{}, 20)
	for _, p := range parts {
		room <- struct{}{}
		wg.Go(func() {
			defer func() { <-room }()
			t.Run(name(p), func(t *testing.T) { f(t, p) })
		})
	}
	wg.Wait()
}
