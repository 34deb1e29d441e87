package gocron_test

import (
	"context"
	"fmt"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/go-co-op/gocron/v2"
	"github.com/redis/rueidis"

	holdfastgocron "github.com/holdfast-go/holdfast/contrib/gocron"
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

	ran := make(chan struct{})
	s, err := schedule(mgr, func(context.Context) error { close(ran); return nil })
	if err != nil {
		panic(err)
	}
	s.Start()
	<-ran
	fmt.Println("ran")
	if err := s.Shutdown(); err != nil {
		panic(err)
	}
	// Output: ran
}

// schedule has the snippet of README.md.
func schedule(mgr *lockmgr.Manager, report func(ctx context.Context) error) (gocron.Scheduler, error) {
	locker := holdfastgocron.NewLocker(mgr, holdfastgocron.Options{Prefix: "jobs:"})
	s, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker))
	if err != nil {
		return nil, err
	}
	_, err = s.NewJob(gocron.DurationJob(time.Hour), locker.Task(report), // func report(ctx context.Context) error
		gocron.WithName("report"), gocron.WithStartAt(gocron.WithStartImmediately()))
	return s, err
}
