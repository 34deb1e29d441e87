package lockmgr_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
	wires "github.com/holdfast-go/holdfast/lockmgr/internal/wire"
)

// A move is a slot on its way from one master to another.
type move struct {
	t        *testing.T
	cluster  *redistest.Cluster
	from, to *redistest.Server
	key      string // one of the slot
}

// movable returns a name of a form, with a number in it, whose slot the first master serves. All moves
// of a cluster go from there to the second one: if one soon follows another in the opposite direction,
// a slot may fall back.
func movable(c *redistest.Cluster, form string) string {
	for i := 0; ; i++ {
		if name := fmt.Sprintf(form, i); wires.SlotOf(name) < wires.Slots/c.Masters {
			return name
		}
	}
}

// beginMove begins to move the slot of a key that is movable. Its keys stay until migrate or finish
// is called.
func beginMove(t *testing.T, c *redistest.Cluster, key string) *move {
	t.Helper()
	m := &move{t, c, c.Nodes[0], c.Nodes[1], key}
	slot := strconv.Itoa(wires.SlotOf(key))
	faults.Do(t, m.to, "CLUSTER", "SETSLOT", slot, "IMPORTING", faults.Do(t, m.from, "CLUSTER", "MYID"))
	faults.Do(t, m.from, "CLUSTER", "SETSLOT", slot, "MIGRATING", faults.Do(t, m.to, "CLUSTER", "MYID"))
	return m
}

// migrate takes keys to the new master. The slot stays.
func (m *move) migrate(keys ...string) {
	m.t.Helper()
	for _, key := range keys {
		require.Equal(m.t, "OK", faults.Do(m.t, m.from, "MIGRATE", "127.0.0.1", strconv.Itoa(m.to.Port()), key, "0", "2000"), key)
	}
}

// keys returns the keys of the slot that a master has.
func (m *move) keys(at *redistest.Server) []string {
	m.t.Helper()
	return strings.Fields(must(at.Do("CLUSTER", "GETKEYSINSLOT", strconv.Itoa(wires.SlotOf(m.key)), "100"))(m.t))
}

// finish takes the remaining keys to the new master, and then the slot.
func (m *move) finish() {
	m.t.Helper()
	m.cluster.Move(m.t, m.key, m.to)
}

// awaitWaiters waits until so many clients listen to a sharded or a classic channel, at the master
// that still serves the slot. Their tries after the confirmation are over then.
func (m *move) awaitWaiters(channel string, n int, sharded bool) {
	m.t.Helper()
	count := func() (all int) {
		for _, node := range m.cluster.Nodes {
			words := []string{"PUBSUB", "NUMSUB", channel}
			if sharded {
				words[1] = "SHARDNUMSUB"
			}
			lines := strings.Fields(faults.Do(m.t, node, words...))
			here := must(strconv.Atoi(lines[len(lines)-1]))(m.t)
			all += here
		}
		return all
	}
	faults.Eventually(m.t, func() bool { return count() == n }, "%d listen to %s, want %d", count(), channel, n)
	time.Sleep(300 * time.Millisecond) // what follows a confirmation is over
}

