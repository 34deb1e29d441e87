package rediscluster

import (
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/internal/redisserver"
	"github.com/holdfast-go/holdfast/internal/resp"
)

// replyTimeout bounds one command to a child.
const replyTimeout = 10 * time.Second

// A Child is a node that is a child process.
type Child struct{ *redisserver.Server }

// Do makes Child a Node. Each command has a connection of its own.
func (n Child) Do(words ...string) (string, error) {
	c, err := resp.Dial(n.Addr(), replyTimeout)
	if err != nil {
		return "", err
	}
	defer c.Close()
	return c.DoText(words...)
}

// A Local is a cluster of child processes. It keeps nothing on disk after Stop.
type Local struct {
	Cluster[Child]
	dir string
}

// StartLocal runs a cluster of some masters, each with some replicas, and returns when it serves.
// It ends with Stop.
func StartLocal(binary string, masters, replicas int) (*Local, error) {
	dir, err := os.MkdirTemp("", "holdfast-cluster-")
	if err != nil {
		return nil, err
	}
	l := &Local{dir: dir}
	l.Masters = masters
	if err := l.start(binary, masters*(1+replicas)); err != nil {
		l.Stop()
		return nil, err
	}
	return l, nil
}

func (l *Local) start(binary string, nodes int) error {
	for i := range nodes {
		folder := filepath.Join(l.dir, strconv.Itoa(i))
		if err := os.Mkdir(folder, 0o700); err != nil {
			return err
		}
		// Ctrl-C is for the program, which ends its nodes itself.
		s := &redisserver.Server{Binary: binary, Dir: folder, Detached: true}
		if err := s.Start(resp.Login{}, childArgs()...); err != nil {
			return err
		}
		l.Nodes = append(l.Nodes, Child{s})
	}
	return l.Form()
}

// childArgs are arguments of a node that keeps nothing, and that serves its slots while those of
// another master have none.
func childArgs() []string {
	return append(Args(), "--save", "", "--cluster-require-full-coverage", "no")
}

// Restart starts a node that was killed. Its replica is the master by then, and it becomes the
// replica.
func (l *Local) Restart(n Child) error { return n.Server.Restart(resp.Login{}, childArgs()...) }

// Stop kills all nodes and removes their data.
func (l *Local) Stop() {
	for _, n := range l.Nodes {
		n.Kill()
	}
	os.RemoveAll(l.dir)
}
