// Pool lets a thousand goroutines do many jobs. Jobs of the same key never run at the same time.
//
//	go run ./examples/pool
//	go run ./examples/pool -redis redis://127.0.0.1:6379 -jobs 200000
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"

	"github.com/holdfast-go/holdfast/examples/internal/cli"
	"github.com/holdfast-go/holdfast/examples/internal/server"
	"github.com/holdfast-go/holdfast/lockmgr"
)

func main() { cli.Main("pool", run) }

func run(ctx context.Context, out io.Writer, args []string) error {
	flags := flag.NewFlagSet("pool", flag.ContinueOnError)
	url := server.Flag(flags)
	goroutines := flags.Int("goroutines", 1000, "`number` of goroutines")
	jobs := flags.Int("jobs", 20000, "`number` of jobs")
	keys := flags.Int("keys", 200, "`number` of keys; each job has one")
	if err := cli.Parse(flags, out, "Many goroutines do jobs, one at a time for each key.", args); err != nil {
		return err
	}
	if *goroutines < 1 || *jobs < 1 || *keys < 1 {
		return cli.Usage("-goroutines, -jobs and -keys must be positive")
	}
	srv, err := server.Open(*url)
	if err != nil {
		return err
	}
	defer srv.Close()
	mgr, err := lockmgr.Dial(srv.Option(), lockmgr.Options{})
	if err != nil {
		return err
	}
	defer mgr.Close(context.WithoutCancel(ctx))

	p := &pool{mgr: mgr, name: fmt.Sprintf("pool-%04x", rand.N(1<<16)), done: make([]int, *keys)}
	fmt.Fprintf(out, "%d goroutines, %d jobs, %d keys.\nServer: %v\n\n", *goroutines, *jobs, *keys, srv)
	if err := p.run(ctx, *goroutines, *jobs); err != nil {
		return err
	}
	sum := 0
	for _, n := range p.done {
		sum += n
	}
	if sum != *jobs {
		return fmt.Errorf("%d jobs were counted, not %d: two ran at the same time", sum, *jobs)
	}
	_, err = fmt.Fprintf(out, "Done: %d jobs were counted, none was lost. %d locks passed on in memory, %d scripts.\n",
		sum, mgr.Stats().Passes, mgr.Stats().Scripts)
	return err
}
