package main

import (
	"context"
	"errors"

	"github.com/holdfast-go/holdfast/examples/internal/story"
	"github.com/holdfast-go/holdfast/futures"
)

// lateCancel: a Cancel that comes after the lock. If nobody has taken the lock from the future,
// Cancel gives it back. If somebody has, Cancel does nothing, and the lock has to be unlocked.
func (d *demo) lateCancel(ctx context.Context) error {
	d.Scene("2. A Cancel that comes too late.")
	name := d.name("late")
	bens := d.manager.LockAsync(name)
	select {
	case <-bens.Done(): // a receive does not take the lock
	case <-ctx.Done():
		bens.Cancel()
		return ctx.Err()
	}
	d.Say("ben", "has lost patience, but the lock has come: Cancel() is %v", bens.Cancel())
	_, err := bens.Result()
	if err := story.Expect(err, futures.ErrCanceled); err != nil {
		return err
	}

	cleos := d.manager.LockAsync(name)
	lock, err := cleos.Await(ctx) // takes the lock
	if err != nil {
		return err
	}
	d.Say("cleo", "holds the lock, so it was given back")
	if cleos.Cancel() {
		return errors.New("a lock that cleo has taken was cancelled")
	}
	d.Say("cleo", "her own Cancel() is false: the lock is hers until she unlocks it, valid is %v", lock.Valid())
	return lock.Unlock(ctx)
}
