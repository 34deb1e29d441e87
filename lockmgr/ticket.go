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
	first   hold         // used if the request is the first of its hold
	shell   *shell
	unlock  atomic.Pointer[futures.Promise[struct{}]]
	over    atomic.Bool // the caller has given the lock back
	granted uint32      // when, in steps of grantStep and plus one; zero before. The manager's goroutine owns it
}

// hold returns the hold that the request was granted. The request must be granted.
func (t *ticket) hold() *hold { return holdOf(t.request.Hold) }

// asked returns the instant of the request.
func (t *ticket) asked() time.Duration { return t.request.Asked }

// trace returns what the events of the request report, or nil if nobody observes it.
func (t *ticket) trace() *trace {
	if terms := t.request.Terms; terms != nil && terms.Tag != nil {
		return terms.Tag.(*trace)
	}
	return nil
}

// grantStep is the unit of ticket.granted. It makes the field small: one for each lock.
const grantStep = 100 * time.Millisecond

// since returns when the request was granted, or else when it was made. The manager's goroutine
// calls it.
func (t *ticket) since() time.Duration {
	if t.granted != 0 {
		return time.Duration(t.granted-1) * grantStep
	}
	return t.asked()
}

// A ticket is the source of its future, and runs its callbacks.
var (
	_ futures.Source[*Lock] = (*ticket)(nil)
	_ futures.Dispatcher    = (*ticket)(nil)
	_ futures.Dispatcher    = (*unlocking)(nil)
)

// Cancel withdraws a request that is pending.
func (t *ticket) Cancel() { t.shell.actor.Post(core.Cancel{Request: &t.request}) }

// Drop gives back a lock that was granted and that nobody has taken.
func (t *ticket) Drop(l *Lock) { l.unlock(true) }

// Dispatch queues the callbacks of the future of a request.
func (t *ticket) Dispatch(run func()) { t.shell.callbacks.put(run) }

// Explain returns the error of a future that was cancelled, or whose Await ended
// with its context.
func (t *ticket) Explain(err error) error {
	if errors.Is(err, ErrCanceled) {
		return t.failed(opLock, 0, err)
	}
	now := t.shell.now()
	reason := t.shell.failing(t.key(), t.asked(), now)
	if reason == nil {
		reason = fmt.Errorf("%w: %s", ErrNotAcquired, t.refusal())
	}
	return t.failed(opLock, max(0, now-t.asked()), fmt.Errorf("%w: %w", reason, err))
}

// key returns the request's name, or one of those of a set.
func (t *ticket) key() string {
	if more := t.first.more.Load(); more != nil && more.set != nil {
		return more.set.items[0].Name
	}
	return t.request.Name
}

// refusal says what a request waits for while the server answers.
func (t *ticket) refusal() string {
	if t.request.Kind == core.Permits {
		return "too few permits were free"
	}
	return "another owner held it"
}

// waitError returns the error of a request that ended at now without a lock.
// While the server is silent, a wait that ran out does not mean that another
// owner holds the lock.
func (t *ticket) waitError(now time.Duration, err error) error {
	if t.request.Once {
		return t.failed(opLock, 0, err)
	}
	if errors.Is(err, ErrWaitTimeout) {
		if down := t.shell.failing(t.key(), t.asked(), now); down != nil {
			err = down
		} else {
			err = fmt.Errorf("%w: %s", err, t.refusal())
		}
	}
	return t.failed(opLock, max(0, now-t.asked()), err)
}

// failed returns the error of an operation on the lock.
func (t *ticket) failed(op string, waited time.Duration, err error) *LockError {
	return &LockError{Op: op, Name: t.request.Name, Waited: waited, Err: err, set: t.request.Kind == core.Several}
}

func (t *ticket) notUnlocked(err error) *futures.Future[struct{}] {
	return futures.Ready(struct{}{}, error(t.failed(opUnlock, 0, err)))
}

// An unlocking is a ticket as the source of its unlock's future. Cancel and
// Drop do nothing: the release goes on in any case.
type unlocking ticket

func (r *unlocking) Cancel() {}

func (r *unlocking) Drop(struct{}) {}

// Dispatch queues the callbacks of the future of an unlock.
func (r *unlocking) Dispatch(run func()) { r.shell.callbacks.put(run) }

func (r *unlocking) Explain(err error) error {
	if !errors.Is(err, ErrCanceled) {
		err = r.shell.whileFailing((*ticket)(r).key(), 0, err)
	}
	return (*ticket)(r).failed(opUnlock, 0, err)
}

// A hold is shared by its handles. until is authoritative. What more has reports it.
type hold struct {
	until atomic.Int64             // the deadline, an instant of the manager's clock
	more  atomic.Pointer[holdMore] // nil for most; see makeMore
}

// holdMore is what few holds need. It is set once and stays.
type holdMore struct {
	set *heldSet // of a lock of LockAll; set before the request is posted

	mu       sync.Mutex
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
	of     *ticket
	ctx    context.Context
	cancel context.CancelCauseFunc
}

// makeMore returns what more the hold has. The first call makes it.
func (h *hold) makeMore() *holdMore {
	if more := h.more.Load(); more != nil {
		return more
	}
	h.more.CompareAndSwap(nil, new(holdMore))
	return h.more.Load()
}

// end marks the hold lost, closes the channel handed out and cancels the
// contexts. Later calls of Lost return a closed channel.
func (h *hold) end(err error) {
	h.until.Store(0)
	more := h.makeMore()
	more.mu.Lock()
	more.err = err
	lost, contexts := more.lost, more.contexts
	more.contexts = nil
	more.mu.Unlock()
	if lost != nil {
		close(lost)
	}
	for _, c := range contexts {
		c.cancel(err)
	}
}

// lostErr returns why the hold was lost, or nil.
func (h *hold) lostErr() error {
	more := h.more.Load()
	if more == nil {
		return nil
	}
	more.mu.Lock()
	defer more.mu.Unlock()
	return more.err
}

// sameContext returns the context of the last call, if that was for the same
// lock and parent, else nil. So a long hold that calls Lock.Context once for
// each piece of work keeps one context, not thousands.
func (h *hold) sameContext(t *ticket, parent context.Context) context.Context {
	more := h.makeMore()
	more.mu.Lock()
	defer more.mu.Unlock()
	if len(more.contexts) == 0 || !reflect.ValueOf(parent).Comparable() || more.parent != parent {
		return nil
	}
	last := more.contexts[len(more.contexts)-1]
	if last.of != t || last.ctx != more.child || last.ctx.Err() != nil {
		return nil
	}
	return last.ctx
}

// remember notes the parent of the context that was bound last.
func (h *hold) remember(parent, child context.Context) {
	more := h.makeMore()
	more.mu.Lock()
	defer more.mu.Unlock()
	if reflect.ValueOf(parent).Comparable() {
		more.parent, more.child = parent, child
	}
}

// bind stores a context to be cancelled when its lock ends. If the lock has ended
// already, it returns the reason.
func (h *hold) bind(b boundContext) error {
	more := h.makeMore()
	more.mu.Lock()
	defer more.mu.Unlock()
	if more.err != nil {
		return more.err
	}
	if b.of.over.Load() {
		return ErrNotHeld
	}
	more.sweep()
	more.contexts = append(more.contexts, b)
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
