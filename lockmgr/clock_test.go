package lockmgr

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// twoClocks are the clocks of a host: awake stands still while the host sleeps, all goes on.
type twoClocks struct {
	mu         sync.Mutex
	awake, all time.Duration
	late       []time.Duration // for each of the next reads, the time between the readings of both clocks
}

func (c *twoClocks) read() (awake, all time.Duration, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	late := time.Duration(0)
	if len(c.late) > 0 {
		late, c.late = c.late[0], c.late[1:]
	}
	return c.awake, c.all + late, true
}

func (c *twoClocks) sleep(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all += d
}

func TestClock_CountsASuspension(t *testing.T) {
	host := &twoClocks{awake: time.Hour, all: 3 * time.Hour}
	c := newClock(host.read)
	require.True(t, c.countsSuspensions())
	require.Less(t, c.exact(), time.Minute, "a suspension before newClock does not count")
	host.sleep(10 * time.Minute)
	require.GreaterOrEqual(t, c.exact(), 10*time.Minute)
	require.Less(t, c.exact(), 11*time.Minute)
	require.GreaterOrEqual(t, c.now(), 10*time.Minute, "it has been noticed")
	host.sleep(time.Minute)
	require.Eventually(t, func() bool { return c.now() >= 11*time.Minute }, 10*time.Second, time.Millisecond, "it looks by itself")
}

// A thread that was interrupted between the two readings must not look like a suspension.
func TestClock_InterruptedReadingIsNoSuspension(t *testing.T) {
	host := &twoClocks{}
	c := newClock(host.read)
	host.late = []time.Duration{30 * time.Millisecond, 20 * time.Millisecond}
	require.Zero(t, c.suspended())
	host.late = []time.Duration{clockNoise, clockNoise, clockNoise, clockNoise}
	require.Zero(t, c.suspended())
	// If it happens at each of three reads, leases end early, which is harmless.
	host.late = []time.Duration{30 * time.Millisecond, 30 * time.Millisecond, 30 * time.Millisecond, 30 * time.Millisecond}
	require.Equal(t, 30*time.Millisecond, c.suspended())
	require.Equal(t, 30*time.Millisecond, c.suspended(), "time does not go back")
}

func TestClock_NeverGoesBack(t *testing.T) {
	host := &twoClocks{}
	c := newClock(host.read)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			last := time.Duration(0)
			for range 2000 {
				now := c.exact()
				if now < last {
					t.Errorf("%v after %v", now, last)
				}
				last = now
			}
		})
	}
	for range 100 {
		host.sleep(time.Second)
	}
	wg.Wait()
	require.GreaterOrEqual(t, c.exact(), 100*time.Second)
}

func TestClock_HostWithOneOnly(t *testing.T) {
	c := newClock(func() (awake, all time.Duration, ok bool) { return 0, 0, false })
	require.False(t, c.countsSuspensions())
	before := c.exact()
	require.Less(t, before, time.Minute)
	require.GreaterOrEqual(t, c.now(), before)
}

func TestClock_OfTheSystem(t *testing.T) {
	awake, all, ok := readClocks()
	if !ok {
		t.Skip("this system has no clock that counts suspensions, or none that we read")
	}
	require.Positive(t, awake)
	require.GreaterOrEqual(t, all, awake)
	again, _, _ := readClocks()
	require.GreaterOrEqual(t, again, awake)
	require.Less(t, again-awake, time.Minute, "the unit is nanoseconds")
}
