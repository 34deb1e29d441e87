package locker

import (
	"context"
	"sync"

	"github.com/redis/rueidis"
)

// handover is the least that clients do to hand a lock over. A grant is a message, with no round
// trip behind the message. An unlock that gives the lock to another client joins the line again in
// the same script, since the caller is expected back. A grant that no caller waits for goes back.
// As the wakers, handover does not renew, and does not undo what a cancelled caller began.
type handover struct {
	*raw
	conn   rueidis.DedicatedClient
	hangUp func()
	wg     sync.WaitGroup // of grants that go back

	mu    sync.Mutex
	seats map[string]*seat // by name
}

// A seat is what a client has of a name.
type seat struct {
	turn    chan struct{} // cap 1: whoever put in is the caller that may wait or hold
	granted chan struct{} // cap 1
	inLine  bool          // or granted: no need to join
	wanted  bool          // a caller waits for the grant
}

func openHandover(ctx context.Context, c Config) (Locker, error) {
	r, err := openRaw(ctx, c)
	if err != nil {
		return nil, err
	}
	if err := r.load(ctx, map[string]*string{ownScript("handover"): &r.transfer}); err != nil {
		return nil, err
	}
	h := &handover{raw: r, seats: map[string]*seat{}}
	h.conn, h.hangUp = r.client.Dedicate()
	h.conn.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: func(m rueidis.PubSubMessage) { h.grant(m.Message) }})
	if err := h.conn.Do(ctx, h.conn.B().Subscribe().Channel(h.owner).Build()).Error(); err != nil {
		h.Close()
		return nil, err
	}
	return h, nil
}

func lineKey(name string) string { return "line:{" + name + "}" }

// call runs the script. It reports whether somebody was given the lock.
func (h *handover) call(ctx context.Context, name, from, to string) (bool, error) {
	c := h.client.B().Evalsha().Sha1(h.transfer).Numkeys(2).Key(name, lineKey(name)).Arg(h.lease, from, to).Build()
	n, err := h.client.Do(ctx, c).AsInt64()
	return n == 1, err
}

func (h *handover) seat(name string) *seat {
	s := h.seats[name]
	if s == nil {
		s = &seat{turn: make(chan struct{}, 1), granted: make(chan struct{}, 1)}
		h.seats[name] = s
	}
	return s
}

// grant runs on the reader of the connection.
func (h *handover) grant(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.seat(name)
	if s.wanted {
		s.wanted = false
		s.granted <- struct{}{}
		return
	}
	s.inLine = false
	h.wg.Go(func() { _, _ = h.call(context.Background(), name, h.owner, "") })
}

func (h *handover) Lock(ctx context.Context, name string) (Held, error) {
	h.mu.Lock()
	s := h.seat(name)
	h.mu.Unlock()
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	h.mu.Lock()
	join := !s.inLine
	s.inLine, s.wanted = true, true
	h.mu.Unlock()
	if join {
		if _, err := h.call(ctx, name, "", h.owner); err != nil {
			return nil, err
		}
	}
	select {
	case <-s.granted:
		return &handoverHeld{h, s, name}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Close ends the connections.
func (h *handover) Close() {
	h.hangUp()
	h.wg.Wait()
	h.raw.Close()
}

type handoverHeld struct {
	handover *handover
	seat     *seat
	name     string
}

// Unlock returns when the lock is another client's, or free.
func (u *handoverHeld) Unlock(ctx context.Context) error {
	h := u.handover
	given, err := h.call(ctx, u.name, h.owner, h.owner)
	if !given {
		h.mu.Lock()
		u.seat.inLine = false
		h.mu.Unlock()
	}
	<-u.seat.turn
	return err
}
