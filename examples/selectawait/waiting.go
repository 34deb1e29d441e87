package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/holdfast-go/holdfast/examples/internal/story"
	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// selectAndCancel: a future in a select. Who loses patience cancels, and the lock goes to the next
// in line.
func (d *demo) selectAndCancel(ctx context.Context) error {
	d.Scene("1. A future in a select, and what Cancel does.")
	name := d.name("select")
	held, err := d.manager.Lock(ctx, name)
	if err != nil {
		return err
	}
	d.Say("anna", "holds the lock")
	bens, cleos := d.manager.LockAsync(name), d.manager.LockAsync(name)
	d.Say("ben", "waits; cleo waits behind him")

	select {
	case <-bens.Done():
		return errors.New("ben's future settled while anna held the lock")
	case <-time.After(short):
		d.Say("ben", "loses patience after %v: Cancel() is %v", short, bens.Cancel())
	case <-ctx.Done():
		return ctx.Err()
	}
	_, err = bens.Result()
	if err := story.Expect(err, futures.ErrCanceled); err != nil {
		return err
	}
	d.Say("ben", "his future says %q", err)

	// Nobody else reads the future, so Cancel is all that ben has to do: scene 2 shows what happens
	// if the lock came just before it.
	if err := held.Unlock(ctx); err != nil {
		return err
	}
	d.Say("anna", "unlocks")
	select {
	case <-cleos.Done():
		lock, err := cleos.Result()
		if err != nil {
			return err
		}
		d.Say("cleo", "holds the lock: it passed ben by")
		return lock.Unlock(ctx)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// timeOuts: the same by a context, and by an option of the request.
func (d *demo) timeOuts(ctx context.Context) error {
	d.Scene("3. Time-outs: of the one who waits, and of the request.")
	name := d.name("time-outs")
	held, err := d.manager.Lock(ctx, name)
	if err != nil {
		return err
	}
	d.Say("anna", "holds the lock")

	patience, cancel := context.WithTimeout(ctx, short)
	defer cancel()
	_, err = d.manager.LockAsync(name).Await(patience) // Lock(patience, name) is the same
	if err := story.Expect(err, context.DeadlineExceeded); err != nil {
		return err
	}
	d.Say("ben", "Await(ctx) with a time-out: %q", err)

	_, err = d.manager.LockAsync(name, lockmgr.MaxWait(short)).Await(ctx)
	if err := story.Expect(err, lockmgr.ErrWaitTimeout); err != nil {
		return err
	}
	d.Say("cleo", "the option MaxWait(%v): %q", short, err)
	_, err = d.manager.TryLock(ctx, name)
	if err := story.Expect(err, lockmgr.ErrNotAcquired); err != nil {
		return err
	}
	d.Say("dora", "TryLock, which never waits: %q", err)
	return held.Unlock(ctx)
}

// callback: OnDone, for programs that have no goroutine to spare.
func (d *demo) callback(ctx context.Context) error {
	d.Scene("4. Callbacks: a thousand wait, and no goroutine with them.")
	const n = 1000
	name := d.name("callback")
	held, err := d.manager.Lock(ctx, name)
	if err != nil {
		return err
	}
	before := runtime.NumGoroutine()
	failed := make(chan error, n)
	for range n {
		// Callbacks run one after another: each gives its lock back without waiting for that, so
		// that it does not delay the next.
		d.manager.LockAsync(name).OnDone(func(lock *lockmgr.Lock, err error) {
			if err == nil {
				lock.UnlockAsync()
			}
			failed <- err
		})
	}
	d.Say("anna", "holds the lock; %d callbacks wait; goroutines: %d before, %d now", n, before, runtime.NumGoroutine())
	unlocked := time.Now()
	if err := held.Unlock(ctx); err != nil {
		return err
	}
	for range n {
		select {
		case err := <-failed:
			if err != nil {
				return fmt.Errorf("a callback: %w", err)
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	d.Say("anna", "unlocks; %v later each of them has had the lock", story.Short(time.Since(unlocked)))
	return nil
}
