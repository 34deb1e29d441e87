// Package locktest tests code that uses holdfast, without a Redis server and without waiting. It
// runs an embedded server in the fake time of testing/synctest.
//
//	func TestJob_StopsWhenItsLockIsLost(t *testing.T) {
//		synctest.Test(t, func(t *testing.T) {
//			s := locktest.Start(t)
//			mgr := s.Manager(t, lockmgr.Options{})
//			lock, err := mgr.Lock(t.Context(), "job")
//			require.NoError(t, err)
//			locktest.Advance(5 * time.Minute) // the watchdog renews the lock
//			require.True(t, lock.Valid())
//			s.LoseLock(lock)
//			require.False(t, lock.Valid())
//		})
//	}
//
// # Fake time
//
// In a bubble, time passes when all goroutines are blocked: minutes take milliseconds. Leases run
// out, watchdogs renew and messages wake waiters, as in real time. The code under test must not use
// real connections or files that block: fake time stands still meanwhile.
//
// [Start] and [Server.Manager] close what they started at the end of the test. Goroutines of the
// code under test must end by then, or synctest fails the test.
//
// # Faults
//
//	LoseLock, LoseName   the lock is taken away, and its manager sees it
//	Forget               the record is gone, and nobody is told
//	Freeze, Thaw         the server answers nothing, and runs the commands later
//	Partition, Heal      one manager is cut off, others go on
//	Restart              connections end; RestartEmpty loses the data too
//	Link                 Cut, Refuse, Silence and Delay of one manager
//
// A name here is the whole name, with lockmgr.Options.Prefix.
//
// [Server.Hold] takes a lock as another process. [Server.Held] and [Server.Holders] read the
// server's memory. [Advance] and [Eventually] let time pass.
//
// # What the embedded server is
//
// The server is miniredis, and the client, the manager and its scripts are the real ones. Plain,
// fenced, fair and read-write locks, sets and permits work. lockmgr.Options.Replicas does not: a
// request fails with lockmgr.ErrReplicas. There is no cluster and no Sentinel, and no access rules.
// A request for a name with data of another kind fails with lockmgr.ErrServer in place of
// lockmgr.ErrWrongType, and may leave a release that Close reports.
// Each command checks every key that has a TTL, so a test with more than some hundred locks is
// slow. miniredis is not proof that a script works on Redis; the library's own tests run on Redis
// and Valkey.
//
// # Real servers
//
// [Proxy] makes the network to a real server fail, in real time.
package locktest
