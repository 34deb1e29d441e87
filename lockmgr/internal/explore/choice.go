package explore

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
)

// A choice is one thing that can happen next in a world.
type choice struct {
	do   action
	who  uint8 // the manager
	what uint8 // its command or its request
}

type action uint8

const (
	ask        action = iota // a caller makes its request
	leave                    // a caller cancels its request
	giveBack                 // a caller unlocks
	shut                     // a manager is closed
	runs                     // the server runs a command
	late                     // the server runs a command that was given up
	answers                  // a reply arrives
	doubles                  // a reply arrives, and a copy of it stays under way
	copyComes                // a copy of a reply arrives
	breaks                   // a manager is told that a command may have run
	refuses                  // the server refuses a command for now
	forbids                  // the server refuses a command for good
	goesUp                   // the server reads a SUBSCRIBE or an UNSUBSCRIBE
	comesDown                // a manager reads a confirmation or a message
	comesTwice               // a manager reads a message that comes again
	loses                    // a message is lost
	gap                      // the connection for messages is lost and made again
	tick                     // a manager does what is due
	force                    // an administrator removes the record
	pass                     // time passes until something is due
)

// choices appends all that can happen next to out.
func (w *world) choices(out []choice) []choice {
	add := func(do action, who, what int) { out = append(out, choice{do, uint8(who), uint8(what)}) }
	for i := range w.managers {
		n := &w.managers[i]
		var asked [8]bool // by kind of request
		for j, c := range n.calls {
			switch c.state {
			case fresh:
				kind := w.scene.kind(i, c.want)
				if !asked[kind] && !n.closed { // equal requests are made in their order
					asked[kind] = true
					add(ask, i, j)
				}
			case pending:
				if w.may(Cancel) {
					add(leave, i, j)
				}
			case granted:
				add(giveBack, i, j)
			}
		}
		if w.may(Close) && !n.closing {
			add(shut, i, 0)
		}
		for j, c := range n.commands {
			switch c.state {
			case toServer:
				add(runs, i, j)
				if w.may(Refuse) {
					add(refuses, i, j)
				}
				if w.may(Forbid) {
					add(forbids, i, j)
				}
			case toManager:
				add(answers, i, j)
				if w.may(ReplyTwice) {
					add(doubles, i, j)
				}
			case given:
				add(late, i, j)
			case again:
				add(copyComes, i, j)
			}
			if c.underWay() && (w.may(Break) || w.timedOut(c)) {
				add(breaks, i, j)
			}
		}
		if len(n.up) > 0 {
			add(goesUp, i, 0)
		}
		if len(n.down) > 0 {
			add(comesDown, i, 0)
			if n.down[0] >= message {
				if w.may(MessageTwice) {
					add(comesTwice, i, 0)
				}
				if w.may(MessageLost) {
					add(loses, i, 0)
				}
			}
		}
		if n.wanted && w.may(Gap) {
			add(gap, i, 0)
		}
		if n.m.Next() <= w.now {
			add(tick, i, 0)
		}
	}
	if w.may(Force) && w.server.Exists(lockKey) {
		add(force, 0, 0)
	}
	if w.mayPass() {
		add(pass, 0, 0)
	}
	if w.scene.Bounds.Detours > 0 && w.detours == 0 {
		fair, _ := w.fair()
		out = slices.DeleteFunc(out, func(c choice) bool { return c != fair && c.do != ask })
	}
	return out
}

// kind returns the index of the first request of a manager that equals request want.
func (s *Scene) kind(i, want int) int {
	for j, other := range s.Wants[i] {
		if other == s.Wants[i][want] {
			return j
		}
	}
	return want
}

func (w *world) timedOut(c *command) bool { return w.now >= c.sent+timeout }

// costs reports which faults it would be to let time pass now. never reports that time
// can't pass, because a command has timed out and the manager must be told.
func (w *world) costs() (slow, pause, never bool) {
	for i := range w.managers {
		n := &w.managers[i]
		c := n.waitsFor()
		slow = slow || c != nil || len(n.up) > 0 || len(n.down) > 0
		pause = pause || n.m.Next() <= w.now
		never = never || c != nil && w.timedOut(c)
	}
	return slow, pause, never
}

func (w *world) mayPass() bool {
	slow, pause, never := w.costs()
	switch {
	case never, slow && !w.may(Slow), pause && !w.may(Pause), slow && pause && w.inAll < 2:
		return false
	}
	return w.next() != core.Forever
}

