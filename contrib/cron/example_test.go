package cron_test

import (
	"context"
	"fmt"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"
	"github.com/robfig/cron/v3"

	holdfastcron "github.com/holdfast-go/holdfast/contrib/cron"
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

	c := cron.New()
	id, err := schedule(c, mgr, func(context.Context) { fmt.Println("ran") })
	if err != nil {
		panic(err)
	}
	c.Entry(id).WrappedJob.Run() // what cron does every hour
	// Output: ran
}

// schedule has the snippet of README.md.
func schedule(c *cron.Cron, mgr *lockmgr.Manager, report func(ctx context.Context)) (cron.EntryID, error) {
	one := holdfastcron.OnlyOne(mgr, "jobs:report", holdfastcron.Options{Logger: cron.DefaultLogger})
	return c.AddJob("@hourly", cron.NewChain(one).Then(holdfastcron.FuncJob(report)))
}
