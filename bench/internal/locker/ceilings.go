package locker

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/rueidis"
)

var ceilings = []Candidate{
	{
		Name: "sync.Mutex", Kind: Ceiling,
		About: "a mutex of the standard library among the same goroutines: no Redis",
		Open:  func(context.Context, Config) (Locker, error) { return &mutexes{}, nil },
	}, {
		Name: "raw batches", Kind: Ceiling, NeedsServer: true,
		About: "the same scripts by two senders in DoMulti batches: no waiting, no state",
		Open:  onRaw(false, func(r *raw, _ Config) Locker { return &batches{r} }),
	}, {
		Name: "raw Do", Kind: Ceiling, NeedsServer: true,
		About: "the same scripts, each goroutine sends its own over a connection of its own: no waiting, no state",
		Open:  onRaw(true, func(r *raw, _ Config) Locker { return &single{r} }),
	}, {
		Name: "raw handover", Kind: Ceiling, NeedsServer: true,
		About: "an unlock gives the lock to the client that waits and joins the line, in one script, and the grant is a message",
		Open:  openHandover,
	}, {
		Name: "2 x PING", Kind: Ceiling, NeedsServer: true, Extra: []string{"ping"},
		About: "two round trips in place of a pair, over a connection of each goroutine: no script",
		Open:  onRaw(true, func(r *raw, _ Config) Locker { return &pinger{r} }),
	},
}

type mutexes struct{ named sync.Map }

func (m *mutexes) Lock(_ context.Context, name string) (Held, error) {
	mu, ok := m.named.Load(name)
	if !ok {
		mu, _ = m.named.LoadOrStore(name, new(sync.Mutex))
	}
	h := mutexHeld{mu.(*sync.Mutex)}
	h.Mutex.Lock()
	return h, nil
}

func (m *mutexes) Close() {}

type mutexHeld struct{ *sync.Mutex }

func (h mutexHeld) Unlock(context.Context) error { h.Mutex.Unlock(); return nil }

var errNoWaiting = errors.New("this ceiling does not wait")

// single locks what is free.
type single struct{ *raw }

func (s *single) Lock(ctx context.Context, name string) (Held, error) {
	owner := s.newOwner()
	ok, _, err := s.try(ctx, name, owner)
	if err == nil && !ok {
		err = errNoWaiting
	}
	return &rawHeld{s.raw, name, owner}, err
}

type pinger struct{ *raw }

func (p *pinger) ping(ctx context.Context) error {
	return p.client.Do(ctx, p.client.B().Ping().Build()).Error()
}
func (p *pinger) Lock(ctx context.Context, _ string) (Held, error) { return p, p.ping(ctx) }
func (p *pinger) Unlock(ctx context.Context) error                 { return p.ping(ctx) }

// batches drives the server with as little work as a client can do.
type batches struct{ *raw }

func (b *batches) Lock(context.Context, string) (Held, error) { return nil, errNoWaiting }

func (b *batches) Workers(names int) int { return min(names, 2) }

func (b *batches) Pairs(ctx context.Context, names []string, stop func() bool, pair func(int, time.Time)) error {
	var wg sync.WaitGroup
	errs := make([]error, b.Workers(len(names)))
	for w := range errs {
		mine := names[w*len(names)/len(errs) : (w+1)*len(names)/len(errs)]
		wg.Go(func() { errs[w] = b.drive(ctx, mine, stop, func(t time.Time) { pair(w, t) }) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (b *batches) drive(ctx context.Context, names []string, stop func() bool, pair func(time.Time)) error {
	locks, unlocks := make(rueidis.Commands, len(names)), make(rueidis.Commands, len(names))
	for !stop() {
		for i, name := range names {
			owner := b.newOwner()
			locks[i], unlocks[i] = b.acquireCmd(name, owner), b.releaseCmd(name, owner)
		}
		began := time.Now()
		for _, r := range b.client.DoMulti(ctx, locks...) {
			if err := r.Error(); !rueidis.IsRedisNil(err) {
				return errors.Join(errNoWaiting, err)
			}
		}
		for _, r := range b.client.DoMulti(ctx, unlocks...) {
			if err := r.Error(); err != nil {
				return err
			}
		}
		for range names {
			pair(began)
		}
	}
	return nil
}
