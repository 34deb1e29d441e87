// Middleware is an http.Handler around another one: requests for the same account are served one at
// a time, over all processes. A request that would wait for too long gets 503 and Retry-After.
//
//	go run ./examples/middleware
//	go run ./examples/middleware -redis redis://127.0.0.1:6379
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

func main() { cli.Main("middleware", run) }

func run(ctx context.Context, out io.Writer, args []string) error {
	flags := flag.NewFlagSet("middleware", flag.ContinueOnError)
	url := server.Flag(flags)
	if err := cli.Parse(flags, out, "A second request for an account comes while the first one is served.", args); err != nil {
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
	defer mgr.Close(context.WithoutCancel(ctx))

	prefix := fmt.Sprintf("accounts-%04x:", rand.N(1<<16)) // nobody else's
	key := func(r *http.Request) string { return prefix + r.PathValue("id") }
	mux := http.NewServeMux()
	post := func(who, id string) {
		w := httptest.NewRecorder() // a program would use http.Server
		mux.ServeHTTP(w, httptest.NewRequestWithContext(ctx, "POST", "/accounts/"+id, nil))
		fmt.Fprintf(out, "  %s: POST /accounts/%s: %d %s\n", who, id, w.Code, w.Header().Get("Retry-After"))
	}
	first := true
	pay := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if first { // anna's request is served, and ben comes meanwhile
			first = false
			post("ben", "7")
			post("ben", "8")
		}
		w.WriteHeader(http.StatusNoContent)
	})
	mux.Handle("POST /accounts/{id}", oneAtATime(mgr, key, time.Second, pay))
	post("anna", "7")
	post("ben", "7")
	return ctx.Err()
}
