package resp

import (
	"fmt"
	"io"
	"strings"
)

// Serve reads commands from c and writes what answer returns for each, which may be nothing. It
// returns when c fails or ends, and closes it.
func Serve(c io.ReadWriteCloser, answer func(args []string) string) {
	defer c.Close()
	var in []byte
	buf := make([]byte, 4096)
	for {
		n, err := c.Read(buf)
		if err != nil {
			return
		}
		in = append(in, buf[:n]...)
		for {
			args, rest := CutCommand(in)
			if args == nil {
				break
			}
			in = rest
			if _, err := io.WriteString(c, answer(args)); err != nil {
				return
			}
		}
	}
}

// Greet returns the reply to a command that a client sends before and beside its own work: HELLO,
// CLIENT, PING, SUBSCRIBE and UNSUBSCRIBE. It reports whether the command is one of these.
func Greet(args []string) (reply string, ok bool) {
	switch name := strings.ToUpper(args[0]); name {
	case "HELLO":
		return "%3\r\n+server\r\n+redis\r\n+version\r\n+7.0.15\r\n+proto\r\n:3\r\n", true
	case "CLIENT":
		return "+OK\r\n", true
	case "PING":
		return "+PONG\r\n", true
	case "SUBSCRIBE", "UNSUBSCRIBE":
		var b []byte
		for _, channel := range args[1:] {
			b = Append(b, Push{strings.ToLower(name), channel, int64(1)})
		}
		return string(b), true
	}
	return "", false
}

// CutCommand cuts one command off the front of b. It returns nil and b if b holds no whole one, and
// panics if b begins with something else.
func CutCommand(b []byte) (args []string, rest []byte) {
	n, p, ok := cutLength(b, '*')
	for range n {
		var size int
		var q []byte
		if size, q, ok = cutLength(p, '$'); !ok || len(q) < size+2 {
			return nil, b
		}
		args = append(args, string(q[:size]))
		p = q[size+2:]
	}
	if !ok {
		return nil, b
	}
	return args, p
}

func cutLength(b []byte, mark byte) (n int, rest []byte, ok bool) {
	if len(b) == 0 {
		return 0, b, false
	}
	if b[0] != mark {
		panic(fmt.Sprintf("resp: not a command: %.40q", b))
	}
	for i := 1; i+1 < len(b); i++ {
		if b[i] == '\r' {
			return n, b[i+2:], true
		}
		n = 10*n + int(b[i]-'0')
	}
	return 0, b, false
}
