// Counter shows a fair lock: customers of two shops are served at one counter in the order in which
// they came.
//
//	go run ./examples/counter
//	go run ./examples/counter -redis redis://127.0.0.1:6379 -customers 100
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holdfast-go/holdfast/examples/internal/cli"
	"github.com/holdfast-go/holdfast/examples/internal/server"
	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/lockmgr"
)

const about = `Customers of two shops come to one counter, one after the other. They are served in the order
in which they came, whatever shop they are of. One of them loses patience and leaves the queue.`

func main() { cli.Main("counter", run) }

func run(ctx context.Context, out io.Writer, args []string) error {
	flags := flag.NewFlagSet("counter", flag.ContinueOnError)
	url := server.Flag(flags)
	customers := flags.Int("customers", 12, "`number` of customers")
	if err := cli.Parse(flags, out, about, args); err != nil {
		return err
	}
	if *customers < 2 || *customers > 1000 {
		return cli.Usage("-customers must be from 2 to 1000")
	}
	srv, err := server.Open(*url)
	if err != nil {
		return err
	}
	defer srv.Close()
	c := &counter{out: out, name: fmt.Sprintf("counter-%04x", rand.N(1<<16))} // nobody else's
	// Each shop has a manager of its own, as if they were processes.
	for i := range c.shops {
		m, err := lockmgr.Dial(srv.Option(), lockmgr.Options{Lease: 3 * time.Second})
		if err != nil {
			return err
		}
		defer m.Close(context.WithoutCancel(ctx))
		c.shops[i] = m
	}
	fmt.Fprintf(out, "%d customers of two shops, and one counter.\nServer: %v\n\n", *customers, srv)

	if err := c.open(ctx, *customers); err != nil {
		return err
	}
	for i := 1; i < len(c.served); i++ {
		if c.served[i] < c.served[i-1] {
			return fmt.Errorf("customer %d was served before customer %d", c.served[i-1], c.served[i])
		}
	}
	fmt.Fprintf(out, "\nDone: %d customers were served in the order in which they came.\n", len(c.served))
	return nil
}

type counter struct {
	out   io.Writer
	name  string
	shops [2]*lockmgr.Manager

	mu     sync.Mutex
	served []int
}

// open lets the customers come while somebody is at the counter, and then serves them.
func (c *counter) open(ctx context.Context, customers int) error {
	first, err := c.shops[0].Lock(ctx, c.name, lockmgr.Fair())
	if err != nil {
		return err
	}
	var queue []*futures.Future[*lockmgr.Lock]
	for i := range customers {
		queue = append(queue, c.shops[c.shopOf(i)].LockAsync(c.name, lockmgr.Fair()))
		if err := c.awaitQueue(ctx, i+1); err != nil {
			return err
		}
	}
	fmt.Fprintf(c.out, "  %d customers wait. Customer 1 loses patience and leaves.\n", customers)
	queue[1].Cancel()
	if err := first.Unlock(ctx); err != nil {
		return err
	}
	all, ctx := errgroup.WithContext(ctx) // the first error ends the others
	for i, f := range queue {
		if i == 1 {
			continue
		}
		all.Go(func() error {
			l, err := f.Await(ctx)
			if err != nil {
				return err
			}
			c.serve(i)
			return l.Unlock(ctx)
		})
	}
	return all.Wait()
}

// shopOf returns the shop of a customer: any mix of the two.
func (c *counter) shopOf(customer int) int { return customer * customer % 5 % 2 }

// awaitQueue waits until so many customers are in the queue.
func (c *counter) awaitQueue(ctx context.Context, n int) error {
	for {
		info, err := c.shops[0].Inspect(ctx, c.name)
		if err != nil || len(info.Queue) == n {
			return err
		}
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// serve serves a customer.
func (c *counter) serve(customer int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fmt.Fprintf(c.out, "  customer %d of shop %d\n", customer, c.shopOf(customer)+1)
	c.served = append(c.served, customer)
}
