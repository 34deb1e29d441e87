package lockmgr_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// setUser makes a user with a password and exactly these rules.
func setUser(t testing.TB, s *redistest.Server, user string, rules ...string) {
	t.Helper()
	faults.Do(t, s, append([]string{"ACL", "SETUSER", user, "reset", "on", ">" + secret}, rules...)...)
}

// A manager whose user lacks what the line needs is served beside managers that stand in it, and
// beside others like it. Some servers refuse keys that a script does not declare, as a server does
// here whose user may use no other keys.
func TestServer_WhoCantStandInTheLineIsServed(t *testing.T) {
	t.Parallel()
	all, undeclared := "-time -lindex -lrem -rpush", "resetkeys ~a* ~redisson_* ~holdfast:*"
	alone, write, fair, set, permit := kindOf("plain"), kindOf("writer"), kindOf("fair"), kindOf("set"), kindOf("permits")
	for _, tt := range []struct {
		denied          string
		request, others kind
	}{
		{"-time", alone, alone}, {"-rpush", alone, alone}, {"-lrem", alone, alone}, {"-lindex", alone, alone}, {"-hget", alone, alone}, {all, alone, alone},
		{"-rpush", write, write}, {all, write, write}, {"-rpush", set, alone}, {all, set, alone}, {all, set, set},
		{undeclared, alone, alone}, {undeclared, write, write}, {undeclared, fair, fair}, {undeclared, set, alone}, {undeclared, set, set},
		{"-rpush", permit, permit}, {"-lindex -lrem -rpush", permit, permit},
	} {
		for _, beside := range []string{"can", "can't"} {
			t.Run(tt.denied+" beside others that "+beside, func(t *testing.T) {
				t.Parallel()
				s := redistest.Start(t).Unrestricted()
				setUser(t, s, "can", "+@all", "~*", "&*")
				setUser(t, s, "can't", append([]string{"+@all", "~*", "&*"}, strings.Fields(tt.denied)...)...)
				connect := func(user string) *lockmgr.Manager {
					opt := rueidis.ClientOption{InitAddress: []string{s.Addr()}, Username: user, Password: secret}
					return dialOption(t, opt, lockmgr.Options{})
				}
				patient, end := context.WithCancel(faults.Patient(t))
				var others sync.WaitGroup
				defer others.Wait()
				defer end()
				for range 2 {
					m := connect(beside)
					others.Go(func() {
						for patient.Err() == nil {
							if l, err := tt.others.ask(m, "a").Await(patient); err == nil {
								time.Sleep(5 * milli)
								_ = l.Unlock(context.Background())
							}
						}
					})
				}
				m := connect("can't")
				for range 30 {
					l := must(tt.request.ask(m, "a").Await(patient))(t)
					time.Sleep(5 * milli)
					mustUnlock(t, l)
				}
			})
		}
	}
}

// A manager that can't stand in lines says so once.
func TestLog_OutsideTheLine(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	setUser(t, s, "less", "+@all", "~*", "&*", "-rpush")
	log, lines := logged(slog.LevelWarn)
	m, other := dialAs(t, s.Addr(), "less", lockmgr.Options{Logger: log}), dial(t, s.Addr(), lockmgr.Options{})
	for _, name := range []string{"a", "b"} {
		held := mustLock(t, other, name)
		f := m.LockAsync(name)
		faults.Eventually(t, func() bool { return len(lines("waiters can't stand in the line")) == 1 }, name)
		mustUnlock(t, held)
		mustUnlock(t, mustAwait(t, f))
	}
	require.Len(t, lines("waiters can't stand in the line"), 1)
}

