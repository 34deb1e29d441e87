// Package server gives the examples a server: one that runs inside the program, so that they can be
// tried with nothing installed, or the reader's own.
package server

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/examples/internal/cli"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// Flag declares -redis.
func Flag(flags *flag.FlagSet) *string {
	return flags.String("redis", "", "`url` of a server to use, such as redis://127.0.0.1:6379 or\n"+
		"rediss://user:password@host:6379/0 (default: one inside this program)")
}

// A Server is where the examples keep their locks.
type Server struct {
	option   rueidis.ClientOption
	client   rueidis.Client
	embedded *embedded // nil for the reader's own
}

// Open starts the embedded server, or connects to the one at url if that is not empty. It returns
// when the server has answered.
func Open(url string) (*Server, error) {
	if url == "" {
		e, err := embed()
		if err != nil {
			return nil, fmt.Errorf("the embedded server does not start: %w", err)
		}
		s := &Server{option: rueidis.ClientOption{InitAddress: []string{e.mini.Addr()}}, embedded: e}
		if err := s.connect(); err != nil {
			e.close()
			return nil, err
		}
		return s, nil
	}
	option, err := rueidis.ParseURL(strings.TrimSuffix(url, "/"))
	if err != nil {
		return nil, cli.Usage("-redis should look like redis://127.0.0.1:6379: %w", err)
	}
	s := &Server{option: option}
	if err := s.connect(); err != nil {
		return nil, fmt.Errorf("can't use the server at %s: %w\n"+
			"Is it running there? Without -redis the program brings a server of its own", s.addr(), err)
	}
	return s, nil
}

func (s *Server) connect() (err error) {
	s.client, err = rueidis.NewClient(lockmgr.TuneClient(s.option))
	return err
}

// Option is what to connect with: see lockmgr.Dial.
func (s *Server) Option() rueidis.ClientOption { return s.option }

// Embedded tells whether the server runs inside the program.
func (s *Server) Embedded() bool { return s.embedded != nil }

// String says in a few words which server it is. It shows no password.
func (s *Server) String() string {
	if s.Embedded() {
		return "embedded, nothing to install (-redis redis://127.0.0.1:6379 uses a real one)"
	}
	return s.addr()
}

func (s *Server) addr() string { return s.option.InitAddress[0] }

// DropTokens removes the counter of fencing tokens that Fenced locks of a name leave behind. Only a
// program that made the name up for itself may do that: tokens would begin again at 1, while they
// must rise for ever. It does nothing where the server can't be reached any more.
func (s *Server) DropTokens(name string) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	s.client.Do(ctx, s.client.B().Del().Key("redisson_lock_token:{"+name+"}").Build())
}

// Close ends the connection, and the server if it is embedded.
func (s *Server) Close() {
	s.client.Close()
	if s.embedded != nil {
		s.embedded.close()
	}
}

// embedded is miniredis with a clock that runs.
type embedded struct {
	mini    *miniredis.Miniredis
	stop    chan struct{}
	stopped sync.WaitGroup
}

func embed() (*embedded, error) {
	mini, err := miniredis.Run() // on a free port of the loopback
	if err != nil {
		return nil, err
	}
	e := &embedded{mini: mini, stop: make(chan struct{})}
	e.stopped.Go(e.runClock)
	return e, nil
}

// runClock lets keys expire: miniredis' own clock stands still unless it is moved.
func (e *embedded) runClock() {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for last := time.Now(); ; {
		select {
		case <-e.stop:
			return
		case <-tick.C:
			// By what has passed: ticks are dropped when the machine is busy.
			now := time.Now()
			e.mini.FastForward(now.Sub(last))
			last = now
		}
	}
}

func (e *embedded) close() {
	close(e.stop)
	e.stopped.Wait()
	e.mini.Close()
}
