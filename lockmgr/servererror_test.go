package lockmgr_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// The servererror tests check what a caller gets while the server refuses commands, is in trouble
// or is gone: typed errors that say what to do, and nothing left behind.

func TestServerError_KeyOfAnotherType(t *testing.T) {
	s, m, _ := startServer(t, lockmgr.Options{})
	faults.Do(t, s, "SET", "taken", "hello")

	requireServerError(t, lockmgr.ErrWrongType, errOf(m.TryLock(ctx, "taken")))
	requireServerError(t, lockmgr.ErrWrongType, errOf(m.LockAsync("taken").Await(faults.Patient(t))))
	require.EqualValues(t, 2, m.Stats().Scripts, "there is no use in trying again")
	requireServerError(t, lockmgr.ErrWrongType, errOf(m.Inspect(ctx, "taken")))
	awaitAtRest(t, m)
	require.Equal(t, "hello", faults.Do(t, s, "GET", "taken"))

	// A hash that is no lock looks like a lock that another client holds. Only who looks knows, and
	// nobody removes the hash.
	faults.Do(t, s, "HSET", "taken too", "colour", "green")
	err := errOf(m.TryLock(ctx, "taken too"))
	require.ErrorIs(t, err, lockmgr.ErrNotAcquired)
	require.ErrorIs(t, m.Explain(ctx, err), lockmgr.ErrNotAcquired)
	require.ErrorIs(t, m.Explain(ctx, err), lockmgr.ErrWrongType)
	require.Equal(t, "not a lock", mustInspect(t, m, "taken too").Kind)
	require.ErrorIs(t, errOf(m.ForceUnlock(ctx, "taken too")), lockmgr.ErrWrongType)
	require.ErrorIs(t, errOf(m.ForceUnlockHolders(ctx, "taken too", "colour")), lockmgr.ErrWrongType)
	for _, mode := range []string{"sport", ""} {
		faults.Do(t, s, "HSET", "taken with a mode", "mode", mode)
		require.ErrorIs(t, errOf(m.ForceUnlock(faults.Patient(t), "taken with a mode")), lockmgr.ErrWrongType)
	}
	requireTimesOut(t, func() error { return errOf(m.Lock(faults.Patient(t), "taken too", lockmgr.MaxWait(time.Millisecond))) })
	require.Equal(t, "colour\ngreen", faults.Do(t, s, "HGETALL", "taken too"))
	require.Equal(t, "-1", faults.Do(t, s, "PTTL", "taken too"))
}

// A renewal notices that a key was overwritten, and leaves the key alone. So does the release: see
// TestServer_BadNameHarmsNobodyElse.
func TestServerError_Overwritten(t *testing.T) {
	s, m, _ := startServer(t, lockmgr.Options{Lease: time.Second, CommandTimeout: slow})
	l := mustLock(t, m, "watched")
	faults.Do(t, s, "SET", "watched", "hello")
	faults.AwaitLost(t, l)
	require.ErrorIs(t, l.Err(), lockmgr.ErrLeaseLost)
	require.ErrorIs(t, l.Unlock(ctx), lockmgr.ErrLeaseLost)
	require.Equal(t, "hello", faults.Do(t, s, "GET", "watched"))
}

func TestServerError_AtDial(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, "--requirepass", secret)
	setUser(t, s, "someone", "+@all", "~*", "&*")
	try := func(user, password string) error {
		return errOf(lockmgr.Dial(rueidis.ClientOption{InitAddress: []string{s.Addr()}, Username: user, Password: password}, lockmgr.Options{}))
	}
	requireServerError(t, lockmgr.ErrPermission, try("", ""))
	requireServerError(t, lockmgr.ErrPermission, try("someone", "not the "+secret))
	requireServerError(t, lockmgr.ErrPermission, try("nobody", secret))
	dialAs(t, s.Addr(), "someone", lockmgr.Options{})
	dialAs(t, s.Addr(), "", lockmgr.Options{})
	for text, opt := range map[string]rueidis.ClientOption{
		"fewer databases": {InitAddress: []string{s.Addr()}, SelectDB: 99},
		"one address":     {InitAddress: []string{s.Addr(), s.Addr()}},
		"no Sentinel":     {InitAddress: []string{s.Addr()}, Sentinel: rueidis.SentinelOption{MasterSet: "main", Username: "someone", Password: secret}},
	} {
		opt.Username, opt.Password = "someone", secret
		_, err := lockmgr.Dial(opt, lockmgr.Options{})
		requireServerError(t, lockmgr.ErrTopology, err, text)
	}

	s.Kill()
	requireServerError(t, lockmgr.ErrUnavailable, try("someone", secret))
}