// permissionTests take one permission away and say which calls fail then.
var permissionTests = []struct {
	denied  string // rules, separated by spaces, that follow those that allow everything
	take    error  // TryLock of a free lock
	contend error  // TryLock of a lock that another manager holds
	fenced  error  // TryLock with Fenced of a free lock
	unlock  error
	stays   bool // the record stays after Unlock until it expires
	noNext  bool // the lock does not pass on
}{
	{denied: "-evalsha", take: lockmgr.ErrPermission, contend: lockmgr.ErrPermission, fenced: lockmgr.ErrPermission},
	{denied: "-exists", take: lockmgr.ErrPermission, contend: lockmgr.ErrPermission, fenced: lockmgr.ErrPermission},
	{denied: "-hset", take: lockmgr.ErrPermission, contend: lockmgr.ErrNotAcquired, fenced: lockmgr.ErrPermission},
	{denied: "-pexpire", take: lockmgr.ErrPermission, contend: lockmgr.ErrNotAcquired, fenced: lockmgr.ErrPermission},
	{denied: "resetkeys ~redisson_*", take: lockmgr.ErrPermission, contend: lockmgr.ErrPermission, fenced: lockmgr.ErrPermission},
	{denied: "-pttl", contend: lockmgr.ErrPermission},
	{denied: "-hexists", contend: lockmgr.ErrPermission},
	{denied: "-hdel", contend: lockmgr.ErrNotAcquired, unlock: lockmgr.ErrPermission, stays: true, noNext: true},
	{denied: "-publish", contend: lockmgr.ErrNotAcquired}, // see TestUnlock_NobodyCanBeTold
	{denied: "resetchannels", contend: lockmgr.ErrNotAcquired},
	{denied: "-incrby", contend: lockmgr.ErrNotAcquired, fenced: lockmgr.ErrPermission},
	{denied: "-get", contend: lockmgr.ErrNotAcquired, fenced: lockmgr.ErrPermission},
	{denied: "resetkeys ~lock*", contend: lockmgr.ErrNotAcquired, fenced: lockmgr.ErrPermission},
	// Without these, locks work, but some calls take longer.
	{denied: "-del", contend: lockmgr.ErrNotAcquired},
	{denied: "-subscribe", contend: lockmgr.ErrNotAcquired},
	{denied: "-unsubscribe", contend: lockmgr.ErrNotAcquired},
	{denied: "-pubsub|numsub", contend: lockmgr.ErrNotAcquired},
	{denied: "-hgetall", contend: lockmgr.ErrNotAcquired},
	{denied: "-script", contend: lockmgr.ErrNotAcquired},
	{denied: "-eval", contend: lockmgr.ErrNotAcquired}, // others have loaded the scripts
	{denied: "-ping", contend: lockmgr.ErrNotAcquired},
	{denied: "-client", contend: lockmgr.ErrNotAcquired},
	// Channels are no keys.
	{denied: "resetkeys ~lock* ~redisson_lock_token:*", contend: lockmgr.ErrNotAcquired},
}

