package locker

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/lockmgr"
)

// ordered are other ways to serve the waiters of several clients. They are in no other table.
var ordered = []Candidate{{
	Name: "plain lock", Kind: Fair, NeedsServer: true,
	About: "holdfast's plain lock, which keeps no order between clients",
	Open:  onManager(func(m manager) Locker { return unordered{m} }),
}, {
	Name: "one channel a waiter", Kind: Fair, NeedsServer: true, Extra: []string{"del"},
	About: "each waiter has a place in the queue and a channel of its own and sends its own commands, as in Redisson's fair lock",
	Open:  openPlaces,
}}

// QueueKey is the list of the places of those who wait for a name, of holdfast's fair lock and of
// Redisson's.
func QueueKey(name string) string { return "redisson_lock_queue:{" + name + "}" }

// LockFair takes holdfast's fair lock.
func (m manager) LockFair(ctx context.Context, name string) (Held, error) {
	return m.lock(ctx, name, lockmgr.Fair())
}

// unordered is a client of the plain lock.
type unordered struct{ manager }

// LockFair takes the plain lock.
func (m unordered) LockFair(ctx context.Context, name string) (Held, error) { return m.Lock(ctx, name) }

// Waiting returns how many requests of this client wait.
func (m unordered) Waiting() int { return m.Stats().Waiting }

// fairWait is how long a waiter of Redisson's fair lock keeps its place, by default.
const fairWait = "300000"

// places has the protocol and the layout of Redisson's fair lock. A waiter that is refused has a
// place in the queue. It subscribes to a channel of its own and tries again. It then tries at each
// message, or at the end of the record's life. It does not renew: leases are longer than any
// measurement.
type places struct {
	*raw
	leave  string // the hash of a script
	conn   rueidis.DedicatedClient
	hangUp func()
	wg     sync.WaitGroup // of commands that nobody waits for

	byChannel sync.Map // of chan struct{}: there was a message
}

func openPlaces(ctx context.Context, c Config) (Locker, error) {
	r, err := openRaw(ctx, c)
	if err != nil {
		return nil, err
	}
	p := &places{raw: r}
	if err := r.load(ctx, map[string]*string{ownScript("places_acquire"): &r.acquire, ownScript("places_release"): &r.release, ownScript("places_leave"): &p.leave}); err != nil {
		return nil, err
	}
	p.conn, p.hangUp = r.client.Dedicate()
	p.conn.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: func(m rueidis.PubSubMessage) {
		if told, ok := p.byChannel.Load(m.Channel); ok {
			select {
			case told.(chan struct{}) <- struct{}{}:
			default:
			}
		}
	}})
	return p, nil
}

// Lock takes the lock in its turn.
func (p *places) Lock(ctx context.Context, name string) (Held, error) { return p.LockFair(ctx, name) }

// LockFair blocks until it is the first in the queue and holds the lock.
func (p *places) LockFair(ctx context.Context, name string) (Held, error) {
	h := &placesHeld{p, name, p.newOwner()}
	if ok, _, err := h.try(ctx); ok || err != nil {
		return h, err
	}
	told := make(chan struct{}, 1)
	channel := h.channel()
	p.byChannel.Store(channel, told)
	defer p.background(func(ctx context.Context) {
		_ = p.conn.Do(ctx, p.conn.B().Unsubscribe().Channel(channel).Build()).Error()
		p.byChannel.Delete(channel)
	})
	err := p.conn.Do(ctx, p.conn.B().Subscribe().Channel(channel).Build()).Error()
	for err == nil {
		var ok bool
		var ttl time.Duration
		if ok, ttl, err = h.try(ctx); ok {
			return h, nil
		}
		if err == nil {
			err = await(ctx, told, ttl)
		}
	}
	ctx = context.WithoutCancel(ctx)
	c := p.client.B().Evalsha().Sha1(p.leave).Numkeys(2).Key(QueueKey(name), deadlinesKey(name)).Arg(h.owner, fairWait).Build()
	return nil, errors.Join(err, p.client.Do(ctx, c).Error())
}

// background sends what nobody waits for.
func (p *places) background(f func(context.Context)) {
	p.wg.Go(func() { f(context.Background()) })
}

// Close ends the connections.
func (p *places) Close() {
	p.wg.Wait()
	p.hangUp()
	p.raw.Close()
}

type placesHeld struct {
	places      *places
	name, owner string
}

func deadlinesKey(name string) string { return "redisson_lock_timeout:{" + name + "}" }

func (h *placesHeld) channel() string { return channelOf(h.name) + ":" + h.owner }

// try tries once. It is not cancelled, since the server may have granted the lock.
func (h *placesHeld) try(ctx context.Context) (bool, time.Duration, error) {
	p := h.places
	c := p.client.B().Evalsha().Sha1(p.acquire).Numkeys(3).Key(h.name, QueueKey(h.name), deadlinesKey(h.name)).
		Arg(p.lease, h.owner, fairWait, millis(time.Now())).Build()
	return granted(p.client.Do(context.WithoutCancel(ctx), c))
}

// Unlock returns when the lock is free. The latch is deleted in the background.
func (h *placesHeld) Unlock(ctx context.Context) error {
	p := h.places
	latch := "redisson_unlock_latch:{" + h.name + "}:" + h.owner
	c := p.client.B().Evalsha().Sha1(p.release).Numkeys(5).
		Key(h.name, QueueKey(h.name), deadlinesKey(h.name), channelOf(h.name), latch).
		Arg(h.owner, millis(time.Now()), strconv.FormatInt(latchLife.Milliseconds(), 10)).Build()
	if err := gaveBack(p.client.Do(ctx, c)); err != nil {
		return err
	}
	p.background(func(ctx context.Context) { _ = p.client.Do(ctx, p.client.B().Del().Key(latch).Build()).Error() })
	return nil
}
