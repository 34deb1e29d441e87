package server

import (
	"context"
	"net"
	"time"

	"github.com/holdfast-go/holdfast/internal/resp"
)

// A Conn is the barest client: one blocking connection, no goroutine, no pool. It reads counters
// without adding to what is measured, and its round trip is the unit of the release figures.
type Conn struct{ *resp.Conn }

const replyTimeout = 10 * time.Second

// Dial connects to a server.
func Dial(ctx context.Context, addr string) (*Conn, error) {
	c, err := (&net.Dialer{Timeout: 2 * time.Second}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return &Conn{resp.NewConn(c, replyTimeout)}, nil
}

// Do sends a command and returns its reply as text. It blocks for 10 s at most.
func (c *Conn) Do(args ...string) (string, error) { return c.DoText(args...) }

// Ping measures one round trip.
func (c *Conn) Ping() (time.Duration, error) {
	begin := time.Now()
	_, err := c.Do("PING")
	return time.Since(begin), err
}
