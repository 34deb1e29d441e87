package soak

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/lockmgr"
)

// A handle is what workers know of a lock they hold. *lockmgr.Lock is one.
type handle interface {
	TokenOf(name string) int64
	Remaining() time.Duration
	Valid() bool
	Lost() <-chan struct{}
	Err() error
	Unlock(context.Context) error
}

// clients are the names of Config.Client: the library, and those that are broken on purpose.
var clients = []string{"", "careless", "stretched", "doubled", partial, overfull, "leaky"}

const (
	partial  = "partial"
	overfull = "overfull"
)

const (
	doubledOneIn = 20  // refused tries that are taken for grants
	leakyOneIn   = 100 // unlocks that leave a goroutine behind
)

// breaker makes handles of a broken client.
type breaker struct {
	client string
	lease  time.Duration
}

// wrap returns what the broken client thinks of a grant.
func (b breaker) wrap(l *lockmgr.Lock) handle {
	switch b.client {
	case "careless":
		return &stretched{Lock: l, by: time.Hour}
	case "stretched":
		return &stretched{Lock: l, by: b.lease / 2}
	case "leaky":
		return leaky{l}
	}
	return l
}

// invent returns a handle for a try that was refused, now and then.
func (b breaker) invent(r *rand.Rand) handle {
	if b.client != "doubled" || r.IntN(doubledOneIn) > 0 {
		return nil
	}
	return &imagined{until: time.Now().Add(b.lease)}
}

// set returns what the broken client asks for when a set is wanted.
func (b breaker) set(x wish) lockmgr.Set {
	if b.client == partial {
		x.items = x.items[1:]
	}
	return x.set()
}

// limit returns how many permits of a name the client thinks that there are.
func (b breaker) limit() int {
	if b.client == overfull {
		return permitLimit + 1
	}
	return permitLimit
}

// stretched believes for longer than it should.
type stretched struct {
	*lockmgr.Lock
	by time.Duration

	mu    sync.Mutex
	until time.Time
	over  bool
}

func (s *stretched) Valid() bool           { return s.Remaining() > 0 }
func (s *stretched) Lost() <-chan struct{} { return nil }
func (s *stretched) Remaining() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return 0
	}
	if left := s.Lock.Remaining(); left > 0 {
		s.until = time.Now().Add(left + s.by)
	}
	return max(0, time.Until(s.until))
}

func (s *stretched) Unlock(ctx context.Context) error {
	s.mu.Lock()
	s.over = true
	s.mu.Unlock()
	return s.Lock.Unlock(ctx)
}

// leaky leaves goroutines behind.
type leaky struct{ *lockmgr.Lock }

func (l leaky) Unlock(ctx context.Context) error {
	if rand.IntN(leakyOneIn) == 0 {
		go func() { select {} }()
	}
	return l.Lock.Unlock(ctx)
}

// imagined is a lock that nobody granted.
type imagined struct {
	until time.Time
	over  atomic.Bool
}

func (i *imagined) TokenOf(string) int64  { return 1 }
func (i *imagined) Valid() bool           { return i.Remaining() > 0 }
func (i *imagined) Lost() <-chan struct{} { return nil }
func (i *imagined) Err() error            { return nil }
func (i *imagined) Remaining() time.Duration {
	if i.over.Load() {
		return 0
	}
	return max(0, time.Until(i.until))
}

func (i *imagined) Unlock(context.Context) error {
	i.over.Store(true)
	return nil
}
