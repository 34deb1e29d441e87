package locktest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/lockmgr"
	"github.com/holdfast-go/holdfast/locktest"
)

func TestLink_ForCodeThatDials(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Server) {
		link := s.NewLink()
		m, err := lockmgr.Dial(link.ClientOption(), lockmgr.Options{})
		require.NoError(t, err)
		l := lock(t, m, "a")
		require.Equal(t, l.HolderID(), s.Holder("a"))
		link.Silence()
		locktest.Within(t, 30*time.Second, func() bool { return !l.Valid() })
		link.Heal()
		locktest.Advance(5 * time.Second)
		lock(t, m, "b")
		require.NoError(t, m.Close(ctx))
	})
}

func TestLink_Cut(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Server) {
		link := s.NewLink()
		c := client(t, link)
		require.NoError(t, c.Do(ctx, c.B().ClientSetname().ConnectionName("x").Build()).Error())
		link.Cut()
		locktest.Advance(time.Second)
		name, _ := c.Do(ctx, c.B().ClientGetname().Build()).ToString()
		require.NotEqual(t, "x", name, "it is another connection")
		require.NoError(t, c.Do(ctx, c.B().Ping().Build()).Error())

		m := s.Manager(t, lockmgr.Options{})
		l := lock(t, m, "a")
		for range 60 {
			s.Link(m).Cut()
			locktest.Advance(5 * time.Second)
		}
		require.True(t, l.Valid())
	})
}

func TestLink_Refuse(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Server) {
		m := s.Manager(t, lockmgr.Options{})
		l := lock(t, m, "a")
		link := s.Link(m)
		link.Refuse()
		begin := time.Now()
		_, err := lockmgr.Dial(link.ClientOption(), lockmgr.Options{})
		require.ErrorIs(t, err, lockmgr.ErrUnavailable)
		require.Less(t, time.Since(begin), time.Second, "it is refused at once")
		locktest.Advance(30 * time.Second)
		require.False(t, l.Valid())
		link.Heal()
		locktest.Advance(5 * time.Second)
		lock(t, m, "a")
	})
}

// A dial that waits succeeds when the link heals.
func TestLink_SilenceStopsDials(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Server) {
		link := s.NewLink()
		link.Silence()
		option := link.ClientOption()
		option.Dialer.Timeout = 3 * time.Second
		begin := time.Now()
		_, err := lockmgr.Dial(option, lockmgr.Options{})
		require.ErrorIs(t, err, lockmgr.ErrUnavailable)
		require.Equal(t, 3*time.Second, time.Since(begin))
		time.AfterFunc(2*time.Second, link.Heal)
		m, err := lockmgr.Dial(option, lockmgr.Options{})
		require.NoError(t, err)
		require.Equal(t, 5*time.Second, time.Since(begin))
		require.NoError(t, m.Close(ctx))
	})
}

func TestLink_Delay(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Server) {
		link := s.NewLink()
		c := client(t, link)
		took := func() time.Duration {
			begin := time.Now()
			require.NoError(t, c.Do(ctx, c.B().Ping().Build()).Error())
			return time.Since(begin)
		}
		require.Zero(t, took())
		link.Delay(150 * time.Millisecond)
		require.Equal(t, 300*time.Millisecond, took())
		link.Heal()
		require.Zero(t, took())
	})
}
