package network

import (
	"context"
	"crypto/sha1"
	"crypto/tls"
	"fmt"
	"net"
	"strings"
	"sync"

	"github.com/holdfast-go/holdfast/internal/resp"
)

// A peer is a server that says what a test wants in answer to scripts, and is as good as any
// otherwise. It talks over pipes, so that it can live in a synctest bubble.
type peer struct {
	// answer is called with the kind of a script and the arguments of its call. Calls do not
	// overlap.
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
	go resp.Serve(server, p.reply)
	return client, nil
}

func (p *peer) reply(args []string) string {
	if reply, ok := resp.Greet(args); ok {
		return reply
	}
	switch strings.ToUpper(args[0]) {
	case "EVALSHA", "EVAL":
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.answer(p.kinds[args[1]], args[2:])
	}
	return "+OK\r\n"
}
