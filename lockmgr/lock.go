package lockmgr

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
)

// A ticket is all that the shell keeps of one request, in one allocation.
type ticket struct {
	promise futures.Promise[*Lock]
	request core.Request // the core's, once it is posted
	lock    Lock
	hold    hold // of an anchor
	manager *Manager
	asked   time.Duration // the instant of the request
	unlock  atomic.Pointer[futures.Promise[struct{}]]
	over    atomic.Bool // the caller has given the lock back
	trace   *trace      // for the observer, or nil
}

// A ticket is the source of its future.
var _ futures.Source[*Lock] = (*ticket)(nil)

// Cancel withdraws a request that is pending.
func (t *ticket) Cancel() { t.manager.actor.Post(core.Cancel{Request: &t.request}) }

// Drop gives back a lock that was granted and that nobody has taken.
func (t *ticket) Drop(l *Lock) { l.UnlockAsync() }

// hold is what the handles of one hold share. Its goroutine-safe part of the
// truth is until; all else is only news of it.
type hold struct {
	until atomic.Int64 // an instant

	mu   sync.Mutex
	err  error // why the hold ended, if it was lost
	more *holdMore
}

type holdMore struct {
	lost     chan struct{} // closed when err is set
	contexts []boundContext
	// parent is that of the context bound last, which is child.
	parent, child context.Context
	sweepAt       int // the number of contexts at which the ended ones are removed
}

// minSweep is the smallest number of contexts that is worth a sweep.
const minSweep = 16

// A boundContext is cancelled when its hold is lost or its lock unlocked.
type boundContext struct {
	lock   *Lock
	ctx    context.Context
	cancel context.CancelCauseFunc
}

// end marks a hold as lost. Whoever asks for its channel from then on gets one
// that is closed, so what is there to be closed is taken along with the mark.
func (h *hold) end(err error) {
	h.until.Store(0)
	h.mu.Lock()
	h.err = err
	var lost chan struct{}
	var contexts []boundContext
	if h.more != nil {
		lost, contexts = h.more.lost, h.more.contexts
		h.more.contexts = nil
	}
	h.mu.Unlock()
	if lost != nil {
		close(lost)
	}
	for _, c := range contexts {
		c.cancel(err)
	}
}

func (h *hold) lostErr() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.err
}

// A Lock is a hold on a name. Its methods are safe for concurrent use. It is
// good until it is unlocked or lost, whichever comes first.
//
// No lock service can keep a paused process from acting on a lock that it has
// lost meanwhile: where that matters, use [Lock.Token].
type Lock struct {
	ticket *ticket
	hold   *hold
}

// Name returns what is locked.
func (l *Lock) Name() string { return l.ticket.request.Name }

// Owner returns who holds the lock. Given to AsOwner, it re-enters.
func (l *Lock) Owner() Owner { return Owner{l.ticket.manager.id, l.ticket.request.Owner} }

// HolderID returns the name under which Redis knows the hold:
// "<manager uuid>:<number>". No other hold ever has it, so a command that runs
// late can't be about a later hold. A re-entry has that of its hold.
func (l *Lock) HolderID() string { return l.ticket.manager.id.field(l.ticket.request.Field) }

// Token returns the fencing token of a lock taken with Fenced, or zero. It is
// larger than that of every grant before it; a re-entry has that of its hold.
// A resource that remembers the largest token it has seen, and refuses
// smaller ones, is safe even from a holder that does not know of its loss.
func (l *Lock) Token() int64 { return l.ticket.request.Token }

// Valid reports whether the lock is held: it was not unlocked, and its lease,
// as far as it was confirmed, has not run out. It does no I/O and does not
// depend on the manager having noticed.
func (l *Lock) Valid() bool { return l.Remaining() > 0 }

// Remaining returns for how long the lock is held at least, renewals aside;
// zero if it is not held.
func (l *Lock) Remaining() time.Duration {
	if l.ticket.over.Load() {
		return 0
	}
	return max(0, time.Duration(l.hold.until.Load())-l.ticket.manager.clock.exact())
}

// Lost returns a channel that is closed when the lock is lost: no later than
// at the instant until which its ownership could be vouched for. Unlock does
// not close it. Re-entries share it with their hold.
func (l *Lock) Lost() <-chan struct{} {
	h := l.hold
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.more == nil {
		h.more = &holdMore{}
	}
	if h.more.lost == nil {
		h.more.lost = make(chan struct{})
		if h.err != nil {
			close(h.more.lost)
		}
	}
	return h.more.lost
}

// Err returns nil while the lock is held, ErrNotHeld once it was unlocked, and
// otherwise why it was lost: an error that matches ErrLeaseLost or ErrClosed.
func (l *Lock) Err() error {
	over := l.ticket.over.Load()
	if over && l.ticket.unlock.Load() != nil {
		return ErrNotHeld
	}
	if err := l.hold.lostErr(); err != nil {
		return err // before the unlock, if there was one
	}
	switch {
	case over:
		return ErrNotHeld
	case !l.Valid():
		return ErrLeaseLost
	}
	return nil
}

// Context returns a child of parent that is cancelled when the lock is lost,
// with the loss as its cause, or unlocked, with ErrNotHeld.
func (l *Lock) Context(parent context.Context) context.Context {
	if ctx := l.hold.sameContext(l, parent); ctx != nil {
		return ctx
	}
	ctx, cancel := context.WithCancelCause(parent)
	if err := l.hold.bind(boundContext{l, ctx, cancel}); err != nil {
		cancel(err)
	} else {
		l.hold.remember(parent, ctx)
	}
	return ctx
}

