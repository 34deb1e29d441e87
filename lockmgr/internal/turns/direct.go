package turns

import (
	"time"
)

// A direct client has threads that share a subscription and nothing else. A thread that is refused
// subscribes, tries again, and then waits for a permit or for the end of the record's life. A
// message is a permit for one thread. If none waits at that moment, the permit is kept. The client
// unsubscribes when no thread needs the subscription.
type direct struct {
	w    *world
	id   int
	cfg  Client
	link *link

	users     int       // threads that need the subscription
	joining   []*thread // threads that wait for its confirmation
	confirmed bool
	asked     int // counts the subscriptions, to ignore late confirmations

	permits int
	waiting []*thread
}

type thread struct {
	c    *direct
	id   uint64
	user bool // it needs the subscription
	wait int  // counts its waits, so that an old timer does nothing
}

// directLease is Redisson's default lease.
const directLease = 30 * time.Second

func newDirect(w *world, id int, c Client) *direct {
	return &direct{w: w, id: id, cfg: c, link: newLink(w, id, c)}
}

func (c *direct) line() *link { return c.link }

// call hands a command to the sender, and its reply to the thread.
func (c *direct) call(command, done func()) {
	c.w.afterHop(func() { c.link.call(command, func() { c.w.afterHop(done) }) })
}

func (c *direct) begin() {
	if c.cfg.Callers == 0 {
		c.link.subscribe(channel, true, nil)
	}
	for i := range c.cfg.Callers {
		t := &thread{c: c, id: uint64(i + 1)}
		c.w.after(c.cfg.Late, c.cfg.Late+callerMax, t.ask)
	}
}

// message gives a permit to the thread that has waited longest, or keeps it.
func (c *direct) message(string, string) {
	if !c.confirmed {
		return
	}
	if len(c.waiting) == 0 {
		c.permits++
		return
	}
	t := c.waiting[0]
	c.waiting = c.waiting[1:]
	t.wait++
	hop := c.w.hop()
	c.w.after(callerMin+hop, callerMax+hop, t.try)
}

func (t *thread) ask() {
	t.c.w.meter.asks(t.c.id)
	t.try()
}

func (t *thread) try() {
	w := t.c.w
	granted := false
	ttl := time.Duration(0)
	t.c.call(func() {
		granted, ttl = w.acquire(t.c.id, t.id, directLease)
		w.tracef(t.c.id, "acquire %d: ok=%v", t.id, granted)
	}, func() {
		switch {
		case granted:
			t.hold()
		case !t.user:
			t.join()
		default:
			t.park(ttl)
		}
	})
}

// join waits for the subscription, then tries again.
func (t *thread) join() {
	c := t.c
	t.user = true
	c.users++
	if c.confirmed {
		t.try()
		return
	}
	c.joining = append(c.joining, t)
	if len(c.joining) > 1 {
		return
	}
	c.asked++
	asked := c.asked
	c.link.subscribe(channel, true, func() {
		if c.asked != asked {
			return
		}
		c.confirmed = true
		for _, t := range c.joining {
			c.w.after(callerMin, callerMax, t.try)
		}
		c.joining = nil
	})
}

func (t *thread) park(ttl time.Duration) {
	c := t.c
	if c.permits > 0 {
		c.permits--
		c.w.after(callerMin, callerMax, t.try)
		return
	}
	c.waiting = append(c.waiting, t)
	t.wait++
	wait := t.wait
	c.w.after(ttl, ttl, func() {
		if t.wait != wait {
			return
		}
		for i, o := range c.waiting {
			if o == t {
				c.waiting = append(c.waiting[:i], c.waiting[i+1:]...)
				break
			}
		}
		t.try()
	})
}

func (t *thread) hold() {
	c := t.c
	if t.user {
		t.user = false
		if c.users--; c.users == 0 {
			c.confirmed, c.permits = false, 0
			c.asked++
			c.link.subscribe(channel, false, nil)
		}
	}
	c.w.meter.granted(c.id)
	hold := c.w.cfg.Hold
	c.w.after(hold+callerMin, hold+callerMax, t.unlock)
}

func (t *thread) unlock() {
	c := t.c
	c.w.meter.leaves()
	c.call(func() {
		c.w.release(c.id, t.id)
		c.w.tracef(c.id, "release %d", t.id)
	}, func() {
		c.w.meter.unlocked()
		if !c.w.cfg.Drain {
			c.w.after(callerMin, callerMax, t.ask)
		}
	})
}
