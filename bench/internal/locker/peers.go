package locker

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

var peers = []Candidate{
	{
		Name: "rueidislock", Kind: Peer, NeedsServer: true,
		About: "all options zero: three keys a lock, told by client-side caching",
		Open: func(_ context.Context, c Config) (Locker, error) {
			return openRueidislock(c, rueidislock.LockerOption{})
		},
	}, {
		Name: "rueidislock tuned", Kind: Peer, NeedsServer: true,
		About: "KeyMajority 1 and NoLoopTracking, as its README advises for one server",
		Open: func(_ context.Context, c Config) (Locker, error) {
			return openRueidislock(c, rueidislock.LockerOption{KeyMajority: 1, NoLoopTracking: true})
		},
	}, {
		Name: "redsync", Kind: Peer, NeedsServer: true, Poll: 250 * time.Millisecond, Extra: []string{"set"},
		About: "32 tries, 50 to 250 ms apart; the bench asks again when they are spent",
		Open:  func(_ context.Context, c Config) (Locker, error) { return openRedsync(c), nil },
	}, {
		Name: "redsync tuned", Kind: Peer, NeedsServer: true, Poll: 15 * time.Millisecond, Extra: []string{"set"},
		About: "tries 5 to 15 ms apart, as many as it takes",
		Open: func(_ context.Context, c Config) (Locker, error) {
			rng := newRand(c.Seed)
			return openRedsync(c, redsync.WithTries(1<<30),
				redsync.WithRetryDelayFunc(func(int) time.Duration { return rng.between(5*time.Millisecond, 15*time.Millisecond) })), nil
		},
	}, {
		Name: "bsm/redislock", Kind: Peer, NeedsServer: true, Poll: 100 * time.Millisecond,
		About: "a try every 100 ms, as in its example (its default does not wait)",
		Open:  func(_ context.Context, c Config) (Locker, error) { return openBSM(c, 100*time.Millisecond), nil },
	}, {
		Name: "bsm/redislock tuned", Kind: Peer, NeedsServer: true, Poll: 10 * time.Millisecond,
		About: "a try every 10 ms",
		Open:  func(_ context.Context, c Config) (Locker, error) { return openBSM(c, 10*time.Millisecond), nil },
	},
}

// rueidislock

type rueidisLocker struct{ rueidislock.Locker }

func openRueidislock(c Config, o rueidislock.LockerOption) (Locker, error) {
	o.ClientOption = rueidis.ClientOption{InitAddress: []string{c.Addr}}
	o.KeyValidity = c.Lease
	l, err := rueidislock.NewLocker(o)
	if err != nil {
		return nil, err
	}
	return rueidisLocker{l}, nil
}

func (l rueidisLocker) Lock(ctx context.Context, name string) (Held, error) {
	_, cancel, err := l.WithContext(ctx, name)
	if err != nil {
		return nil, err
	}
	return cancelHeld(cancel), nil
}

type cancelHeld context.CancelFunc

// Unlock returns when the key is deleted.
func (h cancelHeld) Unlock(context.Context) error { h(); return nil }

// redsync

type redsyncLocker struct {
	client  *redis.Client
	rs      *redsync.Redsync
	options []redsync.Option
	renew   time.Duration // zero: not at all
}

func openRedsync(c Config, options ...redsync.Option) Locker {
	client := redis.NewClient(&redis.Options{Addr: c.Addr})
	if c.Lease > 0 {
		options = append(options, redsync.WithExpiry(c.Lease))
	}
	return &redsyncLocker{client, redsync.New(goredis.NewPool(client)), options, renewEvery(c)}
}

func (l *redsyncLocker) Lock(ctx context.Context, name string) (Held, error) {
	m := l.rs.NewMutex(name, l.options...)
	for {
		err := m.LockContext(ctx)
		var taken *redsync.ErrTaken
		switch {
		case err == nil:
			if l.renew > 0 {
				return keep(redsyncHeld{m}, l.renew, func(ctx context.Context) { _, _ = m.ExtendContext(ctx) }), nil
			}
			return redsyncHeld{m}, nil
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case !errors.As(err, &taken) && !errors.Is(err, redsync.ErrFailed):
			return nil, err
		}
	}
}

func (l *redsyncLocker) Close() { _ = l.client.Close() }

type redsyncHeld struct{ *redsync.Mutex }

func (h redsyncHeld) Unlock(ctx context.Context) error {
	_, err := h.UnlockContext(ctx)
	return err
}

// bsm/redislock

type bsmLocker struct {
	client *redis.Client
	locker *redislock.Client
	ttl    time.Duration
	every  time.Duration
	renew  time.Duration
}

func openBSM(c Config, every time.Duration) Locker {
	client := redis.NewClient(&redis.Options{Addr: c.Addr})
	return &bsmLocker{client, redislock.New(client), cmp.Or(c.Lease, 30*time.Second), every, renewEvery(c)}
}

func (l *bsmLocker) Lock(ctx context.Context, name string) (Held, error) {
	return l.LockSet(ctx, []string{name})
}

// LockSet is ObtainMulti, which Obtain calls too.
func (l *bsmLocker) LockSet(ctx context.Context, names []string) (Held, error) {
	for {
		lock, err := l.locker.ObtainMulti(ctx, names, l.ttl, &redislock.Options{RetryStrategy: redislock.LinearBackoff(l.every)})
		switch {
		case err == nil:
			if l.renew > 0 {
				return keep(bsmHeld{lock}, l.renew, func(ctx context.Context) { _ = lock.Refresh(ctx, l.ttl, nil) }), nil
			}
			return bsmHeld{lock}, nil
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case !errors.Is(err, redislock.ErrNotObtained) && !errors.Is(err, context.DeadlineExceeded):
			return nil, err
		}
		// It caps the wait at the lock's own life.
	}
}

func (l *bsmLocker) Close() { _ = l.client.Close() }

type bsmHeld struct{ *redislock.Lock }

func (h bsmHeld) Unlock(ctx context.Context) error { return h.Release(ctx) }

// keep renews a lock the way the documentation of these libraries shows: a goroutine and a ticker
// beside each lock.
func keep(h Held, every time.Duration, renew func(context.Context)) Held {
	ctx, cancel := context.WithCancel(context.Background())
	k := &kept{Held: h, cancel: cancel}
	k.wg.Go(func() {
		t := time.NewTicker(every)
		defer t.Stop()
		for {
			select {
			case <-t.C:
				renew(ctx)
			case <-ctx.Done():
				return
			}
		}
	})
	return k
}

type kept struct {
	Held
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

func (k *kept) Unlock(ctx context.Context) error {
	k.cancel()
	k.wg.Wait()
	return k.Held.Unlock(ctx)
}

func renewEvery(c Config) time.Duration {
	if !c.Renew {
		return 0
	}
	return c.Lease / 3
}
