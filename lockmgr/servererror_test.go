package lockmgr_test

import (
	"crypto/sha1"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// What a user of the library meets when the server refuses, is in trouble or
// is gone: typed errors that say what to do, and nothing left behind.

// requireServerError checks a kind, and that the error says more than that.
func requireServerError(t testing.TB, kind, err error) {
	t.Helper()
	require.ErrorIs(t, err, kind)
	var e *lockmgr.ServerError
	require.ErrorAs(t, err, &e)
	require.NotEmpty(t, e.Hint)
	require.Contains(t, err.Error(), e.Hint)
	require.NotContains(t, err.Error(), secret)
}

// secret is the password of all users here: no error may contain it.
const secret = "correct-horse-battery-staple"

// requireAtRest waits until a manager has nothing in hand.
func requireAtRest(t testing.TB, m *lockmgr.Manager) {
	t.Helper()
	require.Eventually(t, func() bool {
		s := m.Stats()
		return s.Locks == 0 && s.Pending == 0 && s.Subscriptions == 0
	}, patience, 5*time.Millisecond, "%+v", m.Stats())
}

// slow is a time-out for commands under leases that are short for a test's
// sake: a tenth of such a lease would be too little for a busy machine.
const slow = 320 * time.Millisecond

// settled tells whether a future has a result.
func settled(f *futures.Future[*lockmgr.Lock]) bool {
	select {
	case <-f.Done():
		return true
	default:
		return false
	}
}

func awaitLost(t testing.TB, l *lockmgr.Lock) {
	t.Helper()
	select {
	case <-l.Lost():
	case <-time.After(patience):
		require.FailNow(t, "not lost", "%s has %v left", l.Name(), l.Remaining())
	}
}

func do(t testing.TB, s *redistest.Server, args ...string) string {
	t.Helper()
	reply, err := s.Do(args...)
	require.NoError(t, err)
	return reply
}

func TestServerErrorKeyOfAnotherType(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	m := dial(t, s.Addr(), lockmgr.Options{})
	do(t, s, "SET", "taken", "hello")

	_, err := m.TryLock(ctx, "taken")
	requireServerError(t, lockmgr.ErrWrongType, err)
	_, err = m.LockAsync("taken").Await(patient(t))
	requireServerError(t, lockmgr.ErrWrongType, err)
	require.EqualValues(t, 2, m.Stats().Scripts, "there is no use in trying again")
	_, err = m.Inspect(ctx, "taken")
	requireServerError(t, lockmgr.ErrWrongType, err)
	requireAtRest(t, m)
	require.Equal(t, "hello", do(t, s, "GET", "taken"))

	// A hash of somebody else's looks like a lock of somebody else's.
	do(t, s, "HSET", "taken too", "colour", "green")
	_, err = m.TryLock(ctx, "taken too")
	require.ErrorIs(t, err, lockmgr.ErrNotAcquired)
	_, err = m.Lock(patient(t), "taken too", lockmgr.MaxWait(time.Millisecond))
	require.ErrorIs(t, err, lockmgr.ErrWaitTimeout)
	require.Equal(t, "colour\ngreen", do(t, s, "HGETALL", "taken too"))
	require.Equal(t, "-1", do(t, s, "PTTL", "taken too"))

	// A counter that is none fails fenced requests only.
	do(t, s, "RPUSH", "redisson_lock_token:{counted}", "x")
	_, err = m.Lock(patient(t), "counted", lockmgr.Fenced())
	requireServerError(t, lockmgr.ErrWrongType, err)
	l, err := m.Lock(patient(t), "counted")
	require.NoError(t, err)
	require.NoError(t, l.Unlock(ctx))
}

// A lock that somebody writes over is lost: noticed by the renewal, or else by
// the release, which has nothing left to do then.
func TestServerErrorOverwritten(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	t.Run("noticed by the renewal", func(t *testing.T) {
		t.Parallel()
		m := dial(t, s.Addr(), lockmgr.Options{Lease: time.Second, CommandTimeout: slow})
		l, err := m.Lock(ctx, "watched")
		require.NoError(t, err)
		do(t, s, "SET", "watched", "hello")
		awaitLost(t, l)
		require.ErrorIs(t, l.Err(), lockmgr.ErrLeaseLost)
		require.ErrorIs(t, l.Unlock(ctx), lockmgr.ErrLeaseLost)
		require.Equal(t, "hello", do(t, s, "GET", "watched"))
	})
	t.Run("noticed by the release", func(t *testing.T) {
		t.Parallel()
		m := dial(t, s.Addr(), lockmgr.Options{})
		l, err := m.Lock(ctx, "released")
		require.NoError(t, err)
		do(t, s, "SET", "released", "hello")
		require.ErrorIs(t, l.Unlock(patient(t)), lockmgr.ErrLeaseLost)
		requireAtRest(t, m)
		require.Equal(t, "hello", do(t, s, "GET", "released"))
	})
}

// setUser gives a user the rules of a test.
func setUser(t testing.TB, s *redistest.Server, user string, rules ...string) {
	t.Helper()
	do(t, s, append([]string{"ACL", "SETUSER", user, "reset", "on", ">" + secret}, rules...)...)
}

// What a user may not do, and what that comes to.
var permissionTests = []struct {
	denied  string // rules, separated by spaces, that follow "everything"
	take    error  // TryLock of a free lock
	contend error  // TryLock of one that others hold
	fenced  error  // TryLock with Fenced of a free lock
	unlock  error
	stays   bool // the record stays after Unlock until it expires
}{
	{denied: "-evalsha", take: lockmgr.ErrPermission, contend: lockmgr.ErrPermission, fenced: lockmgr.ErrPermission},
	{denied: "-exists", take: lockmgr.ErrPermission, contend: lockmgr.ErrPermission, fenced: lockmgr.ErrPermission},
	{denied: "-hset", take: lockmgr.ErrPermission, contend: lockmgr.ErrNotAcquired, fenced: lockmgr.ErrPermission},
	{denied: "-pexpire", take: lockmgr.ErrPermission, contend: lockmgr.ErrNotAcquired, fenced: lockmgr.ErrPermission},
	{denied: "resetkeys ~redisson_*", take: lockmgr.ErrPermission, contend: lockmgr.ErrPermission, fenced: lockmgr.ErrPermission},
	{denied: "-pttl", contend: lockmgr.ErrPermission},
	{denied: "-hexists", contend: lockmgr.ErrPermission, unlock: lockmgr.ErrPermission, stays: true},
	{denied: "-del", contend: lockmgr.ErrNotAcquired, unlock: lockmgr.ErrPermission, stays: true},
	{denied: "resetkeys ~lock* ~redisson_lock_token:*", contend: lockmgr.ErrNotAcquired, unlock: lockmgr.ErrPermission, stays: true},
	{denied: "-publish", contend: lockmgr.ErrNotAcquired, unlock: lockmgr.ErrPermission},
	{denied: "resetchannels", contend: lockmgr.ErrNotAcquired, unlock: lockmgr.ErrPermission},
	{denied: "-incrby", contend: lockmgr.ErrNotAcquired, fenced: lockmgr.ErrPermission},
	{denied: "-get", contend: lockmgr.ErrNotAcquired, fenced: lockmgr.ErrPermission},
	{denied: "resetkeys ~lock* ~redisson_lock__channel:*", contend: lockmgr.ErrNotAcquired, fenced: lockmgr.ErrPermission},
	// Worse service, but service.
	{denied: "-hdel", contend: lockmgr.ErrNotAcquired},
	{denied: "-subscribe", contend: lockmgr.ErrNotAcquired},
	{denied: "-unsubscribe", contend: lockmgr.ErrNotAcquired},
	{denied: "-pubsub|numsub", contend: lockmgr.ErrNotAcquired},
	{denied: "-hgetall", contend: lockmgr.ErrNotAcquired},
	{denied: "-script", contend: lockmgr.ErrNotAcquired},
	{denied: "-eval", contend: lockmgr.ErrNotAcquired}, // others have loaded the scripts
	{denied: "-ping", contend: lockmgr.ErrNotAcquired},
	{denied: "-client", contend: lockmgr.ErrNotAcquired},
}

func TestServerErrorPermissions(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for script := range scripts() {
		do(t, s, "SCRIPT", "LOAD", scripts()[script])
	}
	free := dial(t, s.Addr(), lockmgr.Options{})
	for i, tt := range permissionTests {
		t.Run(tt.denied, func(t *testing.T) {
			t.Parallel()
			user, name, w := fmt.Sprint("user", i), fmt.Sprint("lock", i), newWitness()
			setUser(t, s, user, append([]string{"+@all", "~*", "&*"}, strings.Fields(tt.denied)...)...)
			// A short lease, as that is how long what can't be removed stays.
			m := dialAs(t, s.Addr(), user, secret, lockmgr.Options{Lease: time.Second, CommandTimeout: slow, Linger: -1, Observer: w.observe})
			requireKind := func(kind, err error) {
				t.Helper()
				if kind == lockmgr.ErrPermission {
					requireServerError(t, kind, err)
				} else {
					require.ErrorIs(t, err, kind)
				}
			}
			gone := func() {
				t.Helper()
				require.Eventually(t, func() bool {
					ttl := do(t, s, "PTTL", name)
					require.NotEqual(t, "-1", ttl, "a lock for ever")
					return ttl == "-2"
				}, patience, 10*time.Millisecond)
			}
			for _, opts := range [][]lockmgr.LockOption{nil, {lockmgr.Fenced()}} {
				want := tt.take
				if opts != nil && want == nil {
					want = tt.fenced
				}
				if opts != nil && tt.stays {
					continue // it would take another lease
				}
				l, err := m.TryLock(patient(t), name, opts...)
				requireKind(want, err)
				if err == nil {
					requireKind(tt.unlock, l.Unlock(patient(t)))
					if !tt.stays {
						await(t, w, func(lockmgr.EventReleased) bool { return true })
						require.Equal(t, "0", do(t, s, "EXISTS", name))
					}
				}
				gone()
			}

			// Another holds it.
			other, err := free.Lock(patient(t), name)
			require.NoError(t, err)
			_, err = m.TryLock(patient(t), name)
			requireKind(tt.contend, err)
			waiting := m.LockAsync(name)
			if tt.contend == lockmgr.ErrPermission {
				_, err = waiting.Await(patient(t))
				requireKind(tt.contend, err)
				waiting = nil
			}
			require.True(t, other.Valid())
			require.NoError(t, other.Unlock(patient(t)))
			if waiting != nil {
				l, err := waiting.Await(patient(t))
				requireKind(tt.take, err)
				if err == nil {
					// Those who wait in line get it whatever becomes of the record;
					// but for that it may have to expire first.
					next := m.LockAsync(name)
					if err := l.Unlock(patient(t)); err != nil {
						requireKind(tt.unlock, err)
					}
					l, err = next.Await(patient(t))
					require.NoError(t, err)
					requireKind(tt.unlock, l.Unlock(patient(t)))
				}
			}
			gone()
			requireAtRest(t, m)
		})
	}
}

// passingTroubles are a server's troubles that end one day.
var passingTroubles = []struct {
	what       string
	args       []string // of the server
	begin, end func(t testing.TB, s *redistest.Server)
	kind       error
}{
	{
		what:  "READONLY",
		begin: func(t testing.TB, s *redistest.Server) { do(t, s, "REPLICAOF", "127.0.0.1", closedPort(t)) },
		end:   func(t testing.TB, s *redistest.Server) { do(t, s, "REPLICAOF", "NO", "ONE") },
		kind:  lockmgr.ErrReadOnly,
	},
	{
		what:  "MASTERDOWN",
		args:  []string{"--replica-serve-stale-data", "no"},
		begin: func(t testing.TB, s *redistest.Server) { do(t, s, "REPLICAOF", "127.0.0.1", closedPort(t)) },
		end:   func(t testing.TB, s *redistest.Server) { do(t, s, "REPLICAOF", "NO", "ONE") },
		kind:  lockmgr.ErrUnavailable,
	},
	{
		what:  "NOREPLICAS",
		begin: func(t testing.TB, s *redistest.Server) { do(t, s, "CONFIG", "SET", "min-replicas-to-write", "1") },
		end:   func(t testing.TB, s *redistest.Server) { do(t, s, "CONFIG", "SET", "min-replicas-to-write", "0") },
		kind:  lockmgr.ErrReadOnly,
	},
	{
		what: "MISCONF",
		args: []string{"--enable-protected-configs", "yes"},
		begin: func(t testing.TB, s *redistest.Server) {
			// A folder is where the file should go, so it can't be saved.
			dir := strings.TrimPrefix(do(t, s, "CONFIG", "GET", "dir"), "dir\n")
			require.NoError(t, os.Mkdir(filepath.Join(dir, "occupied"), 0o700))
			do(t, s, "CONFIG", "SET", "dbfilename", "occupied")
			do(t, s, "CONFIG", "SET", "save", "3600 1000000")
			do(t, s, "BGSAVE")
			require.Eventually(t, func() bool {
				return strings.Contains(do(t, s, "INFO", "persistence"), "rdb_last_bgsave_status:err")
			}, patience, 5*time.Millisecond)
		},
		end: func(t testing.TB, s *redistest.Server) {
			do(t, s, "CONFIG", "SET", "stop-writes-on-bgsave-error", "no")
		},
		kind: lockmgr.ErrReadOnly,
	},
	{
		what: "CLUSTERDOWN",
		args: []string{"--cluster-enabled", "yes", "--cluster-require-full-coverage", "no"}, // a cluster of one, without slots
		end:  func(t testing.TB, s *redistest.Server) { do(t, s, "CLUSTER", "ADDSLOTSRANGE", "0", "16383") },
		kind: lockmgr.ErrUnavailable,
	},
	{
		what: "BUSY",
		args: []string{"--lua-time-limit", "20"},
		begin: func(t testing.TB, s *redistest.Server) {
			w := dialWire(t, s.Addr())
			require.NoError(t, w.write("EVAL", "while true do end", "0"))
			require.Eventually(t, func() bool {
				_, err := s.Do("GET", "x")
				return err != nil && strings.HasPrefix(err.Error(), "BUSY")
			}, patience, 5*time.Millisecond)
		},
		end:  func(t testing.TB, s *redistest.Server) { do(t, s, "SCRIPT", "KILL") },
		kind: lockmgr.ErrUnavailable,
	},
	{
		what:  "down",
		begin: func(t testing.TB, s *redistest.Server) { s.Kill() },
		end:   func(t testing.TB, s *redistest.Server) { s.Restart() },
		kind:  lockmgr.ErrUnavailable,
	},
}

// closedPort is one that nobody listens on.
func closedPort(t testing.TB) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	return port
}

