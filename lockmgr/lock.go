package lockmgr

import (
	"cmp"
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

// A Lock is a hold on a name, or on all names of a [Set]. Its methods are safe for concurrent use.
// A Lock is good until unlocked or lost, whichever comes first.
//
// No lock service can keep a paused process from acting on a lock that was lost meanwhile: where a
// late action does harm, use [Lock.Token].
type Lock struct {
	ticket ticket
}

// Name returns the name of the lock. For a lock of LockAll, Name returns a text with all names. The
// text is no name for Inspect or ForceUnlock: see [Lock.Names].
func (l *Lock) Name() string { return l.ticket.request.Name }

// IsSet reports whether the lock comes from LockAll.
func (l *Lock) IsSet() bool { return l.ticket.request.Kind == core.Several }

// Owner returns the lock's owner. A request for the same name with AsOwner of the owner re-enters
// the lock.
func (l *Lock) Owner() Owner { return Owner{l.ticket.shell.id, l.ticket.request.Owner()} }

// HolderID returns the ID of the hold in Redis: "<manager uuid>:<number>". No other hold ever has
// the same ID, so a command that runs late can't affect a later hold. A re-entry has the ID of the
// hold. Concurrent readers of the same manager share an ID. The record gets a new ID when an owner
// who reads gets the write side too, and when a reader or a re-entry with a longer lease is
// unlocked and other readers or re-entries go on. The record of a read-write lock names the writer
// by the ID with ":write" added. The ID of a fair lock has ":f" added. Permits have IDs of their
// own: see [Lock.PermitIDs].
func (l *Lock) HolderID() string { return l.ticket.shell.id.holder(l.ticket.request.Hold) }

// Token returns the fencing token of a lock taken with Fenced, or zero. The token is larger than
// the token of every earlier grant. A re-entry has the token of the hold. The token of a reader is
// no smaller than the tokens of earlier writers, and smaller than the tokens of later writers. A
// resource that remembers the largest token seen, and refuses smaller tokens, is safe even from a
// holder unaware of its loss.
//
// The token of a lock of LockAll is zero: each name has a token, see [Lock.TokenOf].
func (l *Lock) Token() int64 {
	if l.IsSet() {
		return 0
	}
	return l.ticket.request.Hold.Token
}

// Valid reports whether the lock is held: the handle was not unlocked, and the confirmed lease has
// not run out. Valid does no I/O and does not depend on the manager having noticed.
func (l *Lock) Valid() bool { return l.Remaining() > 0 }

// Remaining returns the time until the lock's deadline, which a renewal may still move; zero if the
// lock is not held. A renewal sets the time to Options.Lease, or more while another holder of the
// same record needs more.
func (l *Lock) Remaining() time.Duration {
	if l.ticket.over.Load() {
		return 0
	}
	return max(0, time.Duration(l.ticket.hold().until.Load())-l.ticket.shell.clock.exact())
}

// Lost returns a channel that is closed when the lock is lost. At the lock's deadline a timer
// closes the channel. The timer may be some milliseconds late in a busy process; Valid is never
// late. Unlock does not close the channel, unless Unlock finds that the lock had been lost.
// Re-entries share the channel with their hold.
func (l *Lock) Lost() <-chan struct{} {
	more := l.ticket.hold().makeMore()
	more.mu.Lock()
	defer more.mu.Unlock()
	if more.lost == nil {
		more.lost = make(chan struct{})
		if more.err != nil {
			close(more.lost)
		}
	}
	return more.lost
}

// Err returns nil while the lock is held, ErrNotHeld after the unlock, and otherwise why the lock
// was lost: a LockError that matches ErrLeaseLost or ErrClosed.
func (l *Lock) Err() error {
	over, lost := l.ticket.over.Load(), l.ticket.hold().lostErr()
	switch {
	case over && (lost == nil || l.ticket.unlock.Load() != nil): // unlock is set only by an Unlock that found no loss
		return ErrNotHeld
	case lost != nil:
		return l.ticket.failed(opHold, 0, lost)
	case !l.Valid():
		return l.ticket.failed(opHold, 0, ErrLeaseLost)
	}
	return nil
}

// Context returns a child of parent. The child is cancelled when the lock is lost, with the loss as
// the cause, or unlocked, with ErrNotHeld.
//
// From the deadline of the lock on, the child's Err returns an error and Done a closed channel,
// even if the process was paused and timers are late. A context derived from the child ends with a
// timer, or at a call of the child's Err or Done.
func (l *Lock) Context(parent context.Context) context.Context {
	key := parent
	if !reflect.ValueOf(parent).Comparable() {
		key = nil
	}
	if ctx := l.ticket.hold().sameContext(&l.ticket.over, key); ctx != nil {
		return ctx
	}
	bound, cancel := context.WithCancelCause(parent)
	ctx := &lockContext{bound, l, cancel}
	l.ticket.hold().bind(boundContext{&l.ticket.over, bound, cancel, key, ctx})
	return ctx
}

// A lockContext is the context of a lock. The methods look at the deadline of the lock.
//
// The channel, and the value for the key with which package context finds its own contexts, come
// from the embedded context. So a child of a lockContext is registered there, and needs no
// goroutine.
type lockContext struct {
	context.Context
	lock   *Lock
	cancel context.CancelCauseFunc
}

// look cancels the context if the lock is not held any more.
func (c *lockContext) look() {
	if c.Context.Err() == nil && !c.lock.Valid() {
		c.cancel(c.lock.Err())
	}
}

func (c *lockContext) Err() error {
	c.look()
	return c.Context.Err()
}

func (c *lockContext) Done() <-chan struct{} {
	c.look()
	return c.Context.Done()
}

// Value returns the lock for FromContext, and else the value of the embedded context. context.Cause
// calls Value with a *int, and does not call Err.
func (c *lockContext) Value(key any) any {
	switch key.(type) {
	case lockKey:
		return c.lock
	case *int:
		c.look()
	}
	return c.Context.Value(key)
}

// A lockKey is the key of the lock of a context.
type lockKey struct{}

// FromContext returns the lock whose [Lock.Context] made ctx or a parent of ctx, the innermost if
// there are several, or nil if there is none. Do, DoAll and Lead give their functions such a
// context. The lock may be lost or unlocked.
func FromContext(ctx context.Context) *Lock {
	l, _ := ctx.Value(lockKey{}).(*Lock)
	return l
}

func (c *lockContext) String() string { return fmt.Sprint(c.Context) + ".WithLock" }

// Extend keeps the lock for at least d from now on, less 1 % and Options.Margin. A fixed lease then
// ends no earlier. A watched lease is renewed at once, and later as usual. The extension ends when
// the handle is unlocked, even if re-entries or other readers go on. Extend never shortens a hold,
// and never goes beyond MaxHold: Extend returns nil, and the lock ends with its MaxHold. d is from
// MinLease to MaxLease; otherwise the error matches ErrInvalidLease.
//
// Extend blocks until Redis has confirmed the extension, the lock is lost, or ctx ends; in the last
// case the extension may still take effect. Extend tries again while the server can't be reached,
// or too few of Options.Replicas have the extension. A nil error proves that the lock was held when
// the command ran. The error matches ErrLeaseLost if the lock is lost, and ErrNotHeld if the lock
// was unlocked.
func (l *Lock) Extend(ctx context.Context, d time.Duration) error {
	if err := l.extend(ctx, d); err != nil {
		return l.ticket.failed(opExtend, 0, err)
	}
	return nil
}

func (l *Lock) extend(ctx context.Context, d time.Duration) error {
	t := &l.ticket
	switch err := l.ticket.hold().lostErr(); {
	case d < MinLease || d > MaxLease:
		return fmt.Errorf("%w: %v is not within %v and %v", ErrInvalidLease, d, MinLease, MaxLease)
	case t.over.Load():
		return ErrNotHeld
	case err != nil:
		return err
	}
	p, asked := new(futures.Promise[struct{}]), t.shell.now()
	if !t.shell.actor.Post(&core.Prolongation{Request: &t.request, Lease: d, Tag: p}) {
		return ErrClosed
	}
	_, err := p.Future().Await(ctx)
	switch {
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		return t.withDownErr(asked, err)
	case err == ErrNotHeld: // perhaps because the hold was lost before
		return cmp.Or(t.hold().lostErr(), err)
	}
	return err
}

// Unlock gives the lock back. Unlock blocks until the lock has passed to the next waiter of the
// manager or Redis has confirmed the release, the server has failed for Options.RetryTime since the
// call, or ctx ends. In the last two cases the manager goes on releasing the lock until the record
// has expired. A failure is noticed when a command fails, after Options.CommandTimeout and, if a
// dial hangs, the client's Dialer.Timeout. After the call the lock is not valid, whatever Unlock
// returns.
//
// A process that ends after Unlock must call [Manager.Close], which waits for the release.
//
// If the error is nil, the lock is free; if the server refused to publish the release,
// [EventReleased] and the log tell why. The error matches ErrNotHeld if the handle was unlocked
// before, ErrClosed if the manager was closed, and ErrLeaseLost if the lock had been lost. After
// the last two the work under the lock may have met another holder. After an error of the server
// the record may stay until the lease ends.
//
// ctx may be a context from [Lock.Context], such as that of the function of Do. The unlock ends
// ctx, but Unlock still waits for the release.
func (l *Lock) Unlock(ctx context.Context) error {
	live := ctx.Err() == nil
	f := l.UnlockAsync()
	if live && ctx.Err() != nil && context.Cause(ctx) == ErrNotHeld {
		ctx = context.Background() // the unlock has ended ctx
	}
	_, err := f.Await(ctx)
	return err
}

// UnlockAsync is Unlock without waiting. Cancelling the future does not stop the release.
func (l *Lock) UnlockAsync() *futures.Future[struct{}] { return l.unlock(false) }

// unlock is UnlockAsync. untaken is set if nobody has taken the lock from its future.
func (l *Lock) unlock(untaken bool) *futures.Future[struct{}] {
	t := &l.ticket
	if !t.over.CompareAndSwap(false, true) {
		return t.notUnlocked(ErrNotHeld)
	}
	l.cancelContexts()
	if err := l.ticket.hold().lostErr(); err != nil {
		return t.notUnlocked(err)
	}
	if trace := t.trace(); trace != nil {
		trace.unlocked = time.Now()
	}
	p := new(futures.Promise[struct{}])
	p.Bind((*unlocking)(t))
	t.unlock.Store(p)
	var ev core.Event = core.Unlock{Request: &t.request}
	if untaken {
		ev = core.Untaken{Request: &t.request}
	}
	if !t.shell.actor.Post(ev) {
		return t.notUnlocked(ErrClosed)
	}
	return p.Future()
}

// cancelContexts cancels the contexts of the handle l, but not of re-entries.
func (l *Lock) cancelContexts() {
	more := l.ticket.hold().more.Load()
	if more == nil {
		return
	}
	var mine []boundContext
	more.mu.Lock()
	more.contexts = slices.DeleteFunc(more.contexts, func(c boundContext) bool {
		if c.over == &l.ticket.over {
			mine = append(mine, c)
			return true
		}
		return false
	})
	more.mu.Unlock()
	for _, c := range mine {
		c.cancel(ErrNotHeld)
	}
}

// A ticket is the shell's state of a request. A ticket is part of the Lock of the request, so both
// need a single allocation.
type ticket struct {
	promise futures.Promise[*Lock]
	request core.Request // the core's, once it is posted
	own     hold         // used unless the request re-enters a hold
	shell   *shell
	unlock  atomic.Pointer[futures.Promise[struct{}]]
	over    atomic.Bool // the caller has given the lock back
	granted uint32      // when, in steps of grantStep and plus one; zero before. The manager's goroutine owns it
}

// hold returns the hold of a request. The request must be granted.
func (t *ticket) hold() *hold { return holdOf(t.request.Hold) }

// trace returns what the events of the request report, or nil if nobody observes the manager.
func (t *ticket) trace() *trace {
	if terms := t.request.Terms; terms != nil && terms.Tag != nil {
		return terms.Tag.(*trace)
	}
	return nil
}

// grantStep is the unit of ticket.granted. Every lock has the field, so the field should be small.
const grantStep = 100 * time.Millisecond

// since returns when the request was granted, or before the grant, when the request was made. Only
// the manager's goroutine calls since.
func (t *ticket) since() time.Duration {
	if t.granted != 0 {
		return time.Duration(t.granted-1) * grantStep
	}
	return t.request.Asked
}

// A ticket is the source of its future, and runs the future's callbacks.
var (
	_ futures.Source[*Lock] = (*ticket)(nil)
	_ futures.Dispatcher    = (*ticket)(nil)
	_ futures.Dispatcher    = (*unlocking)(nil)
)

// Cancel withdraws a pending request.
func (t *ticket) Cancel() { t.shell.actor.Post(core.Cancel{Request: &t.request}) }

// endWith makes the request end with ctx, of WaitContext. endWith returns a locked mutex, to be
// unlocked when the request is posted.
func (t *ticket) endWith(ctx context.Context) *sync.Mutex {
	more := t.own.makeMore()
	more.mu.Lock()
	more.unbind = context.AfterFunc(ctx, func() {
		more.mu.Lock()
		//lint:ignore SA2001 the poster of the request has the mutex until then
		more.mu.Unlock()
		if t.promise.Resolve(nil, t.Explain(contextError(ctx))) {
			t.Cancel()
		}
	})
	return &more.mu
}

// leftErr returns the error of a request whose caller has left, for the event of the request. If a
// context ended the wait, the caller has the same error.
func (t *ticket) leftErr() error {
	if _, err := t.promise.Future().Result(); !errors.Is(err, ErrCanceled) {
		return err // of endWith
	}
	if trace := t.trace(); trace != nil && trace.ctx != nil && trace.ctx.Err() != nil {
		return t.Explain(contextError(trace.ctx))
	}
	return ErrCanceled
}

// ended notes the end of a request, with or without a grant.
func (t *ticket) ended() {
	t.shell.pending.Add(-1)
	if more := t.own.more.Load(); more != nil && more.unbind != nil {
		more.unbind()
	}
}

// Drop gives back a granted lock that nobody has taken.
func (t *ticket) Drop(l *Lock) { l.unlock(true) }

// Dispatch queues the callbacks of the future of a request.
func (t *ticket) Dispatch(run func()) { t.shell.callbacks.put(run) }

// Explain returns the error of a future that was cancelled, or whose Await ended with the context.
func (t *ticket) Explain(err error) error {
	if errors.Is(err, ErrCanceled) {
		return t.failed(opLock, 0, err)
	}
	now := t.shell.now()
	reason := t.downErr(t.request.Asked, now)
	if reason == nil {
		reason = fmt.Errorf("%w: %s", ErrNotAcquired, t.refusal())
	}
	return t.failed(opLock, max(0, now-t.request.Asked), fmt.Errorf("%w: %w", reason, err))
}

// downErr calls shell.downErr for each name of the request, and returns the first error.
func (t *ticket) downErr(asked, now time.Duration) error {
	more := t.own.more.Load()
	if more == nil || more.set == nil {
		return t.shell.downErr(t.request.Name, asked, now)
	}
	for i := range more.set.items {
		if down := t.shell.downErr(more.set.items[i].Name, asked, now); down != nil {
			return down
		}
	}
	return nil
}

// withDownErr joins downErr, if not nil, to the error of a context.
func (t *ticket) withDownErr(asked time.Duration, err error) error {
	return joinDown(t.downErr(asked, t.shell.now()), err)
}

// refusal says what a request waits for while the server answers.
func (t *ticket) refusal() string {
	if t.request.Kind == core.Permits {
		return "too few permits were free"
	}
	return "it was not free"
}

// waitError returns the error of a request without a lock that ended at now. While the server is
// silent, the end of a wait does not mean that another owner holds the lock.
func (t *ticket) waitError(now time.Duration, err error) error {
	if t.request.Once {
		return t.failed(opLock, 0, err)
	}
	if errors.Is(err, ErrWaitTimeout) {
		if down := t.downErr(t.request.Asked, now); down != nil {
			err = down
		} else {
			err = fmt.Errorf("%w: %s", err, t.refusal())
		}
	}
	return t.failed(opLock, max(0, now-t.request.Asked), err)
}

// failed returns the error of an operation on the lock.
func (t *ticket) failed(op string, waited time.Duration, err error) *LockError {
	return &LockError{Op: op, Name: t.request.Name, Waited: waited, Err: err, set: t.request.Kind == core.Several}
}

func (t *ticket) notUnlocked(err error) *futures.Future[struct{}] {
	return futures.Ready(struct{}{}, error(t.failed(opUnlock, 0, err)))
}

// An unlocking is a ticket as the source of the unlock's future. Cancel and Drop do nothing: the
// release goes on in any case.
type unlocking ticket

func (r *unlocking) Cancel() {}

func (r *unlocking) Drop(struct{}) {}

// Dispatch queues the callbacks of the future of an unlock.
func (r *unlocking) Dispatch(run func()) { r.shell.callbacks.put(run) }

func (r *unlocking) Explain(err error) error {
	if !errors.Is(err, ErrCanceled) {
		err = (*ticket)(r).withDownErr(0, err) // 0: a failure counts however old it is
	}
	return (*ticket)(r).failed(opUnlock, 0, err)
}

// ticketOf, lockOf and holdOf return what the shell keeps of a request or a hold of the core.
func ticketOf(r *core.Request) *ticket { return &lockOf(r).ticket }
func lockOf(r *core.Request) *Lock     { return r.Tag.(*Lock) }
func holdOf(h *core.Hold) *hold        { return &ticketOf(h.Request).own }

// noteOf returns the note of a request, or "".
func noteOf(r *core.Request) string {
	if r.Terms == nil {
		return ""
	}
	return r.Terms.Note
}
