package wire

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
)

// A confirmer holds back the replies of a lane that vouch for a record, until enough replicas have
// the record. The confirmer owns a connection:
//
//	replies ──▶ queue ──▶ renew the leases ──▶ write, WAIT ──▶ enough replicas ──▶ Post
//	                                                └────────▶ too few: Post a failure
//
// WAIT counts the replicas that have the newest write of WAIT's own connection, and so all earlier
// writes. The operations were sent over other connections. So the confirmer renews the leases,
// which shows that the records are at the server of its connection. A renewal writes nothing if the
// record lives longer. So one more script, written, makes a write before WAIT.
//
// Replies that come during a WAIT share the next WAIT. So a grant takes two waits at most.
type confirmer struct {
	cfg     Config
	connect func() (Connection, error) // nil: nothing can be confirmed

	ctx  context.Context
	stop context.CancelFunc
	done chan struct{}

	usedAt     time.Duration  // when own was last used
	background sync.WaitGroup // connections that are being closed

	// opening is the call of connect. The call takes no context, and blocks for ever if others keep
	// all connections of the client's pool. So there is at most one call, which is waited for for a
	// time only.
	opening singleflight.Group

	mu         sync.Mutex
	own        Connection // nil: none
	filled     sync.Cond
	replies    []core.Reply
	confirming []*core.Op // whose replies are being confirmed
	closed     bool

	failure  *Failure      // of the newest wait for replicas, or nil
	failedAt time.Duration // when that was
}

// written makes a write before WAIT.
var written = newScript("written")

// vouches reports whether a reply confirms a record with a new lease, holder or side.
func vouches(r *core.Reply) bool {
	switch r.Op.Verb {
	case core.VerbAcquire, core.VerbTransfer, core.VerbRenew:
		return r.Ran == core.Yes && r.OK && !r.Op.Unfinished
	}
	return false
}

// newConfirmer starts a confirmer. The confirmer ends with close.
func newConfirmer(cfg Config) *confirmer {
	c := &confirmer{cfg: cfg, done: make(chan struct{})}
	at := cfg.Server
	if cfg.detour {
		at = cfg.named
	}
	if s, ok := at.(interface{ Dedicate() (Connection, error) }); ok {
		c.connect = s.Dedicate
	}
	c.filled.L = &c.mu
	c.ctx, c.stop = context.WithCancel(context.Background())
	go c.run()
	return c
}

// add queues a reply. add never blocks.
func (c *confirmer) add(r core.Reply) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.replies = append(c.replies, r)
	c.filled.Signal()
}

// close ends the confirmer, and cuts a WAIT off. Remaining replies become failures. close does not
// wait for a call of connect. If the call returns a connection, the connection is closed.
func (c *confirmer) close() {
	c.stop()
	c.mu.Lock()
	c.closed = true
	c.filled.Signal()
	c.mu.Unlock()
	c.drop()
	<-c.done
}

// run confirms one batch of replies after another.
func (c *confirmer) run() {
	defer close(c.done)
	var pending []core.Reply
	b := newBatch(&c.cfg)
	for {
		if pending = c.take(pending); len(pending) == 0 {
			return
		}
		failure := c.confirm(b, pending)
		c.mu.Lock()
		clear(c.confirming)
		c.confirming = c.confirming[:0]
		c.failure, c.failedAt = failure, c.cfg.Now()
		c.mu.Unlock()
		replies := repliesPool.Get().(*core.Replies)
		replies.Replies = append(replies.Replies, pending...)
		c.cfg.Post(replies)
		b.clear()
		clear(pending)
		if cap(pending) > 4*maxBatch { // after a burst of renewals
			pending = nil
			c.shrink()
		}
	}
}

// shrink frees the memory of what is empty.
func (c *confirmer) shrink() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.confirming = nil
	if len(c.replies) == 0 {
		c.replies = nil
	}
}

// take waits for replies and moves all replies to out.
func (c *confirmer) take(out []core.Reply) []core.Reply {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.replies) == 0 && !c.closed {
		c.filled.Wait()
	}
	out = append(out[:0], c.replies...)
	clear(c.replies)
	c.replies = c.replies[:0]
	for i := range out {
		c.confirming = append(c.confirming, out[i].Op)
	}
	return out
}