// sameContext returns the context that the last call has made, if it was for the
// same lock and parent: a long hold that asks once for each piece of work keeps
// one context, not thousands.
func (h *hold) sameContext(l *Lock, parent context.Context) context.Context {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.more == nil || len(h.more.contexts) == 0 || !reflect.ValueOf(parent).Comparable() || h.more.parent != parent {
		return nil
	}
	last := h.more.contexts[len(h.more.contexts)-1]
	if last.lock != l || last.ctx != h.more.child || last.ctx.Err() != nil {
		return nil
	}
	return last.ctx
}

// remember notes the parent of the context that was bound last.
func (h *hold) remember(parent, child context.Context) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if reflect.ValueOf(parent).Comparable() {
		h.more.parent, h.more.child = parent, child
	}
}

// bind keeps a context until its lock ends, or says why it has ended.
func (h *hold) bind(b boundContext) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err != nil {
		return h.err
	}
	if b.lock.ticket.over.Load() {
		return ErrNotHeld
	}
	if h.more == nil {
		h.more = &holdMore{}
	}
	h.more.sweep()
	h.more.contexts = append(h.more.contexts, b)
	return nil
}

// sweep removes the contexts that ended with their parents, each time that
// their number has doubled since the last sweep. So a call of Lock.Context
// looks at two others on average, and no more than half of those that are kept
// have ended, or 16.
func (m *holdMore) sweep() {
	if len(m.contexts) < max(m.sweepAt, minSweep) {
		return
	}
	m.contexts = slices.DeleteFunc(m.contexts, func(c boundContext) bool { return c.ctx.Err() != nil })
	m.sweepAt = 2 * len(m.contexts)
}

// Extend keeps the lock for at least d from now on, less 1 % and Options.Margin. A
// fixed lease then ends no earlier than that; a watched one is renewed at once
// and goes on being renewed. It never shortens what is held, and never goes
// beyond MaxHold. d is from MinLease to MaxLease.
//
// Extend blocks until Redis has confirmed it, the lock is lost, or ctx ends; in
// the last case it may still take effect. While the server can't be reached it
// is tried again. Without an error the lock was held when the command ran, so
// Extend also proves that it is still held.
func (l *Lock) Extend(ctx context.Context, d time.Duration) error {
	if err := l.extend(ctx, d); err != nil {
		return &LockError{Op: opExtend, Name: l.Name(), Err: err}
	}
	return nil
}

func (l *Lock) extend(ctx context.Context, d time.Duration) error {
	t := l.ticket
	switch err := l.hold.lostErr(); {
	case d < MinLease || d > MaxLease:
		return fmt.Errorf("%w: %v is not within %v and %v", ErrInvalidLease, d, MinLease, MaxLease)
	case t.over.Load():
		return ErrNotHeld
	case err != nil:
		return err
	}
	p := new(futures.Promise[struct{}])
	if !t.manager.actor.Post(&core.Prolongation{Request: &t.request, Lease: d, Tag: p}) {
		return ErrClosed
	}
	_, err := p.Future().Await(ctx)
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		err = t.manager.whileFailing(err)
	}
	return err
}

// Unlock gives the lock back. It blocks until the lock has passed to the next
// waiter of this manager or Redis has confirmed its release, the server has
// failed for Options.RetryTime, or ctx ends; in the last two cases the manager
// goes on releasing it until it is confirmed or expired. After the call the
// lock is not valid, whatever it returns.
//
// While other processes have had the lock for much longer than this one, the
// record may stay for 2 ms more, in case the caller wants the lock again. A
// process that ends then must call [Manager.Close], which waits for the release.
//
// It returns ErrNotHeld if this handle was unlocked before, and an error that
// matches ErrLeaseLost if the lock had been lost, so that what was done under
// it may have met another holder.
func (l *Lock) Unlock(ctx context.Context) error {
	_, err := l.UnlockAsync().Await(ctx)
	return err
}

// UnlockAsync is Unlock without waiting. Cancelling the future only stops the
// waiting.
func (l *Lock) UnlockAsync() *futures.Future[struct{}] {
	t := l.ticket
	if !t.over.CompareAndSwap(false, true) {
		return t.notUnlocked(ErrNotHeld)
	}
	l.cancelContexts()
	if err := l.hold.lostErr(); err != nil {
		return t.notUnlocked(err)
	}
	if t.trace != nil {
		t.trace.unlocked = time.Now()
	}
	p := new(futures.Promise[struct{}])
	p.Bind((*unlocking)(t))
	t.unlock.Store(p)
	if !t.manager.actor.Post(core.Unlock{Request: &t.request}) {
		return t.notUnlocked(ErrClosed)
	}
	return p.Future()
}

func (t *ticket) notUnlocked(err error) *futures.Future[struct{}] {
	return futures.Ready(struct{}{}, error(&LockError{Op: opUnlock, Name: t.request.Name, Err: err}))
}

// cancelContexts ends the contexts of this handle. Those of re-entries live on.
func (l *Lock) cancelContexts() {
	h := l.hold
	h.mu.Lock()
	if h.more == nil || h.err != nil {
		h.mu.Unlock()
		return
	}
	var mine []boundContext
	h.more.contexts = slices.DeleteFunc(h.more.contexts, func(c boundContext) bool {
		if c.lock == l {
			mine = append(mine, c)
			return true
		}
		return false
	})
	h.mu.Unlock()
	for _, c := range mine {
		c.cancel(ErrNotHeld)
	}
}
