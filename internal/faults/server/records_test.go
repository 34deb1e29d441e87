package server_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// Whoever removes a record, and in whatever way, the holder learns it from the next renewal. A
// clock that jumps forward is one of these ways: all that is seen of it is that keys expire early.
func TestRenewal_NoticesARemovedRecord(t *testing.T) {
	t.Parallel()
	for what, command := range map[string][]string{
		"FLUSHALL":                 {"FLUSHALL"},
		"eviction":                 {"CONFIG", "SET", "maxmemory-policy", "allkeys-lru", "maxmemory", "1"},
		"DEL":                      {"DEL", "a"},
		"the clock jumps":          {"PEXPIRE", "a", "1"},
		"RENAME":                   {"RENAME", "a", "b"},
		"a foreign hash":           {"EVAL", "redis.call('DEL', 'a') return redis.call('HSET', 'a', 'colour', 'green')", "1", "a"},
		"another type":             {"SET", "a", "hello"},
		"another type with an end": {"SET", "a", "hello", "PX", "100000"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			m := faults.Dial(t, s.Addr(), with(watched))
			l := faults.Take(t, m, "a")
			went := time.Now()
			faults.Do(t, s, command...)
			faults.Eventually(t, func() bool {
				typ := faults.Do(t, s, "TYPE", "a")
				return typ != "hash" || faults.Do(t, s, "HEXISTS", "a", l.HolderID()) == "0"
			})
			left := faults.Do(t, s, "TYPE", "a")
			faults.Do(t, s, "CONFIG", "SET", "maxmemory", "0")
			t.Logf("noticed after %v", requireNoticed(t, l, watched, went))
			require.ErrorIs(t, l.Unlock(faults.Patient(t)), lockmgr.ErrLeaseLost)
			require.Equal(t, left, faults.Do(t, s, "TYPE", "a"), "what is not ours stays as it is")
			reply, _ := s.Do("HEXISTS", "a", l.HolderID()) // fails at another type
			require.NotEqual(t, "1", reply)
		})
	}
}

// A record that lives for ever, by the hand of an administrator, gets its end back.
func TestRenewal_MendsARecordWithoutAnEnd(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	m := faults.Dial(t, s.Addr(), with(watched))
	l := faults.Take(t, m, "a")
	require.Equal(t, "1", faults.Do(t, s, "PERSIST", "a"))
	require.Negative(t, faults.PTTL(t, s, "a"))
	start := time.Now()
	faults.Eventually(t, func() bool { return faults.PTTL(t, s, "a") > 0 })
	require.Less(t, time.Since(start), 4*watched/10+late)
	require.LessOrEqual(t, faults.PTTL(t, s, "a"), watched)
	require.NoError(t, l.Err())
	faults.Release(t, l)
	require.Equal(t, "0", faults.Do(t, s, "EXISTS", "a"))
}

// Those who wait look by the clock as well, and never more rarely than once a lease: neither a
// record without an end nor one that ends in a year (the server's clock was set back) may make them
// wait for ever. Nobody tells them that it goes.
func TestWaiter_LooksOnceALeaseWhateverTheRecordSays(t *testing.T) {
	t.Parallel()
	for what, prepare := range map[string][][]string{
		"a foreign hash":                 {{"HSET", "a", "colour", "green"}},
		"a foreign hash that ends late":  {{"HSET", "a", "colour", "green"}, {"PEXPIRE", "a", "31536000000"}},
		"a lock that lives for ever":     {{"HSET", "a", "b5e7a5f0-0000-4000-8000-000000000000:1", "1"}},
		"a lock after a clock went back": {{"HSET", "a", "b5e7a5f0-0000-4000-8000-000000000000:1", "1"}, {"PEXPIRE", "a", "31536000000"}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			for _, command := range prepare {
				faults.Do(t, s, command...)
			}
			m, w := dialWatched(t, s, short)
			f := m.LockAsync("a")
			// At rest: subscribed, and refused once more after that.
			faults.Eventually(t, func() bool {
				return faults.Subscribers(t, s, "a") == 1 && faults.Count(w, faults.Always[lockmgr.EventRefused]) >= 2
			})
			before := faults.Do(t, s, "HGETALL", "a")
			polls := m.Stats().Polls
			start := time.Now()
			faults.Eventually(t, func() bool { return m.Stats().Polls >= polls+2 })
			require.GreaterOrEqual(t, time.Since(start), short, "not all the time either")
			require.False(t, faults.Settled(f))
			require.Equal(t, before, faults.Do(t, s, "HGETALL", "a"))
			faults.Do(t, s, "DEL", "a")
			faults.Release(t, faults.Await(t, f))
		})
	}
}

// The same with a holder who is alive: its renewals do not shorten a record that lives too long,
// and its unlock is heard as always.
func TestUnlock_NotDelayedByAServerClockThatGoesBack(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	holder, other := faults.Dial(t, s.Addr(), with(watched)), faults.Dial(t, s.Addr(), lockmgr.Options{})
	l := faults.Take(t, holder, "a")
	faults.Do(t, s, "PEXPIRE", "a", "31536000000")
	next := other.LockAsync("a")
	faults.Eventually(t, func() bool { return faults.Subscribers(t, s, "a") == 1 })
	requireKept(t, holder, l)
	require.Greater(t, faults.PTTL(t, s, "a"), time.Hour)
	require.False(t, faults.Settled(next))
	faults.Release(t, l)
	l = faults.Await(t, next)
	require.LessOrEqual(t, faults.PTTL(t, s, "a"), 30*time.Second)
	faults.Release(t, l)
}

// After a jump forward others may have the lock before its holder hears of it. The holder must not
// disturb them then: neither by renewals nor by an unlock.
func TestUnlock_AfterServerClockJump(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	holder, other := faults.Dial(t, s.Addr(), with(watched)), faults.Dial(t, s.Addr(), with(watched))
	l, ignorant := faults.Take(t, holder, "a", lockmgr.Fenced()), faults.Take(t, holder, "b")
	faults.Do(t, s, "PEXPIRE", "a", "1")
	faults.Do(t, s, "PEXPIRE", "b", "1")
	went := time.Now()
	next, afterIgnorant := faults.Take(t, other, "a", lockmgr.Fenced()), faults.Take(t, other, "b")
	require.Greater(t, next.Token(), l.Token(), "with this a resource can tell")
	require.ErrorIs(t, ignorant.Unlock(faults.Patient(t)), lockmgr.ErrLeaseLost, "it had not heard of it")
	requireNoticed(t, l, watched, went)
	require.ErrorIs(t, l.Unlock(faults.Patient(t)), lockmgr.ErrLeaseLost)
	requireKept(t, other, next, afterIgnorant)
	require.Equal(t, []string{next.HolderID()}, owners(t, s, "a"))
	require.Equal(t, []string{afterIgnorant.HolderID()}, owners(t, s, "b"))
	faults.Release(t, next, afterIgnorant)
}