func TestServerError_Permissions(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for script := range scripts() {
		faults.Do(t, s, "SCRIPT", "LOAD", scripts()[script])
	}
	free := dial(t, s.Addr(), lockmgr.Options{})
	for i, tt := range permissionTests {
		t.Run(tt.denied, func(t *testing.T) {
			t.Parallel()
			user, name, w := fmt.Sprint("user", i), fmt.Sprint("lock", i), faults.NewWitness()
			setUser(t, s, user, append([]string{"+@all", "~*", "&*"}, strings.Fields(tt.denied)...)...)
			// A short lease, because a record that can't be removed stays so long.
			o := lockmgr.Options{Lease: 2 * time.Second, CommandTimeout: 2 * slow, Linger: -1, Observer: w.Observe}
			m := dialAs(t, s.Addr(), user, o)
			requireKind := func(kind, err error) {
				t.Helper()
				if kind == lockmgr.ErrPermission {
					requireServerError(t, kind, err)
				} else {
					require.ErrorIs(t, err, kind)
				}
			}
			gone := func(name string) {
				t.Helper()
				faults.Eventually(t, func() bool {
					ttl := faults.Do(t, s, "PTTL", name)
					require.NotEqual(t, "-1", ttl, "a lock for ever")
					return ttl == "-2"
				})
			}
			for way, opts := range [][]lockmgr.LockOption{nil, {lockmgr.Fenced()}} {
				// A name of its own: a manager that has waited long for a name may keep it after
				// Unlock, which then returns before the release.
				name := fmt.Sprint(name, "-", way)
				want := tt.take
				if opts != nil && want == nil {
					want = tt.fenced
				}
				if opts != nil && tt.stays {
					continue // it would take another lease
				}
				l, err := m.TryLock(faults.Patient(t), name, opts...)
				requireKind(want, err)
				if err == nil {
					requireKind(tt.unlock, l.Unlock(faults.Patient(t)))
					if !tt.stays {
						faults.AwaitEvent(t, w, func(lockmgr.EventReleased) bool { return true })
						require.Equal(t, "0", faults.Do(t, s, "EXISTS", name))
					}
				}
				gone(name)
			}

			// Another holds it.
			other := mustLock(t, free, name)
			_, err := m.TryLock(faults.Patient(t), name)
			requireKind(tt.contend, err)
			waiting := m.LockAsync(name)
			if tt.contend == lockmgr.ErrPermission {
				_, err = waiting.Await(faults.Patient(t))
				requireKind(tt.contend, err)
				waiting = nil
			}
			require.True(t, other.Valid())
			mustUnlock(t, other)
			if waiting != nil {
				l, err := waiting.Await(faults.Patient(t))
				if err == nil && tt.take != nil { // the other manager has granted the lock, by message
					requireKind(tt.unlock, l.Unlock(faults.Patient(t)))
				} else if requireKind(tt.take, err); err == nil {
					// The next waiter gets the lock in any case, but the record may have to expire
					// first.
					next := m.LockAsync(name)
					if err := l.Unlock(faults.Patient(t)); err != nil {
						requireKind(tt.unlock, err)
					}
					if tt.noNext {
						requireKind(lockmgr.ErrPermission, errOf(next.Await(faults.Patient(t))))
						gone(name)
						awaitAtRest(t, m)
						return
					}
					l = mustAwait(t, next)
					requireKind(tt.unlock, l.Unlock(faults.Patient(t)))
				}
			}
			gone(name)
			awaitAtRest(t, m)
		})
	}
}

// A user may not publish that a lock is free. The lock is free all the same, so Unlock returns nil.
// An event and the log tell why nobody was told.
func TestUnlock_NobodyCanBeTold(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t).Unrestricted()
	for i, denied := range []string{"-publish", "resetchannels"} {
		t.Run(denied, func(t *testing.T) {
			t.Parallel()
			user, w := fmt.Sprint("user", i), faults.NewWitness()
			setUser(t, s, user, append([]string{"+@all", "~*", "&*"}, strings.Fields(denied)...)...)
			var lines lockedBuffer
			// A release that is repeated after a time-out would find no record and no error.
			o := lockmgr.Options{Lease: 20 * time.Second, CommandTimeout: 5 * time.Second, Observer: w.Observe, Logger: slog.New(slog.NewTextHandler(&lines, nil))}
			m := dialAs(t, s.Addr(), user, o)
			for _, kind := range kinds {
				name := fmt.Sprint(i, " ", kind.title)
				l := must(kind.ask(m, name).Await(faults.Patient(t)))(t, name)
				require.NoError(t, l.Unlock(ctx), name)
				released := faults.AwaitEvent(t, w, func(e lockmgr.EventReleased) bool { return e.Name == l.Name() })
				if kind.kind != "fair" { // nobody is in the queue to be told
					requireServerError(t, lockmgr.ErrPermission, released.Err)
				}
				l = must(kind.ask(m, name, lockmgr.MaxWait(0)).Await(faults.Patient(t)))(t, "%s is free", name)
				require.NoError(t, l.Unlock(ctx), name)
			}
			name := fmt.Sprint(i, " kept")
			mustUnlock(t, mustLock(t, m, name, lockmgr.KeepFor(lockmgr.MinLease)))
			require.Contains(t, lines.String(), "commands fail")
			require.Contains(t, lines.String(), "reason=permission")
			awaitAtRest(t, m)
		})
	}
}

