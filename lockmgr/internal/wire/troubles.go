package wire

import (
	"sync"
	"sync/atomic"
	"time"
)

// slotTroubles are the failures that concern one slot of a cluster, and not the server that was asked. The
// slot is being moved, no master serves it, or the master that another one names does not answer. The
// error of a wait that ends meanwhile says so.
type slotTroubles struct {
	mu  sync.Mutex
	of  map[int]slotTrouble
	len atomic.Int32 // of the map
}

type slotTrouble struct {
	*Failure
	at time.Duration
}

// note notes the end of an operation in a slot. f is nil if the operation was answered. anywhere says that it
// was sent to another master than that of the layout.
func (s *slotTroubles) note(slot int, now time.Duration, f *Failure, anywhere bool) {
	failed := f != nil && f.Kind == Unavailable
	if !failed && s.len.Load() == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !failed:
		delete(s.of, slot)
	case f.Scattered || anywhere:
		if s.of == nil {
			s.of = make(map[int]slotTrouble)
		}
		s.of[slot] = slotTrouble{f, now}
	}
	s.len.Store(int32(len(s.of)))
}

// failing returns why a wait in a slot from asked to now could not be served, or nil.
func (s *slotTroubles) failing(slot int, asked, now time.Duration) *Failure {
	if s.len.Load() == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.of[slot]
	if f.Failure == nil || f.at < asked && now-f.at > rememberFailure {
		return nil
	}
	return f.Failure
}
