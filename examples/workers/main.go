// Workers has a thousand goroutines share a hundred locks through one manager, makes sure that no
// two ever hold the same lock, and counts what it cost.
//
//	go run ./examples/workers
//	go run ./examples/workers -redis redis://127.0.0.1:6379 -workers 5000 -for 20s
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/examples/internal/cli"
	"github.com/holdfast-go/holdfast/examples/internal/server"
	"github.com/holdfast-go/holdfast/examples/internal/story"
	"github.com/holdfast-go/holdfast/lockmgr"
)

const about = `Many workers share fewer locks through one manager.
Each takes a lock at random, works for a moment, gives it back, and goes on to the next.`

func main() { cli.Main("workers", run) }

func run(ctx context.Context, out io.Writer, args []string) (err error) {
	flags := flag.NewFlagSet("workers", flag.ContinueOnError)
	url := server.Flag(flags)
	workers := flags.Int("workers", 1000, "`number` of workers")
	names := flags.Int("names", 100, "`number` of locks")
	hold := flags.Duration("hold", time.Millisecond, "`time` that a worker holds a lock")
	length := flags.Duration("for", 5*time.Second, "`time` to run")
	if err := cli.Parse(flags, out, about, args); err != nil {
		return err
	}
	if *workers < 1 || *names < 1 || *length <= 0 || *hold < 0 {
		return cli.Usage("-workers, -names and -for must be positive, and -hold not negative")
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
	fmt.Fprintf(out, "%s workers share %s locks for %v, each for %v at a time.\nServer: %v\n",
		count(*workers), count(*names), *length, *hold, srv)
	if srv.Embedded() {
		fmt.Fprintln(out, "        It manages some thousand scripts a second; a real one is far faster.")
	}

	f := newFleet(manager, *names, *hold)
	took, err := f.runFor(ctx, out, *length, *workers)
	// Whatever has happened: give back what is held.
	closing, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := errors.Join(err, manager.Close(closing)); err != nil {
		return err
	}
	f.report(out, took, manager.Stats())
	switch {
	case f.overlaps.Load() > 0:
		return fmt.Errorf("two workers held the same lock at once, %d times", f.overlaps.Load())
	case ctx.Err() != nil:
		fmt.Fprintln(out, "Stopped early: no lock was ever held by two workers at once.")
	default:
		fmt.Fprintln(out, "Done: no lock was ever held by two workers at once.")
	}
	return nil
}

// runFor runs the fleet for a time, or until ctx ends, and shows how it goes.
func (f *fleet) runFor(ctx context.Context, out io.Writer, length time.Duration, workers int) (took time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, length)
	defer cancel()
	begin := time.Now()
	var progress sync.WaitGroup
	progress.Go(func() {
		showProgress(ctx, out, length, func() string {
			n := f.grants.Load()
			return fmt.Sprintf("%s grants, %s/s", count(n), count(perSecond(n, time.Since(begin))))
		})
	})
	err = f.run(ctx, workers)
	took = time.Since(begin)
	cancel()
	progress.Wait()
	return took, err
}

func (f *fleet) report(out io.Writer, took time.Duration, s lockmgr.Stats) {
	line := func(what, format string, args ...any) {
		fmt.Fprintf(out, "  %-18s "+format+"\n", append([]any{what}, args...)...)
	}
	grants := f.grants.Load()
	fmt.Fprintln(out)
	line("grants", "%12s  %s a second", count(grants), count(perSecond(grants, took)))
	line("passed in memory", "%12s  %.1f %% of all grants, from one worker to the next", count(s.Passes), share(s.Passes, grants)*100)
	line("scripts sent", "%12s  %.2f a grant; without passing, 2 and more", count(s.Scripts), share(s.Scripts, grants))
	line("wait, median", "%12v  to the grant", story.Short(f.waits.at(50)))
	line("wait, 99 %", "%12v", story.Short(f.waits.at(99)))
	line("locks lost", "%12s", count(f.lost.Load()))
	line("held twice", "%12s", count(f.overlaps.Load()))
	fmt.Fprintln(out)
}

func perSecond(n int64, d time.Duration) int64 { return int64(float64(n) / d.Seconds()) }

func share(n uint64, of int64) float64 { return float64(n) / float64(max(of, 1)) }
