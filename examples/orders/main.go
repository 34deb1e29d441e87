// Orders is a service over HTTP that changes an order under its lock, with fenced writes. A request
// for an order that is busy gets 409, one that can't reach the server gets 503, in time.
//
//	go run ./examples/orders
//	go run ./examples/orders -redis redis://127.0.0.1:6379
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/holdfast-go/holdfast/examples/internal/cli"
	"github.com/holdfast-go/holdfast/examples/internal/server"
	"github.com/holdfast-go/holdfast/lockmgr"
)

func main() { cli.Main("orders", run) }

func run(ctx context.Context, out io.Writer, args []string) error {
	flags := flag.NewFlagSet("orders", flag.ContinueOnError)
	url := server.Flag(flags)
	if err := cli.Parse(flags, out, "Two clerks change the same order over HTTP.", args); err != nil {
		return err
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
	s := &shop{mgr: mgr, name: fmt.Sprintf("orders-%04x", rand.N(1<<16)), orders: &table{rows: map[string]row{}},
		wait: 300 * time.Millisecond, deadline: time.Second}
	defer srv.DropTokens(s.name + ":42")
	defer mgr.Close(context.WithoutCancel(ctx))
	mux := http.NewServeMux()
	mux.Handle("PUT /orders/{id}/{state}", s)
	put := func(who, state string) {
		w := httptest.NewRecorder() // a program would use http.Server
		mux.ServeHTTP(w, httptest.NewRequestWithContext(ctx, "PUT", "/orders/42/"+state, nil))
		fmt.Fprintf(out, "  %s: PUT /orders/42/%s: %d\n", who, state, w.Code)
	}
	s.work = func(context.Context) error { // anna works, and ben comes meanwhile
		s.work = func(ctx context.Context) error { return ctx.Err() }
		put("ben", "cancelled")
		return nil
	}
	put("anna", "packed")
	put("ben", "sent")
	fmt.Fprintf(out, "Done: the order is %s.\n", s.orders.load("42"))
	return ctx.Err()
}
