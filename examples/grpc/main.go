// Grpc is a server whose interceptor serves calls for the same account one at a time, over all
// processes. A call that would wait for too long fails with Unavailable, and is told when to try
// again.
//
//	cd examples/grpc && go run .
//	cd examples/grpc && go run . -redis redis://127.0.0.1:6379
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/holdfast-go/holdfast/examples/internal/cli"
	"github.com/holdfast-go/holdfast/examples/internal/server"
	"github.com/holdfast-go/holdfast/lockmgr"
)

func main() { cli.Main("grpc", run) }

func run(ctx context.Context, out io.Writer, args []string) error {
	flags := flag.NewFlagSet("grpc", flag.ContinueOnError)
	url := server.Flag(flags)
	if err := cli.Parse(flags, out, "A second call for an account comes while the first one is served.", args); err != nil {
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
	key := func(request any) string { return prefix + request.(*grpc_health_v1.HealthCheckRequest).Service }
	first := true
	var call func(who, account string)
	accounts := &accounts{serve: func() {
		if first { // anna's call is served, and ben calls meanwhile
			first = false
			call("ben", "7")
			call("ben", "8")
		}
	}}
	s := grpc.NewServer(grpc.UnaryInterceptor(oneAtATime(mgr, key, time.Second)))
	grpc_health_v1.RegisterHealthServer(s, accounts)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer s.Stop()
	go func() { _ = s.Serve(l) }() // until Stop
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	client := grpc_health_v1.NewHealthClient(conn)
	call = func(who, account string) {
		_, err := client.Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: account})
		fmt.Fprintf(out, "  %s calls for account %s: %v", who, account, status.Code(err))
		for _, d := range status.Convert(err).Details() {
			if retry, ok := d.(*errdetails.RetryInfo); ok {
				fmt.Fprintf(out, ", try again in %v", retry.RetryDelay.AsDuration())
			}
		}
		fmt.Fprintln(out)
	}
	call("anna", "7")
	call("ben", "7")
	return ctx.Err()
}

// accounts stands for a service of yours. It has the methods of gRPC's health service.
type accounts struct {
	grpc_health_v1.UnimplementedHealthServer
	serve func()
}

// Check serves a call.
func (a *accounts) Check(context.Context, *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	a.serve()
	return &grpc_health_v1.HealthCheckResponse{}, nil
}
