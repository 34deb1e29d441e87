package lockmgr

import (
	"context"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
)

// server is what the executor needs of a client.
type server interface {
	// exec runs the commands in one batch and fills in an answer for each.
	// Each round trip has the time-out of limit. A command without an answer
	// may have run.
	exec(limit *deadline, commands []command, answers []answer)
}

// senders is the number of senders. Two keep a connection busy: one batch is on
// its way while the next is filled. More would make smaller batches, and could
// fill the client's queue, where waiting ignores contexts.
const senders = 2

// maxBatch is the most tasks of one batch. Larger ones gain no throughput and
// make each answer wait for the last.
const maxBatch = 256

// minSecond is the queue length at which a second batch is sent while one is in
// flight. Fewer tasks wait for the next batch: a small one of their own would
// cost the server and us a system call each way.
const minSecond = 48

// A task is something to be executed: an op, a renewal or a call.
type task struct {
	op      *core.Op
	renewal *core.Renewal
	call    *call
}

// A call is a script, or a plain command, that does not concern the core.
type call struct {
	command command
	done    func(answer) // must not block
}

// executor turns effects into batches of scripts and answers into events.
// Each op and renewal that is taken gets exactly one answer.
type executor struct {
	id      *identity
	server  server
	timeout time.Duration
	answer  func(core.Event)   // must not block
	events  *dispatcher[Event] // to the observer; nil without one

	now func() time.Duration

	mu     sync.Mutex
	filled *sync.Cond // there is work for a sender, or closed is set
	// urgent holds renewals, transfers, looks and releases. They go before
	// acquires, so that a burst cannot delay a renewal past its lease.
	urgent, queue []task
	sending       int // senders that have a batch under way
	closed        bool

	stop context.CancelFunc // cuts off what is in flight
	ctx  context.Context
	wg   sync.WaitGroup
}

func newExecutor(id *identity, s server, timeout time.Duration, now func() time.Duration, post func(core.Event), events *dispatcher[Event]) *executor {
	x := &executor{id: id, server: s, timeout: timeout, now: now, answer: post, events: events}
	x.filled = sync.NewCond(&x.mu)
	x.sending = senders // until each has looked for its first batch
	x.ctx, x.stop = context.WithCancel(context.Background())
	for range senders {
		x.wg.Go(x.send)
	}
	return x
}

// submit queues tasks. It never blocks. After close it returns false.
func (x *executor) submit(tasks []task) bool {
	if len(tasks) == 0 {
		return true
	}
	x.mu.Lock()
	if x.closed {
		x.mu.Unlock()
		return false
	}
	for _, t := range tasks {
		if t.renewal != nil || t.op != nil && t.op.Kind != core.KindAcquire {
			x.urgent = append(x.urgent, t)
		} else {
			x.queue = append(x.queue, t)
		}
	}
	switch {
	case len(x.urgent)+len(x.queue) > maxBatch:
		x.filled.Broadcast()
	case x.worthSending():
		x.filled.Signal() // else the busy sender takes them next
	}
	x.mu.Unlock()
	return true
}

// take waits for tasks and moves up to maxBatch of them to out. It returns
// none when the executor is closed. The caller has finished its last batch.
func (x *executor) take(out []task) []task {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.sending--
	for !x.closed && !x.worthSending() {
		x.filled.Wait()
	}
	x.sending++
	out = move(out[:0], &x.urgent)
	return move(out, &x.queue)
}

// worthSending reports whether a sender should take a batch now.
func (x *executor) worthSending() bool {
	n := len(x.urgent) + len(x.queue)
	return n >= minSecond || n > 0 && x.sending == 0
}

// move takes tasks from the front of a queue until out has maxBatch of them.
func move(out []task, queue *[]task) []task {
	q := *queue
	n := min(len(q), maxBatch-len(out))
	out = append(out, q[:n]...)
	clear(q[:n])
	switch {
	case n < len(q):
		*queue = q[n:] // append drops the front when it next grows the slice
	case cap(q) > 16*maxBatch:
		*queue = nil // after a burst
	default:
		*queue = q[:0]
	}
	return out
}