// While a slot is moved, and the keys of a lock are at one of the two masters, the lock is waited
// for, passed on, given back and taken as before. A waiter of another manager is woken by a message,
// long before it would poll.
func TestCluster_LocksOfASlotThatIsMoving(t *testing.T) {
	t.Parallel()
	type asking func(m *lockmgr.Manager, name string) *futures.Future[*lockmgr.Lock]
	with := func(opts ...lockmgr.LockOption) asking {
		return func(m *lockmgr.Manager, name string) *futures.Future[*lockmgr.Lock] {
			return m.LockAsync(name, opts...)
		}
	}
	kinds := []struct {
		name    string
		channel string
		ask     asking
	}{
		{"plain", "redisson_lock__channel:", with()},
		{"exclusive", "redisson_rwlock:", with(lockmgr.Exclusive())},
	}
	for _, channels := range allChannels {
		t.Run(fmt.Sprintf("channels=%d", channels), func(t *testing.T) {
			t.Parallel()
			c := redistest.StartCluster(t, 3, 0)
			o := lockmgr.Options{Channels: channels, Linger: time.Minute} // so that the number of subscribers only grows
			m, other := dialCluster(t, c, o), dialCluster(t, c, o)
			for _, kind := range kinds {
				for _, migrated := range []bool{false, true} {
					name := movable(c, fmt.Sprintf("%s:%t:%%d", kind.name, migrated))
					ctx := faults.Patient(t)
					l, err := kind.ask(m, name).Await(ctx)
					require.NoError(t, err)
					moving := beginMove(t, c, name)
					if migrated {
						moving.migrate(moving.keys(moving.from)...)
					}
					given := func(to *lockmgr.Manager, f *futures.Future[*lockmgr.Lock], what string, give func()) {
						t.Helper()
						faults.ByMessage(t, to, func() {
							give()
							l, err = f.Await(ctx)
							require.NoError(t, err, "%s: %s", name, what)
						}, "%s: %s", name, what)
						require.True(t, l.Valid())
					}
					unlock := func() { require.NoError(t, l.Unlock(ctx), name) }
					here := kind.ask(m, name)
					there := []*futures.Future[*lockmgr.Lock]{kind.ask(other, name), kind.ask(other, name)}
					sharded := channels != lockmgr.ClassicChannels
					moving.awaitWaiters(kind.channel+"{"+name+"}", 1, sharded)
					given(m, here, "passed on within the manager", unlock)
					for _, f := range there {
						given(other, f, "passed on to another manager", unlock)
					}
					// The record is at the new master, and those who wait listen at the old one.
					require.Empty(t, moving.keys(moving.from), name)
					f := kind.ask(m, name)
					moving.awaitWaiters(kind.channel+"{"+name+"}", 2, sharded)
					given(m, f, "given back at the new master", unlock)
					f = kind.ask(other, name)
					moving.awaitWaiters(kind.channel+"{"+name+"}", 2, sharded)
					given(other, f, "removed by ForceUnlock", func() {
						require.True(t, must(other.ForceUnlock(ctx, name))(t))
					})
					moving.finish()
					require.True(t, l.Valid())
					mustUnlock(t, l)
					faults.Eventually(t, func() bool { return ownKeys(t, c, name) == "" }, name)
				}
			}
		})
	}
}

// While a slot is moved, readers, permits and sets are given back as soon as their keys are at one
// master, and those who wait for that are woken.
func TestCluster_GivenBackInASlotThatIsMoving(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3, 0)
	m, other := dialCluster(t, c, lockmgr.Options{}), dialCluster(t, c, lockmgr.Options{})
	for i, migrated := range []bool{false, true} {
		tag := movable(c, fmt.Sprintf("{%d-%%d}", i))
		reader := mustLock(t, m, tag+"r", lockmgr.Shared())
		set := mustLockAll(t, m, lockmgr.Set{Names: []string{tag + "a", tag + "b"}, Shared: []string{tag + "c"}})
		first := mustAcquire(t, m.Permits(tag+"p", 2), 1)
		second := mustAcquire(t, m.Permits(tag+"p", 2), 1)
		moving := beginMove(t, c, tag)
		if migrated {
			moving.migrate(moving.keys(moving.from)...)
		}
		writer := other.LockAsync(tag+"r", lockmgr.Exclusive())
		moving.awaitWaiters("redisson_rwlock:"+tag+"r", 1, true)
		given := func(give func(), fs ...*futures.Future[*lockmgr.Lock]) {
			t.Helper()
			faults.ByMessage(t, other, func() {
				give()
				for _, f := range fs {
					mustUnlock(t, mustAwait(t, f))
				}
			}, "migrated: %v", migrated)
		}
		given(func() { mustUnlock(t, reader) }, writer)

		one, side := other.LockAsync(tag+"b"), other.LockAsync(tag+"c", lockmgr.Exclusive())
		moving.awaitWaiters("redisson_lock__channel:"+tag+"b", 1, true)
		moving.awaitWaiters("redisson_rwlock:"+tag+"c", 1, true)
		given(func() { mustUnlock(t, set) }, one, side)

		permit := other.Permits(tag+"p", 2).AcquireAsync(1)
		moving.awaitWaiters("redisson_sc:"+tag+"p", 1, true)
		given(func() { mustUnlock(t, first) }, permit)
		mustUnlock(t, second)
		moving.finish()
		for _, name := range []string{"r", "a", "b", "c"} {
			require.Empty(t, ownKeys(t, c, tag+name))
		}
	}
}

