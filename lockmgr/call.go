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
		if a, err = m.run(ctx, "", c); err == nil {
			err = serverError(a.Failure)
		} else if ctx.Err() != nil && !errors.Is(err, ErrClosed) {
			err = joinDown(m.downErr(name, asked, m.now()), err)
		}
	}
	if err != nil {
		return wire.Answer{}, &LockError{Op: op, Name: name, Err: err}
	}
	return a, nil
}

// run sends a command without the core to the master at an address or, if the address is empty, to
// the master of the command's key. An error means that no answer will come.
func (m *Manager) run(ctx context.Context, master string, c wire.Command) (wire.Answer, error) {
	f, err := m.send(master, c)
	if err != nil {
		return wire.Answer{}, err
	}
	return f.Await(ctx)
}

// send is run without waiting.
func (m *Manager) send(master string, c wire.Command) (*futures.Future[wire.Answer], error) {
	p := new(futures.Promise[wire.Answer])
	done := func(a wire.Answer) { p.Resolve(a, nil) }
	if master == "" && m.lanes.Call(c, done) || master != "" && m.lanes.CallAt(master, c, done) {
		return p.Future(), nil
	}
	return nil, ErrClosed
}