// Close says why a release was refused. Its error does not match ErrUnavailable if the server has
// answered.
func TestServerError_OfClose(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	setUser(t, s, "locker", strings.Fields(leastPrivilege)...)
	m := must(lockmgr.Dial(rueidis.ClientOption{InitAddress: []string{s.Addr()}, Username: "locker", Password: secret}, lockmgr.Options{}))(t)
	mustLock(t, m, "app:1")
	faults.Do(t, s, "ACL", "SETUSER", "locker", "resetkeys", "~other:*")
	err := m.Close(faults.Patient(t))
	require.ErrorIs(t, err, lockmgr.ErrPermission)
	require.NotErrorIs(t, err, lockmgr.ErrUnavailable)
}

// If a name of a set is forbidden while the set is held, Unlock removes the other names at once.
func TestServerError_ForbiddenNameOfAHeldSet(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	setUser(t, s, "locker", strings.Fields(leastPrivilege)...)
	m := must(lockmgr.Dial(rueidis.ClientOption{InitAddress: []string{s.Addr()}, Username: "locker", Password: secret}, lockmgr.Options{}))(t)
	t.Cleanup(func() { _ = m.Close(faults.Patient(t)) })
	set := must(m.LockAll(faults.Patient(t), lockmgr.All("app:1", "app:2", "app:3"), lockmgr.FixedLease(time.Hour)))(t)
	faults.Do(t, s, "ACL", "SETUSER", "locker", "resetkeys", "~app:1", "~app:3")
	require.ErrorIs(t, set.Unlock(faults.Patient(t)), lockmgr.ErrPermission)
	require.Equal(t, "1", faults.Do(t, s, "EXISTS", "app:1", "app:2", "app:3"))
	faults.Do(t, s, "ACL", "SETUSER", "locker", "~*")
	faults.Eventually(t, func() bool { return faults.Do(t, s, "EXISTS", "app:2") == "0" }, "the release is repeated")
}

