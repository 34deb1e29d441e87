package actor

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// receive takes everything from m, as an actor does that parks afterwards.
func receive(m *mailbox[int]) (n int) {
	for {
		urgent, batch, _ := m.take(true)
		if len(urgent)+len(batch) == 0 {
			return n
		}
		n += len(urgent) + len(batch)
		m.reuse(batch)
		m.reuseUrgent(urgent)
	}
}

func TestMailbox_BurstIsNotKept(t *testing.T) {
	m := &mailbox[int]{wake: make(chan struct{}, 1)}
	for round := range 2 {
		for i := range 100 * kept {
			m.put(i)
		}
		require.Equal(t, 100*kept, receive(m), "round %d", round)
		require.LessOrEqual(t, cap(m.in), kept)
		require.LessOrEqual(t, cap(m.spare), kept)
	}
	for range 3 {
		for i := range kept {
			m.put(i)
		}
		require.Equal(t, kept, receive(m))
	}
	require.Equal(t, 2*kept, cap(m.in)+cap(m.spare), "room for an ordinary batch stays")
	for i := range 100 * kept {
		m.putUrgent(i)
	}
	require.Equal(t, 100*kept, receive(m))
	require.LessOrEqual(t, cap(m.urgent), kept)
	require.LessOrEqual(t, cap(m.spareUrgent), kept)
}

func TestMailbox_BurstIsKeptWhileBusy(t *testing.T) {
	m := &mailbox[int]{wake: make(chan struct{}, 1)}
	for i := range 10 * kept {
		m.put(i)
	}
	_, batch, _ := m.take(true)
	m.put(1)
	m.reuse(batch)
	_, batch, _ = m.take(true)
	require.GreaterOrEqual(t, cap(m.in), 10*kept)
	m.reuse(batch)
	m.take(true)
	require.LessOrEqual(t, cap(m.in), kept, "until the consumer parks")
}

func TestMailbox_WakesOnlyAParkedConsumer(t *testing.T) {
	m := &mailbox[int]{wake: make(chan struct{}, 1)}
	m.put(1)
	require.Empty(t, m.wake, "the consumer has not looked yet")

	m.take(true)
	m.put(2)
	require.Empty(t, m.wake, "the consumer got something, so it is at work")

	m.take(true)
	m.take(true)
	m.put(3)
	require.Len(t, m.wake, 1)
	m.put(4)
	m.close()
	<-m.wake
	require.Empty(t, m.wake, "one wake-up for all")

	m = &mailbox[int]{wake: make(chan struct{}, 1)}
	m.take(false)
	m.put(1)
	require.Empty(t, m.wake, "the consumer will look again anyway")
}

func TestMailbox_GrowsByDoubling(t *testing.T) {
	m := &mailbox[int]{wake: make(chan struct{}, 1)}
	grown := 0
	for last := 0; len(m.in) < 1<<20; m.put(1) {
		if cap(m.in) != last {
			last = cap(m.in)
			grown++
		}
	}
	require.LessOrEqual(t, grown, 18, "from 16 to a million")
}

// The timer is set as seldom as possible, because a handler names another instant after every
// batch.
func TestAlarm_TimerIsNotSetWhileItIsEarlyEnough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wakes := make(chan struct{}, 10)
		a := alarm{origin: time.Now(), wake: func() { wakes <- struct{}{} }}
		defer a.stop()

		a.set(10 * time.Second)
		first := a.armed
		for range 5 {
			time.Sleep(time.Second)
			a.set(10 * time.Second)
			require.Equal(t, first, a.armed, "later: the timer stays")
		}
		<-wakes
		require.Equal(t, first, time.Since(a.origin))
		require.False(t, a.due(), "the timer was early")
		<-wakes
		require.Equal(t, 15*time.Second, time.Since(a.origin))
		require.True(t, a.due())

		a.set(10 * time.Second)
		a.set(time.Second)
		<-wakes
		require.Equal(t, 16*time.Second, time.Since(a.origin), "sooner: the timer is brought forward")

		a.set(math.MaxInt64)
		require.False(t, a.due(), "centuries away, however late it is")
		a.set(-1)
		require.False(t, a.due())
		time.Sleep(time.Hour)
		require.Empty(t, wakes)
	})
}

// A timer must not keep a stopped actor's memory, nor wake anybody.
func TestStop_LeavesNoTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := Start(sleeper{})
		a.Post(1)
		synctest.Wait()
		a.Stop()
		<-a.Done()
		require.False(t, a.alarm.timer.Stop(), "it was stopped")
	})
}

type sleeper struct{}

func (sleeper) Handle([]int) time.Duration { return time.Hour }
