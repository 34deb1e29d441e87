package measure

import (
	"context"
	"encoding/json"
	"net"
	"runtime"
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
	l, err := listen(b.Addr, b.Delay)
	if err != nil {
		return err
	}
	defer l.Close()
	if err := answer.Encode(l.Addr().String()); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// relayProcs is more than the parcels that are held back at a time.
const relayProcs = 256

// listen listens on a free loopback port and is the way to a server that is far off: it passes on
// bytes each way after a delay. Connections are as far apart as their bytes.
func listen(server string, delay time.Duration) (net.Listener, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	go func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", server)
			if err != nil {
				near.Close()
				continue
			}
			carry(near, far, delay)
			carry(far, near, delay)
		}
	}()
	return l, nil
}

// A parcel is some bytes, to be passed on at a time.
type parcel struct {
	bytes []byte
	due   time.Time
}

// carry passes bytes on until either connection ends, and then ends both.
func carry(from, to net.Conn, delay time.Duration) {
	way := make(chan parcel, 1<<12)
	go func() {
		defer close(way)
		buf := make([]byte, 1<<16)
		for {
			n, err := from.Read(buf)
			if n > 0 {
				way <- parcel{append([]byte(nil), buf[:n]...), time.Now().Add(delay)}
			}
			if err != nil {
				return
			}
		}
	}()
	go func() {
		for p := range way {
			for left := time.Until(p.due); left > 0; left = time.Until(p.due) {
				holdBack(left)
			}
			if _, err := to.Write(p.bytes); err != nil {
				from.Close() // the reader ends, and then this loop
			}
		}
		to.Close()
	}()
}
