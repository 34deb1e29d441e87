package client

import (
	"fmt"
	"os"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// waiterEnv makes the test binary a process that waits for the fair lock "f", on the server at this
// address.
const waiterEnv = "HOLDFAST_TEST_WAITER"

// waiters is how many places that process has.
const waiters = 3

// beWaiter waits for the lock three times, and says whenever it has it.
func beWaiter() {
	m, err := lockmgr.Dial(rueidis.ClientOption{InitAddress: []string{os.Getenv(waiterEnv)}}, lockmgr.Options{})
	orExit(err)
	var all []*futures.Future[*lockmgr.Lock]
	for range waiters {
		all = append(all, m.LockAsync("f", lockmgr.Fair()))
	}
	for i, f := range all {
		l, err := f.Await(ctx)
		orExit(err)
		fmt.Println("granted", i, l.Valid())
		orExit(l.Unlock(ctx))
	}
	_ = m.Close(ctx)
	os.Exit(0)
}

// orExit ends a process that can't go on.
func orExit(err error) {
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}
