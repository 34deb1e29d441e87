package resp

import (
	"bufio"
	"io"
	"net"
	"time"
)

// A Conn is a client's connection. It is not safe for concurrent use.
type Conn struct {
	conn    net.Conn
	r       *bufio.Reader
	in      counter // below r
	out     []byte
	timeout time.Duration

	sent, received int // bytes of the last Do
}

// counter counts the bytes that it reads.
type counter struct {
	r io.Reader
	n int
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += n
	return n, err
}

// Dial connects to a server. The timeout bounds connecting, and each later call as in [NewConn].
func Dial(addr string, timeout time.Duration) (*Conn, error) {
	c, err := net.DialTimeout("tcp", addr, timeout)
	if err != nil {
		return nil, err
	}
	return NewConn(c, timeout), nil
}

// NewConn returns a client that uses c. Each Do, Flush and Receive takes no longer than timeout.
func NewConn(c net.Conn, timeout time.Duration) *Conn {
	conn := &Conn{conn: c, in: counter{r: c}, timeout: timeout}
	conn.r = bufio.NewReader(&conn.in)
	return conn
}

// Close closes the connection.
func (c *Conn) Close() { _ = c.conn.Close() }

// LocalAddr returns the client's own address.
func (c *Conn) LocalAddr() string { return c.conn.LocalAddr().String() }

// Send adds a command to those that the next Flush or Do sends.
func (c *Conn) Send(args ...string) { c.out = AppendCommand(c.out, args...) }

// Flush sends what was added by Send, in one write.
func (c *Conn) Flush() error {
	if err := c.limit(); err != nil {
		return err
	}
	out := c.out
	c.out = c.out[:0]
	_, err := c.conn.Write(out)
	return err
}

// Receive reads the next reply or message. An error reply is a value of type Error, as in Do.
func (c *Conn) Receive() (any, error) {
	if err := c.limit(); err != nil {
		return nil, err
	}
	return Read(c.r)
}

// Do sends a command and returns its reply. An error reply is a value of type Error. The error that
// Do returns is that of the connection.
func (c *Conn) Do(args ...string) (any, error) {
	c.Send(args...)
	sent, before := len(c.out), c.consumed()
	if err := c.Flush(); err != nil {
		return nil, err
	}
	reply, err := Read(c.r)
	c.sent, c.received = sent, c.consumed()-before
	return reply, err
}

// DoText is Do with [Text] applied to the reply.
func (c *Conn) DoText(args ...string) (string, error) {
	reply, err := c.Do(args...)
	if err != nil {
		return "", err
	}
	return Text(reply)
}

// Traffic returns the size of the last command that Do sent and of its reply, in bytes.
func (c *Conn) Traffic() (sent, received int) { return c.sent, c.received }

func (c *Conn) consumed() int { return c.in.n - c.r.Buffered() }

func (c *Conn) limit() error { return c.conn.SetDeadline(time.Now().Add(c.timeout)) }

// A Login is the user of a connection. Without a User it is the default user. The zero Login sends
// nothing.
type Login struct{ User, Password string }

// command returns the command that logs in, or nil.
func (l Login) command() []string {
	switch {
	case l.User != "":
		// HELLO, which every client sends, and not AUTH: tests count commands.
		return []string{"HELLO", "2", "AUTH", l.User, l.Password}
	case l.Password != "":
		return []string{"AUTH", l.Password}
	}
	return nil
}

// Do sends one command over a connection of its own, so that no CLIENT KILL, restart or SELECT of
// an earlier command can interfere. It returns the reply as [Text]. The timeout bounds each step:
// to connect, to log in and to get the reply.
func Do(addr string, as Login, timeout time.Duration, args ...string) (string, error) {
	c, err := Dial(addr, timeout)
	if err != nil {
		return "", err
	}
	defer c.Close()
	if login := as.command(); login != nil {
		if _, err := c.DoText(login...); err != nil {
			return "", err
		}
	}
	return c.DoText(args...)
}
