package lockmgr

import (
	"context"
	"sync"
)

// callbacks runs the callbacks of futures in order and never concurrently, on a goroutine that
// exists only while there are callbacks. Unlike a dispatcher, callbacks has no bound, accepts
// callbacks after Close and drops no callback: a callback may own a lock that nobody else can
// unlock.
type callbacks struct {
	mu      sync.Mutex
	queue   []func()
	head    int // queue[:head] has been taken by run
	running bool
	idle    chan struct{} // if not nil, closed when run ends
}

// maxSpare bounds the capacity that an empty queue keeps.
const maxSpare = 64

// put queues a callback. put never blocks.
func (c *callbacks) put(run func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(c.queue); n == cap(c.queue) && c.head > n/2 { // reuse the front
		left := copy(c.queue, c.queue[c.head:])
		clear(c.queue[left:])
		c.queue, c.head = c.queue[:left], 0
	}
	c.queue = append(c.queue, run)
	if !c.running {
		c.running = true
		go c.run()
	}
}

// run calls callbacks until there are none. If a callback ends the goroutine by runtime.Goexit,
// another goroutine calls the rest.
func (c *callbacks) run() {
	ended := false
	defer func() {
		if !ended {
			go c.run()
		}
	}()
	for f := c.next(); f != nil; f = c.next() {
		f()
	}
	ended = true
}

// next takes the oldest callback. next returns nil when run is to end.
func (c *callbacks) next() func() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.head < len(c.queue) {
		f := c.queue[c.head]
		c.queue[c.head] = nil
		c.head++
		return f
	}
	c.queue, c.head, c.running = c.queue[:0], 0, false
	if cap(c.queue) > maxSpare {
		c.queue = nil
	}
	if c.idle != nil {
		close(c.idle)
		c.idle = nil
	}
	return nil
}

// wait blocks until all callbacks have returned or ctx ends.
func (c *callbacks) wait(ctx context.Context) {
	c.mu.Lock()
	if !c.running {
		c.mu.Unlock()
		return
	}
	if c.idle == nil {
		c.idle = make(chan struct{})
	}
	idle := c.idle
	c.mu.Unlock()
	select {
	case <-idle:
	case <-ctx.Done():
	}
}
