package locker

import (
	"context"
	_ "embed" // the scripts
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/redis/rueidis"
)

var (
	//go:embed script/direct_acquire.lua
	directAcquireLua string
	//go:embed script/direct_release.lua
	directReleaseLua string
)

// neighbours share a lock with holdfast in turns. They are in no other table.
var neighbours = []Candidate{{
	Name: "direct", Kind: Neighbour, NeedsServer: true, Extra: []string{"del"},
	About: "each caller sends its own commands and each message makes one caller try, as in Redisson",
	Open:  openDirect,
}}

// latchLife is within the range that Redisson uses.
const latchLife = 18 * time.Second

// direct has the protocol of Redisson's plain lock and no handoff in memory. A
// caller that is refused joins the subscription of its process and tries
// again. After that it waits for a permit, of which each message brings one,
// or for the end of the record's life. The last caller that gets the lock
// unsubscribes. It does not renew: leases are longer than any measurement.
type direct struct {
	*raw
	conn   rueidis.DedicatedClient
	hangUp func()
	wg     sync.WaitGroup // of latches that are being deleted

	mu    sync.Mutex // held while a subscription begins or ends
	names map[string]*joint

	byChannel sync.Map // of *joint, for the reader of messages
}

// A joint is the subscription that the callers of a name share.
type joint struct {
	users   int
	permits chan struct{}
}

func openDirect(ctx context.Context, c Config) (Locker, error) {
	r, err := openRaw(ctx, c)
	if err != nil {
		return nil, err
	}
	for text, sha := range map[string]*string{directAcquireLua: &r.acquire, directReleaseLua: &r.release} {
		if *sha, err = r.client.Do(ctx, r.client.B().ScriptLoad().Script(text).Build()).ToString(); err != nil {
			r.Close()
			return nil, err
		}
	}
	d := &direct{raw: r, names: map[string]*joint{}}
	d.conn, d.hangUp = r.client.Dedicate()
	d.conn.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: d.message})
	return d, nil
}

// message runs on the reader of the connection.
func (d *direct) message(m rueidis.PubSubMessage) {
	if j, ok := d.byChannel.Load(m.Channel); ok {
		select {
		case j.(*joint).permits <- struct{}{}:
		default:
		}
	}
}

func (d *direct) Lock(ctx context.Context, name string) (Held, error) {
	h := &directHeld{d, name, d.newOwner()}
	ok, _, err := d.take(ctx, h)
	if ok || err != nil {
		return h, err
	}
	j, err := d.join(ctx, name)
	if err != nil {
		return nil, err
	}
	defer d.part(name, j)
	for {
		ok, ttl, err := d.take(ctx, h)
		if ok || err != nil {
			return h, err
		}
		if err := await(ctx, j.permits, ttl); err != nil {
			return nil, err
		}
	}
}

// take tries once.
func (d *direct) take(ctx context.Context, h *directHeld) (bool, time.Duration, error) {
	c := d.client.B().Evalsha().Sha1(d.acquire).Numkeys(1).Key(h.name).Arg(d.lease, h.owner).Build()
	ttl, err := d.client.Do(ctx, c).AsInt64()
	if rueidis.IsRedisNil(err) {
		return true, 0, nil
	}
	return false, time.Duration(ttl) * time.Millisecond, err
}

// join returns when the subscription is confirmed.
func (d *direct) join(ctx context.Context, name string) (*joint, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	j := d.names[name]
	if j == nil {
		j = &joint{permits: make(chan struct{}, 1<<16)}
		d.byChannel.Store(channelOf(name), j)
		if err := d.conn.Do(ctx, d.conn.B().Subscribe().Channel(channelOf(name)).Build()).Error(); err != nil {
			d.byChannel.Delete(channelOf(name))
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
	d.byChannel.Delete(channelOf(name))
	// It fails only with the connection, and then nothing is subscribed.
	_ = d.conn.Do(context.Background(), d.conn.B().Unsubscribe().Channel(channelOf(name)).Build()).Error()
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
	free, err := d.client.Do(ctx, c).AsInt64()
	switch {
	case rueidis.IsRedisNil(err) || err == nil && free != 1:
		return errors.New("the lock was not held")
	case err != nil:
		return err
	}
	d.wg.Go(func() { _ = d.client.Do(context.Background(), d.client.B().Del().Key(latch).Build()).Error() })
	return nil
}
