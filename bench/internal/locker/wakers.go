package locker

import (
	"context"
	"sync/atomic"
	"time"
)

// The wakers are sketches of how waiting callers may learn that a lock is free. All send holdfast's
// scripts through the same client. They are good enough to be measured and not to be used: they
// neither renew, nor undo what a cancelled caller began, nor give up a subscription before Close.
var wakers = []Candidate{
	{
		Name: "poll", Kind: Waker, NeedsServer: true, Poll: 15 * time.Millisecond,
		About: "each waiter tries again after 5 to 15 ms",
		Open:  onRaw(false, func(r *raw, c Config) Locker { return &poller{r, newRand(c.Seed)} }),
	}, {
		Name: "broadcast", Kind: Waker, NeedsServer: true,
		About: "each message makes every waiter try",
		Open:  onRaw(false, func(r *raw, _ Config) Locker { return &woken{newSubscriber(r), (*watch).news} }),
	}, {
		Name: "one permit a message", Kind: Waker, NeedsServer: true,
		About: "each message makes one waiter of each process try, as Redisson's semaphore does",
		Open:  onRaw(false, func(r *raw, _ Config) Locker { return &woken{newSubscriber(r), (*watch).permit} }),
	}, {
		Name: "one try a process", Kind: Waker, NeedsServer: true,
		About: "each message makes the first in line of each process try",
		Open:  onRaw(false, func(r *raw, _ Config) Locker { return newLines(r, 0) }),
	}, {
		Name: "pass on in Redis", Kind: Waker, NeedsServer: true,
		About: "the holder's process hands over to its next in line by a script, 32 times in a row at most",
		Open:  onRaw(false, func(r *raw, _ Config) Locker { return newLines(r, 32) }),
	},
}

type poller struct {
	*raw
	rng *lockedRand
}

func (p *poller) Lock(ctx context.Context, name string) (Held, error) {
	h := &rawHeld{p.raw, name, p.newOwner()}
	for {
		ok, _, err := p.try(ctx, name, h.owner)
		if ok || err != nil {
			return h, err
		}
		if err := await(ctx, nil, p.rng.between(5*time.Millisecond, 15*time.Millisecond)); err != nil {
			return nil, err
		}
	}
}

// A woken client has a waiter that was refused wait for a wake-up, which is asked for before each
// try: a message that comes during the try counts.
type woken struct {
	*subscriber
	wake func(*watch) <-chan struct{}
}

func (l *woken) Lock(ctx context.Context, name string) (Held, error) {
	h := &rawHeld{l.raw, name, l.newOwner()}
	ok, _, err := l.try(ctx, name, h.owner)
	if ok || err != nil {
		return h, err
	}
	w, err := l.watch(ctx, name)
	if err != nil {
		return nil, err
	}
	for {
		wake := l.wake(w)
		ok, ttl, err := l.try(ctx, name, h.owner)
		if ok || err != nil {
			return h, err
		}
		if err := await(ctx, wake, ttl); err != nil {
			return nil, err
		}
	}
}

// lines has waiters stand in line, per name: only the first tries, or is handed the lock.
type lines struct {
	*subscriber
	maxPasses int64 // in a row; zero: the lock always goes through a message
}

func newLines(r *raw, maxPasses int64) *lines { return &lines{newSubscriber(r), maxPasses} }

// A line is the waiting of one process for one name.
type line struct {
	first   chan struct{} // cap 1: whoever put in is first; channels serve in order
	handed  chan string   // cap 1: the owner under which the lock was passed on
	waiting atomic.Int64
	held    atomic.Bool // by this process: no use in trying
	passes  atomic.Int64
}

func newLine() *line { return &line{first: make(chan struct{}, 1), handed: make(chan string, 1)} }

type lineHeld struct {
	rawHeld
	lines *lines
	line  *line
}

func (l *lines) Lock(ctx context.Context, name string) (Held, error) {
	w, err := l.watch(ctx, name)
	if err != nil {
		return nil, err
	}
	q := w.line
	q.waiting.Add(1)
	defer q.waiting.Add(-1)
	select {
	case q.first <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-q.first }()
	h := &lineHeld{rawHeld{l.raw, name, l.newOwner()}, l, q}
	again := rawLease
	for {
		if !q.held.Load() {
			ok, ttl, err := l.try(ctx, name, h.owner)
			if err != nil {
				return nil, err
			}
			if ok {
				q.held.Store(true)
				q.passes.Store(0)
				return h, nil
			}
			again = max(ttl, time.Millisecond)
		}
		t := time.NewTimer(again)
		select {
		case <-w.last:
		case h.owner = <-q.handed:
			t.Stop()
			return h, nil
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return nil, ctx.Err()
		}
		t.Stop()
	}
}

func (h *lineHeld) Unlock(ctx context.Context) error {
	if q := h.line; q.waiting.Load() > 0 && q.passes.Add(1) <= h.lines.maxPasses {
		next := h.raw.newOwner()
		if err := h.raw.client.Do(ctx, h.raw.transferCmd(h.name, h.owner, next)).Error(); err != nil {
			return err
		}
		q.handed <- next
		return nil
	}
	h.line.held.Store(false)
	return h.rawHeld.Unlock(ctx)
}
