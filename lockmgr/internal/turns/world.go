package turns

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
)

const (
	key     = "n"
	channel = "redisson_lock__channel:{n}"

	drainFrom = time.Second
)

// A world is one case under way.
type world struct {
	cfg     Config
	rng     *rand.Rand
	now     time.Duration
	queue   queue
	clients []client
	meter   meter

	server *server
	busy   time.Duration // when the server has run all earlier commands
	stop   bool
}

// A client is a manager or a direct client.
type client interface {
	begin()
	message(channel, payload string) // a message has arrived
	line() *link
}

// Run simulates a case.
func Run(cfg Config) Result {
	w := &world{cfg: cfg, rng: rand.New(rand.NewPCG(cfg.Seed, 0)), server: newServer()}
	w.meter.init(w, cfg.Clients)
	w.server.Deliver = func(subscriber int, from, payload string) {
		c := w.clients[subscriber]
		c.line().messages.send(w.now, func() { c.message(from, payload) })
	}
	for i, cc := range cfg.Clients {
		if cc.Direct {
			w.clients = append(w.clients, newDirect(w, i, cc))
		} else {
			w.clients = append(w.clients, newManager(w, i, cc))
		}
	}
	if cfg.Drain {
		w.acquire(len(cfg.Clients), 1, time.Hour)
		w.queue.put(drainFrom, func() {
			w.meter.reset()
			w.run(drainFrom, func() { w.release(len(cfg.Clients), 1) })
		})
	}
	for _, c := range w.clients {
		w.queue.put(w.between(0, time.Millisecond), c.begin)
	}
	for !w.queue.empty() && !w.stop {
		at, do := w.queue.take()
		if at > cfg.Time {
			break
		}
		w.now = at
		do()
	}
	if !w.stop {
		w.now = cfg.Time
	}
	return w.meter.result()
}

func (w *world) after(lo, hi time.Duration, do func()) {
	w.queue.put(w.now+w.between(lo, hi), do)
}

// between draws a length of time in [lo, hi].
func (w *world) between(lo, hi time.Duration) time.Duration {
	return lo + time.Duration(w.rng.Int64N(int64(hi-lo+1)))
}

// hop draws the extra time of one change of goroutine.
func (w *world) hop() time.Duration {
	if w.cfg.Hop == 0 {
		return 0
	}
	d := w.between(w.cfg.Hop/2, w.cfg.Hop)
	for w.rng.IntN(4) == 0 {
		d += w.between(0, w.cfg.Hop)
	}
	return d
}

// afterHop calls do on another goroutine.
func (w *world) afterHop(do func()) {
	if w.cfg.Hop == 0 {
		do()
		return
	}
	w.queue.put(w.now+w.hop(), do)
}

// run runs a command on the server at an instant and notes the holder.
func (w *world) run(now time.Duration, command func()) {
	w.server.Now = max(w.server.Now, now)
	command()
	w.meter.record(w.holder())
}

// holder returns the client that has the record, or -1.
func (w *world) holder() int {
	fields := w.server.Fields(key)
	if len(fields) == 0 {
		return -1
	}
	n := 0
	for _, c := range []byte(fields[0].Name) {
		if c == ':' {
			break
		}
		n = 10*n + int(c-'0')
	}
	return n
}

// reply runs an operation of a client. Its fields in the record are its number, then that of the
// hold.
func (w *world) reply(client int, op *core.Op) core.Reply {
	op.Name = key
	r := w.server.reply(strconv.Itoa(client), op)
	if r.Err != nil {
		panic(r.Err)
	}
	return r
}

// acquire takes the lock as a client of Redisson does, which knows no line. It returns for how long
// others have the lock.
func (w *world) acquire(client int, number uint64, lease time.Duration) (ok bool, ttl time.Duration) {
	if w.server.Get(key) != nil {
		return false, time.Duration(w.server.Do("PTTL", key).(int64)) * time.Millisecond
	}
	w.server.Do("HSET", key, field(client, number), "1")
	w.server.Do("PEXPIRE", key, strconv.FormatInt(lease.Milliseconds(), 10))
	return true, 0
}

// release gives the lock back as a client of Redisson does.
func (w *world) release(client int, number uint64) {
	if w.server.Do("HDEL", key, field(client, number)) != int64(1) {
		panic("release: it does not have the lock")
	}
	w.server.Do("PUBLISH", channel, "0")
}

func field(client int, number uint64) string { return fmt.Sprintf("%d:%d", client, number) }

// A link is a client's two connections.
type link struct {
	w        *world
	id       int
	requests way // to the server
	replies  way
	toHub    way // SUBSCRIBE and UNSUBSCRIBE
	messages way // what the channel brings
}

// A way carries things one way and keeps their order.
type way struct {
	w        *world
	distance time.Duration
	jitter   time.Duration
	last     time.Duration
}

func newLink(w *world, id int, c Client) *link {
	one := way{w: w, distance: nearby, jitter: nearJitter}
	if c.Distance > 0 {
		one.distance, one.jitter = c.Distance, nearJitter+c.Distance/50
	}
	return &link{w: w, id: id, requests: one, replies: one, toHub: one, messages: one}
}

// send calls deliver when something sent at an instant arrives.
func (p *way) send(at time.Duration, deliver func()) {
	p.last = max(p.last, at+p.distance+p.w.between(0, p.jitter))
	p.w.queue.put(p.last, deliver)
}

// call runs a command on the server, then calls done when the reply has arrived.
func (l *link) call(command, done func()) {
	w := l.w
	w.meter.command(l.id)
	l.requests.send(w.now, func() {
		w.busy = max(w.busy, w.now) + w.between(scriptMin, scriptMax)
		w.queue.put(w.busy, func() {
			w.run(w.now, command)
			l.replies.send(w.now, done)
		})
	})
}

// subscribe asks for messages. confirmed may be nil.
func (l *link) subscribe(channel string, on bool, confirmed func()) {
	w := l.w
	w.meter.command(l.id)
	l.toHub.send(w.now, func() {
		if on {
			w.server.Subscribe(channel, l.id)
		} else {
			w.server.Unsubscribe(channel, l.id)
		}
		if confirmed != nil {
			l.messages.send(w.now, confirmed)
		}
	})
}

func (w *world) tracef(client int, format string, args ...any) {
	if w.cfg.Trace != nil {
		fmt.Fprintf(w.cfg.Trace, "%12.6fms %-8s %s\n", float64(w.now)/1e6, w.meter.name(client), fmt.Sprintf(format, args...))
	}
}
