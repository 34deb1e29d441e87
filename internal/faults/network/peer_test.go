package network

import (
	"bufio"
	"context"
	"crypto/sha1"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
)

// A peer is a server that says what a test wants in answer to scripts, and is
// as good as any otherwise. It talks over pipes, so that it can live in a
// synctest bubble.
type peer struct {
	// answer is called with the kind of a script and the arguments of its
	// call. Calls do not overlap.
	answer func(kind string, args []string) string
	kinds  map[string]string // by hash

	mu sync.Mutex
}

func newPeer(texts map[string]string, answer func(kind string, args []string) string) *peer {
	p := &peer{answer: answer, kinds: map[string]string{}}
	for kind, text := range texts {
		p.kinds[fmt.Sprintf("%x", sha1.Sum([]byte(text)))] = kind
		p.kinds[text] = kind // of EVAL
	}
	return p
}

// dial makes a connection, in place of the client's own way to do so.
func (p *peer) dial(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
	client, server := net.Pipe()
	go func() {
		defer server.Close()
		r := bufio.NewReader(server)
		for {
			args, err := readCommand(r)
			if err != nil {
				return
			}
			if _, err := io.WriteString(server, p.reply(args)); err != nil {
				return
			}
		}
	}()
	return client, nil
}

func (p *peer) reply(args []string) string {
	switch strings.ToUpper(args[0]) {
	case "HELLO":
		return "%3\r\n+server\r\n+redis\r\n+version\r\n+7.0.15\r\n+proto\r\n:3\r\n"
	case "PING":
		return "+PONG\r\n"
	case "SUBSCRIBE", "UNSUBSCRIBE":
		var b strings.Builder
		for _, c := range args[1:] {
			fmt.Fprintf(&b, ">3\r\n+%s\r\n$%d\r\n%s\r\n:1\r\n", strings.ToLower(args[0]), len(c), c)
		}
		return b.String()
	case "EVALSHA", "EVAL":
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.answer(p.kinds[args[1]], args[2:])
	}
	return "+OK\r\n"
}

func readCommand(r *bufio.Reader) ([]string, error) {
	number := func() (int, error) {
		line, err := r.ReadString('\n')
		if err != nil || len(line) < 4 {
			return 0, io.ErrUnexpectedEOF
		}
		return strconv.Atoi(line[1 : len(line)-2])
	}
	n, err := number()
	if err != nil {
		return nil, err
	}
	args := make([]string, n)
	for i := range args {
		size, err := number()
		if err != nil {
			return nil, err
		}
		b := make([]byte, size+2)
		if _, err := io.ReadFull(r, b); err != nil {
			return nil, err
		}
		args[i] = string(b[:size])
	}
	return args, nil
}
