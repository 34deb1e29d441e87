package interop

import (
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
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
		name, counter, inside, readers := t.Name(), t.Name()+" counter", t.Name()+" inside", t.Name()+" readers"
		// A thread of Java that misses the message of a writer sleeps for a lease: see
		// startJavaSleep.
		const lease = 3 * time.Second
		g, java := w.goSide(t, withLease(lease)), w.open(t, request{Watchdog: lease.Milliseconds()})
		begin := time.Now()
		load := request{Op: "grants", Name: name, Threads: rwWorkers, Counter: counter, Inside: inside, Readers: readers}
		load.Limit = rwWrites
		theirWrites := java.thread("write").writes().sendRequest(t, load)
		load.Limit = rwReads
		theirReads := java.thread("read").reads().sendRequest(t, load)

		s := &rwLoad{world: w, m: g.Manager, name: name, counter: counter, inside: inside, readers: readers}
		s.run(t)
		writes, reads := theirWrites.report(t), theirReads.report(t)
		require.Empty(t, append(writes.Errors, reads.Errors...))
		overlaps := s.overlaps.Load() + writes.Overlaps + reads.Overlaps
		t.Logf("writes: %d of Go, %d of Java; reads: %d of Go, %d of Java; in %.1f s: %d overlaps, %d lost updates; "+
			"%d writes were seen between the first read of Go and the last; longest wait of Java: writers %.2f s, readers %.2f s",
			s.writes.Load(), writes.Grants, s.reads.Load(), reads.Grants, time.Since(begin).Seconds(), overlaps,
			s.writes.Load()+writes.Grants-rwWrites, s.last.Load()-s.first.Load(), float64(writes.Longest)/1000, float64(reads.Longest)/1000)
		require.Zero(t, overlaps, "overlaps")
		require.EqualValues(t, rwWrites, s.writes.Load()+writes.Grants, "lost updates")
		require.EqualValues(t, 2*rwReads, s.reads.Load()+reads.Grants)
		require.Positive(t, s.writes.Load())
		require.Positive(t, writes.Grants)
		require.Greater(t, s.last.Load(), s.first.Load(), "no writer came between readers")
		require.EqualValues(t, rwWrites, w.number(t, counter))
		require.Zero(t, w.number(t, inside))
		require.Zero(t, w.number(t, readers))
	})
}

// An rwLoad is Go's part of it. Load.java is Java's.
type rwLoad struct {
	*world
	m                              *lockmgr.Manager
	name, counter, inside, readers string

	reads, writes, overlaps atomic.Int64
	first, last             atomic.Int64 // what the first reader and the last found in the counter
}

func (s *rwLoad) run(t *testing.T) {
	var wg sync.WaitGroup
	work := func(side lockmgr.LockOption, do func() (more bool, err error)) {
		for more := true; more && !t.Failed(); {
			l, err := s.m.Lock(t.Context(), s.name, side)
			if err != nil {
				t.Errorf("Lock: %v", err)
				return
			}
			if more, err = do(); err != nil {
				t.Errorf("inside the lock: %v", err)
			}
			if err := l.Unlock(t.Context()); err != nil {
				t.Errorf("Unlock: %v", err)
			}
		}
	}
	s.first.Store(math.MaxInt64)
	for range rwWorkers {
		wg.Go(func() { work(writing, s.write) })
		wg.Go(func() { work(reading, s.read) })
	}
	wg.Wait()
}

// do runs a command whose answer is a number, or nothing, which is zero.
func (s *rwLoad) do(command ...string) (int64, error) {
	n, err := s.redis.Do(background, s.redis.B().Arbitrary(command...).Build()).AsInt64()
	if rueidis.IsRedisNil(err) {
		return 0, nil
	}
	return n, err
}

func (s *rwLoad) write() (more bool, err error) {
	n, err := s.do("GET", s.readers)
	if err != nil {
		return false, err
	}
	alone, more, err := s.count(s.counter, s.inside, rwWrites)
	if !alone || n != 0 {
		s.overlaps.Add(1)
	}
	if more {
		s.writes.Add(1)
	}
	return more, err
}

func (s *rwLoad) read() (more bool, err error) {
	var answers [5]int64
	for i, command := range [][]string{
		{"INCR", s.readers}, {"GET", s.counter}, {"GET", s.inside}, {"GET", s.counter}, {"DECR", s.readers},
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
