// Interval runs a job once per interval among several processes. When the process that runs the job
// dies, another process takes the job over.
//
//	go run ./examples/interval
//	go run ./examples/interval -redis redis://127.0.0.1:6379 -processes 10
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holdfast-go/holdfast/examples/internal/cli"
	"github.com/holdfast-go/holdfast/examples/internal/server"
	"github.com/holdfast-go/holdfast/lockmgr"
)

const about = `Several processes start the same job at the beginning of each of two intervals. The process that runs
the job of the second interval dies at work. Another process takes over when the lock's lease ends.`

const (
	interval = 3 * time.Second
	lease    = time.Second // how long the lock of a dead process stays taken
)

func main() { cli.Main("interval", run) }

func run(ctx context.Context, out io.Writer, args []string) error {
	flags := flag.NewFlagSet("interval", flag.ContinueOnError)
	url := server.Flag(flags)
	n := flags.Int("processes", 3, "`number` of processes in miniature")
	if err := cli.Parse(flags, out, about, args); err != nil {
		return err
	}
	if *n < 2 || *n > 100 {
		return cli.Usage("-processes must be from 2 to 100")
	}
	srv, err := server.Open(*url)
	if err != nil {
		return err
	}
	defer srv.Close()
	fmt.Fprintf(out, "%d processes, a job every %v, a lease of %v.\nServer: %v\n\n", *n, interval, lease, srv)
	s := &shift{out: out, name: fmt.Sprintf("interval-%04x", rand.N(1<<16)), runs: map[time.Time]bool{}}
	defer srv.DropTokens(s.name)
	for i := range *n {
		p, err := begin(srv, i+1)
		if err != nil {
			return err
		}
		defer p.end()
		s.processes = append(s.processes, p)
	}
	first := time.Now().Add(interval / 4)
	for i := range 2 {
		slot := first.Add(time.Duration(i) * interval)
		s.deadly = i == 1
		if err := s.start(ctx, slot); err != nil {
			return err
		}
		if !s.done(slot) {
			return fmt.Errorf("the ledger has no run of the interval no. %d", i+1)
		}
	}
	fmt.Fprintf(out, "\nDone: the ledger has a run of each of 2 intervals. The job was begun %d times.\n", s.begun)
	return nil
}

// start lets all processes start the job of a slot, at the beginning of the slot.
func (s *shift) start(ctx context.Context, slot time.Time) error {
	var all errgroup.Group
	for _, p := range s.processes {
		all.Go(func() error {
			if err := wait(ctx, time.Until(slot)); err != nil {
				return err
			}
			if err := s.once(ctx, p, slot); err != nil {
				fmt.Fprintf(s.out, "  process %d has no run: %s\n", p.id, lockmgr.Reason(err)) // the others go on
			}
			return ctx.Err()
		})
	}
	return all.Wait()
}

// wait waits for d, or returns the cause of the end of ctx.
func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}
