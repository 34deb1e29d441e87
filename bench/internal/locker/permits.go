package locker

import (
	"cmp"
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/redis/rueidis"
)

// counters are other ways to take permits. They are in no other table.
var counters = []Candidate{{
	Name: "one command a permit", Kind: Permit, NeedsServer: true,
	About: "each caller takes and gives back its permit by a script of its own, and a message lets as many callers try as permits are free, as in Redisson",
	Open:  func(ctx context.Context, c Config) (Locker, error) { return openCounted(ctx, c, true) },
}, {
	Name: "one try a message", Kind: Permit, NeedsServer: true,
	About: "the same, but a message lets one caller try, which is enough: each permit that comes free has a message",
	Open:  func(ctx context.Context, c Config) (Locker, error) { return openCounted(ctx, c, false) },
}}

// Acquire takes one of holdfast's permits.
func (m manager) Acquire(ctx context.Context, name string, limit int) (Held, error) {
	l, err := m.Permits(name, limit).Acquire(ctx, 1)
	if err != nil {
		return nil, err
	}
	return l, nil
}

// counted has the protocol and the layout of Redisson's semaphore whose permits expire. It waits as
// direct does: a caller that is refused joins the subscription of its process before it tries
// again, so it misses no message. A message says how many permits are free, and lets as many
// callers try, or one. It does not renew: leases are longer than any measurement.
type counted struct {
	*direct
	life time.Duration
	made *sync.Map // of names whose counter this client has seen
}

// openCounted returns a client in which a message lets as many callers try as it says, or one.
func openCounted(ctx context.Context, c Config, counts bool) (Locker, error) {
	channel := func(name string) string { return "redisson_sc:{" + name + "}" }
	s := counted{&direct{channel: channel, counts: counts}, cmp.Or(c.Lease, rawLease), &sync.Map{}}
	return s, s.open(ctx, c, ownScript("counted_acquire"), ownScript("counted_release"))
}

// Lock takes the only permit of a name.
func (s counted) Lock(ctx context.Context, name string) (Held, error) { return s.Acquire(ctx, name, 1) }

func (s counted) Acquire(ctx context.Context, name string, limit int) (Held, error) {
	if err := s.setUp(ctx, name, limit); err != nil {
		return nil, err
	}
	h := &countedHeld{s, name, s.newOwner()}
	return h, s.wait(ctx, name, func() (bool, time.Duration, error) {
		now := time.Now()
		c := s.client.B().Evalsha().Sha1(s.acquire).Numkeys(3).Key(s.keys(name)...).Arg(h.permit, millis(now), millis(now.Add(s.life))).Build()
		ok, ttl, err := granted(s.client.Do(ctx, c))
		if ttl < 0 { // nothing expires, so only a message tells
			ttl = s.life
		}
		return ok, ttl, err
	})
}

// setUp gives a name its counter, unless it has one.
func (s counted) setUp(ctx context.Context, name string, limit int) error {
	if _, ok := s.made.Load(name); ok {
		return nil
	}
	err := s.client.Do(ctx, s.client.B().Set().Key(name).Value(strconv.Itoa(limit)).Nx().Build()).Error()
	if err != nil && !rueidis.IsRedisNil(err) {
		return err
	}
	s.made.Store(name, nil)
	return nil
}

// keys are those of both scripts.
func (s counted) keys(name string) []string {
	return []string{name, "{" + name + "}:timeout", s.channel(name)}
}

type countedHeld struct {
	counted      counted
	name, permit string
}

// Unlock returns when the permit is free.
func (h *countedHeld) Unlock(ctx context.Context) error {
	s := h.counted
	c := s.client.B().Evalsha().Sha1(s.release).Numkeys(3).Key(s.keys(h.name)...).Arg(h.permit, millis(time.Now())).Build()
	return gaveBack(s.client.Do(ctx, c))
}

func millis(t time.Time) string { return strconv.FormatInt(t.UnixMilli(), 10) }
