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
)

// awaitWaiters waits until so many clients listen to a sharded or a classic channel, at the master
// that still serves the slot. Their tries after the confirmation are over then.
func awaitWaiters(t testing.TB, c *redistest.Cluster, channel string, n int, sharded bool) {
	t.Helper()
	count := func() (all int) {
		for _, node := range c.Nodes {
			words := []string{"PUBSUB", "NUMSUB", channel}
			if sharded {
				words[1] = "SHARDNUMSUB"
			}
			lines := strings.Fields(faults.Do(t, node, words...))
			all += must(strconv.Atoi(lines[len(lines)-1]))(t)
		}
		return all
	}
	faults.Eventually(t, func() bool { return count() == n }, "%d listen to %s, want %d", count(), channel, n)
	time.Sleep(100 * time.Millisecond) // what follows a confirmation is over
}

// While a slot is moved, and the keys of a lock are at one of the two masters, the lock is waited
// for, passed on, given back and taken as before. A waiter of another manager is woken by a
// message, long before it would poll.
func TestCluster_LocksOfASlotThatIsMoving(t *testing.T) {
	t.Parallel()
	for _, channels := range allChannels {
		t.Run(fmt.Sprintf("channels=%d", channels), func(t *testing.T) {
			t.Parallel()
			c := redistest.StartCluster(t, 3, 0)
			// The number of subscribers only grows, and a run outlasts a hold.
			o := lockmgr.Options{Channels: channels, Linger: time.Minute, PassTime: time.Minute}
			m, other := dialCluster(t, c, o), dialCluster(t, c, o)
			for title, prefix := range map[string]string{"plain": "redisson_lock__channel:", "writer": "redisson_rwlock:"} {
				kind := kindOf(title)
				for _, migrated := range []bool{false, true} {
					name := c.Movable(t, fmt.Sprintf("%s:%t:%%d", title, migrated))
					ctx := faults.Patient(t)
					l := must(kind.ask(m, name).Await(ctx))(t)
					moving := c.BeginMove(t, name)
					if migrated {
						moving.Migrate(moving.Keys(moving.From)...)
					}
					given := func(to *lockmgr.Manager, f *futures.Future[*lockmgr.Lock], what string, give func()) {
						t.Helper()
						faults.ByMessage(t, to, func() {
							give()
							l = must(f.Await(ctx))(t, "%s: %s", name, what)
						}, "%s: %s", name, what)
						require.True(t, l.Valid())
					}
					unlock := func() { require.NoError(t, l.Unlock(ctx), name) }
					here := kind.ask(m, name)
					there := []*futures.Future[*lockmgr.Lock]{kind.ask(other, name), kind.ask(other, name)}
					sharded := channels != lockmgr.ClassicChannels
					awaitWaiters(t, c, prefix+"{"+name+"}", 1, sharded)
					given(m, here, "passed on within the manager", unlock)
					for _, f := range there {
						given(other, f, "passed on to another manager", unlock)
					}
					// The record is at the new master, and those who wait listen at the old one.
					require.Empty(t, moving.Keys(moving.From), name)
					f := kind.ask(m, name)
					awaitWaiters(t, c, prefix+"{"+name+"}", 2, sharded)
					given(m, f, "given back at the new master", unlock)
					f = kind.ask(other, name)
					awaitWaiters(t, c, prefix+"{"+name+"}", 2, sharded)
					given(other, f, "removed by ForceUnlock", func() {
						require.True(t, must(other.ForceUnlock(ctx, name))(t))
					})
					moving.Finish()
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
	c, m, other := startMasters(t, lockmgr.Options{})
	for i, migrated := range []bool{false, true} {
		tag := c.Movable(t, fmt.Sprintf("{%d-%%d}", i))
		reader := mustLock(t, m, tag+"r", lockmgr.Shared())
		set := mustLockAll(t, m, lockmgr.Set{Names: []string{tag + "a", tag + "b"}, Shared: []string{tag + "c"}})
		first := mustAcquire(t, m.Permits(tag+"p", 2), 1)
		second := mustAcquire(t, m.Permits(tag+"p", 2), 1)
		moving := c.BeginMove(t, tag)
		if migrated {
			moving.Migrate(moving.Keys(moving.From)...)
		}
		writer := other.LockAsync(tag+"r", lockmgr.Exclusive())
		awaitWaiters(t, c, "redisson_rwlock:"+tag+"r", 1, true)
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
		awaitWaiters(t, c, "redisson_lock__channel:"+tag+"b", 1, true)
		awaitWaiters(t, c, "redisson_rwlock:"+tag+"c", 1, true)
		given(func() { mustUnlock(t, set) }, one, side)

		permit := other.Permits(tag+"p", 2).AcquireAsync(1)
		awaitWaiters(t, c, "redisson_sc:"+tag+"p", 1, true)
		given(func() { mustUnlock(t, first) }, permit)
		mustUnlock(t, second)
		moving.Finish()
		for _, name := range []string{"r", "a", "b", "c"} {
			require.Empty(t, ownKeys(t, c, tag+name))
		}
	}
}

// A set has lost a name, and its records are at two masters of a slot that is being moved. Unlock
// tells the loss when the slot has moved.
func TestCluster_UnlockOfALostSetInASlotThatIsMoving(t *testing.T) {
	c, m, other := startMasters(t, lockmgr.Options{RetryTime: 20 * time.Second})
	tag := c.Movable(t, "{a%d}")
	set := mustLockAll(t, m, lockmgr.All(tag+"a", tag+"b", tag+"c"), lockmgr.FixedLease(time.Hour))
	moving := c.BeginMove(t, tag)
	require.True(t, must(other.ForceUnlock(faults.Patient(t), tag+"b"))(t))
	moving.Migrate(tag + "a")
	tried := m.Stats().Scripts
	unlocked := set.UnlockAsync()
	faults.Eventually(t, func() bool { return m.Stats().Scripts > tried+1 }, "the release is tried again")
	moving.Finish()
	require.ErrorIs(t, errOf(unlocked.Await(faults.Patient(t))), lockmgr.ErrLeaseLost)
	for _, name := range []string{"a", "b", "c"} {
		require.Empty(t, ownKeys(t, c, tag+name))
	}
}

// Held locks of a slot that is being moved are renewed, for as long as it takes, whichever master
// has their keys, and also those that are granted or passed on meanwhile.
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
	var moves []*redistest.Moving
	plain, tagged := c.Movable(t, "a%d"), c.Movable(t, "{b%d}")
	for name, tag := range map[string]string{plain: "{" + plain + "}", tagged + "1": tagged} {
		keep(m.Lock(ctx, name, lockmgr.Shared()))
		keep(m.Lock(ctx, tag+"w", lockmgr.Exclusive()))
		keep(m.Lock(ctx, tag+"f", lockmgr.Fair()))
		keep(m.Lock(ctx, tag+"t", lockmgr.Fenced()))
		keep(m.LockAll(ctx, lockmgr.Set{Names: []string{tag + "s"}, Shared: []string{tag + "v"}}))
		keep(m.Permits(tag+"p", 2).Acquire(ctx, 2))
		keep(m.Lock(ctx, tag+"old"))
		writer, reader := mustLock(t, m, tag+"x", lockmgr.Exclusive()), m.LockAsync(tag+"x", lockmgr.Shared())
		moves = append(moves, c.BeginMove(t, name))
		keep(m.Lock(ctx, tag+"new")) // at the new master, and renewed with the others
		mustUnlock(t, writer)
		keep(reader.Await(ctx)) // the record names the writer: the old master takes no key for the reader
	}
	for range 2 {
		requireRenewed(t, o.Lease, held...)
		for _, moving := range moves {
			moving.Migrate(moving.Keys(moving.From)...)
		}
	}
	for _, moving := range moves {
		moving.Finish()
	}
	for _, l := range held {
		require.NoError(t, l.Extend(ctx, time.Minute))
	}
	mustUnlock(t, held...)
}

// A script of a fair lock uses keys that come and go while it runs. So it runs when its slot has
// moved. Until then a holder keeps the lock, and nothing of it changes.
func TestCluster_FairLockOfASlotThatIsMoving(t *testing.T) {
	c, m, other := startMasters(t, lockmgr.Options{RetryTime: 20 * time.Second})
	name := c.Movable(t, "a%d")
	l := mustLock(t, m, name, lockmgr.Fair())
	f := other.LockAsync(name, lockmgr.Fair())
	faults.Eventually(t, func() bool { return faults.Do(t, c.Nodes[0], "LLEN", "redisson_lock_queue:{"+name+"}") == "1" })
	moving := c.BeginMove(t, name)
	keys := moving.Keys(moving.From)
	tried := m.Stats().Scripts
	unlocked := l.UnlockAsync()
	faults.Eventually(t, func() bool { return m.Stats().Scripts > tried+1 }, "the release is tried again")
	require.ElementsMatch(t, keys, moving.Keys(moving.From))
	require.Empty(t, moving.Keys(moving.To))
	moving.Finish()
	mustAwait(t, unlocked)
	mustUnlock(t, mustAwait(t, f))
}

// Inspect reads the record and the token counter of a lock in one script. So while its slot is
// being moved a master refuses it, unless both keys are there. ForceUnlock reads the record only.
func TestCluster_InspectInASlotThatIsMoving(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3, 0)
	m := dialCluster(t, c, lockmgr.Options{})
	ctx := faults.Patient(t)
	for _, migrated := range []bool{false, true} {
		tag := c.Movable(t, fmt.Sprintf("{%t-%%d}", migrated))
		plain, fenced := tag+"plain", tag+"fenced"
		l := mustLock(t, m, plain)
		withToken := mustLock(t, m, fenced, lockmgr.Fenced())
		moving := c.BeginMove(t, tag)
		if migrated {
			moving.Migrate(moving.Keys(moving.From)...)
		}
		require.ErrorIs(t, errOf(m.Inspect(ctx, plain)), lockmgr.ErrUnavailable, "migrated: %t", migrated)
		require.True(t, must(m.Inspect(ctx, fenced))(t, "migrated: %t", migrated).Locked)
		require.True(t, must(m.ForceUnlock(ctx, plain))(t))
		require.Error(t, l.Unlock(ctx))
		moving.Finish()
		require.False(t, mustInspect(t, m, plain).Locked)
		mustUnlock(t, withToken)
	}
}

// Requests that are refused as their slot is being moved fail after RetryTime. Those who wait for
// other names of the same masters wait on, also for names of that slot. The name that is refused is
// the first in the order of names: a manager whose server fails tries that one once more.
func TestCluster_RefusedInASlotThatIsMoving(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 2, 0)
	m, other := dialCluster(t, c, lockmgr.Options{}), dialCluster(t, c, lockmgr.Options{RetryTime: time.Second})
	tag := c.Movable(t, "{%d}")
	take := func(name string, opts ...lockmgr.LockOption) *lockmgr.Lock {
		t.Helper()
		return mustLock(t, m, name, opts...)
	}
	var held []*lockmgr.Lock
	var waits []*futures.Future[*lockmgr.Lock]
	for _, name := range []string{c.Movable(t, "~a%d"), c.Movable(t, "~b%d"), tag + "here", tag + "there"} {
		held, waits = append(held, take(name)), append(waits, other.LockAsync(name))
	}
	reader, fair := take(tag+"a", lockmgr.Shared()), take(tag+"b", lockmgr.Fair())
	moving := c.BeginMove(t, tag)
	for _, key := range moving.Keys(moving.From) {
		if key == tag+"there" || strings.Contains(key, "rwlock_timeout") {
			moving.Migrate(key)
		}
	}
	awaitWaiters(t, c, "redisson_lock__channel:"+tag+"there", 1, true)
	writer, next := other.LockAsync(tag+"a", lockmgr.Exclusive()), other.LockAsync(tag+"b", lockmgr.Fair())
	for _, f := range []*futures.Future[*lockmgr.Lock]{writer, next} {
		require.ErrorIs(t, errOf(f.Await(faults.Patient(t))), lockmgr.ErrUnavailable)
	}
	for i, f := range waits {
		mustUnlock(t, held[i])
		mustUnlock(t, mustAwait(t, f))
	}
	moving.Finish()
	mustUnlock(t, reader, fair)
}