// unconfirmed returns the failure for which a request for a name, made at asked, is unanswered at
// now, or nil. There are two reasons: a reply about the name has waited for replicas for leastQuiet
// or longer, or the newest question to the replicas has failed since asked and within
// rememberFailure.
func (c *confirmer) unconfirmed(name string, asked, now time.Duration) *Failure {
	c.mu.Lock()
	defer c.mu.Unlock()
	// The operations are not answered yet, so nobody changes them.
	late := func(op *core.Op) bool { return now-op.Sent >= leastQuiet && hasName(op, name) }
	switch {
	case slices.ContainsFunc(c.confirming, late), slices.ContainsFunc(c.replies, func(r core.Reply) bool { return late(r.Op) }):
		return &Failure{Kind: TooFew, Ran: core.Maybe, Err: errLateReplicas}
	case c.failure != nil && c.failedAt >= max(asked, now-rememberFailure):
		return c.failure
	}
	return nil
}

// The reasons why an operation is not confirmed.
var (
	errFewReplicas  = errors.New("too few replicas had the lock in time")
	errLateReplicas = errors.New("the wait ended before enough replicas had the lock")
	errTaken        = errors.New("the lock was taken away before replicas had it")
	errMovingSlot   = errors.New("the slot of the lock is moving, so no replica can be asked")
	errNoConnection = errors.New("there was no connection in time to ask the replicas")
)

// takenAway is the failure of an operation whose record was gone when the confirmer renewed the
// lease: by a forced unlock, or since a failover lost the record. takenAway concerns no further
// lock, and neither the server nor its replicas.
var takenAway = &Failure{Kind: TooFew, OnlyThis: true, Err: errTaken}

// confirm renews the leases and waits for replicas. A reply without a confirmation becomes a
// failure. confirm returns the failure of the wait, or nil.
func (c *confirmer) confirm(b *batch, pending []core.Reply) *Failure {
	renewals := make([]core.Op, len(pending))
	b.tasks = b.tasks[:0]
	for i := range pending {
		op := &renewals[i]
		*op = *pending[i].Op
		op.Verb, op.Tokens, op.OtherNumbers = core.VerbRenew, 0, nil
		b.tasks = append(b.tasks, task{op: op})
	}
	b.build(c.cfg.Now())
	failure := c.ask(b)
	for i := range pending {
		f := failure
		if f == nil {
			f = unrenewed(b, &b.tasks[i])
		}
		if op := pending[i].Op; f == takenAway && c.cfg.Now()-op.Sent >= op.Lease {
			continue // the reply stays: the core sees that the lease is over, and fails this request only
		}
		if f != nil {
			if f.Kind != TooFew || f == takenAway {
				c.cfg.suspectLayout()
			}
			if c.cfg.Demoted != nil && f.Demoted {
				c.cfg.Demoted()
			}
			r := &pending[i]
			*r = core.Reply{Op: r.Op, ID: r.ID, Shard: r.Shard, Ran: core.Maybe, Final: f.Final, OnlyThis: f.OnlyThis, Err: c.cfg.Error(f)}
		}
	}
	if failure == takenAway {
		return nil // says nothing about the replicas
	}
	return failure
}

// unrenewed returns why the lease of an operation could not be renewed, or nil.
func unrenewed(b *batch, t *task) *Failure {
	a := b.answer(t)
	var r core.Reply
	decode(t.op, a, &r, func(*Failure) error { return nil })
	switch {
	case a.Failure != nil:
		f := *movingSlot(a.Failure)
		f.OnlyThis = f.OnlyThis || f.Final // the server has answered, and only this record is in trouble
		f.Final = false                    // the operation itself has succeeded
		return &f
	case r.Ran != core.Yes || !r.OK:
		return takenAway
	}
	return nil
}

// ask renews the leases of a batch, and waits for replicas if a lease was renewed. ask returns the
// failure of the whole batch, or nil.
func (c *confirmer) ask(b *batch) *Failure {
	if c.ctx.Err() != nil {
		return &Failure{Kind: Closed, Final: true}
	}
	if c.connect == nil {
		return &Failure{Kind: Unavailable, OnlyThis: true, Err: errMovingSlot}
	}
	own, f := c.open()
	if f != nil {
		return f
	}
	defer func() { c.usedAt = c.cfg.Now() }()
	if wrote, f := c.renewAndWrite(own, b); !wrote {
		return f
	}
	wait := Command{Args: []string{"WAIT", strconv.Itoa(c.cfg.Replicas.Acks), millis(c.cfg.Replicas.Timeout)}, blocks: true}
	answers := make([]Answer, 1)
	c.exec(own, c.cfg.Replicas.Timeout+c.cfg.Timeout, []Command{wait}, answers)
	if f := answers[0].Failure; f != nil {
		c.drop()
		return f
	}
	if n := answers[0].Int; n < int64(c.cfg.Replicas.Acks) {
		return &Failure{Kind: TooFew, Final: true, Err: errFewReplicas, Hint: strconv.FormatInt(n, 10) + " of " + strconv.Itoa(c.cfg.Replicas.Acks) + ": is a replica down or late?"}
	}
	return nil
}

