package redistest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// roundTripTimeout bounds one admin command, connecting included. It is only
// reached when the server hangs or is stopped.
const roundTripTimeout = 5 * time.Second

// replyError is an error that the server sent ("-ERR ..."), as opposed to a
// connection that failed.
type replyError string

func (e replyError) Error() string { return string(e) }

// login is who a connection speaks for. Without a user it is the default user,
// and the zero login sends nothing.
type login struct{ user, password string }

// greeting returns what to say first.
func (l login) greeting() []string {
	switch {
	case l.user != "":
		// HELLO, which every client says: so what our own connections add to the
		// server's command statistics is nothing that tests look for.
		return []string{"HELLO", "2", "AUTH", l.user, l.password}
	case l.password != "":
		return []string{"AUTH", l.password}
	}
	return nil
}

// do sends one command over a connection of its own. That costs little, and no
// CLIENT KILL, restart or SELECT of an earlier command can get in its way.
func do(addr string, as login, timeout time.Duration, args ...string) (string, error) {
	c, err := net.DialTimeout("tcp", addr, timeout)
	if err != nil {
		return "", err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(timeout)); err != nil {
		return "", err
	}
	r := bufio.NewReader(c)
	if hello := as.greeting(); hello != nil {
		if _, err := roundTrip(c, r, hello); err != nil {
			return "", err
		}
	}
	return roundTrip(c, r, args)
}

func roundTrip(w io.Writer, r *bufio.Reader, args []string) (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, a := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(a), a)
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return "", err
	}
	return readReply(r)
}

// readReply reads one RESP2 reply as text: a null is empty, an array is its
// elements on lines of their own. An error inside an array counts as the error
// of the whole, but the array is read to its end.
func readReply(r *bufio.Reader) (string, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return "", err
	}
	line = strings.TrimSuffix(line, "\r\n")
	if line == "" {
		return "", fmt.Errorf("redistest: empty reply line")
	}
	switch kind, rest := line[0], line[1:]; kind {
	case '+', ':':
		return rest, nil
	case '-':
		return "", replyError(rest)
	case '$':
		n, err := strconv.Atoi(rest)
		if err != nil || n < 0 {
			return "", err
		}
		buf := make([]byte, n+2)
		if _, err := io.ReadFull(r, buf); err != nil {
			return "", err
		}
		return string(buf[:n]), nil
	case '*':
		n, err := strconv.Atoi(rest)
		if err != nil || n < 0 {
			return "", err
		}
		var elems []string
		var failed error
		for range n {
			e, err := readReply(r)
			if _, isReply := err.(replyError); isReply {
				failed = err
			} else if err != nil {
				return "", err
			}
			elems = append(elems, e)
		}
		return strings.Join(elems, "\n"), failed
	default:
		return "", fmt.Errorf("redistest: unexpected reply %q", line)
	}
}
