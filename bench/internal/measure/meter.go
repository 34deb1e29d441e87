package measure

import (
	"runtime"
	"runtime/metrics"
	"time"

	"github.com/holdfast-go/holdfast/bench/internal/clock"
	"github.com/holdfast-go/holdfast/bench/internal/server"
)

// A cost is what a stretch of work costs this process and the server.
type cost struct {
	took          time.Duration
	cpu           time.Duration // of this process, user and system
	allocs, bytes float64
	server        server.Counters
	peak
}

const sampleEvery = 2 * time.Millisecond

// cost returns what f costs. The garbage of what came before is not part of it. Looking for peaks
// costs CPU, which only a short stretch of hard work hides.
func (b *bench) cost(peaks bool, f func() error) (c cost, err error) {
	runtime.GC()
	var before, after server.Snapshot
	if b.conn != nil {
		if before, err = b.conn.Snapshot(); err != nil {
			return c, err
		}
	}
	stop := func() {}
	if peaks {
		stop = c.watch()
	}
	var was, is runtime.MemStats
	runtime.ReadMemStats(&was)
	cpu, began := clock.CPU(), time.Now()
	err = f()
	c.took, c.cpu = time.Since(began), clock.CPU()-cpu
	runtime.ReadMemStats(&is)
	c.allocs, c.bytes = float64(is.Mallocs-was.Mallocs), float64(is.TotalAlloc-was.TotalAlloc)
	stop()
	if err != nil || b.conn == nil {
		return c, err
	}
	after, err = b.conn.Snapshot()
	c.server = after.Since(before)
	return c, err
}

// A peak is the most that was seen at a time.
type peak struct {
	heap       float64 // bytes
	goroutines float64
}

// watch samples heap and goroutines from a goroutine of its own, until stop returns.
func (p *peak) watch() (stop func()) {
	samples := []metrics.Sample{
		{Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/sched/goroutines:goroutines"},
	}
	look := func() {
		metrics.Read(samples)
		p.heap = max(p.heap, float64(samples[0].Value.Uint64()))
		p.goroutines = max(p.goroutines, float64(samples[1].Value.Uint64()))
	}
	look()
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		t := time.NewTicker(sampleEvery)
		defer t.Stop()
		for {
			select {
			case <-t.C:
				look()
			case <-quit:
				look()
				return
			}
		}
	}()
	return func() { close(quit); <-done }
}
