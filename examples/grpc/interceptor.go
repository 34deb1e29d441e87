package main

import (
	"context"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/holdfast-go/holdfast/lockmgr"
)

// oneAtATime returns an interceptor that handles one call for each key at a time, over all
// processes. Other calls for the key wait, but for at most wait. A call that gets no lock fails
// with Unavailable and a RetryInfo if a later try may succeed, and with Internal if not.
func oneAtATime(mgr *lockmgr.Manager, key func(request any) string, wait time.Duration) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (reply any, err error) {
		handled := false
		noLock := mgr.Do(ctx, key(request), func(ctx context.Context, _ *lockmgr.Lock) error {
			handled = true
			reply, err = handle(ctx, request) // ctx ends when the lock is lost
			return nil
		}, lockmgr.MaxWait(wait))
		switch {
		case handled:
			return reply, err
		case lockmgr.Temporary(noLock): // the key is busy, or the server can't be reached
			busy, _ := status.New(codes.Unavailable, "busy").WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(time.Second)})
			return nil, busy.Err()
		}
		return nil, status.Error(codes.Internal, "no lock")
	}
}
