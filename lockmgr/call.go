package lockmgr

import (
	"context"
	"errors"

	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/lockmgr/internal/wire"
)

// call runs a script without the core. The errors are LockErrors.
func (m *Manager) call(ctx context.Context, op, name string, c wire.Command) (wire.Answer, error) {
	err := checkName(name)
	if err == nil && ctx.Err() != nil {
		err = contextError(ctx)
	}
	var a wire.Answer
	if asked := m.now(); err == nil {
		if a, err = m.run(ctx, c); err == nil {
			err = serverError(a.Failure)
		} else if ctx.Err() != nil && !errors.Is(err, ErrClosed) {
			err = m.whileFailing(name, asked, err)
		}
	}
	if err != nil {
		return wire.Answer{}, &LockError{Op: op, Name: name, Err: err}
	}
	return a, nil
}

// run sends a command without the core. An error means that no answer will come.
func (m *Manager) run(ctx context.Context, c wire.Command) (wire.Answer, error) {
	return m.runAt(ctx, "", c)
}

// runAt is run for the master at an address. If the address is empty, the command goes to the
// master of its key.
func (m *Manager) runAt(ctx context.Context, master string, c wire.Command) (wire.Answer, error) {
	f, err := m.send(master, c)
	if err != nil {
		return wire.Answer{}, err
	}
	return f.Await(ctx)
}

// send is runAt without waiting.
func (m *Manager) send(master string, c wire.Command) (*futures.Future[wire.Answer], error) {
	p := new(futures.Promise[wire.Answer])
	done := func(a wire.Answer) { p.Resolve(a, nil) }
	sent := false
	if master == "" {
		sent = m.lanes.Call(c, done)
	} else {
		sent = m.lanes.CallAt(master, c, done)
	}
	if !sent {
		return nil, ErrClosed
	}
	return p.Future(), nil
}