// next returns the next instant that matters, or Forever: one that a manager asks
// for, the time-out of a command, or the end of the record.
func (w *world) next() time.Duration {
	at := core.Forever
	consider := func(t time.Duration) {
		if t > w.now {
			at = min(at, t)
		}
	}
	for i := range w.managers {
		n := &w.managers[i]
		consider(n.m.Next())
		if c := n.waitsFor(); c != nil {
			consider(c.sent + timeout)
		}
	}
	if fields, until := w.server.Fields(lockKey); len(fields) > 0 {
		consider(until + ms) // its last millisecond is over
	}
	return at
}

func (w *world) do(c choice) {
	i := int(c.who)
	n := &w.managers[i]
	switch c.do {
	case ask:
		w.ask(n, int(c.what))
	case leave:
		w.spend(Cancel)
		w.step(i, core.Cancel{Request: n.calls[c.what].req})
	case giveBack:
		call := n.calls[c.what]
		call.state = unlocking
		w.step(i, core.Unlock{Request: call.req})
	case shut:
		w.spend(Close)
		n.closing = true
		w.step(i, core.Close{})
	case runs:
		command := n.commands[c.what]
		command.answer, command.state = w.run(i, command), toManager
	case late:
		command := n.commands[c.what]
		w.run(i, command)
		n.forget(command)
	case answers:
		command := n.commands[c.what]
		w.hear(i, command, command.answer)
	case doubles:
		w.spend(ReplyTwice)
		command := n.commands[c.what]
		twin := *command
		twin.state = again
		n.commands = append(n.commands, &twin)
		w.hear(i, command, command.answer)
	case copyComes:
		command := n.commands[c.what]
		w.hear(i, command, command.answer)
	case breaks:
		command := n.commands[c.what]
		if w.timedOut(command) {
			w.disturbed = true
		} else {
			w.spend(Break)
		}
		w.hear(i, command, answer{ran: core.Maybe, err: errBroken})
	case refuses:
		w.spend(Refuse)
		w.hear(i, n.commands[c.what], answer{ran: core.No, err: errLoading})
	case forbids:
		w.spend(Forbid)
		w.hear(i, n.commands[c.what], answer{ran: core.No, err: errNoPerm, final: true})
	case goesUp:
		w.goUp(i)
	case comesDown:
		w.comeDown(i)
	case comesTwice:
		w.spend(MessageTwice)
		n.down = append([]news{n.down[0]}, n.down...)
		w.comeDown(i)
	case loses:
		w.spend(MessageLost)
		n.down = n.down[1:]
	case gap:
		w.spend(Gap)
		w.server.Unsubscribe(channelKey, i)
		n.confirmed, n.up, n.down = false, []news{subscribe}, nil
		w.step(i, core.Wake{Name: lockKey})
	case tick:
		w.step(i, core.Tick{})
	case force:
		w.spend(Force)
		w.epoch++
		fields, _ := w.server.Fields(lockKey)
		if _, err := w.server.Force(lockKey, channelKey, fields[0].Name); err != nil {
			panic(err)
		}
		w.stray = stray{}
	case pass:
		w.pass()
	}
}

func (n *manager) forget(c *command) {
	for i, o := range n.commands {
		if o == c {
			n.commands = append(n.commands[:i], n.commands[i+1:]...)
			return
		}
	}
}

func (w *world) ask(n *manager, j int) {
	c := n.calls[j]
	want := w.scene.Wants[n.index()][c.want]
	n.asked++
	r := &core.Request{
		Name: lockKey, ID: firstRequest + n.asked, Fenced: want.Fenced, Once: want.Once, Lease: want.Lease, Asked: w.now, Ends: core.Forever, Tag: j,
	}
	if want.Owner != 0 {
		r.As(firstOwner + want.Owner)
	}
	c.state, c.req, c.order = pending, r, n.asked
	w.step(n.index(), core.Lock{Request: r})
}

// goUp lets the server read a manager's first SUBSCRIBE or UNSUBSCRIBE.
func (w *world) goUp(i int) {
	n := &w.managers[i]
	what := n.up[0]
	n.up = n.up[1:]
	if what == unsubscribe {
		w.server.Unsubscribe(channelKey, i)
		n.down = nil
		return
	}
	w.server.Subscribe(channelKey, i)
	if len(n.up) == 0 { // else the manager has unsubscribed meanwhile
		n.down = append(n.down, confirmation)
	}
}

