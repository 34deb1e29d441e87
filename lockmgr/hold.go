package lockmgr

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
)

// A hold is shared by its handles. until is authoritative. The fields of more only report the end
// of the hold.
type hold struct {
	until atomic.Int64             // the deadline, an instant of the manager's clock
	more  atomic.Pointer[holdMore] // nil for most; see makeMore
}

// holdMore has the fields that few holds need. hold.more is set once and stays.
type holdMore struct {
	set    *setPart    // of a lock of LockAll; set before the request is posted
	unbind func() bool // of a request with WaitContext, from the context; set before the request is posted

	mu       sync.Mutex
	err      error         // why the hold ended, if it was lost
	lost     chan struct{} // closed when err is set
	contexts []boundContext
	sweepAt  int // the number of contexts at which the ended ones are removed
}

// A setPart is what only the hold of a set has.
type setPart struct {
	items  []core.Item
	tokens []int64 // one for each item, or nil
}

// minSweep is the smallest number of contexts at which sweep does anything.
const minSweep = 16

// A boundContext is cancelled when its hold is lost or its lock unlocked.
type boundContext struct {
	over   *atomic.Bool    // ticket.over of the handle. It tells the handles of a hold apart.
	ctx    context.Context // ended by cancel
	cancel context.CancelCauseFunc
	// parent is the argument of Lock.Context, or nil if it can't be compared. child is the result.
	parent, child context.Context
}

// makeMore returns h.more, made by the first call.
func (h *hold) makeMore() *holdMore {
	if more := h.more.Load(); more != nil {
		return more
	}
	h.more.CompareAndSwap(nil, new(holdMore))
	return h.more.Load()
}

// end marks the hold lost, closes the channel handed out and cancels the contexts with a cause. Later
// calls of Lost return a closed channel.
func (h *hold) end(err, cause error) {
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
		c.cancel(cause)
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

// sameContext returns the child bound last, if of the same lock and parent, else nil. So a long
// hold that calls Lock.Context for each piece of work keeps a single context, not thousands.
func (h *hold) sameContext(over *atomic.Bool, parent context.Context) context.Context {
	more := h.makeMore()
	more.mu.Lock()
	defer more.mu.Unlock()
	n := len(more.contexts)
	if n == 0 || parent == nil {
		return nil
	}
	if last := more.contexts[n-1]; last.over == over && last.parent == parent && last.ctx.Err() == nil {
		return last.child
	}
	return nil
}

// bind stores a context to be cancelled when its lock ends. If the lock has ended already, the
// context itself finds out: see lockContext.
func (h *hold) bind(b boundContext) {
	more := h.makeMore()
	more.mu.Lock()
	defer more.mu.Unlock()
	if more.err == nil && !b.over.Load() {
		more.sweep()
		more.contexts = append(more.contexts, b)
	}
}

// sweep removes contexts that ended with their parents, each time the number of contexts has
// doubled since the last sweep. So a call of Lock.Context looks at two further contexts on average.
func (m *holdMore) sweep() {
	if len(m.contexts) < max(m.sweepAt, minSweep) {
		return
	}
	m.contexts = slices.DeleteFunc(m.contexts, func(c boundContext) bool { return c.ctx.Err() != nil })
	m.sweepAt = 2 * len(m.contexts)
}
