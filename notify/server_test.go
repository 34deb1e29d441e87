package notify_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/notify"
)

// patience is how long a test waits for what must come. Only a failure takes
// that long.
const patience = 30 * time.Second

func connect(t testing.TB, addr string, change ...func(*rueidis.ClientOption)) rueidis.Client {
	o := rueidis.ClientOption{
		InitAddress:       []string{addr},
		ForceSingleClient: true,
		DisableCache:      true,
		DisableRetry:      true,
		AlwaysPipelining:  true,
		Dialer:            net.Dialer{Timeout: 2 * time.Second, KeepAlive: 100 * time.Millisecond},
		ConnWriteTimeout:  2 * time.Second,
	}
	for _, f := range change {
		f(&o)
	}
	client, err := rueidis.NewClient(o)
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return client
}

func open(t testing.TB, client rueidis.Client, opts notify.Options) *notify.Hub {
	hub, err := notify.New(client, opts)
	require.NoError(t, err)
	t.Cleanup(hub.Close)
	return hub
}

// cursor reads the wake-ups of one watch.
type cursor struct {
	*notify.Watch
	seq uint64
}

// until returns the first wake-up after the last one that ok accepts.
func (c *cursor) until(t testing.TB, ok func(notify.Wake) bool) notify.Wake {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		w, err := c.Next(c.seq).Await(ctx)
		require.NoError(t, err, "%s", c.Channel())
		c.seq = w.Seq
		if ok(w) {
			return w
		}
	}
}

func subscribed(w notify.Wake) bool { return w.Subscribed }
func reasons(r notify.Reason) func(notify.Wake) bool {
	return func(w notify.Wake) bool { return w.Reason&r == r }
}

func watchMany(hub *notify.Hub, n int) []*cursor {
	cs := make([]*cursor, n)
	for i := range cs {
		cs[i] = &cursor{Watch: hub.Watch(fmt.Sprint("c", i))}
	}
	return cs
}

func awaitAll(t testing.TB, cs []*cursor, ok func(notify.Wake) bool) {
	t.Helper()
	for _, c := range cs {
		c.until(t, ok)
	}
}

// awaitReturn waits until all were cut off and are subscribed again.
func awaitReturn(t testing.TB, cs []*cursor) {
	t.Helper()
	for _, c := range cs {
		if w := c.until(t, reasons(notify.ReasonGap)); !w.Subscribed {
			require.Equal(t, notify.ReasonConfirmed, c.until(t, subscribed).Reason)
		}
	}
}

// subscribers returns how many subscriptions the server has to the channels of
// cs. Each can have one at most.
func subscribers(t testing.TB, s *redistest.Server, cs []*cursor) (n int) {
	t.Helper()
	args := []string{"PUBSUB", "NUMSUB"}
	for _, c := range cs {
		args = append(args, c.Channel())
	}
	reply, err := s.Do(args...)
	require.NoError(t, err)
	for i, line := range strings.Split(reply, "\n") {
		if i%2 == 1 && line != "0" {
			require.Equal(t, "1", line)
			n++
		}
	}
	return n
}

func protocols(t *testing.T, test func(t *testing.T, resp2 func(*rueidis.ClientOption))) {
	for name, resp2 := range map[string]bool{"RESP3": false, "RESP2": true} {
		t.Run(name, func(t *testing.T) { test(t, func(o *rueidis.ClientOption) { o.AlwaysRESP2 = resp2 }) })
	}
}

func TestHub_ManyChannels(t *testing.T) {
	protocols(t, func(t *testing.T, resp2 func(*rueidis.ClientOption)) {
		s := redistest.Start(t).Unrestricted() // the channels here are not those of locks
		hub := open(t, connect(t, s.Addr(), resp2), notify.Options{})
		first := &cursor{Watch: hub.Watch("first")}
		first.until(t, subscribed)
		goroutines := runtime.NumGoroutine()

		const n = 2000
		cs := watchMany(hub, n)
		awaitAll(t, cs, subscribed)
		require.LessOrEqual(t, runtime.NumGoroutine(), goroutines+20, "goroutines must not grow with channels: a few are pings")
		require.Equal(t, n, subscribers(t, s, cs))
		for _, c := range cs[:100] {
			_, err := s.Do("PUBLISH", c.Channel(), "0")
			require.NoError(t, err)
			require.False(t, c.until(t, reasons(notify.ReasonMessage)).More)
		}

		// The connection is cut: a gap, then everything is confirmed again.
		_, err := s.Do("CLIENT", "KILL", "TYPE", "pubsub")
		require.NoError(t, err)
		awaitReturn(t, cs)
		require.Equal(t, n, subscribers(t, s, cs))

		// So is the whole server.
		s.Kill()
		awaitAll(t, cs, func(w notify.Wake) bool { return !w.Subscribed })
		require.Error(t, hub.Err())
		s.Restart()
		awaitAll(t, cs, subscribed)
		require.Equal(t, n, subscribers(t, s, cs))
		_, err = s.Do("PUBLISH", "c7", "back")
		require.NoError(t, err)
		cs[7].until(t, reasons(notify.ReasonMessage))

		// Watched and closed again and again, it ends as it should.
		for range 5 {
			for i, c := range cs[:1000] {
				c.Close()
				cs[i] = &cursor{Watch: hub.Watch(c.Channel())}
			}
		}
		awaitAll(t, cs[:1000], subscribed)
		for _, c := range cs[1000:] {
			c.Close()
		}
		require.Eventually(t, func() bool { return subscribers(t, s, cs[1000:]) == 0 }, patience, time.Millisecond)
		require.Equal(t, 1000, subscribers(t, s, cs[:1000]))
		require.Eventually(t, func() bool { return hub.Stats().Confirmed == 1001 }, patience, time.Millisecond)

		hub.Close()
		require.Eventually(t, func() bool { return subscribers(t, s, cs) == 0 }, patience, time.Millisecond)
	})
}

