package actor

import "sync"

// kept is the room, in messages, that a mailbox keeps while its actor is parked. A few hundred busy
// producers make smaller batches, and so never allocate. Room for a larger burst goes back to the
// collector.
const kept = 1024

// mailbox is a queue of many producers and one consumer. Two slices swap roles: producers fill the
// first while the consumer works through the second, so the mutex is held for an append or a swap
// only. Urgent messages have two slices of their own.
type mailbox[T any] struct {
	mu         sync.Mutex
	in, urgent []T  // posted, not yet taken
	idle       bool // the consumer found nothing and parks: the next post must signal
	closed     bool

	wake chan struct{} // one buffered wake-up; they may be spurious, they are never lost
	// Only the consumer uses these. Both are empty, and become in and urgent at the next swap.
	spare, spareUrgent []T
}

func (m *mailbox[T]) put(x T) bool       { return m.add(&m.in, x) }
func (m *mailbox[T]) putUrgent(x T) bool { return m.add(&m.urgent, x) }

func (m *mailbox[T]) add(queue *[]T, x T) bool {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return false
	}
	if len(*queue) == cap(*queue) {
		grow(queue)
	}
	*queue = append(*queue, x)
	idle := m.idle
	m.idle = false
	m.mu.Unlock()
	if idle {
		m.signal()
	}
	return true
}

// grow doubles the room. append grows large slices by less, and would copy a burst several times
// over with the mutex held.
func grow[T any](queue *[]T) {
	*queue = append(make([]T, 0, max(2*len(*queue), 16)), *queue...)
}

// signal wakes the consumer. A wake-up already waiting for the consumer serves as well: the
// consumer looks at everything.
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

// take hands over the posted messages. open is false when there is nothing and never will be. If
// there is nothing and park is set, the next post signals. The slices go back by reuse and
// reuseUrgent. Only the consumer calls take, takeUrgent, reuse and reuseUrgent.
func (m *mailbox[T]) take(park bool) (urgent, messages []T, open bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	urgent = m.swapUrgent()
	if len(m.in) > 0 {
		messages, m.in, m.spare = m.in, m.spare, nil
	}
	if len(urgent)+len(messages) > 0 {
		return urgent, messages, true // idle is false: add has cleared it
	}
	if m.closed {
		return nil, nil, false
	}
	m.idle = park
	if park {
		for _, queue := range [...]*[]T{&m.in, &m.urgent, &m.spare, &m.spareUrgent} {
			if cap(*queue) > kept {
				*queue = nil
			}
		}
	}
	return nil, nil, true
}

// takeUrgent hands over the urgent messages alone.
func (m *mailbox[T]) takeUrgent() []T {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.swapUrgent()
}

func (m *mailbox[T]) swapUrgent() (urgent []T) {
	if len(m.urgent) > 0 {
		urgent, m.urgent, m.spareUrgent = m.urgent, m.spareUrgent, nil
	}
	return urgent
}

// reuse takes handled messages back, cleared, so that the mailbox keeps no handled message alive.
func (m *mailbox[T]) reuse(messages []T) {
	if cap(messages) > 0 {
		clear(messages)
		m.spare = messages[:0]
	}
}

// reuseUrgent is reuse for urgent messages.
func (m *mailbox[T]) reuseUrgent(messages []T) {
	clear(messages)
	m.spareUrgent = messages[:0]
}
