package wire

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
)

const (
	// senders is the number of senders of all but renewals, and so caps the batches under way at
	// once. More batches could fill the client's queue, where waiting ignores contexts.
	senders = 16
	// withConn is how many senders have connections of their own.
	withConn = 4
	// few is how many tasks are under way to a near server before a task waits: see worthSending.
	few = 8
	// batchCost is about how long this process is busy with a batch.
	batchCost = 16 * time.Microsecond
)

// maxRenewals bounds the renewals of a batch: 32 scripts of maxRenewed plain locks each. A smaller
// bound would take many round trips to a far server.
const maxRenewals = 32 * maxRenewed

// renewalTime is about how long a server is busy with maxRenewed renewals.
const renewalTime = 400 * time.Microsecond

// A Lane is the way to one server: see the package comment. Any goroutine may call the methods of a
// Lane.
type Lane struct {
	cfg     Config
	health  health
	renewed atomic.Uint64 // scripts that renew

	mu sync.Mutex
	// urgent holds transfers and releases, queue acquires and calls.
	urgent, queue []task
	// renewals have a sender of their own, so that no other task waits for the answers to many
	// renewals.
	renewals []task
	renewer  sender

	confirms *confirmer // nil: all replies are reported at once

	senders  [senders]sender // started when first needed
	arriving int             // senders on their way to take, after rouse
	batches  int             // under way, without renewals
	flying   int             // the tasks of these batches
	window   int             // few, or one task for each batchCost of the round trip to a far server
	closed   bool

	stop context.CancelFunc // cuts off what is in flight
	ctx  context.Context
	wg   sync.WaitGroup
}

// A sender sends one batch after another.
type sender struct {
	route
	filled  sync.Cond // there is work for this sender, or the lane is closed
	started bool      // its goroutine runs
	waits   bool      // for filled
	took    int       // the tasks of its batch that is under way
}

// await blocks until resume. The lane's mutex is held at the call and at the return.
func (s *sender) await() {
	for s.waits = true; s.waits; {
		s.filled.Wait()
	}
}

// resume ends await, and reports whether the sender was waiting. The lane's mutex is held.
func (s *sender) resume() bool {
	if !s.waits {
		return false
	}
	s.waits = false
	s.filled.Signal()
	return true
}

// NewLane starts a lane. The lane ends with Close.
func NewLane(cfg Config) *Lane {
	l := &Lane{cfg: cfg, health: newHealth(cfg.Timeout), window: few}
	l.ctx, l.stop = context.WithCancel(context.Background())
	if cfg.Replicas.Acks > 0 {
		l.confirms = newConfirmer(cfg)
	}
	pause := longestPause
	if cfg.KeepAlive > 0 {
		pause = min(pause, cfg.KeepAlive/2)
	}
	for i := range l.senders {
		s := &l.senders[i]
		s.shared, s.maxPause, s.filled.L = cfg.Server, pause, &l.mu
		if i < withConn {
			s.dial = cfg.Dedicate
		}
	}
	l.renewer.shared, l.renewer.filled.L = cfg.Server, &l.mu
	l.wg.Go(func() { l.send(&l.renewer, l.takeRenewals) })
	return l
}

// Submit queues operations. Submit never blocks. After Close, Submit does nothing, because nobody
// waits for replies.
func (l *Lane) Submit(ops []*core.Op, now time.Duration) {
	if len(ops) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	l.health.sent(len(ops), now)
	for _, op := range ops {
		l.enqueue(task{op: op})
	}
	l.sendSoon()
}

// enqueue puts a task into its queue. The mutex is held.
func (l *Lane) enqueue(t task) {
	queue := &l.urgent
	switch {
	case t.op == nil || t.op.Verb == core.VerbAcquire:
		queue = &l.queue
	case t.op.Verb == core.VerbRenew:
		queue = &l.renewals
	}
	*queue = append(*queue, t)
}