// In a flood a watcher gets one wake-up per call of Next, and the hub's memory does
// not grow.
func TestFlood(t *testing.T) {
	n := 100_000
	if os.Getenv("HOLDFAST_LONG") != "" {
		n = 1_000_000
	}
	s := redistest.Start(t).Unrestricted() // the channels here are not those of locks
	hub := open(t, connect(t, s.Addr()), notify.Options{})
	lazy := &cursor{Watch: hub.Watch("c")}
	eager := &cursor{Watch: hub.Watch("c")}
	lazy.until(t, subscribed)
	eager.onEvery()
	before := heap()

	flood(t, connect(t, s.Addr()), "c", n)
	require.Eventually(t, func() bool { return hub.Stats().Messages == uint64(n) }, patience, time.Millisecond)
	after := heap()

	w := lazy.until(t, reasons(notify.ReasonMessage))
	require.True(t, w.More)
	_, err := lazy.Next(lazy.seq).Result()
	require.Error(t, err, "all messages are one wake-up to who asks once")
	st := hub.Stats()
	require.True(t, st.State == notify.StateConnected && st.Losses == 0, "the connection must survive")
	t.Logf("%d messages: %d merged before the mailbox, %d wake-ups of a consumer that always asks again; heap %+d KiB",
		n, st.Coalesced, st.Wakes, (after-before)/1024)
	require.Less(t, after-before, 8<<20)
	eager.Close()
}

// onEvery asks for the next wake-up as soon as there is one.
func (c *cursor) onEvery() {
	c.Next(c.seq).OnDone(func(w notify.Wake, err error) {
		if err == nil {
			c.seq = w.Seq
			c.onEvery()
		}
	})
}