// Who won't wait is told at once; who waits, after RetryTime, unless the
// trouble has passed by then.
func TestServerErrorPassingTrouble(t *testing.T) {
	t.Parallel()
	for _, tt := range passingTroubles {
		t.Run(tt.what, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t, tt.args...)
			w := newWitness()
			hasty := dial(t, s.Addr(), lockmgr.Options{RetryTime: 50 * time.Millisecond})
			steady := dial(t, s.Addr(), lockmgr.Options{RetryTime: time.Minute, Observer: w.observe})
			if tt.begin != nil {
				tt.begin(t, s)
			}
			waiting := steady.LockAsync("a")
			await(t, w, func(e lockmgr.EventCommandFailed) bool { return e.Consecutive == 2 && errors.Is(e.Err, tt.kind) })

			_, err := hasty.TryLock(patient(t), "b")
			requireServerError(t, tt.kind, err)
			require.EqualValues(t, 1, hasty.Stats().Failures, "one try")
			_, err = hasty.Lock(patient(t), "c") // how often it tries depends on the machine
			requireServerError(t, tt.kind, err)
			known := hasty.Stats().Locks
			_, err = hasty.TryLock(patient(t), "d")
			requireServerError(t, tt.kind, err)
			// A busy machine may answer a try after RetryTime.
			require.Eventually(t, func() bool { return hasty.Stats().Locks <= known }, patience, time.Millisecond,
				"what did not run leaves nothing to clean up")
			_, err = hasty.Inspect(patient(t), "d")
			if err != nil { // what only reads may work
				requireServerError(t, tt.kind, err)
			}

			require.False(t, settled(waiting), "it waits")
			tt.end(t, s)
			l, err := waiting.Await(patient(t))
			require.NoError(t, err)
			require.NoError(t, l.Unlock(patient(t)))
			require.Eventually(t, func() bool {
				l, err = hasty.Lock(patient(t), "b")
				return !lockmgr.Temporary(err) // it waits for 50 ms only
			}, patience, time.Millisecond)
			require.NoError(t, err)
			require.NoError(t, l.Unlock(patient(t)))
		})
	}
}

