package notify_test

import (
	"context"
	"fmt"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/notify"
)

// The example waits until a counter has reached three. It reads the counter after each wake-up, and
// does not read the messages.
func Example() {
	server, err := miniredis.Run()
	if err != nil {
		panic(err)
	}
	defer server.Close()
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress:       []string{server.Addr()},
		ForceSingleClient: true,
		DisableCache:      true,
	})
	if err != nil {
		panic(err)
	}
	defer client.Close()

	hub, err := notify.New(client, notify.Options{})
	if err != nil {
		panic(err)
	}
	defer hub.Close()
	w := hub.Watch("counter.changed")
	defer w.Close()

	ctx := context.Background()
	for seq := uint64(0); ; {
		wake, err := w.Next(seq).Await(ctx)
		if err != nil {
			panic(err)
		}
		seq = wake.Seq
		n, err := client.Do(ctx, client.B().Get().Key("counter").Build()).AsInt64()
		if err != nil && !rueidis.IsRedisNil(err) {
			panic(err)
		}
		fmt.Println(wake.Reason, n)
		if n == 3 {
			return
		}
		// Usually another process does this: it changes the counter, then publishes.
		_, _ = server.Incr("counter", 1)
		server.Publish("counter.changed", "")
	}
	// Output:
	// Confirmed 0
	// Message 1
	// Message 2
	// Message 3
}

// No goroutine has to wait: a callback runs as soon as there is an event. It must not block.
// Usually it sends a message to another goroutine.
func ExampleWatch_Next() {
	server, err := miniredis.Run()
	if err != nil {
		panic(err)
	}
	defer server.Close()
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress:       []string{server.Addr()},
		ForceSingleClient: true,
		DisableCache:      true,
	})
	if err != nil {
		panic(err)
	}
	defer client.Close()
	hub, err := notify.New(client, notify.Options{})
	if err != nil {
		panic(err)
	}
	defer hub.Close()

	w := hub.Watch("news")
	lookAgain := make(chan notify.Wake, 1)
	w.Next(0).OnDone(func(wake notify.Wake, err error) {
		if err == nil {
			lookAgain <- wake
		}
	})
	wake := <-lookAgain
	fmt.Println(wake.Reason, wake.Subscribed)
	// Output: Confirmed true
}
