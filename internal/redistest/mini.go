package redistest

import (
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// miniTick is how finely the keys of Mini expire.
const miniTick = 20 * time.Millisecond

// Mini runs miniredis on a free loopback port until t ends and returns its address. Alone it would
// never expire a key: its clock stands still unless it is told to move. Here it is moved by real
// time, every 20 ms, so a key lives up to 20 ms less or more than its TTL: each step counts for all
// keys alike, those that were written just before it too.
func Mini(t testing.TB) (addr string, m *miniredis.Miniredis) {
	t.Helper()
	m = miniredis.RunT(t)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(miniTick)
		defer tick.Stop()
		// What has passed, not what a tick should be: ticks are dropped when the machine is busy.
		for last := time.Now(); ; {
			select {
			case <-stop:
				return
			case <-tick.C:
				now := time.Now()
				m.FastForward(now.Sub(last))
				last = now
			}
		}
	}()
	// Runs before RunT's own cleanup, which closes m.
	t.Cleanup(func() { close(stop); <-stopped })
	return m.Addr(), m
}
