package network

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/internal/faultproxy"
	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// The lock was released and nobody was told. The lease is 30 s, so it is not its end that serves
// the waiter, but the poll of those who can't subscribe.
func TestWaiter_PollsWithoutPubSub(t *testing.T) {
	eachFault(t, map[string]ruleOf{
		"cut": faultproxy.Fault.CutBefore, "silent": faultproxy.Fault.BlackHole, "unconfirmed": faultproxy.Fault.LoseReplyAndCut,
	}, func(t *testing.T, s *redistest.Server, p *faultproxy.Proxy, what string, fault ruleOf) {
		rule := fault(p.On(faultproxy.Command("SUBSCRIBE")))
		holder := dial(t, s.Addr(), lockmgr.Options{})
		waiter := dial(t, p.Addr(), lockmgr.Options{Linger: -1})
		l := faults.Take(t, holder, what)
		f := waiter.LockAsync(what)
		faults.AwaitClosed(t, rule.Fired(), "SUBSCRIBE")
		if what == "silent" { // the command connection is another one
			require.NotEmpty(t, p.PubSub())
		}
		faults.Release(t, l)
		got := faults.Await(t, f)
		require.Positive(t, waiter.Stats().Polls)
		faults.Release(t, got)
		p.Heal()
		requireNothingLeft(t, s, what, holder, waiter)
	})
}

// Commands fail while messages come: holders lose at their deadline, those who wait do so as long
// as they said, and no longer than Options.RetryTime after the trouble began.
func TestConnection_CommandsFailMessagesCome(t *testing.T) {
	eachFault(t, map[string]ruleOf{
		"cut": faultproxy.Fault.CutBefore, "silent": faultproxy.Fault.BlackHole,
	}, func(t *testing.T, s *redistest.Server, p *faultproxy.Proxy, what string, fault ruleOf) {
		const retry = time.Second
		options := lockmgr.Options{Lease: lease, CommandTimeout: timeout, RetryTime: retry}
		holder, waiter := dialBy(t, calm(p.Addr()), options), dialBy(t, calm(p.Addr()), options)
		var l *lockmgr.Lock
		var f *futures.Future[*lockmgr.Lock]
		var rule *faultproxy.Rule
		var start time.Time
		for tries := 1; rule == nil; tries++ {
			l = take(t, holder, what)
			start = time.Now()
			f = waiter.LockAsync(what)
			faults.Eventually(t, func() bool { return !l.Valid() || faults.Subscribers(t, s, what) == 1 }, "a subscriber")
			rule = fault(p.On(faultproxy.Command("EVALSHA", "EVAL")))
			if !l.Valid() { // a busy machine has lost it before
				require.Less(t, tries, 10)
				p.Heal()
				f.Cancel()
				rule = nil
			}
		}
		subscribed := p.PubSub()
		require.Len(t, subscribed, 1)

		short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		defer cancel()
		_, err := waiter.Lock(short, what)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		faults.AwaitLost(t, l)
		require.False(t, l.Valid())
		require.ErrorIs(t, l.Unlock(faults.Patient(t)), lockmgr.ErrLeaseLost)
		_, err = f.Await(faults.Patient(t))
		require.ErrorIs(t, err, lockmgr.ErrUnavailable)
		require.GreaterOrEqual(t, time.Since(start), retry)
		require.Positive(t, rule.Count())
		require.Contains(t, p.PubSub(), subscribed[0], "the subscription is still there")

		p.Heal()
		_ = take(t, waiter, what).Unlock(faults.Patient(t))
	})
}

// breaker is a manager that waits, and whose subscription breaks as its turn comes.
type breaker struct {
	s       *redistest.Server
	p       *faultproxy.Proxy
	holder  *lockmgr.Manager
	waiter  *lockmgr.Manager
	seen    *faults.Witness // by the waiter
	refused int
	name    string
}

func newBreaker(t testing.TB, s *redistest.Server, name string) *breaker {
	p := faultproxy.Start(t, s.Addr())
	seen := faults.NewWitness()
	return &breaker{
		s: s, p: p, name: name, seen: seen, holder: dial(t, s.Addr(), lockmgr.Options{}),
		waiter: dial(t, p.Addr(), lockmgr.Options{Observer: seen.Observe, Linger: time.Hour}),
	}
}

// breakOnce returns how long after the break the waiter had the lock, and whether a poll helped.
func (b *breaker) breakOnce(t testing.TB) (took time.Duration, polled bool) {
	l := faults.Take(t, b.holder, b.name)
	// Its first try, and the one that follows the confirmation of its subscription. After that it
	// waits to be told.
	if b.refused++; b.refused == 1 {
		b.refused++
	}
	f := b.waiter.LockAsync(b.name)
	require.True(t, faults.Reached[lockmgr.EventRefused](b.seen, b.refused, faults.Patient(t).Done()))
	faults.Eventually(t, func() bool {
		// The holder is subscribed, too, if it has stood back.
		return faults.Subscribers(t, b.s, b.name) == 1+b.holder.Stats().Subscriptions
	}, "the waiter subscribes")
	conns := b.p.PubSub()
	require.Len(t, conns, 1)
	polls := b.waiter.Stats().Polls
	start := time.Now()
	conns[0].Cut()
	faults.Release(t, l)
	got := faults.Await(t, f)
	took = time.Since(start)
	polled = b.waiter.Stats().Polls > polls
	faults.Release(t, got)
	return took, polled
}

// The message that tells of an unlock meets no subscription. The waiter looks again when it is
// subscribed again, and polls until then. The test measures how long that takes. Each manager waits
// for longer than a second between two breaks, as connections that break at once are tried again
// more slowly.
func TestSubscription_MeasureTheGap(t *testing.T) {
	s := startServer(t)
	const managers = 20
	var mu sync.Mutex
	var all []time.Duration
	polls := 0
	var wg sync.WaitGroup
	for i := range managers {
		b := newBreaker(t, s, fmt.Sprint("gap ", i))
		wg.Go(func() {
			turn := time.NewTimer(time.Duration(i) * 1200 * time.Millisecond / managers)
			for range (*kills + managers - 1) / managers {
				<-turn.C
				turn.Reset(1200 * time.Millisecond)
				took, polled := b.breakOnce(t)
				mu.Lock()
				all = append(all, took)
				if polled {
					polls++
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	slices.Sort(all)
	at := func(q float64) float64 { return float64(all[int(q*float64(len(all)-1))].Microseconds()) / 1000 }
	t.Logf("%d breaks, %d helped by a poll: p50 %.1f ms, p90 %.1f ms, p99 %.1f ms, max %.1f ms", len(all), polls, at(0.5), at(0.9), at(0.99), at(1))
}