// A server that is out of memory grants nothing, but what is held can be
// renewed, passed on and, every time, given back.
func TestServerErrorOutOfMemory(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	w := newWitness()
	m := dial(t, s.Addr(), lockmgr.Options{Lease: 2 * time.Second, CommandTimeout: slow, Observer: w.observe})
	var held []*lockmgr.Lock
	for i := range 50 {
		l, err := m.Lock(ctx, fmt.Sprint("held", i))
		require.NoError(t, err)
		held = append(held, l)
	}
	next := m.LockAsync("held0")
	do(t, s, "CONFIG", "SET", "maxmemory", "1")

	before := m.Stats().Scripts - m.Stats().RenewalScripts
	_, err := m.TryLock(ctx, "new")
	requireServerError(t, lockmgr.ErrOutOfMemory, err)
	_, err = m.LockAsync("new").Await(patient(t))
	requireServerError(t, lockmgr.ErrOutOfMemory, err)
	require.EqualValues(t, 2, m.Stats().Scripts-m.Stats().RenewalScripts-before, "one try each")

	require.NoError(t, held[0].Unlock(patient(t)))
	held[0], err = next.Await(patient(t))
	require.NoError(t, err)

	// Twice: the first may have been on its way before.
	seen := m.Stats().Renewals
	require.Eventually(t, func() bool { return m.Stats().Renewals > seen+2*uint64(len(held)) }, patience, 5*time.Millisecond)
	for i, l := range held {
		require.NoError(t, l.Err(), i)
		require.NoError(t, l.Unlock(patient(t)), i)
		require.Equal(t, "0", do(t, s, "EXISTS", l.Name()))
	}
	requireAtRest(t, m)
	do(t, s, "CONFIG", "SET", "maxmemory", "0")
	l, err := m.Lock(patient(t), "new")
	require.NoError(t, err)
	require.NoError(t, l.Unlock(ctx))
}

