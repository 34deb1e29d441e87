package renewal_test

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/renewal"
)

// BenchmarkHop measures the calls of the Map in one turn of a lock manager that holds 256 locks:
// Due, the release of a lock, the grant of another, and Next.
func BenchmarkHop(b *testing.B) {
	b.ReportAllocs()
	const tick = 10 * s
	m := renewal.NewMap[*lease](tick)
	leases := make([]lease, 256)
	for i := range leases {
		m.Schedule(&leases[i], 0, tick)
	}
	var due []*lease
	var next time.Duration
	now, i := time.Duration(0), 0
	for b.Loop() {
		now += time.Microsecond
		due = m.Due(now, due[:0])
		x := &leases[i%len(leases)]
		i++
		m.Remove(x)
		m.Schedule(x, now, now+tick)
		next, _ = m.Next()
	}
	_ = next
}

// BenchmarkRenew100k measures the cost per lease when 100,000 leases are due, an eighth of them at
// a time, and are scheduled again.
func BenchmarkRenew100k(b *testing.B) {
	b.ReportAllocs()
	const tick = 8 * s
	m := renewal.NewMap[*lease](tick)
	leases := make([]lease, 100_000)
	for i := range leases {
		m.Schedule(&leases[i], 0, time.Duration(i)*tick/time.Duration(len(leases)))
	}
	var due []*lease
	now, n := time.Duration(0), 0
	b.ResetTimer()
	for n < b.N {
		now += s
		due = m.Due(now, due[:0])
		for _, l := range due {
			m.Schedule(l, now, now+tick-1)
		}
		n += len(due)
	}
}
