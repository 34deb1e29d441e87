package actor_test

import (
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"
	"weak"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/actor"
)

// handlerFunc is a handler without state of its own.
type handlerFunc[T any] func(batch []T) time.Duration

func (h handlerFunc[T]) Handle(batch []T) time.Duration { return h(batch) }

// start runs h until the test ends.
func start[T any](t *testing.T, h func(batch []T) time.Duration) *actor.Actor[T] {
	a := actor.Start(handlerFunc[T](h))
	t.Cleanup(func() {
		a.Stop()
		<-a.Done()
	})
	return a
}

func TestActor_KeepsTheOrderOfAProducer(t *testing.T) {
	const producers, each = 8, 20_000
	type msg struct{ producer, n int }
	var next [producers]int
	left := producers * each
	done := make(chan struct{})
	a := start(t, func(batch []msg) time.Duration {
		for _, m := range batch {
			if m.n != next[m.producer] {
				t.Errorf("producer %d: got message %d, want %d", m.producer, m.n, next[m.producer])
			}
			next[m.producer]++
		}
		if left -= len(batch); left == 0 {
			close(done)
		}
		return -1
	})

	var wg sync.WaitGroup
	for p := range producers {
		wg.Go(func() {
			for n := range each {
				a.Post(msg{p, n})
			}
		})
	}
	wg.Wait()
	<-done
}

// busy is a handler that is in the middle of something until it is let go, and records what it
// gets.
type busy struct {
	entered chan struct{}
	leave   chan struct{}
	got     [][]int
	stopped bool
}

func (b *busy) Handle(batch []int) time.Duration {
	b.got = append(b.got, slices.Clone(batch))
	if len(b.got) == 1 {
		close(b.entered)
		<-b.leave
	}
	return -1
}

func (b *busy) Stopped() { b.stopped = true }

// Urgent messages overtake what waits, between two batches, and keep their order.
func TestActor_UrgentMessagesOvertake(t *testing.T) {
	var a *actor.Actor[int]
	var batches [][]int
	left := 1 + 1000 + 4
	taken, posted, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	a = start(t, func(batch []int) time.Duration {
		batches = append(batches, slices.Clone(batch))
		switch len(batches) {
		case 1:
			close(taken)
			<-posted // everything below is in the mailbox
		case 3: // after the urgent ones, the first batch of the others
			a.PostUrgent(-3)
			a.PostUrgent(-4)
		}
		if left -= len(batch); left == 0 {
			close(done)
		}
		return -1
	})
	a.Post(0)
	<-taken
	for i := range 1000 {
		a.Post(1 + i)
	}
	a.PostUrgent(-1)
	a.PostUrgent(-2)
	close(posted)
	<-done
	require.Equal(t, []int{0}, batches[0])
	require.Equal(t, []int{-1, -2}, batches[1])
	require.Equal(t, []int{-3, -4}, batches[3])
	var others []int
	for i, b := range batches {
		require.LessOrEqual(t, len(b), 256)
		if i != 1 && i != 3 {
			others = append(others, b...)
		}
	}
	require.Len(t, others, 1001)
	require.IsIncreasing(t, others)
}

func TestStop_HandlesTheAcceptedAndRefusesTheRest(t *testing.T) {
	b := &busy{entered: make(chan struct{}), leave: make(chan struct{})}
	a := actor.Start(b)
	a.Post(0)
	<-b.entered
	require.True(t, a.Post(1))
	require.True(t, a.Post(2))
	a.Stop()
	a.Stop()
	require.False(t, a.Post(3))
	require.False(t, a.PostUrgent(3))
	select {
	case <-a.Done():
		t.Fatal("done while the handler is still running")
	default:
	}
	close(b.leave)
	<-a.Done()
	require.Equal(t, [][]int{{0}, {1, 2}}, b.got, "what arrives meanwhile is one batch")
	require.True(t, b.stopped, "Stopped is called before Done is closed")

	a.Stop()
	require.False(t, a.Post(5))
}

// What the handler posts comes with the next batch. After a sleep of zero the next batch may be
// empty.
func TestStop_FromTheHandler(t *testing.T) {
	var got [][]int
	var a *actor.Actor[int]
	ready := make(chan struct{})
	a = start(t, func(batch []int) time.Duration {
		<-ready
		got = append(got, slices.Clone(batch))
		switch len(got) {
		case 1:
			assert.True(t, a.Post(2))
		case 3:
			assert.True(t, a.Post(3))
			a.Stop()
			assert.False(t, a.Post(4))
		}
		return 0 // an alarm that is due does not keep a stopped actor alive
	})
	a.Post(1)
	close(ready)
	<-a.Done()
	require.Equal(t, [][]int{{1}, {2}, nil, {3}}, got)
}

func TestStop_AtAnyTimeHandlesEveryAcceptedMessage(t *testing.T) {
	for i := range 300 {
		var handled int
		a := start(t, func(batch []int) time.Duration { handled += len(batch); return -1 })
		var accepted [4]int
		var wg sync.WaitGroup
		for p := range accepted {
			wg.Go(func() {
				for n := range 1000 {
					if p == 0 && n == 3*i {
						a.Stop()
					}
					if !a.Post(1) {
						return
					}
					accepted[p]++
				}
			})
		}
		wg.Wait()
		a.Stop()
		<-a.Done()
		require.Equal(t, accepted[0]+accepted[1]+accepted[2]+accepted[3], handled)
	}
}

func TestActor_KeepsNothingHandledAlive(t *testing.T) {
	handled := make(chan int)
	a := start(t, func(batch []*[64]byte) time.Duration { handled <- len(batch); return -1 })
	var refs []weak.Pointer[[64]byte]
	for round := range 6 { // each of the slices has its turn
		post := []func(*[64]byte) bool{a.Post, a.PostUrgent}[round%2]
		for range 20 - round {
			m := new([64]byte)
			refs = append(refs, weak.Make(m))
			post(m)
		}
		for n := 20 - round; n > 0; n -= <-handled {
		}
	}
	a.Post(nil) // the batch before is cleared when this one comes
	<-handled
	runtime.GC()
	for i, r := range refs {
		require.Nil(t, r.Value(), "message %d", i)
	}
}

func TestPost_DoesNotAllocate(t *testing.T) {
	handled := make(chan int)
	a := start(t, func(batch []int) time.Duration { handled <- len(batch); return time.Hour })
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		for i := range 100 {
			a.Post(i)
		}
		for n := 100; n > 0; n -= <-handled {
		}
	}))
}
