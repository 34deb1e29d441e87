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
	shell   *shell
	asked   time.Duration // the instant of the request
	unlock  atomic.Pointer[futures.Promise[struct{}]]
	over    atomic.Bool // the caller has given the lock back
	granted uint32      // when, in steps of grantStep and plus one; zero before. The manager's goroutine owns it
	trace   *trace      // for the observer, or nil
}

// grantStep is the unit of ticket.granted. It makes the field small: one for each lock.
const grantStep = 100 * time.Millisecond

// since returns when the request was granted, or else when it was made. The manager's goroutine
// calls it.
func (t *ticket) since() time.Duration {
	if t.granted != 0 {
		return time.Duration(t.granted-1) * grantStep
	}
	return t.asked
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
	reason := t.shell.failing(t.key(), t.asked, now)
	if reason == nil {
		reason = fmt.Errorf("%w: %s", ErrNotAcquired, t.refusal())
	}
	return t.failed(opLock, max(0, now-t.asked), fmt.Errorf("%w: %w", reason, err))
}

// key returns the request's name, or one of those of a set.
func (t *ticket) key() string {
	if more := t.hold.more; more != nil && more.set != nil {
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
		if down := t.shell.failing(t.key(), t.asked, now); down != nil {
			err = down
		} else {
			err = fmt.Errorf("%w: %s", err, t.refusal())
		}
	}
	return t.failed(opLock, max(0, now-t.asked), err)
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
	set      *heldSet // of a lock of LockAll
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

// sameContext returns the context of the last call, if that was for the same
// lock and parent, else nil. So a long hold that calls Lock.Context once for
// each piece of work keeps one context, not thousands.
func (h *hold) sameContext(t *ticket, parent context.Context) context.Context {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.more == nil || len(h.more.contexts) == 0 || !reflect.ValueOf(parent).Comparable() || h.more.parent != parent {
		return nil
	}
	last := h.more.contexts[len(h.more.contexts)-1]
	if last.of != t || last.ctx != h.more.child || last.ctx.Err() != nil {
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
	if b.of.over.Load() {
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
