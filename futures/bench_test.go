package futures_test

import (
	"context"
	"runtime"
	"testing"

	"github.com/holdfast-go/holdfast/futures"
)

// request embeds its Promise, as it is meant to be used.
type request struct {
	promise futures.Promise[*lease]
	_       string
}

var (
	sinkRequest *request
	sinkLease   = &lease{1}
)

func BenchmarkCallback(b *testing.B) {
	b.ReportAllocs()
	n := 0
	count := func(*lease, error) { n++ }
	for b.Loop() {
		sinkRequest = new(request)
		sinkRequest.promise.Future().OnDone(count)
		sinkRequest.promise.Resolve(sinkLease, nil)
	}
}

// BenchmarkAwait passes each request to another goroutine and waits for the result, which takes two
// goroutine switches.
func BenchmarkAwait(b *testing.B) {
	for _, bench := range []struct {
		name string
		ctx  context.Context
	}{
		{"background", context.Background()},
		{"cancelable", b.Context()},
	} {
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			requests := make(chan *request)
			go func() {
				for r := range requests {
					r.promise.Resolve(sinkLease, nil)
				}
			}()
			for b.Loop() {
				r := new(request)
				requests <- r
				_, _ = r.promise.Future().Await(bench.ctx)
			}
			close(requests)
		})
	}
}

// BenchmarkPendingMemory reports the memory of a pending future, without a waiter and with each
// kind of waiter.
func BenchmarkPendingMemory(b *testing.B) {
	const n = 100_000
	for _, bench := range []struct {
		name string
		use  func(*futures.Future[*lease])
	}{
		{"unread", func(*futures.Future[*lease]) {}},
		{"done", func(f *futures.Future[*lease]) { f.Done() }},
		{"callback", func(f *futures.Future[*lease]) { f.OnDone(func(*lease, error) {}) }},
	} {
		b.Run(bench.name, func(b *testing.B) {
			var total uint64
			for b.Loop() {
				promises := make([]*futures.Promise[*lease], n)
				before := heap()
				for i := range promises {
					promises[i] = new(futures.Promise[*lease])
					bench.use(promises[i].Future())
				}
				total += heap() - before
				for _, p := range promises {
					p.Resolve(nil, nil)
				}
			}
			b.ReportMetric(float64(total)/float64(b.N)/n, "B/future")
		})
	}
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
