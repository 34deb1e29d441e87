// Exports shows permits: two services run at most three exports at a time between them.
//
//	go run ./examples/exports
//	go run ./examples/exports -redis redis://127.0.0.1:6379 -limit 10 -clerks 50
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holdfast-go/holdfast/examples/internal/cli"
	"github.com/holdfast-go/holdfast/examples/internal/server"
	"github.com/holdfast-go/holdfast/lockmgr"
)

const about = `Clerks of two services start exports. Each export has a permit, and there are only a few
of them. The nightly export needs all permits. One export hangs, until somebody gives its permit
back.`

func main() { cli.Main("exports", run) }

func run(ctx context.Context, out io.Writer, args []string) error {
	flags := flag.NewFlagSet("exports", flag.ContinueOnError)
	url := server.Flag(flags)
	limit := flags.Int("limit", 3, "`number` of permits")
	clerks := flags.Int("clerks", 12, "`number` of clerks")
	length := flags.Duration("for", 3*time.Second, "`time` to run; it goes on until the nightly export is done")
	if err := cli.Parse(flags, out, about, args); err != nil {
		return err
	}
	if *limit < 1 || *limit > lockmgr.MaxPermits || *clerks < 1 || *length <= 0 {
		return cli.Usage("-clerks and -for must be positive, and -limit from 1 to %d", lockmgr.MaxPermits)
	}
	srv, err := server.Open(*url)
	if err != nil {
		return err
	}
	defer srv.Close()

	e := &exports{out: out, limit: *limit}
	defer func() { e.close(ctx) }()
	name := fmt.Sprintf("exports-%04x", rand.N(1<<16)) // nobody else's
	// Each service has a manager of its own, as if they were processes, and so has the operator.
	for _, p := range []*lockmgr.Permits{&e.services[0], &e.services[1], &e.operator} {
		m, err := lockmgr.Dial(srv.Option(), lockmgr.Options{Lease: 3 * time.Second})
		if err != nil {
			return err
		}
		e.managers = append(e.managers, m)
		*p = m.Permits(name, *limit)
	}
	fmt.Fprintf(out, "%d clerks of two services, and %d permits.\nServer: %v\n\n", *clerks, *limit, srv)

	if err := e.hang(ctx); err != nil {
		return unlessOver(ctx, err)
	}
	all, running := errgroup.WithContext(ctx) // the first error ends the others
	clerking, stop := context.WithCancel(running)
	defer stop()
	for clerk := range *clerks {
		all.Go(func() error { return e.workUntil(clerking, e.services[clerk%2]) })
	}
	all.Go(func() error {
		defer stop()
		end := time.Now().Add(*length)
		if err := e.nightly(running); err != nil {
			return unlessOver(running, err)
		}
		return unlessOver(running, export(running, time.Until(end)))
	})
	if err := all.Wait(); err != nil {
		return err
	}
	fmt.Fprintf(out, "  %d exports, at most %d permits in use at a time\n\n", e.done, e.most)
	if e.most > *limit {
		return fmt.Errorf("%d permits were in use, of %d", e.most, *limit)
	}
	fmt.Fprintln(out, "Done: there were never more permits in use than there are.")
	return nil
}

type exports struct {
	out      io.Writer
	limit    int
	managers []*lockmgr.Manager // of the services, then that of the operator
	services [2]lockmgr.Permits
	operator lockmgr.Permits

	mu         sync.Mutex
	inUse      int // permits that are in use
	most, done int // the most permits in use at a time, and the exports that have ended
}

// begin notes that an export with n permits has begun. The function that it returns notes its end.
func (e *exports) begin(n int) (end func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.inUse += n
	e.most = max(e.most, e.inUse)
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.inUse -= n
		e.done++
	}
}

// workUntil starts one export after the other.
func (e *exports) workUntil(ctx context.Context, p lockmgr.Permits) error {
	for ctx.Err() == nil {
		err := p.Do(ctx, 1, func(ctx context.Context, _ *lockmgr.Lock) error {
			defer e.begin(1)()
			return export(ctx, time.Duration(1+rand.IntN(4))*time.Millisecond)
		})
		if err != nil {
			return unlessOver(ctx, err)
		}
	}
	return nil
}

// nightly runs the export that needs all permits. The clerks take one permit each, without a pause,
// and do not keep it out.
func (e *exports) nightly(ctx context.Context) error {
	asked := time.Now()
	return e.services[0].Do(ctx, e.limit, func(ctx context.Context, _ *lockmgr.Lock) error {
		defer e.begin(e.limit)()
		fmt.Fprintf(e.out, "  the nightly export got all %d permits after %v\n", e.limit, time.Since(asked).Round(time.Millisecond))
		return export(ctx, 10*time.Millisecond)
	})
}

// export takes a time, or less if its context ends, for instance because a permit was lost.
func export(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// hang starts an export that hangs. The operator looks who has a permit, and gives it back. The
// export is told at its next renewal, about a second later.
func (e *exports) hang(ctx context.Context) error {
	l, err := e.services[0].Acquire(ctx, 1)
	if err != nil {
		return err
	}
	info, err := e.operator.Inspect(ctx)
	if err != nil {
		return err
	}
	for _, taken := range info.Taken {
		fmt.Fprintf(e.out, "  permit %s… has %v left: it is given back\n", taken.ID[:8], taken.TTL.Round(time.Second))
		if _, err := e.operator.Return(ctx, taken.ID); err != nil {
			return err
		}
	}
	select {
	case <-l.Lost():
		fmt.Fprintf(e.out, "  its export was told: %v\n", l.Err())
	case <-ctx.Done():
	}
	return nil
}

// close ends the services, which gives back what they hold. Only then can the operator delete the
// permits: a request that has ended may still be on its way to the server.
func (e *exports) close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	for i, m := range e.managers {
		if i == len(e.services) {
			_, _ = e.operator.Delete(ctx) // otherwise the server remembers the limit
		}
		_ = m.Close(ctx)
	}
}

// unlessOver returns an error that is not due to the end of the program.
func unlessOver(ctx context.Context, err error) error {
	if ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) {
		return nil
	}
	return err
}
