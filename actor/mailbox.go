package actor

import (
	"slices"
	"sync"
)

// kept is how many messages a mailbox has room for while its actor is parked. Above the batches that a few hundred busy producers make,
// so that these never allocate; what a burst grew beyond it goes back to the collector.
const kept = 1024

// mailbox is a queue of many producers and one consumer. Two slices swap roles: producers fill one while the consumer works through the
// other, so the lock is held for an append or a swap only.
type mailbox[T any] struct {
	mu     sync.Mutex
	in     []T  // posted, not yet taken
	idle   bool // the consumer found nothing and parks: the next post must signal
	closed bool

	wake  chan struct{} // one buffered wake-up; they may be spurious, they are never lost
	spare []T           // the consumer's: empty, becomes in at the next swap
}

func (m *mailbox[T]) put(x T) bool {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return false
	}
	if len(m.in) == cap(m.in) {
		m.grow(1)
	}
	m.in = append(m.in, x)
	idle := m.idle
	m.idle = false
	m.mu.Unlock()
	if idle {
		m.signal()
	}
	return true
}

func (m *mailbox[T]) putAll(xs []T) bool {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return false
	}
	if len(xs) > cap(m.in)-len(m.in) {
		m.grow(len(xs))
	}
	m.in = append(m.in, xs...)
	idle := m.idle && len(xs) > 0
	m.idle = m.idle && !idle
	m.mu.Unlock()
	if idle {
		m.signal()
	}
	return true
}

// grow makes room for n more, doubling at least: append alone would copy a burst several times over, with the lock held.
func (m *mailbox[T]) grow(n int) {
	m.in = slices.Grow(m.in, max(n, len(m.in), 16))
}

// signal wakes the consumer. A wake-up that is already waiting for it serves as well: it looks at everything when it comes.
func (m *mailbox[T]) signal() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

func (m *mailbox[T]) close() {
	m.mu.Lock()
	m.closed = true
	idle := m.idle
	m.idle = false
	m.mu.Unlock()
	if idle {
		m.signal()
	}
}

// take hands over what was posted; open is false when there is nothing and never will be. If there is nothing and the caller is to park,
// the next post is made to signal. The batch goes back by reuse. For the consumer only, like reuse.
func (m *mailbox[T]) take(park bool) (batch []T, open bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.in) > 0 {
		batch, m.in, m.spare = m.in, m.spare, nil
		return batch, true // idle is false: whoever posted saw to that
	}
	if m.closed {
		return nil, false
	}
	m.idle = park
	if park && cap(m.in) > kept {
		m.in = nil
	}
	if park && cap(m.spare) > kept {
		m.spare = nil
	}
	return nil, true
}

// reuse takes a handled batch back, cleared, so that the mailbox keeps nothing alive that was handled.
func (m *mailbox[T]) reuse(batch []T) {
	if cap(batch) > 0 {
		clear(batch)
		m.spare = batch[:0]
	}
}
