package main

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/lockmgr"
)

// A shift is what the processes do together.
type shift struct {
	out       io.Writer
	name      string // of the lock
	processes []*process
	deadly    bool // the next process that runs the job dies at work

	mu    sync.Mutex
	begun int                // how often the job was begun
	runs  map[time.Time]bool // the ledger, which stands for a table with the primary key (job, slot)
}

// once runs the job of a slot in one of the processes that call once. The others wait, also while
// the server is away. When the runner dies or fails, the next one runs the job.
//
// The end of the slot ends the waits. So nobody takes over if the runner dies within the last lease
// of the slot. If that matters, ask the ledger for the slot before, too.
//
// The job ends with ctx. If ctx ends at SIGTERM, and the job is to end in peace, derive waiting
// from ctx, and give Lead another context.
//
// With slots by time.Truncate, all processes have the same slots. Truncate counts from midnight in
// UTC. A job at a local time of the day needs its own rule.
func (s *shift) once(ctx context.Context, p *process, slot time.Time) error {
	waiting, cancel := context.WithDeadline(ctx, slot.Add(interval)) // ends the wait, not the job
	defer cancel()
	return p.mgr.Lead(ctx, s.name, func(ctx context.Context, term int64) error {
		if s.done(slot) {
			return nil // another process has run the job
		}
		if err := s.job(ctx, p, slot); err != nil {
			return err // the next process that waits tries
		}
		s.finish(slot)
		return nil
	}, lockmgr.WaitContext(waiting))
}

// job is the work of a slot.
func (s *shift) job(ctx context.Context, p *process, slot time.Time) error {
	s.mu.Lock()
	s.begun++
	fmt.Fprintf(s.out, "  process %d begins the job, %.1f s after the start of the interval\n", p.id, time.Since(slot).Seconds())
	dies := s.deadly
	s.deadly = false
	s.mu.Unlock()
	if dies {
		fmt.Fprintf(s.out, "  process %d dies at work\n", p.id)
		p.kill()
		<-ctx.Done() // the lock is lost
		return context.Cause(ctx)
	}
	return wait(ctx, 100*time.Millisecond)
}

// done is, in SQL: SELECT count(*) > 0 FROM runs WHERE job = 'report' AND slot = $1.
func (s *shift) done(slot time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.runs[slot]
}

// finish is, in SQL: INSERT INTO runs (job, slot) VALUES ('report', $1) ON CONFLICT DO NOTHING.
func (s *shift) finish(slot time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runs[slot] = true
	fmt.Fprintln(s.out, "  the ledger has the run")
}
