package lockmgr_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/holdfast-go/holdfast/lockmgr"
)

// These tests check how long calls take at a server that is frozen: its connections stay open, and
// nothing is answered.

// frozenOptions are options whose RetryTime is longer or shorter than their CommandTimeout.
var frozenOptions = map[string]lockmgr.Options{
	"defaults":       {RetryTime: 5 * second, CommandTimeout: 2 * second},
	"short retries":  {RetryTime: 300 * milli, CommandTimeout: 900 * milli},
	"short commands": {RetryTime: 2 * second, CommandTimeout: 100 * milli},
}

// frozenPauses is how much later than promised a call may end in fake time: looks for waits that
// are over have a pause between them, and so have tries.
const frozenPauses = 150 * milli

// Unlock fails after RetryTime, or after CommandTimeout if that is longer, and so does Close. Close
// after Unlock waits for one more try: for CommandTimeout, or for RetryTime if that is shorter.
func TestFrozen_UnlockAndClose(t *testing.T) {
	for name, o := range frozenOptions {
		for i := range 4 {
			unlocks, locks := i%2 == 1, 1
			if i > 1 {
				locks = 600
			}
			inBubble(t, fmt.Sprint(name, ", ", locks, ", unlocks=", unlocks), func(t *testing.T, w *scene) {
				n := &network{server: w.server}
				m := dialNetwork(t, n, o)
				held := make([]*lockmgr.Lock, locks)
				const callers = 8 // so that several senders have connections of their own
				var taking errgroup.Group
				for c := range callers {
					taking.Go(func() (err error) {
						for i := c; i < locks && err == nil; i += callers {
							held[i], err = m.Lock(ctx, fmt.Sprint(i))
						}
						return err
					})
				}
				require.NoError(t, taking.Wait())
				synctest.Wait()
				n.hush()
				begin, limit := time.Now(), max(o.RetryTime, o.CommandTimeout)+frozenPauses
				if unlocks {
					require.Error(t, held[0].Unlock(ctx))
					require.LessOrEqual(t, time.Since(begin), limit)
					begin, limit = time.Now(), min(o.RetryTime, o.CommandTimeout)+frozenPauses
				}
				require.Error(t, m.Close(ctx))
				require.LessOrEqual(t, time.Since(begin), limit)
			})
		}
	}
}

// Close of a manager that waits for a message takes up to a second more if the manager has borrowed
// its client.
func TestFrozen_CloseWithABorrowedClient(t *testing.T) {
	for name, o := range frozenOptions {
		inBubble(t, name, func(t *testing.T, w *scene) {
			other, _ := w.manager(lockmgr.Options{})
			mustLock(t, other, "a")
			n := &network{server: w.server}
			client := must(rueidis.NewClient(lockmgr.TuneClient(rueidis.ClientOption{
				InitAddress: []string{"pipe:0"}, ForceSingleClient: true, DialCtxFn: n.dial,
			})))(t)
			defer client.Close()
			m := must(lockmgr.New(client, o))(t)
			mustLock(t, m, "b")
			waiting := m.LockAsync("a")
			synctest.Wait()
			n.hush()
			begin := time.Now()
			require.Error(t, m.Close(ctx))
			require.LessOrEqual(t, time.Since(begin), max(o.RetryTime, o.CommandTimeout)+second+frozenPauses)
			require.ErrorIs(t, errOf(waiting.Await(ctx)), lockmgr.ErrClosed)
		})
	}
}

// A request that is made at a frozen server fails after RetryTime, or after CommandTimeout if that
// is longer. One that waits for a message of the server then sends nothing. The client's pings
// notice that the server is frozen: Dialer.KeepAlive and ConnWriteTimeout come on top of RetryTime
// then.
func TestFrozen_Requests(t *testing.T) {
	for name, o := range frozenOptions {
		inBubble(t, name, func(t *testing.T, w *scene) {
			other, _ := w.manager(lockmgr.Options{})
			mustLock(t, other, "a")
			n := &network{server: w.server}
			m := dialNetwork(t, n, o)
			defer func() { _ = m.Close(ctx) }()
			waiting := m.LockAsync("a")
			time.Sleep(second)
			n.hush()
			begin := time.Now()
			asked := m.LockAsync("b")
			require.ErrorIs(t, errOf(asked.Await(ctx)), lockmgr.ErrUnavailable)
			require.GreaterOrEqual(t, time.Since(begin), o.RetryTime)
			require.LessOrEqual(t, time.Since(begin), max(o.RetryTime, o.CommandTimeout)+frozenPauses)
			require.ErrorIs(t, errOf(waiting.Await(ctx)), lockmgr.ErrUnavailable)
			n.heal()

			waiting = m.LockAsync("a")
			time.Sleep(5 * second) // until it listens
			n.hush()
			begin = time.Now()
			require.ErrorIs(t, errOf(waiting.Await(ctx)), lockmgr.ErrUnavailable)
			const keepAlive, connWriteTimeout = 500 * milli, 2 * second
			require.LessOrEqual(t, time.Since(begin), keepAlive+connWriteTimeout+max(o.RetryTime, o.CommandTimeout)+frozenPauses)
		})
	}
}
