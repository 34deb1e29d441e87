package main

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/examples/internal/story"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// fixedLease: work that ends when the lock does. A fixed lease is not renewed, so its end is
// certain; a lease that is renewed ends like this when the server is out of reach for too long.
func (d *demo) fixedLease(ctx context.Context) error {
	d.Scene("7. Work that stops when the lock is lost.")
	const lease = 500 * time.Millisecond
	lock, err := d.manager.Lock(ctx, d.name("lease"), lockmgr.FixedLease(lease))
	if err != nil {
		return err
	}
	d.Say("anna", "holds the lock for %v, and not longer", lease)

	// Two ways to notice. One for work that is written as a loop…
	piece := time.NewTicker(100 * time.Millisecond)
	defer piece.Stop()
	// … and one for work that is called with a context.
	working := lock.Context(ctx)
	result := make(chan error, 1)
	go func() { result <- slowQuery(working) }()

	pieces := 0
	for lost := false; !lost; {
		select {
		case <-piece.C:
			pieces++
		case <-lock.Lost():
			lost = true
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	d.Say("anna", "Lost() ends her loop, after %d pieces of work", pieces)
	err = <-result
	if err := story.Expect(err, lockmgr.ErrLeaseLost); err != nil {
		return err
	}
	d.Say("anna", "Context() ends her query, with the loss as its cause")
	err = lock.Unlock(ctx)
	if err := story.Expect(err, lockmgr.ErrLeaseLost); err != nil {
		return err
	}
	d.Say("anna", "Unlock: %q", err)
	return nil
}

// slowQuery stands for what takes a context: a database, an HTTP request.
func slowQuery(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(time.Hour):
		return errors.New("the query came to an end")
	}
}