func TestServerErrorAtDial(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, "--requirepass", secret)
	setUser(t, s, "someone", "+@all", "~*", "&*")
	try := func(user, password string) error {
		_, err := lockmgr.Dial(rueidis.ClientOption{InitAddress: []string{s.Addr()}, Username: user, Password: password}, lockmgr.Options{})
		return err
	}
	requireServerError(t, lockmgr.ErrPermission, try("", ""))
	requireServerError(t, lockmgr.ErrPermission, try("someone", "not the "+secret))
	requireServerError(t, lockmgr.ErrPermission, try("nobody", secret))
	dialAs(t, s.Addr(), "someone", secret, lockmgr.Options{})
	dialAs(t, s.Addr(), "", secret, lockmgr.Options{})

	s.Kill()
	requireServerError(t, lockmgr.ErrUnavailable, try("someone", secret))
}

// A password that changes, or a user that is removed, while locks are held:
// they are lost in time, and it shows why nothing works any more.
func TestServerErrorUserGone(t *testing.T) {
	t.Parallel()
	for what, revoke := range map[string][][]string{
		"password changed": {{"ACL", "SETUSER", "someone", "resetpass", ">another"}, {"CLIENT", "KILL", "USER", "someone"}},
		"user deleted":     {{"ACL", "DELUSER", "someone"}},
		"user disabled":    {{"ACL", "SETUSER", "someone", "off"}, {"CLIENT", "KILL", "USER", "someone"}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			setUser(t, s, "someone", "+@all", "~*", "&*")
			w := newWitness()
			m := dialAs(t, s.Addr(), "someone", secret, lockmgr.Options{Lease: time.Second, CommandTimeout: slow, RetryTime: 100 * time.Millisecond, Observer: w.observe})
			l, err := m.Lock(ctx, "held")
			require.NoError(t, err)
			for _, command := range revoke {
				do(t, s, command...)
			}
			// The first command may meet the connection's end, the next must
			// meet the refusal.
			require.Eventually(t, func() bool {
				_, err := m.TryLock(patient(t), "new")
				require.Error(t, err)
				require.NotContains(t, err.Error(), secret)
				return errors.Is(err, lockmgr.ErrPermission)
			}, patience, 5*time.Millisecond)
			_, err = m.Lock(patient(t), "new")
			requireServerError(t, lockmgr.ErrPermission, err)
			lost := await(t, w, func(e lockmgr.EventLost) bool { return e.Name == "held" })
			require.ErrorIs(t, lost.Err, lockmgr.ErrLeaseLost)
			awaitLost(t, l)
			require.False(t, l.Valid())
			require.ErrorIs(t, l.Unlock(ctx), lockmgr.ErrLeaseLost)

			setUser(t, s, "someone", "+@all", "~*", "&*")
			require.Eventually(t, func() bool {
				l, err := m.Lock(patient(t), "held")
				return err == nil && l.Unlock(patient(t)) == nil
			}, patience, 5*time.Millisecond)
		})
	}
}

