package locktest

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// A stream carries bytes in one direction of a connection. It has no size limit, so a write never
// blocks.
type stream struct {
	mu       sync.Mutex
	chunks   []chunk
	held     bool          // reads wait, and nothing is lost
	lost     bool          // reads wait, and written bytes are dropped
	ended    bool          // the writer has closed: io.EOF after the chunks
	err      error         // if set, reads and writes fail at once
	deadline time.Time     // of reads
	changed  chan struct{} // closed by the next change
}

// A chunk is what one write sent. A read gets it from due on.
type chunk struct {
	data []byte
	due  time.Time
}

func newStream(held bool) *stream { return &stream{held: held, changed: make(chan struct{})} }

// change calls f and wakes the reader.
func (s *stream) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	close(s.changed)
	s.changed = make(chan struct{})
}

// write queues a copy of b. It arrives after delay, and not before earlier chunks.
func (s *stream) write(b []byte, delay time.Duration) (n int, err error) {
	s.change(func() {
		switch {
		case s.err != nil:
			err = s.err
		case s.ended:
			err = net.ErrClosed
		case s.lost || len(b) == 0:
			n = len(b)
		default:
			due := time.Now().Add(delay)
			if k := len(s.chunks); k > 0 && s.chunks[k-1].due.After(due) {
				due = s.chunks[k-1].due
			}
			s.chunks = append(s.chunks, chunk{append([]byte(nil), b...), due})
			n = len(b)
		}
	})
	return n, err
}

// read blocks until there are bytes, the stream ends, or the deadline passes.
func (s *stream) read(b []byte) (int, error) {
	for {
		n, changed, next, err := s.poll(b)
		if n > 0 || err != nil {
			return n, err
		}
		await(changed, next)
	}
}

// poll reads without blocking. If there is nothing to read, it returns a channel that is closed by
// the next change, and the instant of the next event if there is one.
func (s *stream) poll(b []byte) (n int, changed <-chan struct{}, next time.Time, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	switch {
	case s.err != nil:
		return 0, nil, next, s.err
	case !s.deadline.IsZero() && !now.Before(s.deadline):
		return 0, nil, next, os.ErrDeadlineExceeded
	}
	next = s.deadline
	if s.held || s.lost {
		return 0, s.changed, next, nil
	}
	if len(s.chunks) == 0 {
		if s.ended {
			return 0, nil, next, io.EOF
		}
		return 0, s.changed, next, nil
	}
	first := &s.chunks[0]
	if now.Before(first.due) {
		if next.IsZero() || first.due.Before(next) {
			next = first.due
		}
		return 0, s.changed, next, nil
	}
	n = copy(b, first.data)
	first.data = first.data[n:]
	if len(first.data) == 0 {
		s.chunks = s.chunks[1:]
	}
	return n, nil, next, nil
}

// await waits for a change, or for an instant that is not zero.
func await(changed <-chan struct{}, next time.Time) {
	if next.IsZero() {
		<-changed
		return
	}
	timer := time.NewTimer(time.Until(next))
	defer timer.Stop()
	select {
	case <-changed:
	case <-timer.C:
	}
}

func (s *stream) hold(held bool)          { s.change(func() { s.held = held }) }
func (s *stream) end()                    { s.change(func() { s.ended = true }) }
func (s *stream) setDeadline(t time.Time) { s.change(func() { s.deadline = t }) }

// lose drops the bytes on their way and all that follow.
func (s *stream) lose() { s.change(func() { s.lost, s.chunks = true, nil }) }

// fail ends the stream at once, unless it has failed before.
func (s *stream) fail(err error) {
	s.change(func() {
		if s.err == nil {
			s.err, s.chunks = err, nil
		}
	})
}

// A pair is a connection in memory.
type pair struct{ up, down *stream }

// reset breaks the connection: both sides see the error of a reset.
func (p pair) reset() { p.up.fail(syscall.ECONNRESET); p.down.fail(syscall.ECONNRESET) }

func (p pair) hold(held bool) { p.up.hold(held); p.down.hold(held) }

func (p pair) lose() { p.up.lose(); p.down.lose() }
