package goredis_test

import (
	"context"
	"fmt"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/contrib/goredis"
	"github.com/holdfast-go/holdfast/lockmgr"
)

func Example() {
	server, err := miniredis.Run() // in place of a Redis or Valkey server
	if err != nil {
		panic(err)
	}
	defer server.Close()

	if err := work(context.Background(), "redis://"+server.Addr()+"/0"); err != nil {
		panic(err)
	}
	// Output: locked: orders:42
}

// work has the snippet of README.md.
func work(ctx context.Context, url string) error {
	opt, err := redis.ParseURL(url)
	if err != nil {
		return err
	}
	mgr, err := goredis.Dial(opt, lockmgr.Options{})
	if err != nil {
		return err
	}
	defer mgr.Close(context.Background())

	return mgr.Do(ctx, "orders:42", func(_ context.Context, lock *lockmgr.Lock) error {
		fmt.Println("locked:", lock.Name())
		return nil
	})
}
