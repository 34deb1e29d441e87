package main

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/examples/internal/story"
	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// giveBack is for locks that come too late for anybody to want them.
func giveBack(lock *lockmgr.Lock) { lock.UnlockAsync() }

// all: several locks, or none.
func (d *demo) all(ctx context.Context) error {
	d.Scene("5. futures.All: every lock, or none.")
	red, green, blue := d.name("red"), d.name("green"), d.name("blue")
	blues, err := d.manager.Lock(ctx, blue)
	if err != nil {
		return err
	}
	d.Say("anna", "holds blue")

	patience, cancel := context.WithTimeout(ctx, short)
	defer cancel()
	_, err = futures.All(giveBack,
		d.manager.LockAsync(red), d.manager.LockAsync(green), d.manager.LockAsync(blue)).Await(patience)
	if err := story.Expect(err, context.DeadlineExceeded); err != nil {
		return err
	}
	d.Say("ben", "wants red, green and blue within %v: %q", short, err)
	for _, name := range []string{red, green} {
		lock, err := d.manager.Lock(ctx, name, lockmgr.MaxWait(10*time.Second))
		if err != nil {
			return err
		}
		defer lock.UnlockAsync()
	}
	d.Say("cleo", "holds red and green, which ben had and gave back")
	return blues.Unlock(ctx)
}

// any: one of several locks, whichever comes first.
func (d *demo) any(ctx context.Context) error {
	d.Scene("6. futures.Any: whichever lock comes first.")
	red, green := d.name("red"), d.name("green")
	reds, err := d.manager.Lock(ctx, red)
	if err != nil {
		return err
	}
	greens, err := d.manager.Lock(ctx, green)
	if err != nil {
		return err
	}
	d.Say("anna", "holds red and green")
	first := futures.Any(giveBack, d.manager.LockAsync(red), d.manager.LockAsync(green))
	d.Say("ben", "wants either of them")
	if err := story.Pause(ctx, short); err != nil {
		return err
	}
	if err := greens.Unlock(ctx); err != nil {
		return err
	}
	d.Say("anna", "unlocks green")
	lock, err := first.Await(ctx)
	if err != nil {
		return err
	}
	if lock.Name() != green {
		return errors.New("ben was given " + lock.Name())
	}
	d.Say("ben", "holds green, and does not wait for red any more")
	return errors.Join(lock.Unlock(ctx), reds.Unlock(ctx))
}
