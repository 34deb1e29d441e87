package notify

import (
	"slices"
	"time"
)

// chunk is the largest number of channels in a SUBSCRIBE or UNSUBSCRIBE. Other clients wait while
// the server runs the command.
const chunk = 512

// rarely is the longest pause between two rounds for refused channels, as a multiple of RetryMax.
const rarely = 32

// A command is the SUBSCRIBE or UNSUBSCRIBE in flight.
type command struct {
	subscribe bool
	channels  []*channel
	answered  bool
	open      int // channels not confirmed
}

// enqueue moves ch to the queue of the next command for ch, if any.
func (c *connection) enqueue(ch *channel) {
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

// forget removes ch if nobody wants ch and the server does not know ch.
func (c *connection) forget(ch *channel) {
	if ch.wanted() || ch.phase != absent && ch.phase != refused {
		return
	}
	ch.dequeue()
	c.clearRefusal(ch)
	delete(c.channels, ch.name)
}

// clearRefusal notes that ch is not refused any more, or not wanted.
func (c *connection) clearRefusal(ch *channel) {
	old := ch.refusal
	if old == nil {
		return
	}
	ch.refusal = nil
	if c.core.stats.Refused--; c.core.stats.Refused == 0 {
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

// sendNext sends the next command, if the last command is answered. Three queues take turns, so no
// queue delays another for long: new subscriptions, unsubscriptions, and channels of refused
// commands.
func (c *connection) sendNext() {
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

// send sends a command for the first channels of q.
func (c *connection) send(q *queue) {
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
	c.deadline = c.core.now.Add(c.core.opts.CommandTimeout)
	if !subscribe {
		c.core.setPhase(chs, leaving)
		c.feed.ignore(chs)
		c.link.unsubscribe(names)
		return
	}
	c.cmd.open = len(chs)
	c.core.setPhase(chs, asking)
	c.feed.listen(chs) // first, or the confirmation might find nobody
	c.link.subscribe(names)
}

// confirmed notes that the server delivers the messages of ch from now on.
func (c *connection) confirmed(ch *channel) bool {
	if ch.phase != asking {
		return false
	}
	c.core.setPhase([]*channel{ch}, live)
	ch.group = chunk
	wasRefused := ch.refusal != nil
	c.clearRefusal(ch)
	if wasRefused && c.core.stats.Refused == 0 {
		c.logAllowed(ch.name)
	}
	c.cmd.open--
	c.finish()
	c.enqueue(ch) // nobody may want it any more
	return true
}

// answered notes that the server has executed or refused the last command.
func (c *connection) answered(refusal error) {
	cmd := c.cmd
	switch {
	case cmd == nil:
	case !cmd.subscribe:
		// A refused UNSUBSCRIBE leaves the channel subscribed until the connection ends. The
		// channel's messages have no slot and are dropped, and a new SUBSCRIBE is confirmed like a
		// first SUBSCRIBE.
		if refusal != nil {
			c.logUnsubscribeRefused(len(cmd.channels), refusal)
		}
		c.endCommand()
		c.core.setPhase(cmd.channels, absent)
		for _, ch := range cmd.channels {
			c.enqueue(ch) // it may be wanted again
			c.forget(ch)
		}
	case refusal != nil:
		c.endCommand()
		// Each sharded channel has its own SUBSCRIBE: some may be live.
		c.refuse(slices.DeleteFunc(cmd.channels, func(ch *channel) bool { return ch.phase == live }), refusal)
	default:
		cmd.answered = true
		c.finish()
	}
}

// finish ends the command in flight if answered and confirmed in full.
func (c *connection) finish() {
	if c.cmd != nil && c.cmd.answered && c.cmd.open == 0 {
		c.endCommand()
	}
}

func (c *connection) endCommand() { c.cmd, c.deadline = nil, time.Time{} }

// refuse handles a SUBSCRIBE that the server refused, which fails as a whole. Halves of the group
// are tried next, down to single channels. A channel refused alone waits for the next round.
func (c *connection) refuse(chs []*channel, err error) {
	c.feed.ignore(chs)
	c.core.setPhase(chs, absent)
	for _, ch := range chs {
		ch.group = max(1, len(chs)/2)
		if len(chs) == 1 && ch.wanted() {
			c.core.setPhase(chs, refused)
			c.denied(ch, err)
		}
		c.enqueue(ch)
		c.forget(ch)
	}
}

// denied notes that the server refuses ch itself.
func (c *connection) denied(ch *channel, err error) {
	if c.roundAt.IsZero() {
		c.roundAt = c.core.now.Add(c.rounds.next())
	}
	first := ch.refusal == nil
	ch.refusal = &RefusedError{Channel: ch.name, Err: err}
	c.refusal = ch.refusal
	if first { // else it is reported already
		c.core.stats.Refused++
		c.logRefused(ch.name, err)
		c.core.tell(ch, event{reason: ReasonRefused, err: ch.refusal})
	}
}

// askAgain starts a round for the refused channels, as rights may have been granted.
func (c *connection) askAgain() {
	c.roundAt = time.Time{}
	for !c.refused.empty() {
		ch := c.refused.pop()
		ch.phase = absent
		c.enqueue(ch)
	}
}