// A server that dies under a holder: the loss is known by the deadline, and
// when the server is back all goes on as if nothing had been.
func TestServerErrorKilledWhileHolding(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	w := newWitness()
	m := dial(t, s.Addr(), lockmgr.Options{Lease: time.Second, CommandTimeout: slow, RetryTime: time.Minute, Observer: w.observe})
	l, err := m.Lock(ctx, "held")
	require.NoError(t, err)
	hasty := dial(t, s.Addr(), lockmgr.Options{RetryTime: 100 * time.Millisecond})
	unlocked, err := hasty.Lock(ctx, "unlocked")
	require.NoError(t, err)
	work := l.Context(ctx)
	waiting := m.LockAsync("held")

	s.Kill()
	left, start := l.Remaining(), time.Now()
	requireServerError(t, lockmgr.ErrUnavailable, unlocked.Unlock(patient(t)))
	awaitLost(t, l)
	<-work.Done()
	require.False(t, l.Valid())
	require.GreaterOrEqual(t, time.Since(start), left-time.Millisecond, "not before the deadline: the server may be back in time")
	await(t, w, func(e lockmgr.EventRenewalFailed) bool { return errors.Is(e.Err, lockmgr.ErrUnavailable) })
	require.ErrorIs(t, l.Unlock(ctx), lockmgr.ErrLeaseLost)

	s.Restart()
	l, err = waiting.Await(patient(t))
	require.NoError(t, err)
	require.NoError(t, l.Unlock(patient(t)))
	require.Eventually(t, func() bool {
		l, err = hasty.Lock(patient(t), "unlocked", lockmgr.Fenced())
		return !lockmgr.Temporary(err) // it waits for a tenth of a second only
	}, patience, time.Millisecond)
	require.NoError(t, err)
	require.NoError(t, l.Unlock(patient(t)))
	require.Equal(t, "redisson_lock_token:{unlocked}", do(t, s, "KEYS", "*"))
}

