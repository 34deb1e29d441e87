package clientgo_test

import (
	"context"
	"fmt"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"
	"k8s.io/client-go/tools/leaderelection"

	holdfastclientgo "github.com/holdfast-go/holdfast/contrib/clientgo"
	"github.com/holdfast-go/holdfast/lockmgr"
)

func Example() {
	server, err := miniredis.Run() // in place of a Redis or Valkey server
	if err != nil {
		panic(err)
	}
	defer server.Close()
	mgr, err := lockmgr.Dial(rueidis.ClientOption{InitAddress: []string{server.Addr()}}, lockmgr.Options{})
	if err != nil {
		panic(err)
	}
	defer mgr.Close(context.Background())
	ctx, cancel := context.WithCancel(context.Background())
	err = campaign(ctx, mgr, "web-1", func(_ context.Context, token int64) {
		fmt.Println("leads, term", token)
		cancel()
	})
	fmt.Println(err)
	// Output:
	// leads, term 1
	// <nil>
}

// campaign has the snippet of README.md.
func campaign(ctx context.Context, mgr *lockmgr.Manager, identity string, lead func(ctx context.Context, token int64)) error {
	lock, err := holdfastclientgo.New(mgr, "leader:billing", identity)
	if err != nil {
		return err
	}
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:          lock,
		LeaseDuration: 15 * time.Second, // longer than the others together
		RenewDeadline: 10 * time.Second,
		RetryPeriod:   2 * time.Second,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) { lead(ctx, lock.Token()) },
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return err
	}
	elector.Run(lock.UntilLost(ctx)) // until ctx ends or the lock is lost
	return nil
}
