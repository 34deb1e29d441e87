package lockmgr

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// Lead campaigns for name and calls fn while the process leads. Of all processes that call Lead
// with the name, one leads at a time. Lead blocks until fn has returned without a loss or, while fn
// does not run, ctx ends.
//
// fn gets a context that ends with ctx, or when the leadership is lost. fn must return then.
// [FromContext] returns the lock of the leadership. After a loss Lead drops the result of fn and
// campaigns again. If ctx, or that of [WaitContext], has ended, Lead returns the result instead,
// and the error also matches ErrLeaseLost, as that of [Manager.Do]. term is the fencing token of
// the leadership: each leader has a larger term than all leaders before, unless the server has lost
// data since.
//
// When fn returns, the leadership ends, and another process leads within a round trip or two. Lead
// then returns the error of fn. If ctx ends while another process leads, the error of Lead matches
// ctx.Err(). After an error that is [Temporary], Lead tries again within a second. Lead returns all
// other errors of [Manager.Lock].
//
// The lock is an ordinary lock, with Fenced and the options of the request: see [LockOption] for
// those that Lead takes. The owner of ctx is ignored, so that no leader re-enters a hold. A dead
// leader is replaced when its lease ends.
func (m *Manager) Lead(ctx context.Context, name string, fn func(ctx context.Context, term int64) error, opts ...LockOption) error {
	return m.lead(ctx, name, func(ctx context.Context, l *Lock) error { return fn(ctx, l.Token()) }, opts)
}

// Pauses after a failed campaign.
const (
	firstCampaignPause = 50 * time.Millisecond
	mostCampaignPause  = time.Second
)

func (m *Manager) lead(ctx context.Context, name string, fn func(ctx context.Context, l *Lock) error, opts []LockOption) error {
	pause, waitCtx := firstCampaignPause, waitContextOf(opts)
	for {
		l, err := m.lock(ctx, m.wish(toLead, name, opts))
		switch {
		case err == nil:
			pause = firstCampaignPause
			loss, err := l.run(ctx, func(ctx context.Context) error { return fn(ctx, l) })
			if !errors.Is(loss, ErrLeaseLost) || ctx.Err() != nil || waitCtx.Err() != nil {
				return err
			}
		case ctx.Err() != nil || waitCtx.Err() != nil || !Temporary(err):
			return err
		default:
			wait := time.NewTimer(pause/2 + rand.N(pause/2))
			select {
			case <-ctx.Done():
				wait.Stop()
			case <-waitCtx.Done():
				wait.Stop()
			case <-wait.C:
			}
			pause = min(2*pause, mostCampaignPause)
		}
	}
}

// A Leader campaigns for a name in the background: see [Manager.Lead]. Any goroutine may call the
// methods.
type Leader struct {
	held    atomic.Pointer[Lock]
	done    chan struct{}
	err     error           // written before done is closed
	parent  context.Context // the argument of CampaignFor
	ctx     context.Context // the child of parent that stop ends
	stop    context.CancelFunc
	changes chan LeaderChange // only the campaign sends
}

// A LeaderChange is the beginning or the end of a leadership of a [Leader].
type LeaderChange struct {
	Leads bool
	// Term is the fencing token of the beginning or ending leadership.
	Term int64
}

// CampaignFor begins to campaign for a name. CampaignFor never blocks. The campaign ends with ctx,
// with [Leader.Resign], or with an error of [Manager.Lock] that is not [Temporary]. So does the
// goroutine of the campaign.
func (m *Manager) CampaignFor(ctx context.Context, name string, opts ...LockOption) *Leader {
	l := &Leader{done: make(chan struct{}), parent: ctx, changes: make(chan LeaderChange, 1)}
	l.ctx, l.stop = context.WithCancel(ctx)
	go func() {
		defer close(l.done)
		defer l.stop()
		l.err = m.lead(l.ctx, name, l.holdTerm, opts)
	}()
	return l
}

// holdTerm waits until the leadership is over.
func (l *Leader) holdTerm(ctx context.Context, held *Lock) error {
	l.held.Store(held)
	l.tell(LeaderChange{true, held.Token()})
	<-ctx.Done()
	l.held.Store(nil)
	l.tell(LeaderChange{false, held.Token()})
	return context.Cause(ctx)
}

// tell replaces the unreceived change, if any.
func (l *Leader) tell(c LeaderChange) {
	select {
	case <-l.changes:
	default:
	}
	l.changes <- c
}

// IsLeader reports whether this process leads. IsLeader does no I/O, and is never late: IsLeader is
// false as soon as the lease of the leadership is over, the context of the campaign has ended, or
// [Leader.Resign] is called, whether or not anybody has noticed.
func (l *Leader) IsLeader() bool { return l.leads() != nil }

// Term returns the fencing token of the present leadership, or zero if the process does not lead.
func (l *Leader) Term() int64 {
	if held := l.leads(); held != nil {
		return held.Token()
	}
	return 0
}

// leads returns the lock of the present leadership, or nil.
func (l *Leader) leads() *Lock {
	held := l.held.Load()
	if held == nil || l.parent.Err() != nil || l.ctx.Err() != nil || !held.Valid() {
		return nil
	}
	return held
}

// Changes returns a channel with the newest unreceived change. The channel is for a single reader.
// Earlier changes are dropped, so the campaign never waits for the reader. The channel is not
// closed.
func (l *Leader) Changes() <-chan LeaderChange { return l.changes }

// Resign ends the campaign and hands the leadership over. It blocks until the lock is released, for
// at most Options.RetryTime plus one Options.CommandTimeout, or until ctx ends; the release then
// goes on in the background. Resign returns the error of ctx, or nil.
func (l *Leader) Resign(ctx context.Context) error {
	l.stop()
	return waitFor(ctx, l.done)
}

// Done returns a channel closed when the campaign is over.
func (l *Leader) Done() <-chan struct{} { return l.done }

// Err returns nil until the campaign is over, and after that the reason: an error of
// [Manager.Lead], or an error that matches the error of the campaign's context.
func (l *Leader) Err() error {
	select {
	case <-l.done:
		return l.err
	default:
		return nil
	}
}
