// Leader shows two ways to run something in one process of several: one leader at a time, and a job
// that is started once per interval, whichever process comes first.
//
//	go run ./examples/leader
//	go run ./examples/leader -redis redis://127.0.0.1:6379 -processes 10
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

const about = `Several processes campaign for one name. Each leader hands over after a moment. Then all of them
start the same job three times, at about the same time. It runs three times in all.`

func main() { cli.Main("leader", run) }

func run(ctx context.Context, out io.Writer, args []string) error {
	flags := flag.NewFlagSet("leader", flag.ContinueOnError)
	url := server.Flag(flags)
	processes := flags.Int("processes", 3, "`number` of processes in miniature")
	if err := cli.Parse(flags, out, about, args); err != nil {
		return err
	}
	if *processes < 2 || *processes > 100 {
		return cli.Usage("-processes must be from 2 to 100")
	}
	srv, err := server.Open(*url)
	if err != nil {
		return err
	}
	defer srv.Close()
	fmt.Fprintf(out, "%d processes.\nServer: %v\n\n", *processes, srv)
	s := &shift{out: out, name: fmt.Sprintf("leader-%04x", rand.N(1<<16))} // nobody else's
	defer srv.DropTokens(s.name)
	for range *processes { // each has a manager of its own, as processes have
		mgr, err := lockmgr.Dial(srv.Option(), lockmgr.Options{Lease: 3 * time.Second})
		if err != nil {
			return err
		}
		defer mgr.Close(context.WithoutCancel(ctx))
		s.processes = append(s.processes, mgr)
	}
	if err := s.each(ctx, s.lead); err != nil {
		return err
	}
	s.begin = time.Now().Add(interval)
	err = s.each(ctx, s.schedule)
	if _, again := s.processes[0].ForceUnlock(context.WithoutCancel(ctx), s.name+":job"); err == nil {
		err = again // what KeepFor has left is not to stay behind
	}
	if err != nil {
		return err
	}
	if n := s.runs.Load(); n != 3 {
		return fmt.Errorf("the job ran %d times", n)
	}
	fmt.Fprintf(out, "\nDone: each process led once, and the job ran 3 times.\n")
	return nil
}

// each lets all processes do something at the same time.
func (s *shift) each(ctx context.Context, do func(ctx context.Context, mgr *lockmgr.Manager, i int) error) error {
	all, ctx := errgroup.WithContext(ctx) // the first error ends the others
	for i, mgr := range s.processes {
		all.Go(func() error { return do(ctx, mgr, i) })
	}
	return all.Wait()
}
