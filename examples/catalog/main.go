// Catalog shows a read-write lock: many readers print a price list, and a writer changes it now and
// then. Nobody ever sees half a change.
//
//	go run ./examples/catalog
//	go run ./examples/catalog -redis redis://127.0.0.1:6379 -readers 1000 -for 20s
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/examples/internal/cli"
	"github.com/holdfast-go/holdfast/examples/internal/server"
	"github.com/holdfast-go/holdfast/lockmgr"
)

const about = `Many readers and one writer share a price list, under a read-write lock.
Readers read together. The writer has the list alone.`

func main() { cli.Main("catalog", run) }

func run(ctx context.Context, out io.Writer, args []string) (err error) {
	flags := flag.NewFlagSet("catalog", flag.ContinueOnError)
	url := server.Flag(flags)
	readers := flags.Int("readers", 100, "`number` of readers")
	every := flags.Duration("every", 200*time.Millisecond, "`time` between two changes")
	length := flags.Duration("for", 3*time.Second, "`time` to run")
	if err := cli.Parse(flags, out, about, args); err != nil {
		return err
	}
	if *readers < 1 || *every <= 0 || *length <= 0 {
		return cli.Usage("-readers, -every and -for must be positive")
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
	fmt.Fprintf(out, "%d readers and a writer share a price list for %v.\nServer: %v\n", *readers, *length, srv)

	c := &catalog{manager: manager, name: fmt.Sprintf("catalog:%d", time.Now().UnixNano())}
	running, stop := context.WithTimeout(ctx, *length)
	defer stop()
	var wg sync.WaitGroup
	for range *readers {
		wg.Go(func() { c.stopAtFirst(stop, c.readUntil(running)) })
	}
	wg.Go(func() { c.stopAtFirst(stop, c.writeUntil(running, *every)) })
	wg.Wait()

	// Whatever has happened: give back what is held.
	closing, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := errors.Join(c.err, manager.Close(closing)); err != nil {
		return err
	}
	s := manager.Stats()
	fmt.Fprintf(out, "\n  %d reads, of which at most %d at a time\n  %d changes, of which the longest wait was %v\n  %d scripts in all\n\n",
		c.reads.Load(), c.most.Load(), c.changes, c.longest.Round(time.Millisecond), s.Scripts)
	if c.torn.Load() > 0 {
		return fmt.Errorf("%d readers saw half a change", c.torn.Load())
	}
	fmt.Fprintln(out, "Done: no reader saw half a change.")
	return nil
}

// A catalog has two prices that a reader must always see equal. The writer changes one after the
// other, so only the lock makes that so.
type catalog struct {
	manager *lockmgr.Manager
	name    string

	net, gross atomic.Int64

	reads, reading, most, torn atomic.Int64
	changes                    int
	longest                    time.Duration // that a change has waited

	mu  sync.Mutex
	err error
}

func (c *catalog) readUntil(ctx context.Context) error {
	for ctx.Err() == nil {
		lock, err := c.manager.Lock(ctx, c.name, lockmgr.Shared())
		if err != nil {
			return unlessOver(ctx, err)
		}
		now := c.reading.Add(1)
		for was := c.most.Load(); now > was && !c.most.CompareAndSwap(was, now); was = c.most.Load() {
		}
		net := c.net.Load()
		time.Sleep(time.Millisecond) // it prints the list
		if c.gross.Load() != net {
			c.torn.Add(1)
		}
		c.reads.Add(1)
		c.reading.Add(-1)
		if err := lock.Unlock(context.WithoutCancel(ctx)); err != nil {
			return err
		}
	}
	return nil
}

func (c *catalog) writeUntil(ctx context.Context, every time.Duration) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(every):
		}
		asked := time.Now()
		lock, err := c.manager.Lock(ctx, c.name, lockmgr.Exclusive())
		if err != nil {
			return unlessOver(ctx, err)
		}
		c.longest = max(c.longest, time.Since(asked))
		c.net.Add(1)
		time.Sleep(time.Millisecond) // the change takes a moment
		c.gross.Add(1)
		c.changes++
		if err := lock.Unlock(context.WithoutCancel(ctx)); err != nil {
			return err
		}
	}
}

// unlessOver returns an error that is not due to the end of the program.
func unlessOver(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// stopAtFirst keeps the first error, and ends the others.
func (c *catalog) stopAtFirst(stop func(), err error) {
	if err == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = err
	}
	stop()
}