// A user may not use the queue of a fair lock for which another process waits. As soon as the
// record is gone, Unlock returns nil. If Unlock returns an error, the record is still there.
func TestUnlock_FairQueueDenied(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t).Unrestricted()
	waiter := dial(t, s.Addr(), lockmgr.Options{})
	for i, denied := range strings.Fields("-time -info -hget -hgetall -lindex -lpop -lrange -lrem -pexpireat -publish -rpush -zadd -zrem -zscore") {
		user, name := fmt.Sprint("user", i), fmt.Sprint("fair ", i)
		setUser(t, s, user, "+@all", "~*", "&*")
		m := dialAs(t, s.Addr(), user, lockmgr.Options{Lease: 20 * time.Second, CommandTimeout: 5 * time.Second})
		l := mustLock(t, m, name, lockmgr.Fair())
		next := waiter.LockAsync(name, lockmgr.Fair())
		faults.Eventually(t, func() bool { return faults.Do(t, s, "LLEN", "redisson_lock_queue:{"+name+"}") == "1" })
		faults.Do(t, s, "ACL", "SETUSER", user, denied)
		err := l.Unlock(ctx)
		if faults.Do(t, s, "HEXISTS", name, l.HolderID()) == "0" {
			require.NoError(t, err, denied)
		} else {
			requireServerError(t, lockmgr.ErrPermission, err)
			faults.Do(t, s, "ACL", "SETUSER", user, "+@all")
		}
		mustUnlock(t, mustAwait(t, next))
	}
}

// A user may not remove places from the queue of a fair lock. A request that leaves reports that,
// and leaves as soon as the user may.
func TestCancel_FairQueueDenied(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t).Unrestricted()
	holder := dial(t, s.Addr(), lockmgr.Options{})
	l := mustLock(t, holder, "a", lockmgr.Fair())
	setUser(t, s, "user", "+@all", "~*", "&*")
	w := faults.NewWitness()
	m := dialAs(t, s.Addr(), "user", lockmgr.Options{CommandTimeout: 5 * time.Second, Observer: w.Observe})
	waiter := m.LockAsync("a", lockmgr.Fair())
	faults.Eventually(t, func() bool { return faults.Do(t, s, "LLEN", "redisson_lock_queue:{a}") == "1" })
	faults.Do(t, s, "ACL", "SETUSER", "user", "-zrem")
	waiter.Cancel()
	failed := faults.AwaitEvent(t, w, func(e lockmgr.EventCommandFailed) bool { return e.Name == "a" })
	requireServerError(t, lockmgr.ErrPermission, failed.Err)
	faults.Do(t, s, "ACL", "SETUSER", "user", "+zrem")
	awaitAtRest(t, m)
	mustUnlock(t, l)
}

// A manager that may not prolong a fair lock any more, and has waiting requests, leaves the record.
func TestTransfer_FairExpireDenied(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t).Unrestricted()
	setUser(t, s, "user", "+@all", "~*", "&*")
	m := dialAs(t, s.Addr(), "user", lockmgr.Options{CommandTimeout: 5 * time.Second})
	l := mustLock(t, m, "a", lockmgr.Fair())
	faults.Do(t, s, "ACL", "SETUSER", "user", "-pexpire")
	requireServerError(t, lockmgr.ErrPermission, errOf(m.Lock(faults.Patient(t), "a", lockmgr.Fair())))
	require.Contains(t, faults.Do(t, s, "HGETALL", "a"), l.HolderID())
	mustUnlock(t, l)
}

