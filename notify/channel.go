package notify

import (
	"strconv"
	"time"
)

// chunk is the most channels of one SUBSCRIBE or UNSUBSCRIBE. Other clients wait
// while the server runs it.
const chunk = 512

// rarely is the longest pause between two rounds for refused channels, in
// RetryMax.
const rarely = 32

// A phase is what the hub knows of a channel on the current connection.
type phase uint8

const (
	absent  phase = iota // not subscribed; queued if it is wanted and there is a connection
	asking               // SUBSCRIBE sent, not confirmed
	live                 // confirmed; queued for UNSUBSCRIBE if nobody wants it any more
	leaving              // UNSUBSCRIBE sent, not answered
	refused              // refused by the server; queued for a later round
)

// A channel is the hub's state of one channel: its watches and the phase of its
// subscription. Only the hub's goroutine uses it.
type channel struct {
	name    string
	watches []*Watch // usually one
	phase   phase
	refusal error // set when it was refused alone, until it is confirmed on any connection
	group   int   // the largest SUBSCRIBE that it may be part of, in channels

	queued     *queue
	prev, next *channel
}

func (ch *channel) wanted() bool { return len(ch.watches) > 0 }

// A command is the SUBSCRIBE or UNSUBSCRIBE that waits for its answer.
type command struct {
	subscribe bool
	channels  []*channel
	answered  bool
	open      int // channels not confirmed
}

// enqueue moves ch to the queue of the command that it needs next, if any.
func (c *core) enqueue(ch *channel) {
	ch.dequeue()
	switch {
	case !c.up: // connected enqueues everything later
	case ch.wanted() && ch.phase == absent && ch.group < chunk:
		c.suspects.push(ch)
	case ch.wanted() && ch.phase == absent:
		c.fresh.push(ch)
	case ch.wanted() && ch.phase == refused:
		c.refused.push(ch)
	case !ch.wanted() && ch.phase == live:
		c.drops.push(ch)
	}
}

// forget removes ch if nobody wants it and the server does not know it.
func (c *core) forget(ch *channel) {
	if ch.wanted() || ch.phase != absent && ch.phase != refused {
		return
	}
	ch.dequeue()
	c.pardon(ch)
	delete(c.channels, ch.name)
}

// sendNext sends the next command, if the last one is answered. Three queues
// take turns, so none can delay the others for long: new subscriptions,
// unsubscriptions, and channels of refused commands.
func (c *core) sendNext() {
	if c.cmd != nil {
		return
	}
	queues := [...]*queue{&c.fresh, &c.drops, &c.suspects}
	for range queues {
		q := queues[c.turn%len(queues)]
		c.turn++
		if !q.empty() {
			c.send(q)
			return
		}
	}
}

// send sends one command for the first channels of q.
func (c *core) send(q *queue) {
	var (
		chs   []*channel
		names []string
		room  = chunk
	)
	subscribe := q != &c.drops
	for !q.empty() && len(chs) < min(room, q.head.group) {
		ch := q.pop()
		room = min(room, ch.group)
		chs = append(chs, ch)
		names = append(names, ch.name)
	}
	c.cmd = &command{subscribe: subscribe, channels: chs}
	c.deadline = c.now.Add(c.opts.CommandTimeout)
	if !subscribe {
		c.setPhase(chs, leaving)
		c.feed.ignore(chs)
		c.link.unsubscribe(names)
		return
	}
	c.cmd.open = len(chs)
	c.setPhase(chs, asking)
	c.feed.listen(chs) // first, or the confirmation might find nobody
	c.link.subscribe(names)
}

// confirmed notes that the server delivers ch's messages from now on.
func (c *core) confirmed(ch *channel) bool {
	if ch.phase != asking {
		return false
	}
	c.setPhase([]*channel{ch}, live)
	ch.group = chunk
	c.pardon(ch)
	c.cmd.open--
	c.finish()
	c.enqueue(ch) // nobody may want it any more
	return true
}

// answered notes that the server has executed or refused the last command.
func (c *core) answered(refusal error) {
	cmd := c.cmd
	switch {
	case cmd == nil:
	case !cmd.subscribe:
		// A refused UNSUBSCRIBE leaves the channel subscribed until the
		// connection ends. Its messages have no slot, so they go nowhere, and a
		// new SUBSCRIBE is confirmed like a first one.
		if refusal != nil {
			c.opts.Logger.Warn("notify: unsubscribe refused", "channels", len(cmd.channels), "err", refusal)
		}
		c.endCommand()
		c.setPhase(cmd.channels, absent)
		for _, ch := range cmd.channels {
			c.enqueue(ch) // it may be wanted again
			c.forget(ch)
		}
	case refusal != nil:
		c.endCommand()
		c.refuse(cmd.channels, refusal)
	default:
		cmd.answered = true
		c.finish()
	}
}

// finish ends the command in flight if it is answered and confirmed in full.
func (c *core) finish() {
	if c.cmd != nil && c.cmd.answered && c.cmd.open == 0 {
		c.endCommand()
	}
}

func (c *core) endCommand() { c.cmd, c.deadline = nil, time.Time{} }

// refuse handles a SUBSCRIBE that the server refused, which fails as a whole.
// Halves of the group are tried next, down to single channels. A channel that
// is refused alone waits for the next round.
func (c *core) refuse(chs []*channel, err error) {
	c.feed.ignore(chs)
	c.setPhase(chs, absent)
	for _, ch := range chs {
		ch.group = max(1, len(chs)/2)
		if len(chs) == 1 && ch.wanted() {
			c.setPhase(chs, refused)
			c.denied(ch, err)
		}
		c.enqueue(ch)
		c.forget(ch)
	}
}

// denied notes that the server refuses ch itself.
func (c *core) denied(ch *channel, err error) {
	if c.round.IsZero() {
		c.round = c.now.Add(c.rounds.next())
	}
	first := ch.refusal == nil
	ch.refusal = &RefusedError{Channel: ch.name, Err: err}
	c.refusal = ch.refusal
	if first { // else it is reported already
		c.stats.Refused++
		c.opts.Logger.Warn("notify: subscribe refused", "channel", strconv.Quote(ch.name), "err", err)
		c.tell(ch, change{reason: ReasonRefused, err: ch.refusal})
	}
}

// pardon notes that ch is not refused any more, or not wanted.
func (c *core) pardon(ch *channel) {
	old := ch.refusal
	if old == nil {
		return
	}
	ch.refusal = nil
	if c.stats.Refused--; c.stats.Refused == 0 {
		c.rounds.reset()
	}
	if c.refusal == old {
		c.refusal = nil
		for _, other := range c.channels {
			if other.refusal != nil {
				c.refusal = other.refusal
				break
			}
		}
	}
}

// askAgain starts a round for the refused channels, as rights may have been
// granted.
func (c *core) askAgain() {
	c.round = time.Time{}
	for !c.refused.empty() {
		ch := c.refused.pop()
		ch.phase = absent
		c.enqueue(ch)
	}
}
