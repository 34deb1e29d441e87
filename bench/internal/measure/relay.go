package measure

import (
	"context"
	"encoding/json"
	"net"
	"runtime"
	"sync"
	"time"
)

// relaying is the workload of a process that is a relay.
const relaying = "relay"

// far starts a process that is a relay to the server, and returns its address. What the relay costs
// is not the candidate's.
func (b *bench) far(ctx context.Context, delay time.Duration) (addr string, err error) {
	w, err := b.spawn(ctx, 0, Spec{Workload: relaying, Addr: b.Addr, Delay: delay, Limit: b.Limit})
	if err == nil {
		err = w.hear(&addr)
	}
	return addr, err
}

// relay is the life of that process. Each parcel that is held back occupies a processor of the
// runtime, for a while: with few of them, connections would wait for each other.
func (b *bench) relay(ctx context.Context, answer *json.Encoder) error {
	runtime.GOMAXPROCS(relayProcs)
	r, err := newRelay(b.Addr, b.Delay)
	if err != nil {
		return err
	}
	defer r.close()
	if err := answer.Encode(r.addr()); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// relayProcs is more than the parcels that are held back at a time.
const relayProcs = 256

// A relay is the way to a server that is far off: it passes on bytes each way after a delay.
// Connections are as far apart as their bytes.
type relay struct {
	listener net.Listener
	server   string
	delay    time.Duration
	wg       sync.WaitGroup

	mu     sync.Mutex
	conns  []net.Conn
	closed bool
}

// newRelay listens on a free loopback port until close.
func newRelay(server string, delay time.Duration) (*relay, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &relay{listener: l, server: server, delay: delay}
	r.wg.Go(r.accept)
	return r, nil
}

func (r *relay) addr() string { return r.listener.Addr().String() }

func (r *relay) accept() {
	for {
		near, err := r.listener.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", r.server)
		if err != nil {
			near.Close()
			continue
		}
		r.mu.Lock()
		if r.closed {
			near.Close()
			far.Close()
		}
		r.conns = append(r.conns, near, far)
		r.mu.Unlock()
		r.carry(near, far)
		r.carry(far, near)
	}
}

// A parcel is some bytes, to be passed on at a time.
type parcel struct {
	bytes []byte
	due   time.Time
}

// carry passes bytes on until either connection ends, and then ends both.
func (r *relay) carry(from, to net.Conn) {
	way := make(chan parcel, 1<<12)
	r.wg.Go(func() {
		defer close(way)
		buf := make([]byte, 1<<16)
		for {
			n, err := from.Read(buf)
			if n > 0 {
				way <- parcel{append([]byte(nil), buf[:n]...), time.Now().Add(r.delay)}
			}
			if err != nil {
				return
			}
		}
	})
	r.wg.Go(func() {
		for p := range way {
			for left := time.Until(p.due); left > 0; left = time.Until(p.due) {
				holdBack(left)
			}
			if _, err := to.Write(p.bytes); err != nil {
				from.Close() // the reader ends, and then this loop
			}
		}
		to.Close()
	})
}

// close ends all connections and waits for what carries them.
func (r *relay) close() {
	_ = r.listener.Close()
	r.mu.Lock()
	r.closed = true
	for _, c := range r.conns {
		_ = c.Close()
	}
	r.mu.Unlock()
	r.wg.Wait()
}
