package notify

// A queue is a FIFO of channels, linked through the channels themselves. A channel is in at most
// one queue and leaves the queue in constant time. So a channel whose watch opens and closes while
// the server is away leaves nothing behind, however often.
type queue struct {
	head, tail *channel
}

func (q *queue) empty() bool { return q.head == nil }

// push puts ch last. If ch is in a queue, ch leaves the old queue first.
func (q *queue) push(ch *channel) {
	ch.dequeue()
	ch.queued, ch.prev, ch.next = q, q.tail, nil
	if q.tail == nil {
		q.head = ch
	} else {
		q.tail.next = ch
	}
	q.tail = ch
}

// pop takes the first channel. The queue must not be empty.
func (q *queue) pop() *channel {
	ch := q.head
	ch.dequeue()
	return ch
}

// dequeue takes ch from its queue, if any.
func (ch *channel) dequeue() {
	q := ch.queued
	if q == nil {
		return
	}
	if ch.prev == nil {
		q.head = ch.next
	} else {
		ch.prev.next = ch.next
	}
	if ch.next == nil {
		q.tail = ch.prev
	} else {
		ch.next.prev = ch.prev
	}
	ch.queued, ch.prev, ch.next = nil, nil, nil
}
