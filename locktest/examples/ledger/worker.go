// Package ledger is an example of a service and of its tests. A worker writes to a ledger, and it
// must not write without its lock. Its tests take the lock away, freeze the server and cut the
// network, in fake time.
package ledger

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/lockmgr"
)

// Name is the name of the lock.
const Name = "ledger"

// A Ledger stores entries. Append blocks until the entry is stored. It refuses a token that is
// smaller than one it has seen.
type Ledger interface {
	Append(ctx context.Context, writer string, token int64) error
}

// A Worker writes entries while it holds the lock. Only one of all workers does.
type Worker struct {
	ID      string
	Manager *lockmgr.Manager
	Ledger  Ledger
	Every   time.Duration // between two entries, and before another try
}

// Run writes until ctx ends, and returns the error of ctx. After a loss of the lock, or a failure
// that may pass, it begins again. Other errors end it.
func (w *Worker) Run(ctx context.Context) error {
	for {
		err := w.Manager.Do(ctx, Name, w.write, lockmgr.Fenced())
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, lockmgr.ErrLeaseLost), lockmgr.Temporary(err):
		default:
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(w.Every):
		}
	}
}

// write appends an entry at once and then periodically, until ctx ends. The context ends when the
// lock is lost.
func (w *Worker) write(ctx context.Context, lock *lockmgr.Lock) error {
	tick := time.NewTicker(w.Every)
	defer tick.Stop()
	for ctx.Err() == nil {
		if err := w.Ledger.Append(ctx, w.ID, lock.Token()); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
	return context.Cause(ctx)
}
