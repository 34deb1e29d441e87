package notify_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/resp"
	"github.com/holdfast-go/holdfast/notify"
)

// BenchmarkLatency measures how long a message takes from its publisher's write
// to the callback of Next, and beside it, in turn, what a bare PING takes on a
// plain socket. The ratio of the medians is what counts.
func BenchmarkLatency(b *testing.B) {
	s := redistest.Start(b).Unrestricted()
	hub := open(b, connect(b, s.Addr()), notify.Options{})
	c := &cursor{Watch: hub.Watch("c")}
	c.until(b, subscribed)
	conn := redistest.Must(resp.Dial(s.Addr(), time.Minute))(b)
	defer conn.Close()
	send := func(words ...string) {
		conn.Send(words...)
		require.NoError(b, conn.Flush())
	}
	receive := func() {
		redistest.Must(conn.Receive())(b)
	}
	type wakeUp struct {
		at  time.Time
		seq uint64
	}
	woken := make(chan wakeUp, 1)
	var pings, wakes []time.Duration
	b.ReportAllocs()
	for b.Loop() {
		t := time.Now()
		send("PING")
		receive()
		pings = append(pings, time.Since(t))

		c.Next(c.seq).OnDone(func(w notify.Wake, _ error) { woken <- wakeUp{time.Now(), w.Seq} })
		t = time.Now()
		send("PUBLISH", "c", "0")
		w := <-woken
		c.seq = w.seq
		wakes = append(wakes, w.at.Sub(t))
		receive()
	}
	b.ReportMetric(0, "ns/op") // a PING and a PUBLISH: says nothing
	slices.Sort(pings)
	slices.Sort(wakes)
	median := func(d []time.Duration) float64 { return float64(d[len(d)/2].Nanoseconds()) }
	b.ReportMetric(median(pings), "ping-p50-ns")
	b.ReportMetric(median(wakes), "wake-p50-ns")
	b.ReportMetric(float64(wakes[len(wakes)*99/100].Nanoseconds()), "wake-p99-ns")
	b.ReportMetric(median(wakes)/median(pings), "wake/ping")
}