// A reader whose record and own key are at two masters, as the slot is being moved, reads on. Nobody
// else gets the lock, and the reader gives it back when the slot has moved.
func TestCluster_ReaderWhoseKeysAreApart(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3, 0)
	o := lockmgr.Options{RetryTime: 20 * time.Second}
	m, other := dialCluster(t, c, o), dialCluster(t, c, o)
	for i, form := range []string{"a%d", "b%d", "{c%d}1", "{d%d}1"} {
		ctx, name := faults.Patient(t), movable(c, form)
		reader := must(m.Lock(ctx, name, lockmgr.Shared()))(t)
		moving := beginMove(t, c, name)
		for _, key := range moving.keys(moving.from) {
			if (key == name) == (i%2 == 0) {
				moving.migrate(key)
			}
		}
		require.Len(t, moving.keys(moving.from), 1)
		require.Len(t, moving.keys(moving.to), 1)
		require.Error(t, errOf(other.Lock(ctx, name, lockmgr.Exclusive(), lockmgr.MaxWait(time.Second))), "%s: beside a reader", name)
		require.Error(t, errOf(other.LockAll(ctx, lockmgr.All(name), lockmgr.MaxWait(time.Second))), "%s: beside a reader", name)
		writer := other.LockAsync(name, lockmgr.Exclusive())
		require.True(t, reader.Valid())
		moving.finish()
		require.NoError(t, reader.Extend(ctx, time.Minute))
		require.NoError(t, reader.Unlock(ctx))
		require.NoError(t, must(writer.Await(ctx))(t).Unlock(ctx))
		require.Empty(t, ownKeys(t, c, name))
	}
}

// Held locks of a slot that is being moved are renewed, for as long as it takes, whichever master has
// their keys.
func TestCluster_RenewedInASlotThatIsMoving(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3, 0)
	o := lockmgr.Options{Lease: 2 * time.Second, RetryTime: 10 * time.Second}
	m := dialCluster(t, c, o)
	ctx := faults.Patient(t)
	var held []*lockmgr.Lock
	keep := func(l *lockmgr.Lock, err error) {
		t.Helper()
		require.NoError(t, err)
		held = append(held, l)
	}
	var moves []*move
	plain, tagged := movable(c, "a%d"), movable(c, "{b%d}")
	for name, tag := range map[string]string{plain: "{" + plain + "}", tagged + "1": tagged} {
		keep(m.Lock(ctx, name, lockmgr.Shared()))
		keep(m.Lock(ctx, tag+"w", lockmgr.Exclusive()))
		keep(m.Lock(ctx, tag+"f", lockmgr.Fair()))
		keep(m.Lock(ctx, tag+"t", lockmgr.Fenced()))
		keep(m.LockAll(ctx, lockmgr.Set{Names: []string{tag + "s"}, Shared: []string{tag + "v"}}))
		keep(m.Permits(tag+"p", 2).Acquire(ctx, 2))
		moves = append(moves, beginMove(t, c, name))
	}
	for range 2 {
		for begin := time.Now(); time.Since(begin) < 2*o.Lease; time.Sleep(20 * time.Millisecond) {
			for _, l := range held {
				require.True(t, l.Valid(), l.Name())
			}
		}
		for _, moving := range moves {
			moving.migrate(moving.keys(moving.from)...)
		}
	}
	for _, moving := range moves {
		moving.finish()
	}
	mustUnlock(t, held...)
}

// A script of a fair lock uses keys that come and go while it runs. So it runs when its slot has
// moved. Until then a holder keeps the lock, and nothing of it changes.
func TestCluster_FairLockOfASlotThatIsMoving(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3, 0)
	o := lockmgr.Options{RetryTime: 20 * time.Second}
	m, other := dialCluster(t, c, o), dialCluster(t, c, o)
	name := movable(c, "a%d")
	l := mustLock(t, m, name, lockmgr.Fair())
	f := other.LockAsync(name, lockmgr.Fair())
	faults.Eventually(t, func() bool { return faults.Do(t, c.Nodes[0], "LLEN", "redisson_lock_queue:{"+name+"}") == "1" })
	moving := beginMove(t, c, name)
	keys := moving.keys(moving.from)
	unlocked := l.UnlockAsync()
	time.Sleep(time.Second)
	require.ElementsMatch(t, keys, moving.keys(moving.from))
	require.Empty(t, moving.keys(moving.to))
	moving.finish()
	mustAwait(t, unlocked)
	mustUnlock(t, mustAwait(t, f))
}

