package lockmgr_test

import (
	"fmt"
	"slices"
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

// A slot is being moved, and some keys of a lock of any kind are at the new master. A request of
// another manager waits, and Unlock is done, or refused until the slot has moved and then done. No
// hold is lost, and tokens grow.
func TestCluster_AnyKeysOfALockAreApart(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 2, 0)
	o := lockmgr.Options{RetryTime: time.Minute, Lease: 20 * time.Second, Anonymous: true} // the record of a process may be in the slot of a name
	m, other := dialCluster(t, c, o), dialCluster(t, c, o)
	sends := func(m *lockmgr.Manager, do func()) {
		t.Helper()
		before := m.Stats().Scripts
		do()
		faults.Eventually(t, func() bool { return m.Stats().Scripts > before })
	}
	n := 0 // cases
	for _, kind := range kinds {
		next := kind // what excludes it
		if strings.Contains(kind.title, "reader") {
			next = kindOf("writer")
		}
		for _, with := range [][]lockmgr.LockOption{nil, {lockmgr.Fenced()}} {
			if kind.title == "permits" && with != nil {
				continue
			}
			for bits, keys := 0, 1; bits < 1<<keys; bits++ { // bit i is set if the new master has key i
				n++
				name := c.Movable(t, fmt.Sprintf("{%s%d:%%d}", strings.ReplaceAll(kind.title, " ", ""), n)) // sets need braces
				held := mustAwait(t, kind.ask(m, name, with...))
				moving := c.BeginMove(t, name)
				all := moving.Keys(moving.From)
				slices.Sort(all)
				keys = len(all)
				for i, key := range all {
					if bits>>i&1 == 1 {
						moving.Migrate(key)
					}
				}
				var waits *futures.Future[*lockmgr.Lock]
				var released *futures.Future[struct{}]
				sends(other, func() { waits = next.ask(other, name, with...) })
				requirePending(t, waits, name)
				require.NoError(t, held.Err(), name)
				sends(m, func() { released = held.UnlockAsync() })
				moving.Finish()
				mustAwait(t, released)
				l := mustAwait(t, waits)
				require.True(t, l.Valid(), name)
				require.True(t, with == nil || max(l.Token(), l.TokenOf(name)) > max(held.Token(), held.TokenOf(name)), name)
				mustUnlock(t, l)
			}
		}
	}
	t.Logf("%d cases", n)
}
