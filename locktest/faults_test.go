package locktest_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/lockmgr"
	"github.com/holdfast-go/holdfast/locktest"
)

// client returns a client of the server that is no manager.
func client(t *testing.T, l *locktest.Link) rueidis.Client {
	t.Helper()
	c, err := rueidis.NewClient(lockmgr.TuneClient(l.ClientOption()))
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

func TestFreeze_LocksEndAtTheirDeadline(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Server) {
		m := s.Manager(t, lockmgr.Options{})
		l := lock(t, m, "a")
		locktest.Advance(time.Second)
		s.Freeze()
		require.True(t, s.Held("a"))
		locktest.Advance(28 * time.Second)
		require.True(t, l.Valid())
		locktest.Advance(2 * time.Second)
		requireLost(t, s, l)
		_, err := m.TryLock(ctx, "b")
		require.ErrorIs(t, err, lockmgr.ErrUnavailable)
		s.Thaw()
		locktest.Eventually(t, func() bool {
			l, err := m.TryLock(ctx, "b")
			return err == nil && l.Unlock(ctx) == nil
		})
	})
}

// A frozen server keeps its connections, and what it was sent.
func TestFreeze_CommandsRunAfterThaw(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Server) {
		c := client(t, s.NewLink())
		s.Freeze()
		short, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
		defer cancel()
		require.Error(t, c.Do(short, c.B().Incr().Key("n").Build()).Error())
		s.Thaw()
		n, err := c.Do(ctx, c.B().Get().Key("n").Build()).ToString()
		require.NoError(t, err)
		require.Equal(t, "1", n)
	})
}

func TestFreeze_NewConnections(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Server) {
		s.Freeze()
		_, err := lockmgr.Dial(s.NewLink().ClientOption(), lockmgr.Options{})
		require.ErrorIs(t, err, lockmgr.ErrUnavailable)
		s.Thaw()
		m, err := lockmgr.Dial(s.NewLink().ClientOption(), lockmgr.Options{})
		require.NoError(t, err)
		require.NoError(t, m.Close(ctx))
	})
}

func TestPartition_OthersGoOn(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Server) {
		cut, other := s.Manager(t, lockmgr.Options{}), s.Manager(t, lockmgr.Options{})
		lost, kept := lock(t, cut, "a"), lock(t, other, "b")
		s.Partition(cut)
		l := lock(t, other, "a") // when the TTL has run out
		require.True(t, closed(lost.Lost()))
		require.True(t, kept.Valid())
		require.Equal(t, l.HolderID(), s.Holder("a"))
		_, err := cut.TryLock(ctx, "c")
		require.ErrorIs(t, err, lockmgr.ErrUnavailable)
		s.Heal(cut)
		locktest.Advance(10 * time.Second)
		_, err = cut.TryLock(ctx, "a")
		require.ErrorIs(t, err, lockmgr.ErrNotAcquired)
		lock(t, cut, "c")
	})
}

// A short partition costs no lock.
func TestPartition_ShorterThanTheLease(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Server) {
		m := s.Manager(t, lockmgr.Options{})
		l := lock(t, m, "a")
		s.Partition(m)
		locktest.Advance(15 * time.Second)
		s.Heal(m)
		locktest.Advance(5 * time.Minute)
		require.True(t, l.Valid())
	})
}

func TestRestart_KeepsLocks(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Server) {
		first, second := s.Manager(t, lockmgr.Options{}), s.Manager(t, lockmgr.Options{})
		l := lock(t, first, "a", lockmgr.Fenced())
		f := second.LockAsync("a", lockmgr.Fenced())
		locktest.Advance(time.Second)
		s.Restart()
		locktest.Advance(5 * time.Minute)
		require.True(t, l.Valid())
		require.False(t, closed(f.Done()))
		require.NoError(t, l.Unlock(ctx))
		locktest.Advance(time.Second) // the waiter has subscribed again
		next, err := f.Result()
		require.NoError(t, err)
		require.Greater(t, next.Token(), l.Token())
	})
}

func TestRestart_ForgetsScripts(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Server) {
		c := client(t, s.NewLink())
		known := func() bool {
			r := c.Do(ctx, c.B().Evalsha().Sha1("e0e1f9fabfc9d4800c877a703b823ac0578ff8db").Numkeys(0).Build())
			return r.Error() == nil
		}
		require.NoError(t, c.Do(ctx, c.B().Eval().Script("return 1").Numkeys(0).Build()).Error())
		require.True(t, known())
		s.Restart()
		locktest.Advance(time.Second)
		require.NoError(t, c.Do(ctx, c.B().Ping().Build()).Error())
		require.False(t, known())
	})
}

func TestRestart_ThawsTheServer(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Server) {
		m := s.Manager(t, lockmgr.Options{})
		s.Freeze()
		s.Restart()
		locktest.Advance(5 * time.Second)
		lock(t, m, "a")
	})
}

func TestRestartEmpty_LosesLocks(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Server) {
		m := s.Manager(t, lockmgr.Options{})
		l := lock(t, m, "a", lockmgr.Fenced())
		s.RestartEmpty()
		require.False(t, s.Held("a"))
		require.True(t, l.Valid())
		locktest.Within(t, 12*time.Second, func() bool { return !l.Valid() })
		requireLost(t, s, l)
		again := lock(t, m, "a", lockmgr.Fenced())
		require.Equal(t, l.Token(), again.Token(), "the counter begins again")
	})
}

// Managers of a frozen server, of a silent and of a refusing link are closed, with the locks that
// they hold and the requests that wait.
func TestCleanup_AfterFaults(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Server) {
		frozen, silent, refused := s.Manager(t, lockmgr.Options{}), s.Manager(t, lockmgr.Options{}), s.Manager(t, lockmgr.Options{})
		lock(t, frozen, "a")
		lock(t, silent, "b")
		lock(t, refused, "c")
		silent.LockAsync("a")
		locktest.Advance(time.Second)
		s.Partition(silent)
		s.Link(refused).Refuse()
		s.Freeze()
		locktest.Advance(time.Second)
	})
}
