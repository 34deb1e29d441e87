// Quickstart shows in a few seconds what a distributed lock does for two workers, and what becomes
// of it when things go wrong.
//
//	go run ./examples/quickstart
//	go run ./examples/quickstart -redis redis://127.0.0.1:6379
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"github.com/holdfast-go/holdfast/examples/internal/cli"
	"github.com/holdfast-go/holdfast/examples/internal/server"
	"github.com/holdfast-go/holdfast/examples/internal/story"
	"github.com/holdfast-go/holdfast/lockmgr"
)

const about = `Two workers share one lock. Then one of them loses it.`

func main() { cli.Main("quickstart", run) }

func run(ctx context.Context, out io.Writer, args []string) error {
	flags := flag.NewFlagSet("quickstart", flag.ContinueOnError)
	url := server.Flag(flags)
	pause := flags.Duration("pause", 800*time.Millisecond, "`time` to read between the steps")
	if err := cli.Parse(flags, out, about, args); err != nil {
		return err
	}
	srv, err := server.Open(*url)
	if err != nil {
		return err
	}
	defer srv.Close()

	d := &demo{
		name:  fmt.Sprintf("quickstart-%04x", rand.N(1<<16)), // nobody else's
		pause: *pause,
	}
	fmt.Fprintf(out, "Two workers, anna and ben, share the lock %q.\n"+
		"Each has a manager of its own, as if they were two processes.\n"+
		"Server: %v\n", d.name, srv)
	d.Story = story.Begin(out)

	defer srv.DropTokens(d.name) // when nobody can take another
	// A shorter lease than the default of 30 s makes the story quick: a holder whose lock was
	// removed notices at the next renewal, after a third of it. What happens before that, in the
	// second scene, takes 2½ pauses.
	lease := max(3*time.Second, 11**pause)
	for _, m := range []**lockmgr.Manager{&d.anna, &d.ben, &d.admin} {
		if *m, err = lockmgr.Dial(srv.Option(), lockmgr.Options{Lease: lease}); err != nil {
			return err
		}
		// For the ways out before the last scene. Closing again does nothing.
		defer func() { _ = closeManager(*m) }()
	}

	for _, scene := range []func(context.Context) error{d.pass, d.lose, d.leave} {
		if err := scene(ctx); err != nil {
			return err
		}
	}
	fmt.Fprintf(out, "\nDone in %v: the lock had %d holders, each with a larger token; one of them lost it,\n"+
		"was told, and could do no harm; nothing is left behind.\n", story.Short(d.Elapsed()), d.store.newest)
	return nil
}

// closeManager gives back what the manager holds. It does not wait for a server that is gone: what
// can't be given back expires.
func closeManager(m *lockmgr.Manager) error {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	return m.Close(ctx)
}

type demo struct {
	*story.Story
	anna, ben, admin *lockmgr.Manager
	name             string
	store            store
	pause            time.Duration

	bens *lockmgr.Lock // from the first scene to the second
}

// pass: one holds the lock, the other waits, and it passes on.
func (d *demo) pass(ctx context.Context) error {
	d.Scene("1. One holds the lock, the other waits, and it passes on.")
	annas, err := d.anna.Lock(ctx, d.name, lockmgr.Fenced())
	if err != nil {
		return err
	}
	d.Say("anna", "HOLDS the lock, with token %d; it renews itself while she works", annas.Token())

	_, err = d.ben.TryLock(ctx, d.name)
	if err := story.Expect(err, lockmgr.ErrNotAcquired); err != nil {
		return err
	}
	d.Say("ben", "tries it: %q", err)
	future := d.ben.LockAsync(d.name, lockmgr.Fenced()) // does not block
	d.Say("ben", "asks for it, as a future, and is free for other work meanwhile")
	if err := story.Pause(ctx, d.pause); err != nil {
		return err
	}

	if err := d.store.write(annas.Token()); err != nil {
		return err
	}
	d.Say("anna", "writes with token %d: ok", annas.Token())
	unlocked := time.Now()
	if err := annas.Unlock(ctx); err != nil {
		return err
	}
	d.Say("anna", "unlocks")
	if d.bens, err = future.Await(ctx); err != nil {
		return err
	}
	d.Say("ben", "HOLDS the lock, with token %d, %v later", d.bens.Token(), story.Short(time.Since(unlocked)))
	return story.Pause(ctx, d.pause)
}

// lose: the lock is taken from its holder, who does not know at first.
func (d *demo) lose(ctx context.Context) error {
	d.Scene("2. The lock is lost, and the holder does not know yet.")
	future := d.anna.LockAsync(d.name, lockmgr.Fenced())
	d.Say("anna", "asks for it and waits")
	if err := story.Pause(ctx, d.pause); err != nil {
		return err
	}
	d.Say("admin", "takes ben for dead and removes his lock by force")
	if _, err := d.admin.ForceUnlock(ctx, d.name); err != nil {
		return err
	}
	annas, err := future.Await(ctx)
	if err != nil {
		return err
	}
	d.Say("anna", "HOLDS the lock, with token %d", annas.Token())
	if err := d.store.write(annas.Token()); err != nil {
		return err
	}
	d.Say("anna", "writes with token %d: ok", annas.Token())
	if d.bens.Valid() {
		d.Say("ben", "has not heard of it: Valid() is true")
	}
	if err := story.Pause(ctx, d.pause/2); err != nil {
		return err
	}

	// No lock can prevent this: ben may have been stopped for a while.
	err = d.store.write(d.bens.Token())
	if err == nil {
		return errors.New("ben's stale write was accepted")
	}
	d.Say("ben", "writes with token %d: REFUSED, %v", d.bens.Token(), err)

	select {
	case <-d.bens.Lost():
	case <-ctx.Done():
		return ctx.Err()
	}
	d.Say("ben", "LOST the lock: Lost() tells him so")
	err = d.bens.Unlock(ctx)
	if err := story.Expect(err, lockmgr.ErrLeaseLost); err != nil {
		return err
	}
	d.Say("ben", "unlocks: %q", err)
	return story.Pause(ctx, d.pause)
}

// leave: closing a manager gives back what it holds.
func (d *demo) leave(ctx context.Context) error {
	d.Scene("3. Closing leaves nothing behind.")
	if err := closeManager(d.anna); err != nil {
		return err
	}
	d.Say("anna", "closes her manager, which gives back what it holds")
	if err := closeManager(d.ben); err != nil {
		return err
	}
	d.Say("ben", "closes his")
	info, err := d.admin.Inspect(ctx, d.name)
	if err != nil {
		return err
	}
	if info.Locked || info.Waiting != 0 {
		return fmt.Errorf("something is left: %+v", info)
	}
	d.Say("admin", "looks: not locked, nobody waiting, last token %d", info.Token)
	return nil
}
