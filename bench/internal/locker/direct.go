package locker

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

// neighbours share a lock with holdfast in turns. They are in no other table.
var neighbours = []Candidate{{
	Name: "direct", Kind: Neighbour, NeedsServer: true, Extra: []string{"del"},
	About: "each caller sends its own commands and each message makes one caller try, as in Redisson",
	Open:  openDirect,
}}

// latchLife is within the range that Redisson uses.
const latchLife = 18 * time.Second

// direct has the protocol of Redisson's plain lock and no handoff in memory. A caller that is
// refused joins the subscription of its process and tries again. After that it waits for a permit,
// of which each message brings one, or for the end of the record's life. The last caller that gets
// the lock unsubscribes. It does not renew: leases are longer than any measurement.
type direct struct {
	*raw
	conn   rueidis.DedicatedClient
	hangUp func()
	wg     sync.WaitGroup // of latches that are being deleted

	mu    sync.Mutex // held while a subscription begins or ends
	names map[string]*joint

	byChannel sync.Map // of *joint, for the reader of messages

	channel func(name string) string
	all     string // the message that lets all callers try; others let one
	counts  bool   // a message is the number of callers that it lets try
}

// A joint is the subscription that the callers of a name share.
type joint struct {
	users   int
	waiting atomic.Int64
	permits chan struct{}
}

func openDirect(ctx context.Context, c Config) (Locker, error) {
	d := &direct{channel: channelOf}
	return d, d.open(ctx, c, ownScript("direct_acquire"), ownScript("direct_release"))
}

// open connects a client with the texts of its scripts.
func (d *direct) open(ctx context.Context, c Config, acquire, release string) (err error) {
	if d.raw, err = openRaw(ctx, c); err != nil {
		return err
	}
	if err := d.load(ctx, map[string]*string{acquire: &d.acquire, release: &d.release}); err != nil {
		return err
	}
	d.names = map[string]*joint{}
	d.conn, d.hangUp = d.client.Dedicate()
	d.conn.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: d.message})
	return nil
}

// message runs on the reader of the connection.
func (d *direct) message(m rueidis.PubSubMessage) {
	v, ok := d.byChannel.Load(m.Channel)
	if !ok {
		return
	}
	j, n := v.(*joint), int64(1)
	switch {
	case d.counts:
		free, _ := strconv.ParseInt(m.Message, 10, 64)
		n = min(free, j.waiting.Load())
	case m.Message == d.all:
		n = j.waiting.Load()
	}
	for range n {
		select {
		case j.permits <- struct{}{}:
		default:
		}
	}
}

func (d *direct) Lock(ctx context.Context, name string) (Held, error) {
	h := &directHeld{d, name, d.newOwner()}
	return h, d.wait(ctx, name, func() (bool, time.Duration, error) { return d.take(ctx, h) })
}

// wait calls try until it returns true, the first time at once. When it returns false, it also
// returns how long the holder's record lives at most.
func (d *direct) wait(ctx context.Context, name string, try func() (bool, time.Duration, error)) error {
	ok, _, err := try()
	if ok || err != nil {
		return err
	}
	j, err := d.join(ctx, name)
	if err != nil {
		return err
	}
	defer d.part(name, j)
	// From before its try on, since a message may come after the try is refused.
	j.waiting.Add(1)
	defer j.waiting.Add(-1)
	for {
		ok, ttl, err := try()
		if ok || err != nil {
			return err
		}
		if err := await(ctx, j.permits, ttl); err != nil {
			return err
		}
	}
}

// take tries once.
func (d *direct) take(ctx context.Context, h *directHeld) (bool, time.Duration, error) {
	c := d.client.B().Evalsha().Sha1(d.acquire).Numkeys(1).Key(h.name).Arg(d.lease, h.owner).Build()
	return granted(d.client.Do(ctx, c))
}

// join returns when the subscription is confirmed.
func (d *direct) join(ctx context.Context, name string) (*joint, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	j := d.names[name]
	if j == nil {
		j = &joint{permits: make(chan struct{}, 1<<16)}
		d.byChannel.Store(d.channel(name), j)
		if err := d.conn.Do(ctx, d.conn.B().Subscribe().Channel(d.channel(name)).Build()).Error(); err != nil {
			d.byChannel.Delete(d.channel(name))
			return nil, err
		}
		d.names[name] = j
	}
	j.users++
	return j, nil
}

// part leaves the subscription, and ends it after the last caller.
func (d *direct) part(name string, j *joint) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if j.users--; j.users > 0 {
		return
	}
	delete(d.names, name)
	d.byChannel.Delete(d.channel(name))
	// It fails only with the connection, and then nothing is subscribed.
	_ = d.conn.Do(context.Background(), d.conn.B().Unsubscribe().Channel(d.channel(name)).Build()).Error()
}

// Close ends the connections.
func (d *direct) Close() {
	d.hangUp()
	d.wg.Wait()
	d.raw.Close()
}

type directHeld struct {
	direct      *direct
	name, owner string
}

// Unlock returns when the lock is free. The latch is deleted in the background.
func (h *directHeld) Unlock(ctx context.Context) error {
	d := h.direct
	latch := "redisson_unlock_latch:{" + h.name + "}:" + h.owner
	c := d.client.B().Evalsha().Sha1(d.release).Numkeys(3).Key(h.name, channelOf(h.name), latch).
		Arg(h.owner, d.lease, strconv.FormatInt(latchLife.Milliseconds(), 10)).Build()
	if err := gaveBack(d.client.Do(ctx, c)); err != nil {
		return err
	}
	d.wg.Go(func() { _ = d.client.Do(context.Background(), d.client.B().Del().Key(latch).Build()).Error() })
	return nil
}
