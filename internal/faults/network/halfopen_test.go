package network

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/faultproxy"
	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// Nothing comes and nothing breaks. The holder knows by its own clock, the next one gets the lock
// when the record has expired, and never before the first has let go.
func TestLock_LostInTimeOnAHalfOpenConnection(t *testing.T) {
	s, p := startProxied(t)
	options := lockmgr.Options{Lease: lease, CommandTimeout: timeout, RetryTime: time.Minute, Linger: -1}
	cutOff, other := dial(t, p.Addr(), options), dial(t, s.Addr(), options)
	var held beliefs
	l := faults.Take(t, cutOff, "a")
	first := held.begin(l)
	waiting, next := cutOff.LockAsync("a"), other.LockAsync("a")
	faults.AwaitSubscribed(t, s, "a", 1)

	p.BlackHole()
	require.True(t, l.Valid(), "the lease is good for its time")
	first.lookUntil(nil)
	require.ErrorIs(t, l.Unlock(faults.Patient(t)), lockmgr.ErrLeaseLost)
	faults.AwaitLost(t, l)
	got := faults.Await(t, next)
	second := held.begin(got)
	second.look()
	require.Empty(t, p.PubSub(), "the holder never subscribed")

	p.Heal()
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { second.lookUntil(done) })
	if err := cutOff.Close(faults.Patient(t)); err != nil { // a slow release gives way to the end of the lease
		require.NotErrorIs(t, err, context.DeadlineExceeded, "what hung in the black hole does not keep it from closing")
	}
	_, err := waiting.Result()
	require.ErrorIs(t, err, lockmgr.ErrClosed)
	close(done)
	wg.Wait()
	faults.Release(t, got)
	held.requireApart(t)
	requireNothingLeft(t, s, "a", other)
}

// sends are the times at which renewals and grants were seen on their way to the server: no earlier
// than they were sent.
type sends struct {
	mu  sync.Mutex
	all []time.Duration
}

func (s *sends) see(faultproxy.Cmd) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, now())
	return true
}

func (s *sends) last() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[len(s.all)-1]
}

// A deadline counts from a send. Whatever the reply to a renewal goes through, the lease ends no
// later than if it had come at once.
func TestRenewal_LateReplyNeverProlongsALease(t *testing.T) {
	eachFault(t, map[string]func(p *faultproxy.Proxy, m faultproxy.Match){
		"slow":     func(p *faultproxy.Proxy, m faultproxy.Match) { p.On(m).DelayReply(timeout / 2) },
		"too slow": func(p *faultproxy.Proxy, m faultproxy.Match) { p.On(m.Nth(1)).DelayReply(timeout + timeout/2) },
		"repeated": func(p *faultproxy.Proxy, m faultproxy.Match) { p.On(m).RepeatCommand() },
		"late":     func(p *faultproxy.Proxy, m faultproxy.Match) { p.On(m).DelayCommand(timeout / 2) },
		"lost":     func(p *faultproxy.Proxy, m faultproxy.Match) { p.On(m.Nth(1)).LoseReplyAndCut() },
	}, func(t *testing.T, s *redistest.Server, p *faultproxy.Proxy, what string, fault func(p *faultproxy.Proxy, m faultproxy.Match)) {
		seen, sent := faults.NewWitness(), &sends{}
		m := dial(t, p.Addr(), lockmgr.Options{Lease: lease, CommandTimeout: timeout, Observer: seen.Observe})
		p.On(script(t, "acquire").Where(sent.see)).Observe()
		p.On(script(t, "renew").Where(sent.see)).Observe()
		fault(p, script(t, "renew"))
		l := faults.Take(t, m, what)
		// Sampled in the background, so that no moment is left out.
		stop := make(chan struct{})
		worst := time.Duration(-1 << 62)
		var wg sync.WaitGroup
		wg.Go(func() {
			for {
				at := now()
				if left := l.Remaining(); left > 0 {
					worst = max(worst, at+left-(sent.last()+lease-lease/100-2*time.Millisecond))
				}
				select {
				case <-stop:
					return
				case <-time.After(200 * time.Microsecond):
				}
			}
		})
		held := faults.Reached[lockmgr.EventRenewed](seen, 2, l.Lost())
		close(stop)
		wg.Wait()
		require.LessOrEqual(t, worst, time.Duration(0), "the deadline is later than its send allows")
		if held {
			faults.Release(t, l)
		}
	})
}
