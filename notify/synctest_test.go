package notify_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/notify"
)

// These tests run the real client against miniredis in one process, over pipes and in fake time:
// hours of life take milliseconds.

// pipes dials miniredis and counts the connections.
type pipes struct {
	server *miniredis.Miniredis
	dials  atomic.Int64
	open   atomic.Int64
	hang   atomic.Bool // new connections get no answer
	mu     sync.Mutex
	last   *pipe
}

// pipe is the client's end of a connection that can fall silent.
type pipe struct {
	net.Conn
	pipes  *pipes
	silent atomic.Bool
	closed atomic.Bool
}

func (p *pipes) dial(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
	p.dials.Add(1)
	conn, err := p.server.Dial()
	if err != nil {
		return nil, err
	}
	p.open.Add(1)
	c := &pipe{Conn: conn, pipes: p}
	c.silent.Store(p.hang.Load())
	p.mu.Lock()
	p.last = c
	p.mu.Unlock()
	return c, nil
}

func (p *pipes) newest() *pipe {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last
}

// Write swallows everything once the pipe is silent, as a network would that has lost the other
// side.
func (c *pipe) Write(b []byte) (int, error) {
	if c.silent.Load() && !c.closed.Load() {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

func (c *pipe) Close() error {
	if c.closed.CompareAndSwap(false, true) {
		c.pipes.open.Add(-1)
	}
	return c.Conn.Close()
}

// bubble runs a test with a client and its server in fake time.
func bubble(t *testing.T, change option, test func(t *testing.T, p *pipes, client rueidis.Client)) {
	synctest.Test(t, func(t *testing.T) {
		m := miniredis.NewMiniRedis()
		defer m.Close()
		p := &pipes{server: m}
		o := rueidis.ClientOption{
			InitAddress:       []string{"mem:0"},
			ForceSingleClient: true,
			DisableCache:      true,
			AlwaysPipelining:  true,
			DialCtxFn:         p.dial,
		}
		change(&o)
		client := redistest.Must(rueidis.NewClient(o))(t)
		defer client.Close()
		test(t, p, client)
	})
}

func both(t *testing.T, test func(t *testing.T, p *pipes, client rueidis.Client)) {
	protocols(t, func(t *testing.T, resp2 option) { bubble(t, resp2, test) })
}

// record keeps the newest wake-up of a watch and the number of wake-ups.
type record struct {
	mu   sync.Mutex
	wake notify.Wake
	all  notify.Reason
	err  error
}

func follow(w *notify.Watch) *record {
	r := &record{}
	var next func(uint64)
	next = func(after uint64) {
		w.Next(after).OnDone(func(wake notify.Wake, err error) {
			r.mu.Lock()
			if err != nil {
				r.err = err
				r.mu.Unlock()
				return
			}
			r.wake = wake
			r.all |= wake.Reason
			r.mu.Unlock()
			next(wake.Seq)
		})
	}
	next(0)
	return r
}

func (r *record) last() notify.Wake { r.mu.Lock(); defer r.mu.Unlock(); return r.wake }
func (r *record) failure() error    { r.mu.Lock(); defer r.mu.Unlock(); return r.err }

func TestConnection_IsKept(t *testing.T) {
	bubble(t, func(*rueidis.ClientOption) {}, func(t *testing.T, p *pipes, client rueidis.Client) {
		hub := newHub(t, client, notify.Options{IdleTimeout: -1})
		w := hub.Watch("a")
		synctest.Wait()
		w.Close()
		time.Sleep(2 * time.Hour)
		require.Equal(t, notify.StateConnected, hub.Stats().State)
		require.EqualValues(t, 2, p.open.Load())
		hub.Close()
		synctest.Wait()
		require.EqualValues(t, 1, p.open.Load(), "not past Close")
	})
}

func TestHub_Reconnects(t *testing.T) {
	both(t, func(t *testing.T, p *pipes, client rueidis.Client) {
		hub := newHub(t, client, notify.Options{})
		defer hub.Close()
		var records []*record
		synctest.Wait()
		goroutines := runtime.NumGoroutine()
		for i := range 1500 {
			records = append(records, follow(hub.Watch(fmt.Sprint("c", i))))
		}
		time.Sleep(time.Second)
		require.Equal(t, 1500, hub.Stats().Confirmed)
		require.LessOrEqual(t, runtime.NumGoroutine(), goroutines+20, "goroutines must not grow with channels")
		for range 5 {
			p.server.Close()
			synctest.Wait()
			for _, r := range records {
				require.True(t, r.last().Reason.Has(notify.ReasonGap))
				require.False(t, r.last().Subscribed)
				require.Error(t, r.last().Err)
			}
			require.Error(t, hub.Err())
			// miniredis lives again with the next Dial.
			time.Sleep(2 * time.Second)
			for _, r := range records {
				require.Equal(t, notify.ReasonConfirmed, r.last().Reason)
				require.True(t, r.last().Subscribed)
			}
			require.NoError(t, hub.Err())
		}
		p.server.Publish("c7", "x")
		synctest.Wait()
		require.Equal(t, notify.ReasonMessage, records[7].last().Reason)
	})
}

// An outage ends when nobody wants a channel any more: when the server came back is not known then.
func TestLog_OutageThatNobodyAwaits(t *testing.T) {
	both(t, func(t *testing.T, p *pipes, client rueidis.Client) {
		var log logBook
		hub := newHub(t, client, notify.Options{Logger: log.logger()})
		defer hub.Close()
		w := hub.Watch("a")
		time.Sleep(time.Second)
		p.hang.Store(true)
		p.newest().Close()
		time.Sleep(5 * time.Second)
		require.Equal(t, 1, log.count("connection lost"))
		w.Close()
		p.hang.Store(false)
		time.Sleep(30 * time.Second)
		hub.Watch("a")
		time.Sleep(10 * time.Second)
		require.Equal(t, 2, log.count(`level=INFO msg="notify: connected"`))
		require.Zero(t, log.count("after="))
	})
}

// A warning has an end, also if waiters have come and gone meanwhile. A connection that breaks
// again and again while waiters come and go has no lines but that.
func TestLog_OutageWhileWaitersComeAndGo(t *testing.T) {
	both(t, func(t *testing.T, p *pipes, client rueidis.Client) {
		var log logBook
		hub := newHub(t, client, notify.Options{Logger: log.logger()})
		defer hub.Close()
		connected := func() int { return log.count(`level=INFO msg="notify: connected"`) }
		w := hub.Watch("a")
		time.Sleep(time.Second)
		p.hang.Store(true)
		p.newest().Close()
		time.Sleep(time.Second)
		w.Close()
		w = hub.Watch("a")
		time.Sleep(8 * time.Second)
		p.hang.Store(false)
		time.Sleep(20 * time.Second)
		require.Equal(t, 1, log.count("connection lost"))
		require.Equal(t, 2, connected())
		w.Close()
		for i := range 100 {
			if i%2 == 0 {
				p.newest().Close()
			}
			w := hub.Watch("a")
			time.Sleep(200 * time.Millisecond)
			if i%2 == 1 {
				p.newest().Close()
			}
			w.Close()
			time.Sleep(100 * time.Millisecond)
		}
		require.LessOrEqual(t, log.count("connection lost"), 1+3, "in 30 s")
		require.LessOrEqual(t, connected(), 2+4)
	})
}

// A server that does not answer any more, on a connection that does not break, is noticed by the
// client's own pings; one that does not accept a connection, by the hub.
func TestSilence(t *testing.T) {
	both(t, func(t *testing.T, p *pipes, client rueidis.Client) {
		hub := newHub(t, client, notify.Options{})
		defer hub.Close()
		r := follow(hub.Watch("a"))
		synctest.Wait()
		require.True(t, r.last().Subscribed)

		p.hang.Store(true)
		p.newest().silent.Store(true)
		time.Sleep(time.Minute)
		require.True(t, r.last().Reason.Has(notify.ReasonGap))
		require.Error(t, hub.Err(), "the hub's time-out or the client's")
		dials := p.dials.Load()
		time.Sleep(10 * time.Minute)
		require.Less(t, p.dials.Load()-dials, int64(10*60), "it must not try all the time")

		p.hang.Store(false)
		time.Sleep(time.Minute)
		require.True(t, r.last().Subscribed)
		require.NoError(t, hub.Err())

		// A command in flight: nothing but the hub's time-out ends it.
		p.newest().silent.Store(true)
		v := follow(hub.Watch("b"))
		time.Sleep(3*time.Second + 500*time.Millisecond)
		require.True(t, v.last().Subscribed)
	})
}

func TestClose_Anywhere(t *testing.T) {
	for _, silent := range []bool{false, true} {
		for step := range 40 {
			t.Run(fmt.Sprint("silent=", silent, " step=", step), func(t *testing.T) {
				bubble(t, asRESP2(step%2 == 0), func(t *testing.T, p *pipes, client rueidis.Client) {
					hub := newHub(t, client, notify.Options{})
					p.hang.Store(silent && step%3 == 0)
					w := hub.Watch("a")
					f := w.Next(100)
					for range step / 4 {
						time.Sleep(time.Nanosecond) // lets everything else run as far as it can
						hub.Watch(fmt.Sprint(step)).Close()
					}
					if silent {
						p.newest().silent.Store(true)
					}
					if step > 20 {
						p.server.Close()
						time.Sleep(time.Duration(step) * time.Millisecond)
					}
					hub.Close()
					hub.Close()
					_, err := f.Result()
					require.ErrorIs(t, err, notify.ErrClosed)
					time.Sleep(10 * time.Second) // a dial can't be broken off
					synctest.Wait()
					require.LessOrEqual(t, p.open.Load(), int64(1), "the client's own connection")
					_, err = hub.Watch("late").Next(0).Result()
					require.ErrorIs(t, err, notify.ErrClosed)
				})
			})
		}
	}
}