// A user may not remove records, or not look into records. If Unlock returns an error, the record
// still names the holder.
func TestUnlock_DeleteDenied(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t).Unrestricted()
	setUser(t, s, "user", "+@all", "~*", "&*")
	m := dialAs(t, s.Addr(), "user", lockmgr.Options{Lease: 20 * time.Second, CommandTimeout: 5 * time.Second})
	for _, side := range []lockmgr.LockOption{lockmgr.Shared(), lockmgr.Exclusive(), lockmgr.Fair()} {
		for _, command := range []string{"del", "hexists"} {
			name := side.Name() + command
			l := mustLock(t, m, name, side)
			faults.Do(t, s, "ACL", "SETUSER", "user", "-"+command)
			before := faults.Do(t, s, "HGETALL", name)
			requireServerError(t, lockmgr.ErrPermission, l.Unlock(ctx))
			require.Equal(t, before, faults.Do(t, s, "HGETALL", name))
			faults.Do(t, s, "ACL", "SETUSER", "user", "+"+command)
		}
	}
	awaitAtRest(t, m)
}

// Whichever rule is missing, a request for a lock of any kind, and each method that changes or shows
// one, works or says that the permission is missing. None takes the refusal for another trouble.
func TestServerError_EachMissingRule(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	rules := slices.Compact(slices.Sorted(strings.FieldsSeq(allPrivilege)))
	rules = slices.DeleteFunc(rules, func(rule string) bool { return rule == "-@all" || rule == "resetchannels" })
	for i, missing := range rules {
		t.Run(missing, func(t *testing.T) {
			user := fmt.Sprint("user", i)
			setUser(t, s, user, append([]string{"-@all", "resetchannels"}, slices.Delete(slices.Clone(rules), i, i+1)...)...)
			opt := rueidis.ClientOption{InitAddress: []string{s.Addr()}, Username: user, Password: secret}
			m := dialOption(t, opt, lockmgr.Options{})
			may := func(what string, err error) {
				t.Helper()
				if err != nil {
					require.ErrorIs(t, err, lockmgr.ErrPermission, what)
				}
			}
			name := func(what string) string { return fmt.Sprint("app:", what, i) }
			locked := func(what string, l *lockmgr.Lock, err error) {
				t.Helper()
				if may(what, err); err == nil {
					may(what, l.Unlock(faults.Patient(t)))
				}
			}
			for what, opts := range map[string][]lockmgr.LockOption{
				"plain": nil, "kept": {lockmgr.KeepFor(lockmgr.MinLease), lockmgr.TakeOver("a:1")},
				"fair": {lockmgr.Fair(), lockmgr.Fenced()}, "read": {lockmgr.Shared(), lockmgr.Fenced()},
				"write": {lockmgr.Exclusive()}, "fenced": {lockmgr.Fenced()},
			} {
				l, err := m.TryLock(faults.Patient(t), name(what), opts...)
				locked(what, l, err)
			}
			set := lockmgr.Set{Names: []string{name("s")}, Shared: []string{name("t")}, Exclusive: []string{name("u")}}
			l, err := m.TryLockAll(faults.Patient(t), set)
			locked("set", l, err)
			permits := m.Permits(name("permits"), 3)
			l, err = permits.Acquire(faults.Patient(t), 2)
			locked("permits", l, err)
			may("SetLimit", permits.SetLimit(faults.Patient(t), 4))
			may("AddLimit", errOf(permits.AddLimit(faults.Patient(t), 1)))
			may("Return", errOf(permits.Return(faults.Patient(t), strings.Repeat("0", 32))))
			may("Delete", errOf(permits.Delete(faults.Patient(t))))
			may("Inspect of permits", errOf(permits.Inspect(faults.Patient(t))))
			may("Inspect", errOf(m.Inspect(faults.Patient(t), name("plain"))))
			may("ForceUnlock", errOf(m.ForceUnlock(faults.Patient(t), name("plain"))))
		})
	}
}

