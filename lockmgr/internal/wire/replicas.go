package wire

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
)

// A confirmer keeps the grants of a lane back until enough replicas have them. It owns a
// connection:
//
//	grants ──▶ queue ──▶ renew them ──▶ WAIT ──▶ enough replicas ──▶ Post
//	                                      └────▶ too few: Post a failure; the core releases
//
// WAIT counts the replicas that have all that was written before the newest write of its own
// connection. The acquires were sent over others, so the confirmer writes first: it renews the
// leases. These renewals come after the acquires in the stream that replicas get.
//
// Grants that come while a WAIT is under way share the next one. So a grant takes two waits at
// most.
type confirmer struct {
	cfg     Config
	connect func() (Connection, error) // nil: nothing can be confirmed

	ctx  context.Context
	stop context.CancelFunc
	done chan struct{}

	usedAt     time.Duration  // when own was last used
	background sync.WaitGroup // connections that are being closed

	mu      sync.Mutex
	own     Connection  // nil: none
	opening *connecting // the call of connect under way; nil: none
	filled  sync.Cond
	grants  []core.Reply
	asked   []*core.Op // whose grants are being confirmed
	closed  bool
}

// A connecting is a call of confirmer.connect under way. The call takes no context. It blocks for ever
// if others keep all connections of the client's pool. So a confirmer has at most one such call under
// way, and waits for it for a time only.
type connecting struct {
	done chan struct{} // closed at the end; err is set then
	err  error
}

// newConfirmer starts a confirmer. It ends with close and wait.
func newConfirmer(cfg Config) *confirmer {
	c := &confirmer{cfg: cfg, done: make(chan struct{})}
	if s, ok := cfg.Server.(interface{ Dedicate() (Connection, error) }); ok && !cfg.anywhere {
		c.connect = s.Dedicate
	}
	c.filled.L = &c.mu
	c.ctx, c.stop = context.WithCancel(context.Background())
	go c.run()
	return c
}

// add queues a grant. It never blocks.
func (c *confirmer) add(r core.Reply) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.grants = append(c.grants, r)
	c.filled.Signal()
}

// close makes the confirmer end. It cuts a WAIT off. Grants that are left are answered as not
// confirmed.
func (c *confirmer) close() {
	c.stop()
	c.mu.Lock()
	c.closed = true
	c.filled.Signal()
	c.mu.Unlock()
	c.drop()
}

// wait waits until the confirmer has ended. It does not wait for a call of connect, whose connection is
// closed when there is one. wait must follow close.
func (c *confirmer) wait() {
	<-c.done
	c.background.Wait()
}

// run confirms one batch of grants after the other.
func (c *confirmer) run() {
	defer close(c.done)
	var grants []core.Reply
	b := newBatch(&c.cfg)
	for {
		if grants = c.take(grants); len(grants) == 0 {
			return
		}
		c.confirm(b, grants)
		c.mu.Lock()
		clear(c.asked)
		c.asked = c.asked[:0]
		c.mu.Unlock()
		replies := repliesPool.Get().(*core.Replies)
		replies.Replies = append(replies.Replies, grants...)
		c.cfg.Post(replies)
		clear(grants)
		b.clear()
	}
}

// take waits for grants and moves all of them to out.
func (c *confirmer) take(out []core.Reply) []core.Reply {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.grants) == 0 && !c.closed {
		c.filled.Wait()
	}
	out = append(out[:0], c.grants...)
	clear(c.grants)
	c.grants = c.grants[:0]
	for i := range out {
		c.asked = append(c.asked, out[i].Op)
	}
	return out
}

// unconfirmed returns a failure if a grant of a name has waited for replicas for leastQuiet or longer, or
// nil. The operations are not answered yet, so nobody changes them.
func (c *confirmer) unconfirmed(name string, now time.Duration) *Failure {
	c.mu.Lock()
	defer c.mu.Unlock()
	late := func(op *core.Op) bool { return now-op.Sent >= leastQuiet && hasName(op, name) }
	if slices.ContainsFunc(c.asked, late) || slices.ContainsFunc(c.grants, func(r core.Reply) bool { return late(r.Op) }) {
		return &Failure{Kind: TooFew, Ran: core.Maybe, Err: errLateReplicas}
	}
	return nil
}

// The reasons why a grant is not confirmed.
var (
	errFewReplicas  = errors.New("too few replicas had the lock in time")
	errLateReplicas = errors.New("the wait ended before enough replicas had the lock")
	errTaken        = errors.New("the lock was taken away before replicas had it")
	errMovingSlot   = errors.New("the slot of the lock is moving, so no replica can be asked")
	errNoConnection = errors.New("there was no connection in time to ask the replicas")
)

