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

// A ticket is what the shell keeps of one request. It is a part of the Lock that
// the request may come to: one allocation for both.
type ticket struct {
	promise futures.Promise[*Lock]
	request core.Request // the core's, once it is posted
	hold    hold         // used if the request is the first of its hold
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

// A hold is shared by its handles. until is authoritative and read atomically;
// err, lost and contexts report it.
type hold struct {
	until atomic.Int64 // the deadline, an instant of the manager's clock

	mu   sync.Mutex
	more *holdMore // nil for most
}

type holdMore struct {
	err      error         // why the hold ended, if it was lost
	lost     chan struct{} // closed when err is set
	contexts []boundContext
	// child is the context bound last, parent its parent.
	parent, child context.Context
	sweepAt       int // the number of contexts at which the ended ones are removed
}

// minSweep is the smallest number of contexts at which sweep does anything.
const minSweep = 16

// A boundContext is cancelled when its hold is lost or its lock unlocked.
type boundContext struct {
	lock   *Lock
	ctx    context.Context
	cancel context.CancelCauseFunc
}

// end marks the hold lost, closes the channel handed out and cancels the
// contexts. Later calls of Lost return a closed channel.
func (h *hold) end(err error) {
	h.until.Store(0)
	h.mu.Lock()
	if h.more == nil {
		h.more = &holdMore{}
	}
	h.more.err = err
	lost, contexts := h.more.lost, h.more.contexts
	h.more.contexts = nil
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
	return h.ended()
}

// ended returns why the hold was lost, or nil. It is called with the mutex held.
func (h *hold) ended() error {
	if h.more == nil {
		return nil
	}
	return h.more.err
}

// A Lock is a hold on a name. Its methods are safe for concurrent use. It is
// good until it is unlocked or lost, whichever comes first.
//
// No lock service can keep a paused process from acting on a lock that it has
// lost meanwhile: where that matters, use [Lock.Token].
type Lock struct {
	ticket ticket
	hold   *hold // of the first request of the hold; nil before the grant
}

// Name returns what is locked.
func (l *Lock) Name() string { return l.ticket.request.Name }

// Owner returns the lock's owner. A request for the same name with AsOwner of it
// re-enters the lock.
func (l *Lock) Owner() Owner { return Owner{l.ticket.manager.id, l.ticket.request.Owner} }

// HolderID returns the ID of the hold in Redis: "<manager uuid>:<number>". No
// other hold ever has it, so a command that runs late can't affect a later hold.
// A re-entry has the ID of its hold.
func (l *Lock) HolderID() string { return l.ticket.manager.id.field(l.ticket.request.Hold.Number) }

// Token returns the fencing token of a lock taken with Fenced, or zero. It is
// larger than the token of every grant before it. A re-entry has the token of its
// hold.
// A resource that remembers the largest token it has seen, and refuses
// smaller ones, is safe even from a holder that does not know of its loss.
func (l *Lock) Token() int64 { return l.ticket.request.Hold.Token }

// Valid reports whether the lock is held: it was not unlocked, and its confirmed
// lease has not run out. It does no I/O and does not depend on the manager having
// noticed.
func (l *Lock) Valid() bool { return l.Remaining() > 0 }

// Remaining returns the time until the lock's deadline, which a renewal may still
// move; zero if it is not held.
func (l *Lock) Remaining() time.Duration {
	if l.ticket.over.Load() {
		return 0
	}
	return max(0, time.Duration(l.hold.until.Load())-l.ticket.manager.clock.exact())
}

// Lost returns a channel that is closed when the lock is lost. At the lock's
// deadline a timer closes it, which may be some milliseconds late in a busy
// process; Valid is never late. Unlock does not close it. Re-entries share it
// with their hold.
func (l *Lock) Lost() <-chan struct{} {
	h := l.hold
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.more == nil {
		h.more = &holdMore{}
	}
	if h.more.lost == nil {
		h.more.lost = make(chan struct{})
		if h.ended() != nil {
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

// sameContext returns the context of the last call, if that was for the same
// lock and parent, else nil. So a long hold that calls Lock.Context once for
// each piece of work keeps one context, not thousands.
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

// bind stores a context to be cancelled when its lock ends. If the lock has ended
// already, it returns the reason.
func (h *hold) bind(b boundContext) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended() != nil {
		return h.ended()
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

// sweep removes contexts that ended with their parents, each time that the
// number of contexts has doubled since the last sweep. So a call of
// Lock.Context looks at two others on average.
func (m *holdMore) sweep() {
	if len(m.contexts) < max(m.sweepAt, minSweep) {
		return
	}
	m.contexts = slices.DeleteFunc(m.contexts, func(c boundContext) bool { return c.ctx.Err() != nil })
	m.sweepAt = 2 * len(m.contexts)
}

// Extend keeps the lock for at least d from now on, less 1 % and
// Options.Margin. A fixed lease then ends no earlier than that. A watched one
// is renewed at once, and later as usual. Extend never shortens a hold, and
// never goes beyond MaxHold: it returns nil, and the lock ends with its
// MaxHold. d is from MinLease to MaxLease; otherwise the error matches
// ErrInvalidLease.
//
// Extend blocks until Redis has confirmed it, the lock is lost, or ctx ends; in
// the last case it may still take effect. While the server can't be reached it
// tries again. A nil error proves that the lock was held when the command ran.
// The error matches ErrLeaseLost if the lock is lost, and ErrNotHeld if it was
// unlocked.
func (l *Lock) Extend(ctx context.Context, d time.Duration) error {
	if err := l.extend(ctx, d); err != nil {
		return &LockError{Op: opExtend, Name: l.Name(), Err: err}
	}
	return nil
}

func (l *Lock) extend(ctx context.Context, d time.Duration) error {
	t := &l.ticket
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
// goes on releasing it until the release is confirmed or the record has expired.
// After the call the lock is not valid, whatever Unlock returns.
//
// If other processes have had the lock for much longer than this one, its record
// may stay for 2 ms more, in case the caller wants the lock again. A process that
// ends then must call [Manager.Close], which waits for the release.
//
// The error matches ErrNotHeld if this handle was unlocked before, ErrClosed if
// the manager was closed, and ErrLeaseLost if the lock had been lost: then the
// work under it may have met another holder.
func (l *Lock) Unlock(ctx context.Context) error {
	_, err := l.UnlockAsync().Await(ctx)
	return err
}

// UnlockAsync is Unlock without waiting. Cancelling its future does not stop the
// release.
func (l *Lock) UnlockAsync() *futures.Future[struct{}] {
	t := &l.ticket
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

// cancelContexts cancels the contexts of this handle, not those of re-entries.
func (l *Lock) cancelContexts() {
	h := l.hold
	h.mu.Lock()
	if h.more == nil || h.ended() != nil {
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