// Scripts may vanish from the server at any moment.
func TestServerErrorScriptsFlushed(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	m := dial(t, s.Addr(), lockmgr.Options{})
	var users, flusher sync.WaitGroup
	var stop atomic.Bool
	w := dialWire(t, s.Addr())
	flushes := 0
	flusher.Go(func() {
		for ; !stop.Load(); flushes++ {
			if w.write("SCRIPT", "FLUSH") != nil {
				return
			}
			if _, err := w.read(); err != nil {
				return
			}
		}
	})
	for i := range 50 {
		users.Go(func() {
			for range 40 {
				l, err := m.Lock(ctx, fmt.Sprint("name", i%20), lockmgr.Fenced())
				if err == nil {
					err = l.Unlock(ctx)
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	users.Wait()
	stop.Store(true)
	flusher.Wait()
	require.Greater(t, flushes, 10)
	require.Zero(t, m.Stats().Losses)
	requireAtRest(t, m)
}

// leastPrivilege is all that a user needs whose locks begin with "app:", on
// Redis 7.0. The second line is for Fenced, the third for Inspect.
const leastPrivilege = `-@all +evalsha +eval +script|load +exists +hexists +hset +hdel +pexpire +pttl +del +publish +pubsub|numsub +subscribe +unsubscribe +ping
	+incrby +get
	+hgetall
	~app:* ~redisson_lock__channel:{app:* ~redisson_lock_token:{app:* resetchannels &redisson_lock__channel:{app:*`

// The rules suffice for all that managers do, and none of them is idle.
func TestServerErrorLeastPrivilege(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	setUser(t, s, "locker", strings.Fields(leastPrivilege)...)
	do(t, s, "CONFIG", "RESETSTAT")
	w := newWitness()
	connect := func() *lockmgr.Manager {
		opt := rueidis.ClientOption{InitAddress: []string{s.Addr()}, Username: "locker", Password: secret}
		opt.Dialer.KeepAlive = 20 * time.Millisecond // pings
		m, err := lockmgr.Dial(opt, lockmgr.Options{Lease: time.Second, CommandTimeout: slow, Linger: -1, Observer: w.observe})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, m.Close(patient(t))) })
		return m
	}
	m, other := connect(), connect()

	// Passed on, renewed, wrested from another manager, with tokens.
	var wg sync.WaitGroup
	for _, opts := range [][]lockmgr.LockOption{nil, {lockmgr.Fenced()}} {
		for i := range 20 {
			wg.Go(func() {
				l, err := []*lockmgr.Manager{m, other}[i%2].Lock(patient(t), "app:1", opts...)
				if err == nil && i == 7 {
					await(t, w, func(lockmgr.EventRenewed) bool { return true })
				}
				if err == nil {
					err = l.Unlock(patient(t))
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	}
	l, err := m.Lock(patient(t), "app:1")
	require.NoError(t, err)
	_, err = other.TryLock(patient(t), "app:1")
	require.ErrorIs(t, err, lockmgr.ErrNotAcquired)
	info, err := other.Inspect(patient(t), "app:1")
	require.NoError(t, err)
	require.True(t, info.Locked)
	require.Positive(t, info.Token)
	require.GreaterOrEqual(t, info.Subscribers, int64(0))
	removed, err := other.ForceUnlock(patient(t), "app:1")
	require.NoError(t, err)
	require.True(t, removed)
	awaitLost(t, l)
	requireAtRest(t, m)
	requireAtRest(t, other)
	require.Eventually(t, func() bool { return s.Commands(t)["unsubscribe"] > 0 }, patience, 5*time.Millisecond)
	for _, entry := range strings.Split(do(t, s, "ACL", "LOG"), "object\n")[1:] {
		// From 7.2 on there is this, which clients try and do without.
		require.True(t, strings.HasPrefix(entry, "client|setinfo\n"), "denied: %s", entry)
	}

	// The server adds up what scripts call, too. The rest is what a client says
	// before it is this user, and what the test says.
	used := s.Commands(t)
	for _, c := range []string{"hello", "client|setinfo", "info", "acl|log", "acl|setuser", "config|resetstat"} {
		delete(used, c)
	}
	granted := map[string]bool{}
	for _, rule := range strings.Fields(leastPrivilege) {
		if c, ok := strings.CutPrefix(rule, "+"); ok {
			granted[c] = true
			require.Positive(t, used[c], "%s is granted but not used", c)
		}
	}
	for c := range used {
		require.True(t, granted[c], "%s is used but not granted", c)
	}

	sent := m.Stats().Scripts
	_, err = m.TryLock(patient(t), "other:1")
	requireServerError(t, lockmgr.ErrPermission, err)
	require.EqualValues(t, 1, m.Stats().Scripts-sent, "what was denied as a whole left nothing to clean up")
	requireAtRest(t, m)
	_, err = m.ForceUnlock(patient(t), "other:1")
	requireServerError(t, lockmgr.ErrPermission, err)
}

// Without EVAL the scripts must be on the server already. Without SCRIPT LOAD
// they get there by EVAL.
func TestServerErrorScriptsNotLoaded(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	setUser(t, s, "mute", "+@all", "-eval", "-script", "~*", "&*")
	setUser(t, s, "speaker", "+@all", "-script", "~*", "&*")
	mute := dialAs(t, s.Addr(), "mute", secret, lockmgr.Options{Lease: time.Second, CommandTimeout: slow})
	speaker := dialAs(t, s.Addr(), "speaker", secret, lockmgr.Options{})
	_, err := mute.TryLock(patient(t), "a")
	requireServerError(t, lockmgr.ErrPermission, err)
	for _, m := range []*lockmgr.Manager{speaker, mute} {
		l, err := m.Lock(patient(t), "a")
		require.NoError(t, err)
		require.NoError(t, l.Unlock(patient(t)))
	}
}

// Errors that a child server is hard to bring to, or that other versions word
// differently.
func TestServerErrorReplies(t *testing.T) {
	t.Parallel()
	tests := []struct {
		reply string // "": none at all
		kind  error
		clean bool // nothing can have been left behind
	}{
		{"-LOADING Redis is loading the dataset in memory", lockmgr.ErrUnavailable, true},
		{"-TRYAGAIN Multiple keys request during rehashing of slot", lockmgr.ErrUnavailable, true},
		{"-BUSY Valkey is busy running a script.", lockmgr.ErrUnavailable, true},
		{"-NOAUTH Authentication required.", lockmgr.ErrPermission, true},
		{"-NOPERM User locker has no permissions to run the 'evalsha' command", lockmgr.ErrPermission, true},
		{"-NOPERM User locker has no permissions to run the 'hset' command script: f00, on @user_script:1.", lockmgr.ErrPermission, false},
		{"-ERR ACL failure in script: User locker has no permissions to run the 'hset' command script: f00, on @user_script:1.", lockmgr.ErrPermission, false},
		{"-ERR The user executing the script can't run this command or subcommand script: f00, on @user_script:1.", lockmgr.ErrPermission, false},
		{"-ERR The user executing the script can't access at least one of the keys mentioned in the command arguments", lockmgr.ErrPermission, false},
		{"-READONLY You can't write against a read only replica. script: f00, on @user_script:1.", lockmgr.ErrReadOnly, true},
		{"-OOM command not allowed when used memory > 'maxmemory'. script: f00, on @user_script:1.", lockmgr.ErrOutOfMemory, true},
		{"-WRONGTYPE Operation against a key holding the wrong kind of value", lockmgr.ErrWrongType, true},
		{"", lockmgr.ErrUnavailable, false},
	}
	for _, tt := range tests {
		t.Run(strings.Split(tt.reply, ":")[0], func(t *testing.T) {
			t.Parallel()
			var healed atomic.Bool
			addr := fakeServer(t, func(args []string) string {
				switch {
				case !healed.Load() && tt.reply == "":
					return ""
				case !healed.Load():
					return tt.reply + "\r\n"
				case scriptBySHA(args[1]) == "acquire":
					return "_\r\n"
				}
				return ":0\r\n"
			})
			options := lockmgr.Options{Lease: time.Second, CommandTimeout: slow}
			if tt.reply == "" {
				options = lockmgr.Options{Lease: 200 * time.Millisecond} // all that is to be seen are time-outs
			}
			m := dialTroubled(t, addr, options)
			_, err := m.TryLock(patient(t), "a")
			requireServerError(t, tt.kind, err)
			require.Contains(t, err.Error(), strings.TrimPrefix(tt.reply[min(1, len(tt.reply)):], "ERR "))
			if tt.clean {
				requireAtRest(t, m)
				require.EqualValues(t, 1, m.Stats().Scripts)
			} else {
				require.Eventually(t, func() bool { return m.Stats().Scripts > 1 }, patience, time.Millisecond, "nothing is done about it")
			}
			healed.Store(true)
			if tt.reply == "" {
				return // what was not answered then keeps all later answers off by one
			}
			requireAtRest(t, m) // a refusal that is still on its way fails who comes before it
			l, err := m.Lock(patient(t), "a")
			require.NoError(t, err)
			require.NoError(t, l.Unlock(patient(t)))
		})
	}
}

// A server that is no Redis, or a proxy that rewrites replies: whatever comes,
// nobody may take it for a grant, and nothing may panic, spin or stay.
func TestServerErrorStrangeReplies(t *testing.T) {
	t.Parallel()
	strange := []string{
		"+OK", "+QUEUED", "$0\r\n", "$3\r\nabc", "$1\r\n0", "$2\r\n-5", "$20\r\n99999999999999999999", "$4\r\n1e10",
		"*1\r\n:0", "*1\r\n:2", "*1\r\n:-1", "*1\r\n:9223372036854775807", "*2\r\n:1\r\n:1", "*3\r\n:1\r\n:2\r\n:3",
		"*1\r\n_", "*2\r\n_\r\n_", "*2\r\n:0\r\n$1\r\nx", "*2\r\n$1\r\n0\r\n$1\r\n5", "*1\r\n*1\r\n*0",
		"%1\r\n+a\r\n:1", "~1\r\n:2", ",1.5", ",inf", "#t", "#f", "(12345678901234567890123", "=5\r\ntxt:x",
		"!9\r\nERR blobs", "-", "-ERR", "-ERR unknown command 'EVALSHA'", "-NEVERHEARD of it",
	}
	// Good replies, but not to this script, or not to this question.
	null, number, text, pair, empty := "_", ":0", "$1\r\n7", "*2\r\n:0\r\n$1\r\n7", "*0"
	for _, tt := range []struct {
		script  string
		fenced  bool
		strange []string
	}{
		{"acquire", false, []string{text, pair, empty}},
		{"acquire", true, []string{null, pair, empty}},
		{"transfer", false, []string{text, pair, empty}},
		{"transfer", true, []string{number, text, empty}},
		{"renew", false, []string{null, number, text, pair}},
		{"release", false, []string{text, pair, empty}},
	} {
		t.Run(fmt.Sprintf("%s fenced=%v", tt.script, tt.fenced), func(t *testing.T) {
			t.Parallel()
			lies := append(slices.Clone(strange), tt.strange...)
			if tt.script == "acquire" { // an array of one number is a refusal
				lies = slices.DeleteFunc(lies, func(lie string) bool { return strings.HasPrefix(lie[1:], "1\r\n:") })
			}
			told := make([]atomic.Int64, len(lies))
			addr := fakeServer(t, func(args []string) string {
				script, fenced := scriptBySHA(args[1]), strings.Contains(strings.Join(args, " "), "redisson_lock_token")
				if script == tt.script && fenced == tt.fenced {
					i, _ := strconv.Atoi(args[3]) // the name is the number of a lie
					told[i].Add(1)
					return lies[i] + "\r\n"
				}
				reply := map[string]string{"acquire": null, "transfer": number, "renew": empty, "release": number}[script]
				if fenced {
					reply = map[string]string{"acquire": text, "transfer": pair}[script]
				}
				return reply + "\r\n"
			})
			var opts []lockmgr.LockOption
			if tt.fenced {
				opts = append(opts, lockmgr.Fenced())
			}
			lease := 10 * time.Second
			if tt.script == "renew" || tt.script == "release" {
				lease = time.Second // for this is the time that they take
			}
			// All at once, as most of it is waiting for leases to end.
			managers := make([]*lockmgr.Manager, len(lies))
			first, second := make([]*futures.Future[*lockmgr.Lock], len(lies)), make([]*futures.Future[*lockmgr.Lock], len(lies))
			for i := range lies {
				managers[i] = dialTroubled(t, addr, lockmgr.Options{Lease: lease, CommandTimeout: slow})
				first[i], second[i] = managers[i].LockAsync(strconv.Itoa(i), opts...), managers[i].LockAsync(strconv.Itoa(i), opts...)
				if tt.script != "acquire" && tt.script != "transfer" {
					second[i].Cancel()
				}
			}
			for i, lie := range lies {
				l, err := first[i].Await(patient(t))
				if tt.script == "acquire" {
					require.Error(t, err, "%q", lie)
					_, err = second[i].Await(patient(t))
					require.Error(t, err, "%q", lie)
					continue
				}
				require.NoError(t, err, "%q", lie)
				switch tt.script {
				case "transfer":
					// The other one takes over all the same, unless it needs a token.
					require.NoError(t, l.Unlock(patient(t)), "%q", lie)
					l, err = second[i].Await(patient(t))
					if err == nil {
						require.Equal(t, tt.fenced, l.Token() > 0, "%q", lie)
						// On a busy machine the first run was over, and this is another.
						if managers[i].Stats().Passes > 0 {
							require.Eventually(t, func() bool { return told[i].Load() > 0 }, patience, time.Millisecond, "%q", lie)
						}
						require.NoError(t, l.Unlock(patient(t)), "%q", lie)
					}
				case "renew":
					awaitLost(t, l)
					require.ErrorIs(t, l.Unlock(patient(t)), lockmgr.ErrLeaseLost, "%q", lie)
				case "release":
					require.Error(t, l.Unlock(patient(t)), "%q", lie)
				}
			}
			for i, lie := range lies {
				requireAtRest(t, managers[i])
				require.Less(t, told[i].Load(), int64(50), "%q is asked for again and again", lie)
				require.Positive(t, told[i].Load(), "%q is never asked for", lie)
			}
		})
	}
}

// scriptBySHA names the script that an EVALSHA calls.
func scriptBySHA(sha string) string {
	for name, text := range scripts() {
		if fmt.Sprintf("%x", sha1.Sum([]byte(text))) == sha {
			return name
		}
	}
	return ""
}

// Close says why a release was refused, and does not call a server unavailable
// that answered.
func TestServerErrorOfClose(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	setUser(t, s, "locker", strings.Fields(leastPrivilege)...)
	m, err := lockmgr.Dial(rueidis.ClientOption{InitAddress: []string{s.Addr()}, Username: "locker", Password: secret}, lockmgr.Options{})
	require.NoError(t, err)
	_, err = m.Lock(patient(t), "app:{1}") // whose channel is forbidden
	require.NoError(t, err)
	err = m.Close(patient(t))
	require.ErrorIs(t, err, lockmgr.ErrPermission)
	require.NotErrorIs(t, err, lockmgr.ErrUnavailable)
}