// send sends batches until the executor is closed.
func (x *executor) send() {
	b := newBatch(x.id)
	limit := &deadline{parent: x.ctx, timeout: x.timeout}
	for {
		b.tasks = x.take(b.tasks)
		if len(b.tasks) == 0 {
			return
		}
		// Leases count from here: after the wait in our own queue, before the
		// client gets the command.
		b.build(x.now())
		if x.ctx.Err() != nil {
			b.refuse(ErrClosed) // a dial that hangs would block once for each batch
		} else {
			x.exec(limit, b, 0)
			if whole := len(b.commands); b.split() {
				x.exec(limit, b, whole)
			}
		}
		x.report(b)
		b.clear()
	}
}

// exec runs the commands of a batch from first on.
func (x *executor) exec(limit *deadline, b *batch, first int) {
	defer limit.finish()
	if x.events == nil {
		x.server.exec(limit, b.commands[first:], b.answers[first:])
		return
	}
	begin := time.Now()
	x.server.exec(limit, b.commands[first:], b.answers[first:])
	b.observe(x.events, first, begin)
}

// report posts the answers of a batch: all replies in one event.
func (x *executor) report(b *batch) {
	var replies *core.Replies
	for i, t := range b.tasks {
		if t.renewal != nil {
			x.answer(b.renewed(i))
			continue
		}
		a := b.answer(i)
		switch {
		case t.op != nil:
			if replies == nil {
				replies = repliesPool.Get().(*core.Replies)
			}
			replies.Replies = append(replies.Replies, a.reply(t.op))
		default:
			t.call.done(a)
		}
	}
	if replies != nil {
		x.answer(replies)
	}
}

// repliesPool holds events that the loop has handled.
var repliesPool = sync.Pool{New: func() any { return new(core.Replies) }}

func recycle(r *core.Replies) {
	clear(r.Replies)
	r.Replies = r.Replies[:0]
	repliesPool.Put(r)
}

// close refuses further tasks, cuts off what is in flight and waits for the
// senders. Tasks that are still queued are answered without being sent.
func (x *executor) close() {
	x.mu.Lock()
	x.closed = true
	x.filled.Broadcast()
	x.mu.Unlock()
	x.stop()
	x.wg.Wait()
}

// A deadline makes a context for each round trip. It reuses one that has not
// ended: a new one costs more than a batch of one command.
type deadline struct {
	parent  context.Context
	timeout time.Duration
	current *limit
}

// start returns a context that ends after the time-out, or with the parent. It
// finishes the one before: each round trip has a time-out of its own.
func (d *deadline) start() context.Context {
	d.finish()
	if d.current == nil {
		d.current = &limit{done: make(chan struct{})}
		d.current.timer = time.AfterFunc(d.timeout, d.current.end)
		d.current.unbind = context.AfterFunc(d.parent, d.current.end)
	} else {
		d.current.timer.Reset(d.timeout)
	}
	d.current.running = true
	return d.current
}

// finish ends the use of the context that start returned.
func (d *deadline) finish() {
	if d.current == nil || !d.current.running {
		return
	}
	d.current.running = false
	if !d.current.timer.Stop() || d.current.Err() != nil {
		d.current.unbind()
		d.current = nil // it has ended, or is about to
	}
}

// A limit is a context that ends after a time. Its Deadline is hidden from the
// client: some clients close their connection when one passes.
type limit struct {
	timer   *time.Timer
	running bool // between start and finish
	unbind  func() bool
	once    sync.Once
	done    chan struct{}
}

func (l *limit) end() { l.once.Do(func() { close(l.done) }) }

func (l *limit) Deadline() (time.Time, bool) { return time.Time{}, false }
func (l *limit) Value(any) any               { return nil }
func (l *limit) Done() <-chan struct{}       { return l.done }

func (l *limit) Err() error {
	select {
	case <-l.done:
		return context.DeadlineExceeded
	default:
		return nil
	}
}
