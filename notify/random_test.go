package notify

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/thorough"
)

// TestHub_RandomRuns plays random runs against a simulated server that is slow, breaks, does not
// answer and refuses channels. It checks what a watcher relies on: a watcher that checks again on
// every wake-up has, at the end, checked after the last message of its channel.
func TestHub_RandomRuns(t *testing.T) {
	for seed := range thorough.Choose(100, 200) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { randomRun(t, uint64(seed)) })
		})
	}
}

func randomRun(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 1))
	srv := newSimServer(t, seed)
	hub := start(srv, Options{RetryMax: 50 * time.Millisecond, DialTimeout: 100 * time.Millisecond, CommandTimeout: 100 * time.Millisecond, IdleTimeout: 200 * time.Millisecond})
	defer hub.Stop() // else a failed check would look like a deadlock
	names := make([]string, 8)
	for i := range names {
		names[i] = fmt.Sprint("c", i)
	}
	var open []*looker
	for range 300 {
		name := names[rng.IntN(len(names))]
		switch rng.IntN(20) {
		case 0, 1, 2, 3:
			open = append(open, look(t, srv, hub.Watch(name)))
		case 4, 5, 6:
			if len(open) > 0 {
				i := rng.IntN(len(open))
				open[i].watch.Close()
				open = append(open[:i], open[i+1:]...)
			}
		case 7, 8, 9, 10, 11, 12, 13:
			srv.publish(name)
		case 14:
			srv.kill()
		case 15:
			srv.setSilent(rng.IntN(3) == 0)
		case 16:
			srv.forbid(name, rng.IntN(2) == 0)
		default:
			time.Sleep(time.Duration(rng.IntN(20)) * time.Millisecond)
		}
	}
	// The faults end, but for one channel.
	srv.setSilent(false)
	for _, name := range names {
		srv.forbid(name, name == "c0")
	}
	time.Sleep(time.Minute)
	check := func() {
		wanted, refused := make(map[string]bool), 0
		for _, l := range open {
			name := l.watch.Channel()
			if name == "c0" {
				refused = 1
				require.False(t, l.wake().Subscribed)
				continue
			}
			wanted[name] = true
			require.True(t, l.wake().Subscribed, "%s: %+v", name, l.wake())
			require.Equal(t, srv.published(name), l.looked(), "%s: a message went unnoticed: %+v", name, l.wake())
		}
		st := hub.Stats()
		require.Equal(t, Stats{
			State: st.State, Err: st.Err,
			Watches: len(open), Channels: len(wanted) + refused, Confirmed: len(wanted), Refused: refused,
			Connects: st.Connects, Losses: st.Losses, Messages: st.Messages, Coalesced: st.Coalesced, Strays: st.Strays, Wakes: st.Wakes,
		}, st)
		require.Equal(t, refused > 0, st.Err != nil, "%v", st.Err)
		require.Equal(t, wanted, srv.subscribed())
	}
	check()
	for _, name := range names {
		srv.publish(name)
	}
	time.Sleep(time.Second)
	check()
	for _, l := range open {
		l.watch.Close()
	}
	open = nil
	time.Sleep(150 * time.Millisecond)
	check()
	time.Sleep(time.Minute)
	require.Equal(t, StateIdle, hub.Stats().State)
	hub.Close()
	require.Zero(t, srv.alive(), "a connection is left")
}

// A looker looks again whenever it is woken.
type looker struct {
	watch *Watch
	srv   *simServer
	mu    sync.Mutex
	last  Wake
	n     int // the channel's messages when it last looked
}

func look(t *testing.T, srv *simServer, w *Watch) *looker {
	l := &looker{watch: w, srv: srv}
	var next func(after uint64)
	next = func(after uint64) {
		w.Next(after).OnDone(func(wake Wake, err error) {
			if err != nil {
				assert.ErrorIs(t, err, ErrClosed)
				return
			}
			assert.Greater(t, wake.Seq, after)
			assert.NotZero(t, wake.Reason)
			l.mu.Lock()
			l.last, l.n = wake, srv.published(w.Channel())
			l.mu.Unlock()
			next(wake.Seq)
		})
	}
	next(0)
	return l
}

func (l *looker) wake() Wake  { l.mu.Lock(); defer l.mu.Unlock(); return l.last }
func (l *looker) looked() int { l.mu.Lock(); defer l.mu.Unlock(); return l.n }

// simServer is a server with one client. Whatever it sends or receives takes random time, in order.
type simServer struct {
	t         *testing.T
	mu        sync.Mutex
	rng       *rand.Rand
	links     int // that have not ended
	link      *simLink
	silent    bool
	forbidden map[string]bool
	counts    map[string]int
}

