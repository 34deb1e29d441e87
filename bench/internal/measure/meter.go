package measure

import (
	"runtime"
	"runtime/metrics"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/bench/internal/server"
)

// A meter reads what a stretch of work costs this process and the server.
type meter struct {
	b      *bench
	began  time.Time
	cpu    time.Duration
	allocs uint64
	bytes  uint64
	before server.Snapshot
	peak   *peak
}

// A cost is what the meter read.
type cost struct {
	took          time.Duration
	cpu           time.Duration // of this process, user and system
	allocs, bytes float64
	server        server.Counters
	heap          float64 // bytes, the largest seen
	goroutines    float64
}

const sampleEvery = 2 * time.Millisecond

// start begins a stretch. The garbage of what came before is not part of it. Looking for peaks
// costs CPU, which only a short stretch of hard work hides.
func (b *bench) start(peaks bool) (*meter, error) {
	m := &meter{b: b}
	runtime.GC()
	if b.conn != nil {
		var err error
		if m.before, err = b.conn.Snapshot(); err != nil {
			return nil, err
		}
	}
	if peaks {
		m.peak = watchPeak()
	}
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	m.allocs, m.bytes = mem.Mallocs, mem.TotalAlloc
	m.cpu, m.began = cpuTime(), time.Now()
	return m, nil
}

func (m *meter) stop() (cost, error) {
	c := cost{took: time.Since(m.began), cpu: cpuTime() - m.cpu}
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	c.allocs, c.bytes = float64(mem.Mallocs-m.allocs), float64(mem.TotalAlloc-m.bytes)
	if m.peak != nil {
		c.heap, c.goroutines = m.peak.stop()
	}
	if m.b.conn != nil {
		after, err := m.b.conn.Snapshot()
		if err != nil {
			return c, err
		}
		c.server = after.Since(m.before)
	}
	return c, nil
}

// abandon ends a meter whose reading nobody wants.
func (m *meter) abandon() {
	if m.peak != nil {
		m.peak.stop()
	}
}

// A peak samples heap and goroutines from a goroutine of its own.
type peak struct {
	quit, done chan struct{}
	once       sync.Once
	samples    []metrics.Sample
	heap       float64
	goroutines float64
}

func watchPeak() *peak {
	p := &peak{quit: make(chan struct{}), done: make(chan struct{})}
	p.samples = []metrics.Sample{
		{Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/sched/goroutines:goroutines"},
	}
	p.look()
	go func() {
		defer close(p.done)
		t := time.NewTicker(sampleEvery)
		defer t.Stop()
		for {
			select {
			case <-t.C:
				p.look()
			case <-p.quit:
				return
			}
		}
	}()
	return p
}

func (p *peak) look() {
	metrics.Read(p.samples)
	p.heap = max(p.heap, float64(p.samples[0].Value.Uint64()))
	p.goroutines = max(p.goroutines, float64(p.samples[1].Value.Uint64()))
}

func (p *peak) stop() (heap, goroutines float64) {
	p.once.Do(func() {
		close(p.quit)
		<-p.done
		p.look()
	})
	return p.heap, p.goroutines
}