func heap() int {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

func flood(t *testing.T, client rueidis.Client, channel string, n int) {
	for sent := 0; sent < n; {
		var batch rueidis.Commands
		for range min(1000, n-sent) {
			batch = append(batch, client.B().Publish().Channel(channel).Message("0").Build())
		}
		for _, r := range client.DoMulti(t.Context(), batch...) {
			require.NoError(t, r.Error())
		}
		sent += len(batch)
	}
}

// A watch of a forbidden channel gets Refused. The other channels are subscribed.
func TestHub_ForbiddenChannel(t *testing.T) {
	protocols(t, func(t *testing.T, resp2 func(*rueidis.ClientOption)) {
		s := redistest.Start(t).Unrestricted() // the channels here are not those of locks
		_, err := s.Do("ACL", "SETUSER", "limited", "on", ">pw", "resetchannels", "&c*",
			"-@all", "+hello", "+auth", "+ping", "+subscribe", "+unsubscribe", "+client|setname")
		require.NoError(t, err)
		client := connect(t, s.Addr(), resp2, func(o *rueidis.ClientOption) {
			o.Username, o.Password = "limited", "pw"
		})
		hub := open(t, client, notify.Options{RetryMax: 20 * time.Millisecond})
		bad := &cursor{Watch: hub.Watch("forbidden")}
		cs := watchMany(hub, 1000)
		awaitAll(t, cs, subscribed)
		w := bad.until(t, reasons(notify.ReasonRefused))
		require.False(t, w.Subscribed)
		require.ErrorContains(t, w.Err, "NOPERM")
		var refused *notify.RefusedError
		require.ErrorAs(t, w.Err, &refused)
		require.Equal(t, "forbidden", refused.Channel)
		var reply *rueidis.RedisError
		require.True(t, errors.As(w.Err, &reply))
		require.ErrorAs(t, hub.Err(), &refused)
		require.Equal(t, 1, hub.Stats().Refused)
		require.Zero(t, hub.Stats().Losses, "a refusal is no reason to drop the connection")

		// The right is granted. Nobody has to do anything.
		_, err = s.Do("ACL", "SETUSER", "limited", "&forbidden")
		require.NoError(t, err)
		bad.until(t, subscribed)
		require.NoError(t, hub.Err())

		// It is taken away: the server cuts the connection.
		_, err = s.Do("ACL", "SETUSER", "limited", "resetchannels", "&c*")
		require.NoError(t, err)
		bad.until(t, reasons(notify.ReasonGap))
		bad.until(t, reasons(notify.ReasonRefused))
		awaitReturn(t, cs)
	})
}

// A user without any right to subscribe gets nothing but an error.
func TestHub_NoRights(t *testing.T) {
	s := redistest.Start(t).Unrestricted() // the channels here are not those of locks
	_, err := s.Do("ACL", "SETUSER", "nobody", "on", ">pw", "resetchannels", "-@all", "+hello", "+auth")
	require.NoError(t, err)
	client := connect(t, s.Addr(), func(o *rueidis.ClientOption) { o.Username, o.Password = "nobody", "pw" })
	hub := open(t, client, notify.Options{})
	c := &cursor{Watch: hub.Watch("c")}
	require.ErrorContains(t, c.until(t, reasons(notify.ReasonRefused)).Err, "NOPERM")
	_, err = s.Do("ACL", "SETUSER", "nobody", ">new", "<pw")
	require.NoError(t, err)
	_, err = s.Do("CLIENT", "KILL", "USER", "nobody")
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		err := hub.Err()
		return err != nil && strings.Contains(err.Error(), "WRONGPASS")
	}, patience, time.Millisecond)
}

// While there is no server, no attempt counts as a connection.
func TestHub_ServerAway(t *testing.T) {
	protocols(t, func(t *testing.T, resp2 func(*rueidis.ClientOption)) {
		s := redistest.Start(t).Unrestricted() // the channels here are not those of locks
		attempts := make(chan struct{}, 1000)
		hub := open(t, connect(t, s.Addr(), resp2), notify.Options{
			RetryMax: 20 * time.Millisecond,
			OnState: func(st notify.State) {
				if st == notify.StateConnecting {
					attempts <- struct{}{}
				}
			},
		})
		c := &cursor{Watch: hub.Watch("c")}
		c.until(t, subscribed)
		<-attempts
		s.Kill()
		for range 5 {
			<-attempts
		}
		st := hub.Stats()
		require.EqualValues(t, 1, st.Connects)
		require.EqualValues(t, 1, st.Losses)
		require.ErrorContains(t, st.Err, "connection refused")
		s.Restart()
		awaitReturn(t, []*cursor{c})
		require.EqualValues(t, 2, hub.Stats().Connects)
	})
}

// Under constant kills and changes nothing gets lost or stuck, whatever was in
// flight. The client has its default settings here, retries among them.
func TestHub_UnderConstantKills(t *testing.T) {
	protocols(t, func(t *testing.T, resp2 func(*rueidis.ClientOption)) {
		s := redistest.Start(t).Unrestricted() // the channels here are not those of locks
		client := connect(t, s.Addr(), resp2, func(o *rueidis.ClientOption) {
			o.DisableRetry, o.AlwaysPipelining = false, false
		})
		hub := open(t, client, notify.Options{RetryMin: time.Millisecond, RetryMax: 5 * time.Millisecond})
		cs := watchMany(hub, 600)
		for i := range 150 {
			for j := range 20 {
				k := (i*37 + j*13) % len(cs)
				cs[k].Close()
				cs[k] = &cursor{Watch: hub.Watch(cs[k].Channel())}
			}
			_, err := s.Do("CLIENT", "KILL", "TYPE", "pubsub")
			require.NoError(t, err)
			// Sometimes at once, sometimes after the first confirmation.
			if i%3 == 0 {
				cs[i].until(t, reasons(notify.ReasonConfirmed))
			}
		}
		// Asked of the server: the hub may not know yet of the last kill.
		require.Eventually(t, func() bool { return subscribers(t, s, cs) == len(cs) }, patience, time.Millisecond)
		for _, c := range cs {
			_, err := s.Do("PUBLISH", c.Channel(), "now")
			require.NoError(t, err)
			c.until(t, reasons(notify.ReasonMessage))
			c.Close()
		}
		require.Eventually(t, func() bool { return subscribers(t, s, cs) == 0 }, patience, time.Millisecond)
		require.Zero(t, hub.Stats().Confirmed)
	})
}
