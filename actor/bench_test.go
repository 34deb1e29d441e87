package actor_test

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/actor"
)

// message is about as large as what a lock manager is sent.
type message struct {
	op    int
	reply chan<- int
	_     [4]uintptr
}

// counter signals done when it has seen n messages.
type counter struct {
	n       int
	batches int
	next    time.Duration
	done    chan struct{}
}

func (c *counter) Handle(batch []message) time.Duration {
	c.batches++
	if c.n -= len(batch); c.n == 0 {
		close(c.done)
	}
	return c.next
}

// BenchmarkPost is the cost of a message from post to handled, under more or less contention for
// the mailbox. With an alarm, the handler asks to be called again in a second, as one with leases
// to renew does.
func BenchmarkPost(b *testing.B) {
	for _, alarm := range []time.Duration{-1, time.Second} {
		for _, producers := range []int{1, 16, 256} {
			b.Run(fmt.Sprintf("producers=%d/alarm=%v", producers, alarm > 0), func(b *testing.B) {
				b.ReportAllocs()
				c := &counter{n: b.N, next: alarm, done: make(chan struct{})}
				a := actor.Start(c)
				var wg sync.WaitGroup
				b.ResetTimer()
				for p := range producers {
					mine := b.N / producers
					if p < b.N%producers {
						mine++
					}
					wg.Go(func() {
						for i := range mine {
							a.Post(message{op: i})
						}
					})
				}
				wg.Wait()
				<-c.done
				b.StopTimer()
				b.ReportMetric(float64(b.N)/float64(c.batches), "msgs/batch")
				a.Stop()
				<-a.Done()
			})
		}
	}
}

type echo struct{}

func (echo) Handle(batch []message) time.Duration {
	for _, m := range batch {
		m.reply <- m.op
	}
	return time.Second
}

// BenchmarkBusyMachine is the time from a request to its answer while more goroutines compute than
// there are processors. What counts is that an actor does not queue up behind them: the median
// stays at about a microsecond.
func BenchmarkBusyMachine(b *testing.B) {
	var stop atomic.Bool
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for !stop.Load() {
				for end := time.Now().Add(100 * time.Microsecond); time.Now().Before(end); {
				}
				c := make(chan int)
				go func() { c <- 1 }()
				<-c
			}
		})
	}
	a := actor.Start(echo{})
	reply := make(chan int, 1)
	times := make([]time.Duration, 0, 1_000_000)
	for b.Loop() {
		sent := time.Now()
		a.Post(message{reply: reply})
		<-reply
		times = append(times, time.Since(sent))
	}
	stop.Store(true)
	wg.Wait()
	a.Stop()
	<-a.Done()
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)/2]), "p50-ns")
	b.ReportMetric(float64(times[len(times)*99/100]), "p99-ns")
}
