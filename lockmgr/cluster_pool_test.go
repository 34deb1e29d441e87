package lockmgr_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// Dial ignores BlockingPoolSize. With one connection in the pool, a wait for replicas would not end while
// somebody waits for a message.
func TestDial_BlockingPoolSizeOfACluster(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3, 1)
	ctx := faults.Patient(t)
	m := must(lockmgr.Dial(rueidis.ClientOption{InitAddress: c.Addrs(), BlockingPoolSize: 1}, acked(1)))(t)
	held := mustLock(t, dialCluster(t, c, lockmgr.Options{}), "x")
	waiting := m.LockAsync("x")
	awaitSubscribers(t, c.Owner("x"), false)
	for _, name := range []string{"{x}2", "{x}3"} {
		soon, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		mustUnlock(t, must(m.Lock(soon, name))(t))
	}
	waiting.Cancel()
	mustClose(t, m)
	mustUnlock(t, held)
}
