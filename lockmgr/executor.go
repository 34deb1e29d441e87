package lockmgr

import (
	"context"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
)

// server runs scripts. It is the little that the executor needs of a client.
type server interface {
	// exec runs the commands in one batch and fills in an answer for each.
	// It returns when all are answered or ctx ends; what is unanswered then
	// may have run.
	exec(ctx context.Context, commands []command, answers []answer)
}

// Two senders keep a connection busy: one batch is on its way while the next
// is being filled. More would make smaller batches, and could fill the
// client's queue, where waiting heeds no context.
const senders = 2

// The most commands of one batch. Larger ones gain no throughput and make
// each answer wait for the last.
const maxBatch = 256

// A task is something to be executed: an op, a renewal or a call.
type task struct {
	op      *core.Op
	renewal *core.Renewal
	call    *call
}

// A call is a script that does not concern the core.
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
	answer  func(core.Event) // must not block

	mu     sync.Mutex
	filled *sync.Cond // there is something in queue, or closed is set
	queue  []task
	closed bool

	stop context.CancelFunc // cuts off what is in flight
	ctx  context.Context
	wg   sync.WaitGroup
}

func newExecutor(id *identity, s server, timeout time.Duration, post func(core.Event)) *executor {
	x := &executor{id: id, server: s, timeout: timeout, answer: post}
	x.filled = sync.NewCond(&x.mu)
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
	x.queue = append(x.queue, tasks...)
	if len(x.queue) > maxBatch {
		x.filled.Broadcast()
	} else {
		x.filled.Signal()
	}
	x.mu.Unlock()
	return true
}

// take waits for tasks and moves up to maxBatch of them to out. It returns
// none when the executor is closed.
func (x *executor) take(out []task) []task {
	x.mu.Lock()
	defer x.mu.Unlock()
	for len(x.queue) == 0 && !x.closed {
		x.filled.Wait()
	}
	n := min(len(x.queue), maxBatch)
	out = append(out[:0], x.queue[:n]...)
	rest := copy(x.queue, x.queue[n:])
	clear(x.queue[rest:])
	x.queue = x.queue[:rest]
	if rest == 0 && cap(x.queue) > 16*maxBatch {
		x.queue = nil // after a burst
	}
	return out
}

// send is the life of a sender.
func (x *executor) send() {
	var (
		tasks    []task
		commands = make([]command, maxBatch)
		answers  = make([]answer, maxBatch)
		limit    = &deadline{parent: x.ctx}
	)
	for {
		tasks = x.take(tasks)
		if len(tasks) == 0 {
			return
		}
		for i, t := range tasks {
			c := &commands[i]
			switch {
			case t.op != nil:
				x.id.opCommand(t.op, c)
			case t.renewal != nil:
				x.id.renewCommand(t.renewal, c)
			default:
				*c = t.call.command
			}
		}
		limit.start(x.timeout)
		x.server.exec(limit, commands[:len(tasks)], answers[:len(tasks)])
		limit.finish()
		x.report(tasks, answers)
		clear(tasks)
	}
}

// report posts the answers of a batch: all replies in one event.
func (x *executor) report(tasks []task, answers []answer) {
	var replies *core.Replies
	for i, t := range tasks {
		a := &answers[i]
		switch {
		case t.op != nil:
			if replies == nil {
				replies = repliesPool.Get().(*core.Replies)
			}
			replies.Replies = append(replies.Replies, a.reply(t.op))
		case t.renewal != nil:
			x.answer(a.renewed(t.renewal))
		default:
			t.call.done(*a)
		}
		*a = answer{}
	}
	if replies != nil {
		x.answer(replies)
	}
}

// repliesPool holds events that the loop is done with.
var repliesPool = sync.Pool{New: func() any { return new(core.Replies) }}

func recycle(r *core.Replies) {
	clear(r.Replies)
	r.Replies = r.Replies[:0]
	repliesPool.Put(r)
}

// close refuses further tasks, cuts off what is in flight and waits for the
// senders. Those that are still queued are answered too.
func (x *executor) close() {
	x.mu.Lock()
	x.closed = true
	x.filled.Broadcast()
	x.mu.Unlock()
	x.stop()
	x.wg.Wait()
}

// deadline is a context for one batch after another: making a context with a
// time-out for each would cost more than the batch when it is a batch of one.
// It has no Deadline that the client could see: some clients close their
// connection when one passes.
type deadline struct {
	parent context.Context
	timer  *time.Timer

	mu   sync.Mutex
	done chan struct{}
	over bool
}

func (d *deadline) start(timeout time.Duration) {
	d.mu.Lock()
	if d.done == nil || d.over {
		d.done, d.over = make(chan struct{}), false
	}
	d.mu.Unlock()
	if d.timer == nil {
		d.timer = time.AfterFunc(timeout, d.end)
		context.AfterFunc(d.parent, d.end)
	} else {
		d.timer.Reset(timeout)
	}
	if d.parent.Err() != nil {
		d.end()
	}
}

func (d *deadline) finish() { d.timer.Stop() }

func (d *deadline) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.over && d.done != nil {
		d.over = true
		close(d.done)
	}
}

func (d *deadline) Deadline() (time.Time, bool) { return time.Time{}, false }
func (d *deadline) Value(any) any               { return nil }

func (d *deadline) Done() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.done
}

func (d *deadline) Err() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.over {
		return context.DeadlineExceeded
	}
	return nil
}