// renewAndWrite renews the leases of a batch, and then writes at a record whose lease was renewed.
// f is the failure of the write. If no lease was renewed, nothing is written, and f is nil:
// unrenewed has the reason of each operation.
func (c *confirmer) renewAndWrite(own Connection, b *batch) (wrote bool, f *Failure) {
	last := len(b.commands)
	b.commands = append(b.commands, Command{Script: written, Keys: []string{recordOf(b.tasks[0].op)}})
	b.makeAnswers()
	c.execFrom(own, b, 0)
	if sent := len(b.commands); b.split() {
		c.execFrom(own, b, sent)
	}
	a := &b.answers[last]
	if a.Failure == nil && a.Int == 1 {
		return true, nil
	}
	// The first record is gone, or forbidden.
	renewed := slices.IndexFunc(b.tasks, func(t task) bool { return unrenewed(b, &t) == nil })
	if renewed >= 0 {
		b.commands[last].Keys[0] = recordOf(b.tasks[renewed].op)
		c.exec(own, c.cfg.Timeout, b.commands[last:last+1], b.answers[last:last+1]) // a is the new answer
	}
	switch {
	case a.Failure.Unanswered():
		c.drop()
		return false, a.Failure
	case renewed < 0:
		return false, nil
	case a.Failure != nil:
		return false, movingSlot(a.Failure)
	case a.Int != 1:
		return false, takenAway
	}
	return true, nil
}

// recordOf returns the key of a record that an operation is about.
func recordOf(op *core.Op) string {
	if op.Kind == core.Permits {
		return TakenKey(op.Name)
	}
	return keyOf(op)
}

// movingSlot returns f, or the failure of an operation whose slot has moved if f is a redirection.
func movingSlot(f *Failure) *Failure {
	if f.Elsewhere {
		return &Failure{Kind: Unavailable, OnlyThis: true, Err: f.Err}
	}
	return f
}

// execFrom runs the commands of a batch from first on.
func (c *confirmer) execFrom(own Connection, b *batch, first int) {
	for i := range b.commands[first:] {
		b.commands[first+i].asking = c.cfg.detour // the node may not have the slot yet
	}
	c.exec(own, c.cfg.Timeout, b.commands[first:], b.answers[first:])
}

func (c *confirmer) exec(own Connection, timeout time.Duration, commands []Command, answers []Answer) {
	d := NewDeadline(c.ctx, timeout)
	defer d.Close()
	own.Exec(d, commands, answers)
}

// open returns the connection. If there is none, or if the last connection was not used for a while
// and may be dead, open opens a connection. open waits for the new connection as long as for
// replicas and a command.
func (c *confirmer) open() (Connection, *Failure) {
	if c.cfg.Now()-c.usedAt > idleTime {
		c.drop()
	}
	if own := c.opened(); own != nil {
		return own, nil
	}
	late := time.NewTimer(c.cfg.Replicas.Timeout + c.cfg.Timeout)
	defer late.Stop()
	select {
	case call := <-c.opening.DoChan("", c.dial):
		if call.Err != nil {
			return nil, DialFailure(call.Err)
		}
	case <-c.ctx.Done():
		return nil, &Failure{Kind: Closed, Final: true}
	case <-late.C:
		return nil, &Failure{Kind: TooFew, Final: true, Err: errNoConnection, Hint: "is the client's pool used up? BlockingPoolSize is its size"}
	}
	own := c.opened()
	if own == nil {
		return nil, &Failure{Kind: Closed, Final: true} // closed meanwhile
	}
	return own, nil
}

// opened returns the connection, or nil.
func (c *confirmer) opened() Connection {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.own
}

// dial calls connect, and keeps the connection.
func (c *confirmer) dial() (any, error) {
	if c.opened() != nil { // by a call that has ended meanwhile
		return nil, nil
	}
	own, err := c.connect()
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err != nil:
	case c.closed:
		go own.Close()
	default:
		c.own = own
	}
	return nil, err
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
