package network

import (
	"context"
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
		var waiter *lockmgr.Manager
		faults.Eventually(t, func() bool {
			waiter = dial(t, p.Addr(), lockmgr.Options{Linger: -1})
			l, fired := faults.Take(t, holder, what), rule.Count()
			f := waiter.LockAsync(what)
			faults.Eventually(t, func() bool { return rule.Count() > fired }, "SUBSCRIBE")
			if what == "silent" { // the command connection is another one
				require.NotEmpty(t, p.PubSub())
			}
			faults.Release(t, l)
			released := time.Now()
			faults.Release(t, faults.Await(t, f))
			return time.Since(released) < 1500*time.Millisecond // a busy machine may need several tries
		}, "a poll a second, and its round trip")
		require.Positive(t, waiter.Stats().Polls)
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