// leastPrivilege has the rules that a user needs for locks whose names begin with "app:". The
// second line is for Fenced, the third for Inspect.
const leastPrivilege = `-@all +evalsha +eval +script|load +exists +hexists +hset +hdel +pexpire +pttl +del +publish +pubsub|numsub +subscribe +unsubscribe +ping
	+incrby +get
	+hgetall +hscan +getrange +hlen +memory|usage +unlink
	~app:* ~redisson_lock_token:{app:* resetchannels &redisson_lock__channel:{app:*`

// readWritePrivilege has the rules that read-write locks need in addition.
const readWritePrivilege = "+hget +hlen +set ~{app:* &redisson_rwlock:{app:*"

// permitsPrivilege has the rules that permits need in addition.
const permitsPrivilege = "+get +set +incrby +hget +hlen +lindex +lrem +rpush +time +zadd +zrem +zscore +zcard +zcount +zrangebyscore ~{app:* &redisson_sc:{app:*"

// fairPrivilege has the rules that fair locks need in addition.
const fairPrivilege = "+info +pexpireat +hget +hgetall +time +zadd +zrem +zscore +lindex +lpop +lrange +lrem +rpush ~redisson_lock_queue:{app:* ~redisson_lock_timeout:{app:*"

// watchPrivilege has the rules that it takes to tell and to see who holds locks, in addition.
const watchPrivilege = "+scan +getrange +set ~holdfast:manager:*"

