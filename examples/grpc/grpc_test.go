package main

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-go/holdfast/examples/internal/runtest"
	"github.com/holdfast-go/holdfast/internal/leakcheck"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

func TestMain(m *testing.M) { leakcheck.Main(m) }

func TestRun_Story(t *testing.T) {
	runtest.OnServers(t, func(t *testing.T, args []string) {
		runtest.InOrder(t, runtest.Run(t, run, args...), "ben calls for account 7: Unavailable, try again in 1s\n",
			"ben calls for account 8: OK\n", "anna calls for account 7: OK\n", "ben calls for account 7: OK\n")
	})
}

// The handler's answer and error are those of the call, also if the lock was lost. A call that can
// never get its lock is not told to try again.
func TestInterceptor_Answers(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	mgr, err := lockmgr.DialURL("redis://"+s.Addr(), lockmgr.Options{})
	require.NoError(t, err)
	defer mgr.Close(t.Context())
	intercept := oneAtATime(mgr, func(request any) string { return request.(string) }, time.Minute)
	failed := errors.New("failed")
	reply, err := intercept(t.Context(), "a", nil, func(ctx context.Context, request any) (any, error) {
		_, err := mgr.ForceUnlock(t.Context(), "a")
		require.NoError(t, err)
		<-ctx.Done() // the lock is lost
		return request, failed
	})
	require.Equal(t, "a", reply)
	require.Equal(t, failed, err)
	_, err = intercept(t.Context(), "", nil, nil)
	require.Equal(t, codes.Internal, status.Code(err))
	require.Empty(t, status.Convert(err).Details())
}