// adopt queues a task that another lane has sent to the wrong server. adopt never blocks. After
// Close, adopt returns false.
func (l *Lane) adopt(t task) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.health.sent(1, l.cfg.Now())
	l.enqueue(t)
	l.sendSoon()
	return true
}

// Call queues a command that does not concern the core. Call never blocks. done is called with the
// answer, on a goroutine that must not be blocked. After Close, Call returns false. If the server
// does not answer, the call fails after the time-out, however many tasks wait before the call.
func (l *Lane) Call(c Command, done func(Answer)) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	t := task{call: &call{command: c, done: done, asked: l.cfg.Now()}}
	l.health.sent(1, t.call.asked)
	t.call.late = time.AfterFunc(l.cfg.Timeout, func() { l.overdue(t.call) })
	l.enqueue(t)
	l.sendSoon()
	return true
}

// overdue ends a call that has no answer after the time-out if the server answers nothing else,
// either. A call that a sender has taken may need several round trips and a dial, so the call goes
// on until another command has failed.
func (l *Lane) overdue(c *call) {
	if c.ended.Load() {
		return
	}
	if f := l.health.failing(c.asked, l.cfg.Now()); f != nil && (!c.taken.Load() || l.health.failed()) {
		c.end(f.at(l.cfg.where).Answer())
		return
	}
	l.mu.Lock() // Call sets late with the mutex held
	defer l.mu.Unlock()
	c.late.Reset(max(l.cfg.Timeout/4, leastQuiet))
}

// Failing returns the failure for which a request that was made at asked is unanswered at now, or
// nil. The failure is of the kind Unavailable.
func (l *Lane) Failing(asked, now time.Duration) *Failure { return l.health.failing(asked, now) }

// unconfirmed is confirmer.unconfirmed, or nil if no replica is asked.
func (l *Lane) unconfirmed(name string, asked, now time.Duration) *Failure {
	if l.confirms == nil {
		return nil
	}
	return l.confirms.unconfirmed(name, asked, now)
}

// idle reports whether nothing is queued and no batch is under way.
func (l *Lane) idle() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.waiting() == 0 && len(l.renewals) == 0 && l.flying == 0 && l.renewer.waits
}

// RenewalScripts returns how many renewal scripts have been sent.
func (l *Lane) RenewalScripts() uint64 { return l.renewed.Load() }

// Close refuses further tasks, cuts off what is in flight and waits for the senders. Tasks that are
// still queued are answered without being sent. The senders' connections are closed in the
// background: see Wait.
func (l *Lane) Close() {
	l.mu.Lock()
	l.closed = true
	for i := range l.senders {
		l.rouse(&l.senders[i])
	}
	l.renewer.resume()
	l.mu.Unlock()
	l.stop()
	for i := range l.senders {
		l.senders[i].close()
	}
	l.wg.Wait()
	if l.confirms != nil {
		l.confirms.close()
	}
}

// Wait waits until the connections of a closed lane are closed. If the server is silent, that takes
// a second, unless the client is closed before.
func (l *Lane) Wait() {
	if l.confirms != nil {
		l.confirms.background.Wait()
	}
	for i := range l.senders {
		l.senders[i].wait()
	}
}

// sendSoon resumes the sender of renewals if any are queued, and rouses the first free sender of
// all else if a batch is worth sending. So with little to send only the first sender's connection
// is used.
func (l *Lane) sendSoon() {
	if len(l.renewals) > 0 {
		l.renewer.resume()
	}
	if l.arriving > 0 || !l.worthSending() {
		return
	}
	for i := range l.senders {
		if l.rouse(&l.senders[i]) {
			return
		}
	}
}

// rouse resumes a waiting sender or starts a new one, and reports whether it did.
func (l *Lane) rouse(s *sender) bool {
	switch {
	case s.resume():
	case !s.started && !l.closed:
		s.started = true
		l.wg.Go(func() { l.send(s, l.take) })
	default:
		return false
	}
	l.arriving++
	return true
}

