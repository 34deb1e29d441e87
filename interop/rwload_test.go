package interop

import (
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/lockmgr"
)

const (
	rwWrites  = 1500
	rwReads   = 750 // of each side
	rwWorkers = 2   // readers, and writers, of each side
)

// Readers and writers of both sides. Writers add to a counter by a GET and a SET. Readers see that
// it stays as it is, and that nobody is inside to write.
func TestReadWrite_MixedGrants(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		// A thread of Java that misses the message of a writer sleeps for a lease: see
		// startJavaSleep.
		const lease = 3 * time.Second
		m, java := w.manager(t, withLease(lease)), w.open(t, request{Watchdog: lease.Milliseconds()})
		s := &rwLoad{counter: w.counter(t, rwWrites), readers: t.Name() + " readers"}
		begin := time.Now()
		load := s.request(t.Name(), rwWorkers)
		load.Readers = s.readers
		theirWrites := java.thread("write").writes().sendRequest(t, load)
		load.Limit = rwReads
		theirReads := java.thread("read").reads().sendRequest(t, load)

		s.first.Store(math.MaxInt64)
		var wg sync.WaitGroup
		for range rwWorkers {
			wg.Go(func() {
				again(t, func() (*lockmgr.Lock, error) { return m.Lock(t.Context(), t.Name(), writing) }, s.write)
			})
			wg.Go(func() {
				again(t, func() (*lockmgr.Lock, error) { return m.Lock(t.Context(), t.Name(), reading) }, s.read)
			})
		}
		wg.Wait()
		writes, reads := theirWrites.report(t), theirReads.report(t)
		t.Logf("writes: %d of Go, %d of Java; reads: %d of Go, %d of Java; in %.1f s; "+
			"%d writes were seen between the first read of Go and the last; longest wait of Java: writers %.2f s, readers %.2f s",
			s.grants.Load(), writes.Grants, s.reads.Load(), reads.Grants, time.Since(begin).Seconds(),
			s.last.Load()-s.first.Load(), float64(writes.Longest)/1000, float64(reads.Longest)/1000)
		require.Empty(t, reads.Errors)
		require.Zero(t, reads.Overlaps, "overlaps")
		s.requireExact(t, writes)
		require.EqualValues(t, 2*rwReads, s.reads.Load()+reads.Grants)
		require.Positive(t, s.grants.Load())
		require.Positive(t, writes.Grants)
		require.Greater(t, s.last.Load(), s.first.Load(), "no writer came between readers")
		require.Zero(t, w.number(t, s.readers))
	})
}

// An rwLoad counts what writers do, and looks on for readers.
type rwLoad struct {
	*counter
	readers string // counts those who look on

	reads       atomic.Int64
	first, last atomic.Int64 // what the first reader and the last found in the counter
}

func (s *rwLoad) write() (more bool, err error) {
	n, err := s.do("GET", s.readers)
	if err != nil {
		return false, err
	}
	if n != 0 {
		s.overlaps.Add(1)
	}
	return s.count()
}

func (s *rwLoad) read() (more bool, err error) {
	var answers [5]int64
	for i, command := range [][]string{
		{"INCR", s.readers}, {"GET", s.key}, {"GET", s.inside}, {"GET", s.key}, {"DECR", s.readers},
	} {
		if answers[i], err = s.do(command...); err != nil {
			return false, err
		}
	}
	before, writers, after := answers[1], answers[2], answers[3]
	if writers != 0 || before != after {
		s.overlaps.Add(1)
	}
	if s.reads.Add(1) > rwReads {
		s.reads.Add(-1)
		return false, nil
	}
	for old := s.first.Load(); before < old && !s.first.CompareAndSwap(old, before); old = s.first.Load() {
	}
	for old := s.last.Load(); before > old && !s.last.CompareAndSwap(old, before); old = s.last.Load() {
	}
	return true, nil
}
