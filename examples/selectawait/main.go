// Selectawait shows the ways to wait for a lock, and to stop waiting: futures in a select,
// time-outs, callbacks, several locks at once, and work that ends when the lock is lost.
//
//	go run ./examples/selectawait
//	go run ./examples/selectawait -redis redis://127.0.0.1:6379
package main

import (
	"context"
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

const about = `The ways to wait for a lock, and to stop waiting.`

// short is how long the scenes wait for what will not come.
const short = 300 * time.Millisecond

func main() { cli.Main("selectawait", run) }

func run(ctx context.Context, out io.Writer, args []string) error {
	flags := flag.NewFlagSet("selectawait", flag.ContinueOnError)
	url := server.Flag(flags)
	pause := flags.Duration("pause", 300*time.Millisecond, "`time` to read between the scenes")
	if err := cli.Parse(flags, out, about, args); err != nil {
		return err
	}
	srv, err := server.Open(*url)
	if err != nil {
		return err
	}
	defer srv.Close()
	manager, err := lockmgr.Dial(srv.Option(), lockmgr.Options{})
	if err != nil {
		return err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		_ = manager.Close(closing)
	}()

	fmt.Fprintf(out, "One manager, several callers, and the ways to wait for a lock.\nServer: %v\n", srv)
	d := &demo{manager: manager, run: fmt.Sprintf("selectawait-%04x", rand.N(1<<16)), Story: story.Begin(out)}
	for _, scene := range []func(context.Context) error{
		d.selectAndCancel, d.lateCancel, d.timeOuts, d.callback, d.all, d.any, d.fixedLease,
	} {
		if err := scene(ctx); err != nil {
			return err
		}
		if err := story.Pause(ctx, *pause); err != nil {
			return err
		}
	}
	stats, err := d.rest(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "\nDone in %v: %d grants, nothing held, nobody waiting.\n", story.Short(d.Elapsed()), stats.Grants)
	return nil
}

// rest waits until nothing is held and nobody waits: what UnlockAsync gave back may still be on its
// way.
func (d *demo) rest(ctx context.Context) (lockmgr.Stats, error) {
	for range 200 {
		stats := d.manager.Stats()
		if stats.Held == 0 && stats.Pending == 0 {
			return stats, nil
		}
		if err := story.Pause(ctx, 10*time.Millisecond); err != nil {
			return stats, err
		}
	}
	return lockmgr.Stats{}, fmt.Errorf("something is left over: %+v", d.manager.Stats())
}

type demo struct {
	*story.Story
	manager *lockmgr.Manager
	run     string
}

// name makes a lock name that only this run uses.
func (d *demo) name(s string) string { return d.run + ":" + s }