func newSimServer(t *testing.T, seed uint64) *simServer {
	return &simServer{
		t: t, rng: rand.New(rand.NewPCG(seed, 2)),
		forbidden: make(map[string]bool), counts: make(map[string]int),
	}
}

type simLink struct {
	srv     *simServer
	feed    *feed
	subs    map[string]bool
	in, out chan func()
	busy    bool
	dead    chan struct{}
	kill    func(error)
}

func (s *simServer) dial(f *feed) link {
	s.mu.Lock()
	defer s.mu.Unlock()
	assert.Zero(s.t, s.links, "a second connection at the same time")
	s.links++
	l := &simLink{srv: s, feed: f, subs: make(map[string]bool),
		in: make(chan func(), 1e4), out: make(chan func(), 1e4), dead: make(chan struct{})}
	var once sync.Once
	l.kill = func(err error) {
		once.Do(func() {
			close(l.dead)
			time.AfterFunc(s.delay(), func() {
				s.mu.Lock()
				s.links--
				s.mu.Unlock()
				f.ended(err)
			})
		})
	}
	s.link = l
	go l.pump(l.in)
	go l.pump(l.out)
	if s.silent {
		return l
	}
	if s.rng.IntN(4) == 0 {
		l.kill(errors.New("connection refused"))
		return l
	}
	l.out <- f.up
	return l
}

// delay is called with mu held.
func (s *simServer) delay() time.Duration {
	return time.Duration(s.rng.IntN(3)) * time.Duration(s.rng.IntN(1000)) * time.Microsecond
}

func (l *simLink) pump(c chan func()) {
	for {
		l.srv.mu.Lock()
		d := l.srv.delay()
		l.srv.mu.Unlock()
		time.Sleep(d)
		select {
		case <-l.dead:
			return
		case f := <-c:
			f()
		}
	}
}

func (l *simLink) hangUp() {
	l.srv.mu.Lock()
	defer l.srv.mu.Unlock()
	l.kill(errHungUp)
}

func (l *simLink) subscribe(names []string) {
	l.command(names, func() {
		for _, name := range names {
			if l.srv.forbidden[name] {
				l.out <- func() { l.answer(errors.New("NOPERM")) }
				return
			}
		}
		answer := l.srv.rng.IntN(len(names) + 1)
		for i, name := range names {
			if i == answer {
				l.out <- func() { l.answer(nil) }
			}
			l.subs[name] = true
			l.out <- func() { l.feed.confirmed(name) }
		}
		if answer == len(names) {
			l.out <- func() { l.answer(nil) }
		}
	})
}

func (l *simLink) unsubscribe(names []string) {
	l.command(names, func() {
		for _, name := range names {
			delete(l.subs, name)
		}
		l.out <- func() { l.answer(nil) }
	})
}

// command brings a command to the server, which executes it in one go.
func (l *simLink) command(names []string, execute func()) {
	l.srv.mu.Lock()
	defer l.srv.mu.Unlock()
	assert.False(l.srv.t, l.busy, "a command before the last one was answered")
	assert.NotEmpty(l.srv.t, names)
	l.busy = true
	l.in <- func() {
		l.srv.mu.Lock()
		defer l.srv.mu.Unlock()
		if !l.srv.silent {
			execute()
		}
	}
}

func (l *simLink) answer(err error) {
	l.srv.mu.Lock()
	l.busy = false
	l.srv.mu.Unlock()
	l.feed.answered(err)
}

func (s *simServer) publish(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts[name]++
	if s.link != nil && s.link.subs[name] && !s.silent {
		feed := s.link.feed
		s.link.out <- func() { feed.message(name, "") }
	}
}

func (s *simServer) published(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts[name]
}
func (s *simServer) alive() int { s.mu.Lock(); defer s.mu.Unlock(); return s.links }

// forbid takes the right to a channel away, or gives it back. Like a real server, it cuts off a
// client that has lost the right to what it listens to.
func (s *simServer) forbid(name string, on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forbidden[name] = on
	if on && s.link != nil && s.link.subs[name] {
		s.link.kill(errors.New("no right"))
	}
}

func (s *simServer) kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.link != nil {
		s.link.kill(errors.New("broken"))
	}
}

// setSilent makes the server ignore everything. Like a real one that is cut off, it comes back with
// no connection.
func (s *simServer) setSilent(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.silent && !on && s.link != nil {
		s.link.kill(errors.New("reset"))
	}
	s.silent = on
}

func (s *simServer) subscribed() map[string]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.link.dead: // nobody watches anything, so there is no new connection
		return map[string]bool{}
	default:
		return maps.Clone(s.link.subs)
	}
}
