package wire

import (
	"sync"
	"sync/atomic"
	"time"
)

// slotTroubles are the failures that concern one slot and do not mean that the asked server is
// silent. The slot of a cluster is being moved, no master serves the slot, or the master that
// another master names does not answer. Or the server, which may be a single one, answers and
// refuses writes. The error of a wait that ends meanwhile says so.
type slotTroubles struct {
	mu    sync.Mutex
	of    map[int]slotTrouble
	count atomic.Int32 // of the slots in trouble
}

type slotTrouble struct {
	failure *Failure
	at      time.Duration
}

// none reports whether no slot is in trouble. If so, only failures need be noted.
func (s *slotTroubles) none() bool { return s.count.Load() == 0 }

// note notes the end of an operation in a slot. f is nil if the operation was answered. detour is
// set if the operation was sent to another master than the layout's.
func (s *slotTroubles) note(slot int, now time.Duration, f *Failure, detour bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case f == nil || f.Kind != Unavailable && f.Kind != ReadOnly:
		delete(s.of, slot)
	case f.OnlyThis || detour || f.Kind == ReadOnly:
		if s.of == nil {
			s.of = make(map[int]slotTrouble)
		}
		s.of[slot] = slotTrouble{f, now}
	}
	s.count.Store(int32(len(s.of)))
}

// failing returns the failure for which a request in a slot, made at asked, is unanswered at now,
// or nil.
func (s *slotTroubles) failing(slot int, asked, now time.Duration) *Failure {
	s.mu.Lock()
	defer s.mu.Unlock()
	last, known := s.of[slot]
	if !known || last.at < asked && now-last.at > rememberFailure {
		return nil
	}
	return last.failure
}
