package locker

import (
	"context"
	"sync"
	"time"

	"github.com/redis/rueidis"
)

// A subscriber shares one subscription a name among all waiters of a process.
type subscriber struct {
	*raw
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu    sync.Mutex
	names map[string]*watch
}

func newSubscriber(r *raw) *subscriber {
	s := &subscriber{raw: r, names: map[string]*watch{}}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// A watch is a subscription, with the forms in which the wakers want to hear of messages.
type watch struct {
	confirmed chan struct{}
	permits   chan struct{} // one for each message
	last      chan struct{} // cap 1: there was a message
	line      *line

	mu  sync.Mutex
	gen chan struct{} // closed by the next message
}

// watch returns when the subscription is confirmed. What is published from then on is not missed.
func (s *subscriber) watch(ctx context.Context, name string) (*watch, error) {
	s.mu.Lock()
	w := s.names[name]
	if w == nil {
		w = &watch{
			confirmed: make(chan struct{}), permits: make(chan struct{}, 1<<16),
			last: make(chan struct{}, 1), gen: make(chan struct{}), line: newLine(),
		}
		s.names[name] = w
		s.wg.Go(func() { s.receive(name, w) })
	}
	s.mu.Unlock()
	select {
	case <-w.confirmed:
		return w, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *subscriber) receive(name string, w *watch) {
	var once sync.Once
	ctx := rueidis.WithOnSubscriptionHook(s.ctx, func(p rueidis.PubSubSubscription) {
		once.Do(func() { close(w.confirmed) })
	})
	subscribe := s.client.B().Subscribe().Channel(channelOf(name)).Build()
	// A connection of its own, as holdfast has one.
	c, release := s.client.Dedicate()
	defer release()
	// It ends with ctx, or with the connection: the watchdog sees to that.
	_ = c.Receive(ctx, subscribe, func(rueidis.PubSubMessage) { w.tell() })
}

func (w *watch) tell() {
	select {
	case w.permits <- struct{}{}:
	default:
	}
	select {
	case w.last <- struct{}{}:
	default:
	}
	w.mu.Lock()
	close(w.gen)
	w.gen = make(chan struct{})
	w.mu.Unlock()
}

func (w *watch) news() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.gen
}

func (w *watch) permit() <-chan struct{} { return w.permits }

// Close ends the subscriptions and the client.
func (s *subscriber) Close() {
	s.cancel()
	s.wg.Wait()
	s.raw.Close()
}

// await waits for a wake-up, or until the record may have expired.
func await(ctx context.Context, wake <-chan struct{}, ttl time.Duration) error {
	t := time.NewTimer(max(ttl, time.Millisecond))
	defer t.Stop()
	select {
	case <-wake:
		return nil
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