// comeDown lets a manager read its first confirmation or message.
func (w *world) comeDown(i int) {
	n := &w.managers[i]
	what := n.down[0]
	n.down = n.down[1:]
	if !n.wanted {
		return
	}
	n.confirmed = n.confirmed || what == confirmation
	if what == forced && !n.released && n.m.Phase(lockKey) == "held" {
		n.doubtful = true
		if c := n.waitsFor(); c != nil {
			c.before = true
		}
	}
	w.step(i, core.Wake{Name: lockKey, Subscribed: n.confirmed, Confirmed: what == confirmation, Message: what >= message})
}

// pass lets time pass until something is due.
func (w *world) pass() {
	slow, pause, _ := w.costs()
	to := w.next()
	if !slow && !pause {
		w.checkPassing(to)
	}
	if slow {
		w.spend(Slow)
	}
	if pause {
		w.spend(Pause)
	}
	w.now = to
	w.server.Now = to
	if w.stray.until != 0 && !w.server.Exists(lockKey) {
		w.stray = stray{}
	}
}

// fair returns the next choice of the fair schedule, in which nothing goes wrong any
// more: everything under way arrives, callers unlock, and time passes only when
// nothing else is left to do. It returns false if there is no next choice.
func (w *world) fair() (choice, bool) {
	for i := range w.managers {
		n, who := &w.managers[i], uint8(i)
		for j, c := range n.commands {
			switch c.state {
			case toServer:
				return choice{runs, who, uint8(j)}, true
			case toManager:
				return choice{answers, who, uint8(j)}, true
			}
		}
		switch {
		case len(n.up) > 0:
			return choice{goesUp, who, 0}, true
		case len(n.down) > 0:
			return choice{comesDown, who, 0}, true
		case n.m.Next() <= w.now:
			return choice{tick, who, 0}, true
		}
	}
	for i := range w.managers {
		for j, c := range w.managers[i].calls {
			if c.state == granted {
				return choice{giveBack, uint8(i), uint8(j)}, true
			}
		}
	}
	return choice{do: pass}, w.next() != core.Forever
}

// words describes a choice.
func (w *world) words(c choice) string {
	n := &w.managers[c.who]
	script := func() string {
		o := n.commands[c.what]
		return fmt.Sprintf("%v #%d %v", o.verb, o.id, o.owners)
	}
	switch c.do {
	case ask:
		return fmt.Sprintf("%s: a caller makes request %d (%v)", n.label, c.what, w.scene.Wants[c.who][c.what])
	case leave:
		return fmt.Sprintf("%s: the caller of request %d leaves", n.label, c.what)
	case giveBack:
		return fmt.Sprintf("%s: the caller of request %d unlocks", n.label, c.what)
	case shut:
		return n.label + ": is closed"
	case runs:
		return fmt.Sprintf("the server runs %s's %s", n.label, script())
	case late:
		return fmt.Sprintf("the server runs %s's %s, which was given up", n.label, script())
	case answers:
		return fmt.Sprintf("%s: the answer to %s", n.label, script())
	case doubles:
		return fmt.Sprintf("%s: the answer to %s, which will come again", n.label, script())
	case copyComes:
		return fmt.Sprintf("%s: the answer to %s comes again", n.label, script())
	case breaks:
		return fmt.Sprintf("%s: gives up %s (%s)", n.label, script(), [...]string{"it has not run", "it has run"}[n.commands[c.what].state])
	case refuses:
		return fmt.Sprintf("%s: %s is refused for now", n.label, script())
	case forbids:
		return fmt.Sprintf("%s: %s is refused for good", n.label, script())
	case goesUp:
		return fmt.Sprintf("the server reads %s's %v", n.label, n.up[0])
	case comesDown:
		return fmt.Sprintf("%s: reads a %v", n.label, n.down[0])
	case comesTwice:
		return n.label + ": reads a message, which comes again"
	case loses:
		return n.label + ": a message is lost"
	case gap:
		return n.label + ": the connection for messages is lost and is there again"
	case tick:
		return n.label + ": does what is due"
	case force:
		return "an administrator removes the record"
	default:
		to := w.next()
		return fmt.Sprintf("%v pass", to-w.now)
	}
}

func (w Want) String() string {
	var s []string
	if w.Owner != 0 {
		s = append(s, fmt.Sprintf("owner %d", w.Owner))
	}
	if w.Fenced {
		s = append(s, "fenced")
	}
	if w.Once {
		s = append(s, "one try")
	}
	if w.Lease > 0 {
		s = append(s, fmt.Sprintf("lease %v", w.Lease))
	}
	if len(s) == 0 {
		return "plain"
	}
	return strings.Join(s, ", ")
}
