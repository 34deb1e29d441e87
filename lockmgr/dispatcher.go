package lockmgr

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// maxUndelivered bounds the undelivered events, and the undelivered log lines.
const maxUndelivered = 1 << 14

// deliverTime is how long Close waits for the observer, the log handler and callbacks if the
// context of Close allows.
const deliverTime = 2 * time.Second

// A dispatcher passes values to a user's function, in order and never concurrently, on a goroutine
// that exists only while there are values.
type dispatcher[T any] struct {
	deliver func(T)
	// dropped makes the value that reports n dropped values, and takes their place in the order.
	dropped func(n uint64) T
	limit   int // while limit values wait, further values are dropped and counted; zero: no limit

	mu      sync.Mutex
	queue   []T
	head    int    // queue[:head] has been taken by run
	taken   int    // 1 while a value is being delivered
	missing uint64 // dropped since the last report of it
	total   uint64 // dropped so far
	running bool
	closed  bool
	idle    chan struct{} // if not nil, closed when run ends
}

// maxSpare bounds the capacity that an empty queue keeps.
const maxSpare = 64

func newDispatcher[T any](deliver func(T), dropped func(n uint64) T) *dispatcher[T] {
	return &dispatcher[T]{deliver: deliver, dropped: dropped, limit: maxUndelivered}
}

// newCallbacks returns a dispatcher for the callbacks of futures. Callbacks have no limit and are
// accepted after Close: a callback may own a lock that nobody else can unlock.
func newCallbacks() *dispatcher[func()] {
	return &dispatcher[func()]{deliver: func(callback func()) { callback() }}
}

// put queues a value, or drops it. put never blocks.
func (d *dispatcher[T]) put(v T) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.closed:
		return
	case d.limit > 0 && len(d.queue)-d.head+d.taken >= d.limit:
		d.missing++
		d.total++
		return
	}
	d.report()
	d.add(v)
	if !d.running {
		d.running = true
		go d.run()
	}
}

func (d *dispatcher[T]) add(v T) {
	if n := len(d.queue); n == cap(d.queue) && d.head > n/2 { // reuse the front
		left := copy(d.queue, d.queue[d.head:])
		clear(d.queue[left:])
		d.queue, d.head = d.queue[:left], 0
	}
	d.queue = append(d.queue, v)
}

// report queues the number of values dropped since the last report.
func (d *dispatcher[T]) report() {
	if d.missing > 0 {
		d.add(d.dropped(d.missing))
		d.missing = 0
	}
}

// run delivers values until there are none. If a delivery ends the goroutine by runtime.Goexit,
// another goroutine delivers the rest.
func (d *dispatcher[T]) run() {
	ended := false
	defer func() {
		if !ended {
			go d.run()
		}
	}()
	for v, ok := d.next(); ok; v, ok = d.next() {
		d.deliver(v)
	}
	ended = true
}

// next takes the oldest value. ok is false when run is to end.
func (d *dispatcher[T]) next() (v T, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.head == len(d.queue) {
		d.report()
	}
	if d.head < len(d.queue) {
		v, d.queue[d.head] = d.queue[d.head], v // v is zero: the slot is cleared
		d.head, d.taken = d.head+1, 1
		return v, true
	}
	d.queue, d.head, d.taken, d.running = d.queue[:0], 0, 0, false
	if cap(d.queue) > maxSpare {
		d.queue = nil
	}
	if d.idle != nil {
		close(d.idle)
		d.idle = nil
	}
	return v, false
}

// wait blocks until all values have been delivered or ctx ends.
func (d *dispatcher[T]) wait(ctx context.Context) {
	d.mu.Lock()
	if !d.running {
		d.mu.Unlock()
		return
	}
	if d.idle == nil {
		d.idle = make(chan struct{})
	}
	idle := d.idle
	d.mu.Unlock()
	select {
	case <-idle:
	case <-ctx.Done():
	}
}

// finish refuses further values and waits until all accepted values have been delivered. If ctx
// ends first, finish drops the queued values.
func (d *dispatcher[T]) finish(ctx context.Context) {
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	d.wait(ctx)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.queue, d.head, d.missing = nil, 0, 0
}

// drops returns how many values were dropped so far.
func (d *dispatcher[T]) drops() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.total
}

// A logLine is a record on its way to a handler.
type logLine struct {
	handler slog.Handler
	record  slog.Record
}

// deliver hands the record to its handler.
func (l logLine) deliver() {
	ctx := context.Background()
	if l.handler.Enabled(ctx, l.record.Level) {
		_ = l.handler.Handle(ctx, l.record) // as slog.Logger does
	}
}

// newLineDispatcher returns a dispatcher of log lines. Drops are reported to handler.
func newLineDispatcher(handler slog.Handler) *dispatcher[logLine] {
	return newDispatcher(logLine.deliver, func(n uint64) logLine {
		r := slog.NewRecord(time.Now(), slog.LevelWarn, "log lines were dropped: the log handler is too slow", 0)
		r.Add("dropped", n)
		return logLine{handler, r}
	})
}

// A queuedHandler is a slog.Handler that never blocks: the records go to next on the dispatcher's
// goroutine.
type queuedHandler struct {
	lines *dispatcher[logLine]
	next  slog.Handler
}

// Enabled reports true: next is not asked before delivery, as next may block.
func (h queuedHandler) Enabled(context.Context, slog.Level) bool { return true }

func (h queuedHandler) Handle(_ context.Context, r slog.Record) error {
	h.lines.put(logLine{h.next, r.Clone()})
	return nil
}

func (h queuedHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return queuedHandler{h.lines, h.next.WithAttrs(attrs)}
}

func (h queuedHandler) WithGroup(name string) slog.Handler {
	return queuedHandler{h.lines, h.next.WithGroup(name)}
}
