package locktest

import (
	"net"
	"time"
)

// A conn is one side of a pair.
type conn struct {
	in, out *stream
	delay   func() time.Duration // of bytes written here
	closed  func()               // called by Close
}

func (c *conn) Read(b []byte) (int, error)  { return c.in.read(b) }
func (c *conn) Write(b []byte) (int, error) { return c.out.write(b, c.delay()) }

// Close lets the bytes that were written arrive. The other side can send nothing more.
func (c *conn) Close() error {
	c.out.end()
	c.in.fail(net.ErrClosed)
	c.closed()
	return nil
}

func (c *conn) LocalAddr() net.Addr  { return memory{} }
func (c *conn) RemoteAddr() net.Addr { return memory{} }

func (c *conn) SetDeadline(t time.Time) error     { return c.SetReadDeadline(t) }
func (c *conn) SetReadDeadline(t time.Time) error { c.in.setDeadline(t); return nil }

// SetWriteDeadline has no effect: a write never blocks.
func (c *conn) SetWriteDeadline(time.Time) error { return nil }

// memory is the address of both sides.
type memory struct{}

func (memory) Network() string { return "memory" }
func (memory) String() string  { return "locktest:0" }