// TryLock fails at once. A waiting request fails after RetryTime, unless the trouble is over by
// then.
func TestServerError_PassingTrouble(t *testing.T) {
	t.Parallel()
	for _, tt := range faults.Troubles("READONLY", "MASTERDOWN", "NOREPLICAS", "MISCONF", "CLUSTERDOWN", "BUSY", "down") {
		t.Run(tt.What, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t, tt.Args...)
			w := faults.NewWitness()
			// The server without its cluster's slots is a single server to the client.
			opt := rueidis.ClientOption{InitAddress: []string{s.Addr()}, ForceSingleClient: true}
			hasty := dialOption(t, opt, lockmgr.Options{Anonymous: true, RetryTime: 50 * time.Millisecond})
			steady := dialOption(t, opt, lockmgr.Options{Anonymous: true, RetryTime: time.Minute, Observer: w.Observe})
			tt.Begin(t, s)
			waiting := steady.LockAsync("a")
			faults.AwaitEvent(t, w, func(e lockmgr.EventCommandFailed) bool { return e.Consecutive == 2 && errors.Is(e.Err, tt.Kind) })

			requireServerError(t, tt.Kind, errOf(hasty.TryLock(faults.Patient(t), "b")))
			require.EqualValues(t, 1, hasty.Stats().FailedScripts, "one try")
			_, err := hasty.Lock(faults.Patient(t), "c") // how often it tries depends on the machine
			requireServerError(t, tt.Kind, err)
			known := hasty.Stats().Locks
			requireServerError(t, tt.Kind, errOf(hasty.TryLock(faults.Patient(t), "d")))
			// A busy machine may answer a try after RetryTime.
			faults.Eventually(t, func() bool { return hasty.Stats().Locks <= known }, "a script that did not run leaves nothing to release")
			_, err = hasty.Inspect(faults.Patient(t), "d")
			if err != nil { // a script that only reads may work
				requireServerError(t, tt.Kind, err)
			}

			require.False(t, faults.Settled(waiting), "it waits")
			const wait = 100 * time.Millisecond
			ends := map[string]func() error{
				"fenced":    func() error { return errOf(steady.Lock(ctx, "e", lockmgr.Fenced(), lockmgr.MaxWait(wait))) },
				"a context": func() error { return errOf(steady.Lock(endsIn(t, wait), "f")) },
			}
			for _, kind := range kinds {
				name := "{x}" + kind.title // all names of a set in one slot
				ends[kind.title] = func() error { return errOf(kind.ask(steady, name, lockmgr.MaxWait(wait)).Await(ctx)) }
			}
			for how, end := range ends {
				faults.Eventually(t, func() bool { // the first try of a wait may have no answer yet
					err := end()
					return errors.Is(err, tt.Kind) && !errors.Is(err, lockmgr.ErrNotAcquired)
				}, how)
			}
			tt.End(t, s)
			l := must(waiting.Await(faults.Patient(t)))(t)
			mustUnlock(t, l)
			faults.Eventually(t, func() bool {
				l, err = hasty.Lock(faults.Patient(t), "b")
				return !lockmgr.Temporary(err) // it waits for 50 ms only
			})
			require.NoError(t, err)
			mustUnlock(t, l)
		})
	}
}

// A server has refused to write a name, and then refuses a set with the name because others hold
// it. The wait for the set ends as any other.
func TestServerError_SetAfterTrouble(t *testing.T) {
	t.Parallel()
	tt := faults.Troubles("NOREPLICAS")[0]
	s := redistest.Start(t, tt.Args...)
	w := faults.NewWitness()
	other := dial(t, s.Addr(), lockmgr.Options{Anonymous: true})
	m := dial(t, s.Addr(), lockmgr.Options{Anonymous: true, Observer: w.Observe})
	a := mustLock(t, other, "a")
	ending, cancel := context.WithCancel(ctx)
	waiting := m.LockAllAsync(lockmgr.All("a", "b"), lockmgr.WaitContext(ending))
	faults.Eventually(t, func() bool { return m.Stats().Waiting == 1 })
	tt.Begin(t, s)
	requireServerError(t, tt.Kind, errOf(m.TryLock(ctx, "b")))
	tt.End(t, s)
	b := mustLock(t, other, "b")
	start := time.Now()
	mustUnlock(t, a) // the set now keeps it
	faults.AwaitEvent(t, w, func(e lockmgr.EventRefused) bool { return e.At.After(start) })
	cancel()
	require.ErrorIs(t, errOf(waiting.Await(ctx)), lockmgr.ErrNotAcquired)
	mustUnlock(t, b)
	awaitAtRest(t, m)
}

// A closed client stays closed, so a request fails at once and not after RetryTime.
func TestError_ClosedClientIsFinal(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		n := &network{server: w.server}
		client := must(rueidis.NewClient(lockmgr.TuneClient(rueidis.ClientOption{InitAddress: []string{"pipe:0"}, DialCtxFn: n.dial})))(t)
		m := must(lockmgr.New(client, lockmgr.Options{RetryTime: time.Hour}))(t)
		client.Close()
		start := time.Now()
		_, err := m.Lock(ctx, "a")
		requireServerError(t, lockmgr.ErrUnavailable, err)
		require.ErrorIs(t, err, rueidis.ErrClosing)
		require.ErrorContains(t, err, "the client was closed")
		require.Less(t, time.Since(start), second)
		require.ErrorIs(t, m.Close(ctx), lockmgr.ErrUnavailable, "what may have run cannot be released")
	})
}
