// Transfer shows several locks taken at once: clerks move money between accounts, each under the
// locks of both accounts.
//
//	go run ./examples/transfer
//	go run ./examples/transfer -redis redis://127.0.0.1:6379 -accounts 50 -clerks 200
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holdfast-go/holdfast/examples/internal/cli"
	"github.com/holdfast-go/holdfast/examples/internal/server"
	"github.com/holdfast-go/holdfast/lockmgr"
)

const about = `Clerks of two offices move money between accounts. Each transfer has the locks of
both accounts, which are taken at once. So no order of the accounts leads to a deadlock.`

const opening = 1000 // of each account

func main() { cli.Main("transfer", run) }

func run(ctx context.Context, out io.Writer, args []string) error {
	flags := flag.NewFlagSet("transfer", flag.ContinueOnError)
	url := server.Flag(flags)
	accounts := flags.Int("accounts", 6, "`number` of accounts")
	clerks := flags.Int("clerks", 20, "`number` of clerks")
	length := flags.Duration("for", 3*time.Second, "`time` to run; it goes on until money has gone both ways")
	if err := cli.Parse(flags, out, about, args); err != nil {
		return err
	}
	if *accounts < 2 || *clerks < 1 || *length <= 0 {
		return cli.Usage("-clerks and -for must be positive, and -accounts at least 2")
	}
	srv, err := server.Open(*url)
	if err != nil {
		return err
	}
	defer srv.Close()

	b := &bank{ledger: newLedger(*accounts, opening)}
	prefix := fmt.Sprintf("transfer-%04x", rand.N(1<<16)) // nobody else's
	for i := range *accounts {
		name := fmt.Sprintf("%s:%d", prefix, i)
		b.names = append(b.names, name)
		defer srv.DropTokens(name) // when nobody can take another
	}
	// Each office has a manager of its own, as if they were two processes.
	for range 2 {
		m, err := lockmgr.Dial(srv.Option(), lockmgr.Options{})
		if err != nil {
			return errors.Join(err, b.close())
		}
		b.offices = append(b.offices, m)
	}
	fmt.Fprintf(out, "%d clerks in two offices move money between %d accounts for %v.\nServer: %v\n", *clerks, *accounts, *length, srv)

	end := time.Now().Add(*length)
	all, running := errgroup.WithContext(ctx) // the first error ends the others
	for clerk := range *clerks {
		all.Go(func() error { return b.workUntil(running, end, b.offices[clerk%len(b.offices)]) })
	}
	err = all.Wait()
	// Whatever has happened: give back what is held.
	if err := errors.Join(err, b.close()); err != nil {
		return err
	}
	var scripts uint64
	for _, m := range b.offices {
		scripts += m.Stats().Scripts
	}
	fmt.Fprintf(out, "\n  %d transfers to an account with a higher number, %d to one with a lower\n  %d scripts in all\n  total %d\n\n",
		b.up.Load(), b.down.Load(), scripts, b.ledger.total())
	if want := int64(*accounts) * opening; b.ledger.total() != want {
		return fmt.Errorf("the total is %d, it was %d: two transfers changed one account at the same time", b.ledger.total(), want)
	}
	fmt.Fprintln(out, "Done: the total is what it was, and nobody waited in a circle.")
	return nil
}

type bank struct {
	ledger  *ledger
	names   []string // of the accounts' locks
	offices []*lockmgr.Manager

	up, down atomic.Int64 // transfers
}

// workUntil makes transfers between random accounts, until the end has passed and there were some
// in both directions.
func (b *bank) workUntil(ctx context.Context, end time.Time, m *lockmgr.Manager) error {
	for ctx.Err() == nil && (time.Now().Before(end) || b.up.Load() == 0 || b.down.Load() == 0) {
		from := rand.IntN(len(b.names))
		to := (from + 1 + rand.IntN(len(b.names)-1)) % len(b.names)
		if err := b.transfer(ctx, m, from, to, 1+rand.Int64N(10)); err != nil {
			return unlessOver(ctx, err)
		}
	}
	return nil
}

// transfer moves an amount under the locks of both accounts. It gets both or waits for both. So a
// transfer in the opposite direction can't have one while this one has the other.
func (b *bank) transfer(ctx context.Context, m *lockmgr.Manager, from, to int, amount int64) error {
	return m.DoAll(ctx, lockmgr.All(b.names[from], b.names[to]), func(_ context.Context, l *lockmgr.Lock) error {
		has, gets := b.ledger.balance(from), b.ledger.balance(to)
		if has < amount {
			return nil
		}
		time.Sleep(time.Millisecond) // the clerk calculates
		err := b.ledger.write(
			change{from, has - amount, l.TokenOf(b.names[from])},
			change{to, gets + amount, l.TokenOf(b.names[to])})
		switch {
		case err != nil:
			return err
		case from < to:
			b.up.Add(1)
		default:
			b.down.Add(1)
		}
		return nil
	}, lockmgr.Fenced())
}

// close ends the offices. It does not wait for a server that is gone.
func (b *bank) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	var err error
	for _, m := range b.offices {
		err = errors.Join(err, m.Close(ctx))
	}
	return err
}

// unlessOver returns an error that is not due to the end of the program.
func unlessOver(ctx context.Context, err error) error {
	if ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) {
		return nil
	}
	return err
}