// waiting counts what is queued other than renewals.
func (l *Lane) waiting() int { return len(l.urgent) + len(l.queue) }

// worthSending reports whether a sender should take a batch of anything but renewals now. While
// window tasks are under way, a batch has as many tasks as are under way beyond window, or maxBatch.
// So each of a few callers has round trips of its own, and many callers share few large batches:
// each batch costs the server and us a system call each way.
func (l *Lane) worthSending() bool {
	n := l.waiting()
	return n > 0 && l.batches < senders && n >= min(l.flying-l.window, maxBatch)
}

// take waits for tasks other than renewals and moves the tasks of a batch to out: urgent tasks
// first, then the queue. A quarter of maxBatch is reserved for the queue, so that acquires never
// starve. take returns none when the lane is closed and nothing is left. The caller must have
// finished its last batch.
func (l *Lane) take(s *sender, out []task) []task {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.took > 0 { // its last batch has ended
		l.flying, l.batches, s.took = l.flying-s.took, l.batches-1, 0
		l.window = max(few, int(l.health.leastTrip()/batchCost))
	} else {
		l.arriving-- // its first call: rouse has started it
	}
	for !l.closed && !l.worthSending() {
		s.await()
		l.arriving--
	}
	out = move(out[:0], &l.urgent, maxBatch-min(len(l.queue), maxBatch/4))
	out = move(out, &l.queue, maxBatch-len(out))
	if s.took = len(out); s.took > 0 {
		l.flying, l.batches = l.flying+s.took, l.batches+1
	}
	l.sendSoon() // what is left
	return out
}

// takeRenewals is take for the sender of renewals.
func (l *Lane) takeRenewals(s *sender, out []task) []task {
	l.mu.Lock()
	defer l.mu.Unlock()
	for !l.closed && len(l.renewals) == 0 {
		s.await()
	}
	return move(out[:0], &l.renewals, l.renewalsNow())
}

// renewalsNow returns how many renewals a batch takes. The server answers nobody meanwhile, so the
// renewals of a batch occupy the server for about as long as a round trip takes. If the round trip
// has grown, the batch may be too small, so a batch takes at least an eighth of the queue. The
// mutex is held.
func (l *Lane) renewalsNow() int {
	return min(max((1+int(l.health.leastTrip()/renewalTime))*maxRenewed, len(l.renewals)/8), maxRenewals)
}

