// Hello takes a lock, works under it and gives it back.
//
//	go run ./examples/hello
//	go run ./examples/hello -redis redis://127.0.0.1:6379
package main

import (
	"context"
	"flag"
	"fmt"
	"io"

	"github.com/holdfast-go/holdfast/examples/internal/cli"
	"github.com/holdfast-go/holdfast/examples/internal/server"
	"github.com/holdfast-go/holdfast/lockmgr"
)

func main() { cli.Main("hello", run) }

func run(ctx context.Context, out io.Writer, args []string) error {
	flags := flag.NewFlagSet("hello", flag.ContinueOnError)
	url := server.Flag(flags)
	if err := cli.Parse(flags, out, "Takes a lock, works under it and gives it back.", args); err != nil {
		return err
	}
	srv, err := server.Open(*url) // an embedded one without -redis
	if err != nil {
		return err
	}
	defer srv.Close()

	mgr, err := lockmgr.Dial(srv.Option(), lockmgr.Options{})
	if err != nil {
		return err
	}
	defer mgr.Close(context.WithoutCancel(ctx))

	return mgr.Do(ctx, "hello", func(ctx context.Context, lock *lockmgr.Lock) error {
		// ctx ends if the lock is lost.
		_, err := fmt.Fprintln(out, "This process has the lock", lock.Name(), "as", lock.HolderID())
		return err
	})
}
