package server

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// A Conn is the barest client: one blocking connection, no goroutine, no
// buffer that grows. It reads counters without adding to what is measured, and
// its round trip is the unit of the release figures.
type Conn struct {
	c   net.Conn
	r   *bufio.Reader
	out []byte

	sent, received int // bytes of the last command and of its reply
}

const replyTimeout = 10 * time.Second

// Dial connects to a server.
func Dial(ctx context.Context, addr string) (*Conn, error) {
	c, err := (&net.Dialer{Timeout: 2 * time.Second}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return &Conn{c: c, r: bufio.NewReaderSize(c, 1<<16)}, nil
}

// Close ends the connection.
func (c *Conn) Close() { _ = c.c.Close() }

// Do sends a command and returns a reply that is a line or a bulk string. It
// blocks for 10 s at most.
func (c *Conn) Do(args ...string) (string, error) {
	c.out = fmt.Appendf(c.out[:0], "*%d\r\n", len(args))
	for _, a := range args {
		c.out = fmt.Appendf(c.out, "$%d\r\n%s\r\n", len(a), a)
	}
	if err := c.c.SetDeadline(time.Now().Add(replyTimeout)); err != nil {
		return "", err
	}
	if _, err := c.c.Write(c.out); err != nil {
		return "", err
	}
	c.sent = len(c.out)
	return c.reply()
}

func (c *Conn) reply() (string, error) {
	line, err := c.r.ReadString('\n')
	if err != nil {
		return "", err
	}
	c.received = len(line)
	line = strings.TrimSuffix(line, "\r\n")
	if line == "" {
		return "", errors.New("empty reply")
	}
	switch kind, rest := line[0], line[1:]; kind {
	case '+', ':':
		return rest, nil
	case '-':
		return "", errors.New(rest)
	case '$':
		n, err := strconv.Atoi(rest)
		if err != nil || n < 0 {
			return "", err
		}
		buf := make([]byte, n+2)
		if _, err := io.ReadFull(c.r, buf); err != nil {
			return "", err
		}
		c.received += len(buf)
		return string(buf[:n]), nil
	}
	return "", fmt.Errorf("unexpected reply %q", line)
}

// Ping measures one round trip.
func (c *Conn) Ping() (time.Duration, error) {
	begin := time.Now()
	_, err := c.Do("PING")
	return time.Since(begin), err
}