// move moves up to most tasks from the front of a queue to out.
func move(out []task, queue *[]task, most int) []task {
	q := *queue
	n := min(len(q), most)
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

// send sends what take returns until the lane is closed.
func (l *Lane) send(s *sender, take func(*sender, []task) []task) {
	b := newBatch(&l.cfg)
	d := NewDeadline(l.ctx, l.cfg.Timeout)
	for {
		b.tasks = take(s, b.tasks)
		if len(b.tasks) == 0 {
			return
		}
		for i := range b.tasks {
			if c := b.tasks[i].call; c != nil {
				c.taken.Store(true)
			}
		}
		// Leases count from here: after the wait in our own queue, before the client gets the
		// command.
		now := l.cfg.Now()
		b.build(now)
		if l.ctx.Err() != nil {
			// The lane is closed, so nothing is sent. If a dial hung, each batch would wait for the
			// dial.
			Refuse(b.answers, closedLane)
		} else {
			server := s.begin(now)
			l.exec(server, d, b, 0)
			if sent := len(b.commands); b.split() {
				l.exec(server, d, b, sent)
			}
			healthy := b.healthy()
			s.end(l.cfg.Now(), healthy)
			if !healthy {
				l.cfg.suspectLayout()
				if l.cfg.Demoted != nil && b.demoted() {
					l.cfg.Demoted()
				}
			}
		}
		l.report(b)
		b.clear()
	}
}

// exec runs the commands of a batch from first on.
func (l *Lane) exec(s Server, d *Deadline, b *batch, first int) {
	defer d.finish()
	commands, answers := b.commands[first:], b.answers[first:]
	for i := range commands {
		if c := &commands[i]; c.ops > 0 && c.renews() {
			l.renewed.Add(1)
		}
	}
	if l.cfg.Observe == nil {
		s.Exec(d, commands, answers)
		return
	}
	begin := time.Now()
	s.Exec(d, commands, answers)
	took := time.Since(begin) // commands that were sent together have the same
	for i := range commands {
		c := &commands[i]
		if l.cfg.passesOn(&answers[i]) {
			continue // it will be sent to the right server
		}
		o := &Observed{Took: took, Failure: answers[i].Failure}
		if c.Script == nil {
			o.Command = c.Args[0]
		} else {
			o.Command, o.Names = strings.TrimSuffix(c.Script.Name, "_many"), c.names()
		}
		l.cfg.Observe(o)
	}
}

// closedLane is the failure of a task that a closed lane did not send.
var closedLane = &Failure{Kind: Closed, Ran: core.No, Final: true}

// An outcome sums up the tasks of a batch.
type outcome struct {
	replies  *core.Replies // to be posted; nil: none
	ended    int           // tasks that got an answer or a failure here
	passed   int           // tasks that another lane or the confirmer has now
	answered bool          // the server has answered a task
	silent   *Failure      // why the server has not answered a task, or nil
	sentAt   time.Duration // when an answered operation was sent, or negative
}

// taskEnded notes the end of a task. f is nil or the task's failure.
func (o *outcome) taskEnded(f *Failure) {
	o.ended++
	if f.Unanswered() {
		o.silent = f
	} else {
		o.answered = true
	}
}

// report posts the answers of a batch: all replies in one event. Tasks for other servers get no
// answer here.
func (l *Lane) report(b *batch) {
	o := outcome{sentAt: -1}
	renews := b.renews() // now: the core uses an operation again after its reply
	for i := range b.tasks {
		t := &b.tasks[i]
		a := b.answer(t)
		if l.cfg.passesOn(a) {
			if l.cfg.group.redirect(*t, a.Failure, l.cfg.where) {
				o.passed++
				continue
			}
			a = &Answer{Kind: Failed, Failure: closedLane} // all lanes are closed
		}
		if t.op == nil {
			o.taskEnded(a.Failure)
			t.call.late.Stop()
			told := *a
			told.Failure = a.Failure.at(l.cfg.where)
			t.call.end(told)
			continue
		}
		l.reply(t.op, a, &o)
	}
	now := l.cfg.Now()
	if o.sentAt >= 0 {
		l.health.took(now-o.sentAt, now, renews)
	}
	if o.passed > 0 {
		l.health.ended(o.passed, now, nil) // they no longer count for this lane
	}
	if o.answered {
		o.silent = nil
	}
	if o.ended > 0 {
		l.health.ended(o.ended, now, o.silent)
	}
	switch {
	case o.replies == nil:
	case len(o.replies.Replies) == 0:
		Recycle(o.replies)
	default:
		l.cfg.Post(o.replies)
	}
}

// reply turns the answer to an operation into a reply. reply adds the reply to the replies of the
// batch, or passes the reply to the confirmer.
func (l *Lane) reply(op *core.Op, a *Answer, o *outcome) {
	l.cfg.noteSlots(op, a.Failure)
	if !a.Failure.Unanswered() {
		o.sentAt, o.answered = op.Sent, true
	}
	if o.replies == nil {
		o.replies = repliesPool.Get().(*core.Replies)
	}
	o.replies.Replies = append(o.replies.Replies, core.Reply{})
	r := &o.replies.Replies[len(o.replies.Replies)-1]
	decode(op, a, r, l.cfg.Error)
	r.Shard = l.cfg.shard
	if l.confirms != nil && vouches(r) {
		o.passed++
		l.confirms.add(*r)
		*r, o.replies.Replies = core.Reply{}, o.replies.Replies[:len(o.replies.Replies)-1]
		return
	}
	o.taskEnded(a.Failure)
}
