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
// that exists only while there are values. put never blocks: while limit values wait, further
// values are dropped and counted.
type dispatcher[T any] struct {
	deliver func(T)
	// dropped makes the value that reports n dropped values, and takes their place in the order.
	dropped func(n uint64) T
	limit   int

	mu      sync.Mutex
	queue   []T
	taken   int    // values that run has taken and not delivered
	missing uint64 // dropped since the last report of it
	total   uint64 // dropped so far
	running bool
	closed  bool
	idle    chan struct{} // closed when closed is set and run has ended
}

func newDispatcher[T any](deliver func(T), dropped func(n uint64) T) *dispatcher[T] {
	return &dispatcher[T]{deliver: deliver, dropped: dropped, limit: maxUndelivered, idle: make(chan struct{})}
}

// put queues a value, or drops it. put never blocks.
func (d *dispatcher[T]) put(v T) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return
	}
	if len(d.queue)+d.taken >= d.limit {
		d.missing++
		d.total++
		return
	}
	d.report()
	d.queue = append(d.queue, v)
	if !d.running {
		d.running = true
		go d.run()
	}
}

// report queues the number of values dropped since the last report.
func (d *dispatcher[T]) report() {
	if d.missing > 0 {
		d.queue = append(d.queue, d.dropped(d.missing))
		d.missing = 0
	}
}

// run delivers values until there are none.
func (d *dispatcher[T]) run() {
	var batch []T
	for {
		if batch = d.take(batch); len(batch) == 0 {
			return
		}
		for i, v := range batch {
			d.deliver(v)
			var zero T
			batch[i] = zero
			if d.delivered() {
				return
			}
		}
	}
}

// take exchanges an empty batch for all queued values. take returns an empty batch when run is to
// end.
func (d *dispatcher[T]) take(empty []T) []T {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.queue) == 0 {
		d.report()
	}
	batch := d.queue
	d.queue, d.taken = empty[:0], len(batch)
	if len(batch) == 0 {
		d.end()
	}
	return batch
}

// delivered counts a value of the batch as delivered, and reports whether run is to end because the
// rest was discarded.
func (d *dispatcher[T]) delivered() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.taken == 0 {
		d.end()
		return true
	}
	d.taken--
	return false
}

func (d *dispatcher[T]) end() {
	d.running, d.queue = false, nil
	if d.closed {
		close(d.idle)
	}
}

// finish refuses further values and waits until all accepted values have been delivered. If ctx
// ends first, finish drops the queued values.
func (d *dispatcher[T]) finish(ctx context.Context) {
	d.mu.Lock()
	d.closed = true
	if !d.running {
		close(d.idle)
	}
	d.mu.Unlock()
	select {
	case <-d.idle:
	case <-ctx.Done():
		d.mu.Lock()
		d.queue, d.taken, d.missing = nil, 0, 0
		d.mu.Unlock()
	}
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
