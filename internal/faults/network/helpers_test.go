package network

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/internal/faultproxy"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

var ctx = context.Background()

// patience is what a test waits for something that must happen. Where a poll
// or a lease could do in time what something else should have done, the lease
// is longer than that.
const patience = 25 * time.Second

// patient returns a context for what must not hang.
func patient(t testing.TB) context.Context {
	c, cancel := context.WithTimeout(ctx, patience)
	t.Cleanup(cancel)
	return c
}

// dial connects a manager, and closes it at the end of the test. What a fault
// keeps from being released then may be left to expire. Unless a test asks for
// less, trouble is not told before patience ends: a busy machine may be slower
// than the time-outs here for seconds.
func dial(t testing.TB, addr string, o lockmgr.Options) *lockmgr.Manager {
	t.Helper()
	return dialBy(t, hasty(addr), o)
}

func dialBy(t testing.TB, opt rueidis.ClientOption, o lockmgr.Options) *lockmgr.Manager {
	t.Helper()
	if o.RetryTime == 0 {
		o.RetryTime = patience
	}
	m, err := lockmgr.Dial(opt, o)
	for end := time.Now().Add(patience); err != nil && time.Now().Before(end); {
		m, err = lockmgr.Dial(opt, o) // a busy machine may be slower than its time-outs
	}
	require.NoError(t, err)
	t.Cleanup(func() { _ = m.Close(patient(t)) })
	return m
}

// hasty are options by which a client soon finds out that a connection is
// silent.
func hasty(addr string) rueidis.ClientOption {
	opt := rueidis.ClientOption{InitAddress: []string{addr}, ConnWriteTimeout: 300 * time.Millisecond}
	opt.Dialer.KeepAlive = 50 * time.Millisecond
	opt.Dialer.Timeout = time.Second
	return opt
}

// calm are options by which a client waits longer for an answer than a test
// does.
func calm(addr string) rueidis.ClientOption {
	opt := hasty(addr)
	opt.ConnWriteTimeout = 2 * patience
	return opt
}

// A lease that a test waits for the end of, and the time-out of commands that
// goes with it: long enough for a machine that is busy.
const (
	lease   = 1200 * time.Millisecond
	timeout = 350 * time.Millisecond
)

func do(t testing.TB, s *redistest.Server, args ...string) string {
	t.Helper()
	reply, err := s.Do(args...)
	require.NoError(t, err)
	return reply
}

// scripts are the kinds of commands that concern one lock, in the order of its
// life.
var scripts = []string{"acquire", "transfer", "renew", "release"}

// script matches the calls of one of them.
func script(t testing.TB, kind string) faultproxy.Match {
	return faultproxy.Script(scriptText(t, kind))
}

func scriptText(t testing.TB, kind string) string {
	t.Helper()
	text, err := os.ReadFile("../../../lockmgr/internal/wire/script/" + kind + ".lua")
	require.NoError(t, err)
	return string(text)
}

// startServer starts a server that knows the scripts, so that each is sent once.
func startServer(t testing.TB) *redistest.Server {
	t.Helper()
	s := redistest.Start(t)
	for _, kind := range scripts {
		do(t, s, "SCRIPT", "LOAD", scriptText(t, kind))
	}
	return s
}

// startTime is the zero of the clock that all managers of a test share.
var startTime = time.Now()

func now() time.Duration { return time.Since(startTime) }

// A belief is the time in which an owner was seen to hold a lock: from a clock
// reading after the first time that it was valid, to one before the last time.
// So the owner was sure of it all the time between.
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
	for end := now() + patience; b.look() && now() < end; {
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

// requireNothingLeft waits until nothing of a name is on the server, nor in the
// managers.
func requireNothingLeft(t testing.TB, s *redistest.Server, name string, managers ...*lockmgr.Manager) {
	t.Helper()
	state := func() (string, bool) {
		left := do(t, s, "EXISTS", name) + " key, subscribers " + strings.ReplaceAll(do(t, s, "PUBSUB", "NUMSUB", channel(name)), "\n", " ")
		ok := left == "0 key, subscribers "+channel(name)+" 0"
		for _, m := range managers {
			st := m.Stats()
			left += fmt.Sprintf(", %d names %d pending %d subscriptions", st.Locks, st.Pending, st.Subscriptions)
			ok = ok && st.Locks == 0 && st.Pending == 0 && st.Subscriptions == 0
		}
		return left, ok
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(2 * time.Millisecond) {
		left, ok := state()
		if ok {
			return
		}
		if time.Now().After(deadline) {
			require.FailNow(t, "something is left", "%s", left)
		}
	}
}

func channel(name string) string {
	if strings.Contains(name, "{") {
		return "redisson_lock__channel:" + name
	}
	return "redisson_lock__channel:{" + name + "}"
}

// awaitSubscribed waits until so many managers are told of unlocks.
func awaitSubscribed(t testing.TB, s *redistest.Server, name string, n int) {
	t.Helper()
	want := fmt.Sprintf("%s\n%d", channel(name), n)
	require.Eventually(t, func() bool { return do(t, s, "PUBSUB", "NUMSUB", channel(name)) == want }, patience, time.Millisecond)
}

func await(t testing.TB, f *futures.Future[*lockmgr.Lock]) *lockmgr.Lock {
	t.Helper()
	l, err := f.Await(patient(t))
	require.NoError(t, err)
	return l
}

// take gets a free lock from a manager that is told of trouble so soon that a
// busy machine may be enough.
func take(t testing.TB, m *lockmgr.Manager, name string) *lockmgr.Lock {
	t.Helper()
	limit := patient(t)
	l, err := m.Lock(limit, name)
	for errors.Is(err, lockmgr.ErrUnavailable) && limit.Err() == nil {
		l, err = m.Lock(limit, name)
	}
	require.NoError(t, err)
	return l
}

func awaitLost(t testing.TB, l *lockmgr.Lock) {
	t.Helper()
	awaitClosed(t, l.Lost(), "the loss of "+l.Name())
}

func awaitClosed(t testing.TB, c <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(patience):
		require.FailNow(t, "did not happen: "+what)
	}
}

// events is an observer that counts, and tells of the first.
type events struct {
	mu   sync.Mutex
	all  []lockmgr.Event
	more chan struct{} // closed with the next event
}

func newEvents() *events { return &events{more: make(chan struct{})} }

func (e *events) observe(ev lockmgr.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, ev)
	close(e.more)
	e.more = make(chan struct{})
}

// reached waits for the n-th event of a kind, and tells false if done is closed
// before.
func reached[E lockmgr.Event](e *events, n int, done <-chan struct{}) bool {
	for {
		e.mu.Lock()
		seen, more := 0, e.more
		for _, ev := range e.all {
			if _, ok := ev.(E); ok {
				seen++
			}
		}
		e.mu.Unlock()
		if seen >= n {
			return true
		}
		select {
		case <-more:
		case <-done:
			return false
		}
	}
}

// atOnce runs parts of a test at the same time, a few at a time: most of what
// they do is to wait.
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