// The rules suffice for all that managers do, and each of them is needed.
func TestServerError_LeastPrivilege(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	rules := strings.Fields(allPrivilege)
	setUser(t, s, "locker", rules...)
	faults.Do(t, s, "CONFIG", "RESETSTAT")
	w := faults.NewWitness()
	connect := func() *lockmgr.Manager {
		opt := rueidis.ClientOption{InitAddress: []string{s.Addr()}, Username: "locker", Password: secret}
		opt.Dialer.KeepAlive = 20 * time.Millisecond // pings
		m := must(lockmgr.Dial(opt, lockmgr.Options{Lease: time.Second, CommandTimeout: slow, Linger: -1, Observer: w.Observe}))(t)
		faults.CloseAtEnd(t, m)
		return m
	}
	m, other := connect(), connect()

	// Locks are passed on, renewed and taken by turns, with and without tokens.
	var wg sync.WaitGroup
	for _, kind := range []struct {
		name           string
		fourth, others []lockmgr.LockOption // of every fourth caller, and of the others
	}{
		{"app:1", nil, nil},
		{"app:1", []lockmgr.LockOption{lockmgr.Fenced()}, []lockmgr.LockOption{lockmgr.Fenced()}},
		{"app:2", []lockmgr.LockOption{lockmgr.Exclusive()}, []lockmgr.LockOption{lockmgr.Shared(), lockmgr.Fenced()}},
		{"app:4", []lockmgr.LockOption{lockmgr.Fair(), lockmgr.Fenced()}, []lockmgr.LockOption{lockmgr.Fair()}},
	} {
		for i := range 20 {
			opts := kind.others
			if i%4 == 0 {
				opts = kind.fourth
			}
			wg.Go(func() {
				l, err := []*lockmgr.Manager{m, other}[i%2].Lock(faults.Patient(t), kind.name, opts...)
				if err == nil && i == 7 {
					faults.AwaitEvent(t, w, func(lockmgr.EventRenewed) bool { return true })
				}
				if err == nil {
					err = l.Unlock(faults.Patient(t))
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	}
	for i := range 20 {
		wg.Go(func() {
			p := []*lockmgr.Manager{m, other}[i%2].Permits("app:3", 3)
			l, err := p.Acquire(faults.Patient(t), 1+i%2)
			if err == nil && i == 7 {
				err = l.Extend(faults.Patient(t), 2*time.Second)
			}
			if err == nil {
				err = l.Unlock(faults.Patient(t))
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	permits := m.Permits("app:3", 3)
	require.NoError(t, permits.SetLimit(faults.Patient(t), 4))
	permit := mustAcquire(t, permits, 1)
	require.Equal(t, 3, must(other.Permits("app:3", 3).Inspect(faults.Patient(t)))(t).Free)
	require.True(t, must(permits.Return(faults.Patient(t), permit.PermitIDs()...))(t))
	faults.AwaitLost(t, permit)
	l := mustLock(t, m, "app:1")
	require.ErrorIs(t, errOf(other.TryLock(faults.Patient(t), "app:1")), lockmgr.ErrNotAcquired)
	info := mustInspect(t, other, "app:1")
	require.True(t, info.Locked)
	require.Positive(t, info.Token)
	require.GreaterOrEqual(t, info.Waiting, int64(0))
	found := 0
	for info, err := range other.Scan(faults.Patient(t), "app:") {
		require.NoError(t, err)
		require.Equal(t, "app:1", info.Name)
		found++
	}
	require.Equal(t, 1, found)
	require.True(t, must(other.ForceUnlock(faults.Patient(t), "app:1"))(t))
	faults.AwaitLost(t, l)
	faults.Do(t, s, append([]string{"HSET", "app:huge"}, hugeRecord(1500)...)...)
	require.True(t, must(other.ForceUnlock(faults.Patient(t), "app:huge"))(t))
	awaitAtRest(t, m)
	awaitAtRest(t, other)
	faults.Eventually(t, func() bool { return s.Commands(t)["unsubscribe"] > 0 })
	for _, entry := range strings.Split(faults.Do(t, s, "ACL", "LOG"), "object\n")[1:] {
		// The client tries this command on servers from 7.2 on, and can do without.
		require.True(t, strings.HasPrefix(entry, "client|setinfo\n"), "denied: %s", entry)
	}

	// The server also counts the commands that scripts call. Left out are those of the client
	// before it has logged in, and those of the test.
	used := s.Commands(t)
	for _, c := range []string{"hello", "client|setinfo", "acl|log", "acl|setuser", "config|resetstat"} {
		delete(used, c)
	}
	granted := map[string]bool{}
	for _, rule := range rules {
		if c, ok := strings.CutPrefix(rule, "+"); ok {
			granted[c] = true
			require.Positive(t, used[c], "%s is granted but not used", c)
		}
	}
	for c := range used {
		require.True(t, granted[c], "%s is used but not granted", c)
	}

	sent := m.Stats().Scripts
	requireServerError(t, lockmgr.ErrPermission, errOf(m.TryLock(faults.Patient(t), "other:1")))
	require.EqualValues(t, 1, m.Stats().Scripts-sent, "a script that did not run leaves nothing to release")
	awaitAtRest(t, m)
	requireServerError(t, lockmgr.ErrPermission, errOf(m.ForceUnlock(faults.Patient(t), "other:1")))
}

// The user loses its permissions while a lock is held and others wait for it. Nobody can get the
// lock then, so those who wait are told, and do not wait until its lease ends.
func TestServerError_PermissionsLostBeforeAHandoff(t *testing.T) {
	t.Parallel()
	type options = []lockmgr.LockOption
	for _, opts := range []options{nil, {lockmgr.Fenced()}, {lockmgr.Fair()}, {lockmgr.Exclusive()}} {
		s := redistest.Start(t).Unrestricted()
		m := dialTroubled(t, s.Addr(), lockmgr.Options{Anonymous: true, Lease: time.Hour})
		ctx := faults.Patient(t)
		l := mustLock(t, m, "a", opts...)
		f := m.LockAsync("a", opts...)
		reader := mustLock(t, m, "reader", lockmgr.Shared())
		faults.Do(t, s, "ACL", "SETUSER", "default", "resetkeys", "~b")
		require.ErrorIs(t, l.Unlock(ctx), lockmgr.ErrPermission)
		require.ErrorIs(t, errOf(f.Await(ctx)), lockmgr.ErrPermission)

		// A reader joins another one only after a command has found the record.
		require.ErrorIs(t, errOf(m.Lock(ctx, "reader", lockmgr.Shared())), lockmgr.ErrPermission)
		require.True(t, reader.Valid())
	}
}
