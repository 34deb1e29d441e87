package client

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/internal/leakcheck"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// A closing is a manager in the middle of something when it is closed.
type closing struct {
	t     *testing.T
	s     *redistest.Server
	m     *lockmgr.Manager
	other *lockmgr.Manager
	locks []*lockmgr.Lock                  // held when Close is called
	waits []*futures.Future[*lockmgr.Lock] // not settled when Close is called
	gone  []*futures.Future[struct{}]      // unlocks on their way when Close is called
	// resume lets the server go on, once Close has begun.
	resume func()
}

func (c *closing) hold(names ...string) {
	for _, name := range names {
		c.locks = append(c.locks, faults.Take(c.t, c.m, name))
	}
}

func (c *closing) want(m *lockmgr.Manager, names ...string) {
	for _, name := range names {
		f := m.LockAsync(name)
		if m == c.m {
			c.waits = append(c.waits, f)
		}
	}
}

// closings are what a manager can be in the middle of.
var closings = []struct {
	what  string
	begin func(c *closing)
}{
	{"nothing", func(c *closing) {}},
	{"holds", func(c *closing) { c.hold("a", "b", "c") }},
	{"waits behind its own holders", func(c *closing) {
		c.hold("a", "b")
		c.want(c.m, "a", "b", "a", "a")
	}},
	{"waits behind others", func(c *closing) {
		faults.Take(c.t, c.other, "a")
		c.want(c.m, "a", "a")
		faults.AwaitSubscribed(c.t, c.s, "a", 1)
	}},
	{"subscribing", func(c *closing) {
		faults.Take(c.t, c.other, "a")
		c.want(c.m, "a")
		require.Eventually(c.t, func() bool { return c.m.Stats().Subscriptions > 0 }, faults.Patience, 50*time.Microsecond)
	}},
	{"first tries in flight", func(c *closing) {
		c.resume = pause(c.t, c.s)
		c.want(c.m, "a")
		held(c.t, c.s, 1)
		c.want(c.m, "b", "a") // queued
	}},
	{"handoffs in flight", func(c *closing) {
		c.hold("a", "b")
		c.resume = pause(c.t, c.s)
		for _, l := range c.locks {
			c.want(c.m, l.Name(), l.Name())
			c.gone = append(c.gone, l.UnlockAsync()) // a transfer looks for the record
		}
		c.locks = nil
		held(c.t, c.s, 1)
	}},
	{"releases in flight", func(c *closing) {
		c.hold("a", "b")
		c.resume = pause(c.t, c.s)
		for _, l := range c.locks {
			c.gone = append(c.gone, l.UnlockAsync())
		}
		c.locks = nil
		held(c.t, c.s, 1)
		c.want(c.m, "a")
	}},
	{"cancels on their way", func(c *closing) {
		c.resume = pause(c.t, c.s)
		f := c.m.LockAsync("a")
		held(c.t, c.s, 1)
		require.True(c.t, f.Cancel())
	}},
	{"a lock that others wait for", func(c *closing) {
		c.hold("a")
		c.want(c.other, "a")
		faults.AwaitSubscribed(c.t, c.s, "a", 1)
	}},
}

// Whatever a manager is in the middle of when it is closed, by one or by many at a time: when Close
// returns all has an end and Redis knows nothing more of it, and whoever waits elsewhere is served.
func TestClose_AtEveryPointLeavesNothing(t *testing.T) {
	s := redistest.Start(t)
	for _, tt := range closings {
		for _, closers := range []int{1, 3} {
			t.Run(tt.what, func(t *testing.T) {
				leakcheck.Check(t)
				faults.Do(t, s, "CONFIG", "RESETSTAT")
				c := &closing{t: t, s: s, m: dial(t, s, lockmgr.Options{}), other: dial(t, s, lockmgr.Options{})}
				tt.begin(c)
				var contexts []context.Context
				for _, l := range c.locks {
					contexts = append(contexts, l.Context(ctx))
				}
				closed := make(chan error, closers)
				for range closers {
					go func() { closed <- c.m.Close(faults.Patient(t)) }()
				}
				for _, f := range c.waits { // they are told before the server is done
					_, err := f.Await(faults.Patient(t))
					require.ErrorIs(t, err, lockmgr.ErrClosed)
				}
				for i, l := range c.locks {
					<-l.Lost()
					require.False(t, l.Valid())
					require.ErrorIs(t, l.Err(), lockmgr.ErrClosed)
					<-contexts[i].Done()
					require.ErrorIs(t, context.Cause(contexts[i]), lockmgr.ErrClosed)
				}
				if c.resume != nil {
					require.Empty(t, closed, "closed before the server has answered")
					c.resume()
				}
				for range closers {
					require.NoError(t, <-closed)
				}
				for _, f := range c.gone {
					redistest.Must(f.Result())(t, "an unlock that was asked for before is an unlock")
				}
				require.NoError(t, c.m.Close(ctx), "again")
				for _, l := range c.locks {
					require.ErrorIs(t, l.Unlock(ctx), lockmgr.ErrClosed)
				}
				_, err := c.m.Lock(ctx, "a")
				require.ErrorIs(t, err, lockmgr.ErrClosed)
				require.Zero(t, c.m.Stats().Pending)

				// At once: every name is free, or another's.
				for _, name := range []string{"a", "b", "c"} {
					owner := faults.Do(t, s, "HKEYS", name)
					require.True(t, owner == "" || strings.HasPrefix(owner, c.other.ID()), "%s is left to %s", name, owner)
				}
				require.NoError(t, c.other.Close(faults.Patient(t)))
				requireNothingLeft(t, s)
			})
		}
	}
}

// A Close whose context has ended does not wait for the server: it says what is left, and that has
// an end.
func TestClose_WithAnEndedContextLeavesWhatExpires(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	m, err := lockmgr.Dial(rueidis.ClientOption{InitAddress: []string{s.Addr()}}, lockmgr.Options{Lease: long, CommandTimeout: long / 4, RetryTime: 2 * faults.Patience})
	require.NoError(t, err)
	l := redistest.Must(m.Lock(ctx, "held"))(t)
	resume := pause(t, s)
	f := m.LockAsync("asked for")
	held(t, s, 1)
	ended, cancel := context.WithCancel(ctx)
	cancel()
	closed := make(chan error, 1)
	go func() { closed <- m.Close(ended) }()
	select {
	case err = <-closed:
	case <-time.After(faults.Patience):
		require.FailNow(t, "it waits for the server, which is given much longer")
	}
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, "releases not confirmed: 2")
	_, err = f.Result()
	require.ErrorIs(t, err, lockmgr.ErrClosed)
	require.ErrorIs(t, l.Err(), lockmgr.ErrClosed)
	require.False(t, l.Valid())
	require.Equal(t, "1", faults.Do(t, s, "EXISTS", "held"), "the server has run nothing since")
	resume()
	require.Error(t, m.Close(faults.Patient(t)), "waits for the same end")
	// Whether the server runs what it held back, or finds its sender gone first, is up to the
	// server: so a release may have run, and the acquire.
	for _, name := range []string{"held", "asked for"} {
		require.NotEqual(t, "-1", faults.Do(t, s, "PTTL", name), "a record without an end")
	}
}
