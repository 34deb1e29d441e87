package main

import (
	"fmt"
	"sync"
)

// A store is what the lock protects. It is the store, not the lock, that can refuse a writer who
// was overtaken without noticing: it remembers the largest fencing token that it has seen. In a
// database that is one column and one condition: UPDATE … SET token = $1 … WHERE token <= $1.
type store struct {
	mu     sync.Mutex
	newest int64
}

func (s *store) write(token int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if token < s.newest {
		return fmt.Errorf("stale: token %d, but %d has written since", token, s.newest)
	}
	s.newest = token
	return nil
}