// Inspect reads the record and the token counter of a lock in one script. So while its slot is being
// moved a master refuses it, unless both keys are there. ForceUnlock reads the record only.
func TestCluster_InspectInASlotThatIsMoving(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3, 0)
	m := dialCluster(t, c, lockmgr.Options{})
	ctx := faults.Patient(t)
	for _, migrated := range []bool{false, true} {
		tag := movable(c, fmt.Sprintf("{%t-%%d}", migrated))
		plain, fenced := tag+"plain", tag+"fenced"
		l := mustLock(t, m, plain)
		withToken := mustLock(t, m, fenced, lockmgr.Fenced())
		moving := beginMove(t, c, tag)
		if migrated {
			moving.migrate(moving.keys(moving.from)...)
		}
		require.ErrorIs(t, errOf(m.Inspect(ctx, plain)), lockmgr.ErrUnavailable, "migrated: %t", migrated)
		require.True(t, must(m.Inspect(ctx, fenced))(t, "migrated: %t", migrated).Locked)
		require.True(t, must(m.ForceUnlock(ctx, plain))(t))
		require.Error(t, l.Unlock(ctx))
		moving.finish()
		require.False(t, mustInspect(t, m, plain).Locked)
		mustUnlock(t, withToken)
	}
}

// A writer passes an exclusive lock on to a reader of its manager while the slot is being moved. The
// old master takes no key for the new reader, so the record names the writer until the slot has
// moved. It is renewed all the same.
func TestCluster_PassedToAReaderInASlotThatIsMoving(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 2, 0)
	o := lockmgr.Options{Lease: 2 * time.Second, RetryTime: 20 * time.Second}
	m, other := dialCluster(t, c, o), dialCluster(t, c, o)
	name := movable(c, "a%d")
	writer := mustLock(t, m, name, lockmgr.Exclusive())
	f := m.LockAsync(name, lockmgr.Shared())
	moving := beginMove(t, c, name)
	mustUnlock(t, writer)
	reader := mustAwait(t, f)
	for begin := time.Now(); time.Since(begin) < 2*o.Lease; time.Sleep(20 * time.Millisecond) {
		require.True(t, reader.Valid(), reader.Err())
	}
	require.ErrorIs(t, errOf(other.TryLock(faults.Patient(t), name, lockmgr.Exclusive())), lockmgr.ErrNotAcquired)
	moving.finish()
	require.NoError(t, reader.Extend(faults.Patient(t), time.Minute))
	mustUnlock(t, reader)
	faults.Eventually(t, func() bool { return ownKeys(t, c, name) == "" }, name)
}

// Requests that are refused as their slot is being moved fail after RetryTime. Those who wait for
// other names of the same masters wait on, also for names of that slot. The name that is refused is
// the first in the order of names: a manager whose server fails tries that one once more.
func TestCluster_RefusedInASlotThatIsMoving(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 2, 0)
	m, other := dialCluster(t, c, lockmgr.Options{}), dialCluster(t, c, lockmgr.Options{RetryTime: time.Second})
	ctx := faults.Patient(t)
	tag := movable(c, "{%d}")
	take := func(name string, opts ...lockmgr.LockOption) *lockmgr.Lock {
		t.Helper()
		return mustLock(t, m, name, opts...)
	}
	var held []*lockmgr.Lock
	var waits []*futures.Future[*lockmgr.Lock]
	for _, name := range []string{movable(c, "~a%d"), movable(c, "~b%d"), tag + "here", tag + "there"} {
		held, waits = append(held, take(name)), append(waits, other.LockAsync(name))
	}
	reader, fair := take(tag+"a", lockmgr.Shared()), take(tag+"b", lockmgr.Fair())
	moving := beginMove(t, c, tag)
	for _, key := range moving.keys(moving.from) {
		if key == tag+"there" || strings.Contains(key, "rwlock_timeout") {
			moving.migrate(key)
		}
	}
	moving.awaitWaiters("redisson_lock__channel:"+tag+"there", 1, true)
	writer, next := other.LockAsync(tag+"a", lockmgr.Exclusive()), other.LockAsync(tag+"b", lockmgr.Fair())
	for _, f := range []*futures.Future[*lockmgr.Lock]{writer, next} {
		require.ErrorIs(t, errOf(f.Await(ctx)), lockmgr.ErrUnavailable)
	}
	for i, f := range waits {
		mustUnlock(t, held[i])
		mustUnlock(t, mustAwait(t, f))
	}
	moving.finish()
	mustUnlock(t, reader, fair)
}