// confirm renews the grants and waits for replicas. A grant that is not confirmed becomes a failure.
func (c *confirmer) confirm(b *batch, grants []core.Reply) {
	renewals := make([]core.Op, len(grants))
	b.tasks = b.tasks[:0]
	for i := range grants {
		op := &renewals[i]
		*op = *grants[i].Op
		op.Verb, op.Tokens, op.OtherNumbers = core.VerbRenew, 0, nil
		op.Lease += time.Millisecond // longer, so that the script writes
		b.tasks = append(b.tasks, task{op: op})
	}
	b.build(c.cfg.Now())
	failure := c.ask(b)
	for i := range grants {
		f := failure
		if f == nil {
			f = unrenewed(b, &b.tasks[i])
		}
		if f != nil {
			if c.cfg.trouble != nil && f.Kind != TooFew {
				c.cfg.trouble()
			}
			g := &grants[i]
			*g = core.Reply{Op: g.Op, ID: g.ID, Shard: g.Shard, Ran: core.Maybe, Final: f.Final, Err: c.cfg.Error(f)}
		}
	}
}

// unrenewed returns why a grant could not be renewed, or nil.
func unrenewed(b *batch, t *task) *Failure {
	a := b.answer(t)
	var r core.Reply
	decode(t.op, a, &r, func(*Failure) error { return nil })
	switch {
	case a.Failure != nil && a.Failure.Elsewhere: // the slot has moved since the grant
		return &Failure{Kind: Unavailable, Err: a.Failure.Err}
	case a.Failure != nil:
		return &Failure{Kind: a.Failure.Kind, Hint: a.Failure.Hint, Err: a.Failure.Err}
	case r.Ran != core.Yes || !r.OK:
		return &Failure{Kind: Unavailable, Err: errTaken}
	}
	return nil
}

// ask renews the grants of a batch and waits for replicas. It returns why that failed for all
// of them, or nil.
func (c *confirmer) ask(b *batch) *Failure {
	if c.ctx.Err() != nil {
		return &Failure{Kind: Closed, Final: true}
	}
	if c.connect == nil {
		return &Failure{Kind: Unavailable, Err: errMovingSlot}
	}
	own, f := c.open()
	if f != nil {
		return f
	}
	c.exec(own, c.cfg.Timeout, b.commands, b.answers)
	wait := Command{Args: []string{"WAIT", strconv.Itoa(c.cfg.Replicas.Acks), millis(c.cfg.Replicas.Timeout)}, blocks: true}
	answers := make([]Answer, 1)
	c.exec(own, c.cfg.Replicas.Timeout+c.cfg.Timeout, []Command{wait}, answers)
	c.usedAt = c.cfg.Now()
	if f := answers[0].Failure; f != nil {
		c.drop()
		return f
	}
	if n := answers[0].Int; n < int64(c.cfg.Replicas.Acks) {
		return &Failure{Kind: TooFew, Final: true, Err: errFewReplicas, Hint: strconv.FormatInt(n, 10) + " of " + strconv.Itoa(c.cfg.Replicas.Acks) + ": is a replica down or late?"}
	}
	return nil
}

func (c *confirmer) exec(own Connection, timeout time.Duration, commands []Command, answers []Answer) {
	limit := &Deadline{parent: c.ctx, timeout: timeout}
	defer limit.Close()
	own.Exec(limit, commands, answers)
}

// open returns the connection. It opens one if there is none, or if the last one was not used for a while
// and may be dead. It waits for that as long as for replicas and a command.
func (c *confirmer) open() (Connection, *Failure) {
	if c.cfg.Now()-c.usedAt > idleTime {
		c.drop()
	}
	c.mu.Lock()
	own, call := c.own, c.opening
	if own == nil && call == nil {
		call = &connecting{done: make(chan struct{})}
		c.opening = call
		go c.dial(call)
	}
	c.mu.Unlock()
	if own != nil {
		return own, nil
	}
	late := time.NewTimer(c.cfg.Replicas.Timeout + c.cfg.Timeout)
	defer late.Stop()
	select {
	case <-call.done:
	case <-c.ctx.Done():
		return nil, &Failure{Kind: Closed, Final: true}
	case <-late.C:
		return nil, &Failure{Kind: TooFew, Final: true, Err: errNoConnection, Hint: "is the client's pool used up? BlockingPoolSize is its size"}
	}
	if call.err != nil {
		return nil, DialFailure(call.err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.own == nil {
		return nil, &Failure{Kind: Closed, Final: true} // closed meanwhile
	}
	return c.own, nil
}

// dial calls connect, and keeps the connection.
func (c *confirmer) dial(call *connecting) {
	own, err := c.connect()
	c.mu.Lock()
	defer c.mu.Unlock()
	defer close(call.done)
	c.opening = nil
	switch {
	case err != nil:
		call.err = err
	case c.closed:
		go own.Close()
	default:
		c.own = own
	}
}

// drop closes the connection in the background, even while a command is under way.
func (c *confirmer) drop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.own != nil {
		c.background.Go(c.own.Close)
		c.own = nil
	}
}

// hasName reports whether an operation is about a name.
func hasName(op *core.Op, name string) bool {
	return op.Name == name || slices.ContainsFunc(op.Items, func(it core.Item) bool { return it.Name == name })
}
