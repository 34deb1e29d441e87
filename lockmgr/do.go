package lockmgr

import (
	"context"
	"errors"
)

// Do locks name, calls fn, and unlocks. It blocks until all three are done.
//
// fn gets the lock and a context that ends with ctx, or when the lock is lost. A context that ends
// the wait but not fn is an option: [WaitContext]. If the lock cannot be had, fn is not called and
// Do returns the error of [Manager.Lock]. Nor is fn called if ctx has ended by then: the error is
// that of ctx. Otherwise Do returns the error of fn unchanged, so only fn itself can tell that fn
// ran: let fn set a variable. If the lock was lost before fn returned, the error also matches
// ErrLeaseLost, or ErrClosed if the manager was closed: the work of fn may have met another holder.
// Test for these two first. If fn returns the loss, as the cause of its context, Do reports the
// loss once.
//
// The context of fn names no owner. A request for the same name in fn waits for fn itself, and no
// deadlock is seen, unless ctx has an owner: see [WithOwner].
//
// The unlock does not end with ctx, and takes at most Options.RetryTime plus an
// Options.CommandTimeout; the manager goes on releasing the lock afterwards. A release that fails
// is logged and not returned, since fn held the lock. If fn panics, or ends the goroutine, the lock
// is released first. fn may unlock early.
func (m *Manager) Do(ctx context.Context, name string, fn func(ctx context.Context, l *Lock) error, opts ...LockOption) error {
	l, err := m.Lock(ctx, name, opts...)
	return do(ctx, l, err, fn)
}

// DoValue is [Manager.Do] for a function that returns a value. DoValue returns the value of fn,
// also with an error, or the zero T if fn was not called.
func DoValue[T any](ctx context.Context, m *Manager, name string, fn func(ctx context.Context, l *Lock) (T, error), opts ...LockOption) (value T, err error) {
	err = m.Do(ctx, name, func(ctx context.Context, l *Lock) (err error) {
		value, err = fn(ctx, l)
		return err
	}, opts...)
	return value, err
}

// do is Lock.Do for a function that wants the lock. If err is not nil, there is no lock, and do
// returns err.
func do(ctx context.Context, l *Lock, err error, fn func(ctx context.Context, l *Lock) error) error {
	if err != nil {
		return err
	}
	return l.Do(ctx, func(ctx context.Context) error { return fn(ctx, l) })
}

// Do calls fn with [Lock.Context], and unlocks in any case. fn is not called if the lock was lost,
// or unlocked before (ErrNotHeld), or if ctx has ended. Everything else is as in [Manager.Do].
func (l *Lock) Do(ctx context.Context, fn func(ctx context.Context) error) error {
	_, err := l.run(ctx, fn)
	return err
}

// run is Do. run returns the loss of the lock, too, or nil.
func (l *Lock) run(ctx context.Context, fn func(ctx context.Context) error) (loss, err error) {
	switch lost := l.Err(); {
	case errors.Is(lost, ErrNotHeld):
		return nil, l.ticket.failed(opHold, 0, lost)
	case lost != nil:
		lost = l.finish(ctx)
		return lost, lost
	}
	defer func() {
		loss = l.finish(ctx)
		err = joined(err, loss)
	}()
	if ctx.Err() != nil {
		return nil, l.ticket.failed(opLock, 0, contextError(ctx))
	}
	return nil, fn(l.Context(ctx))
}

// finish unlocks at the end of a Do. finish returns the loss if the lock was lost before, or nil.
func (l *Lock) finish(ctx context.Context) error {
	most := l.ticket.shell.options.RetryTime + l.ticket.shell.options.CommandTimeout
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), most)
	defer cancel()
	lost := l.Err()
	if errors.Is(lost, ErrNotHeld) {
		return nil // fn has unlocked it, and has the result
	}
	if err := l.Unlock(ctx); errors.Is(err, ErrLeaseLost) || errors.Is(err, ErrClosed) {
		return l.ticket.failed(opHold, 0, errors.Unwrap(err))
	}
	return lost
}

// joined returns the error of the function of a Do and the loss joined, or the only error unchanged.
// A function that returned the loss has told nothing else.
func joined(failed, loss error) error {
	switch {
	case loss == nil:
		return failed
	case failed == nil, errors.Is(loss, failed):
		return loss
	}
	return errors.Join(failed, loss)
}
