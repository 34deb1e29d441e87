package notify_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/notify"
)

// patience is how long a test waits for what must come. Only a failure takes that long.
const patience = 30 * time.Second

func connect(t testing.TB, addr string, change ...option) rueidis.Client {
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
	client := redistest.Must(rueidis.NewClient(o))(t)
	t.Cleanup(client.Close)
	return client
}

func open(t testing.TB, client rueidis.Client, opts notify.Options) *notify.Hub {
	hub := redistest.Must(notify.New(client, opts))(t)
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
		w := redistest.Must(c.Next(c.seq).Await(ctx))(t, "%s", c.Channel())
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

// subscribers returns how many subscriptions the server has to the channels of cs. Each can have
// one at most.
func subscribers(t testing.TB, s *redistest.Server, cs []*cursor) (n int) {
	t.Helper()
	args := []string{"PUBSUB", "NUMSUB"}
	for _, c := range cs {
		args = append(args, c.Channel())
	}
	reply := redistest.Must(s.Do(args...))(t)
	for i, line := range strings.Split(reply, "\n") {
		if i%2 == 1 && line != "0" {
			require.Equal(t, "1", line)
			n++
		}
	}
	return n
}

// An option changes the options of a client.
type option = func(*rueidis.ClientOption)

func asRESP2(yes bool) option { return func(o *rueidis.ClientOption) { o.AlwaysRESP2 = yes } }

func protocols(t *testing.T, test func(t *testing.T, resp2 option)) {
	for name, resp2 := range map[string]bool{"RESP3": false, "RESP2": true} {
		t.Run(name, func(t *testing.T) { test(t, asRESP2(resp2)) })
	}
}

// A watch of a forbidden channel gets Refused. The other channels are subscribed. The user may not
// PING: that says nothing about the connection.
func TestHub_ForbiddenChannel(t *testing.T) {
	protocols(t, func(t *testing.T, resp2 option) {
		s := redistest.Start(t).Unrestricted() // the channels here are not those of locks
		_, err := s.Do("ACL", "SETUSER", "limited", "on", ">pw", "resetchannels", "&c*",
			"-@all", "+hello", "+auth", "+subscribe", "+unsubscribe", "+client|setname")
		require.NoError(t, err)
		client := connect(t, s.Addr(), resp2, func(o *rueidis.ClientOption) {
			o.Username, o.Password = "limited", "pw"
		})
		hub := open(t, client, notify.Options{RetryMax: 20 * time.Millisecond})
		bad := &cursor{Watch: hub.Watch("forbidden")}
		cs := watchMany(hub, 1000)
		for _, c := range cs {
			c.until(t, subscribed)
		}
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
		redistest.Must(s.Do("ACL", "SETUSER", "limited", "&forbidden"))(t)
		bad.until(t, subscribed)
		require.NoError(t, hub.Err())

		// It is taken away: the server cuts the connection.
		redistest.Must(s.Do("ACL", "SETUSER", "limited", "resetchannels", "&c*"))(t)
		bad.until(t, reasons(notify.ReasonGap))
		bad.until(t, reasons(notify.ReasonRefused))
		for _, c := range cs {
			if w := c.until(t, reasons(notify.ReasonGap)); !w.Subscribed {
				require.Equal(t, notify.ReasonConfirmed, c.until(t, subscribed).Reason)
			}
		}
	})
}

// Under constant kills and changes nothing gets lost or stuck, whatever was in flight. The client
// has its default settings here, retries among them.
func TestHub_UnderConstantKills(t *testing.T) {
	protocols(t, func(t *testing.T, resp2 option) {
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
			redistest.Must(s.Do("CLIENT", "KILL", "TYPE", "pubsub"))(t)
			// Sometimes at once, sometimes after the first confirmation.
			if i%3 == 0 {
				cs[i].until(t, reasons(notify.ReasonConfirmed))
			}
		}
		// Asked of the server: the hub may not know yet of the last kill.
		require.Eventually(t, func() bool { return subscribers(t, s, cs) == len(cs) }, patience, time.Millisecond)
		for _, c := range cs {
			redistest.Must(s.Do("PUBLISH", c.Channel(), "now"))(t)
			c.until(t, reasons(notify.ReasonMessage))
			c.Close()
		}
		require.Eventually(t, func() bool { return subscribers(t, s, cs) == 0 }, patience, time.Millisecond)
		require.Zero(t, hub.Stats().Confirmed)
	})
}
