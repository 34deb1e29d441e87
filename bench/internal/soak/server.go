package soak

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/holdfast-go/holdfast/internal/redisserver"
	"github.com/holdfast-go/holdfast/internal/resp"
)

// replyTimeout bounds one command to the server.
const replyTimeout = 10 * time.Second

// keepAll are the arguments of a server that keeps what it acknowledged: a restart loses nothing.
var keepAll = []string{"--appendonly", "yes", "--appendfsync", "always", "--auto-aof-rewrite-min-size", "16mb"}

// A redisServer is a server of a run.
type redisServer struct {
	*redisserver.Server
	args []string
}

// restart starts a server that was killed. One fault at a time does so.
func (s *redisServer) restart() error { return s.Restart(resp.Login{}, s.args...) }

// Do sends one command: see do.
func (s *redisServer) Do(words ...string) (string, error) { return s.do(words) }

// forget removes the data of a server that was killed.
func (s *redisServer) forget() error { return os.RemoveAll(filepath.Join(s.Dir, "appendonlydir")) }

// do sends commands one after the other over a connection of its own, and returns the last reply.
func (s *redisServer) do(commands ...[]string) (string, error) {
	c, err := resp.Dial(s.Addr(), replyTimeout)
	if err != nil {
		return "", err
	}
	defer c.Close()
	var reply string
	for _, args := range commands {
		if reply, err = c.DoText(args...); err != nil {
			return "", fmt.Errorf("%s: %w", args[0], err)
		}
	}
	return reply, nil
}
