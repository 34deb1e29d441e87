package luaserver

import (
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/resp"
)

// A Server is a Keyspace with channels and a Memory. Its subscribers are numbers.
type Server struct {
	*Keyspace
	// Deliver is called for each subscriber of a channel that a message is published to, in the
	// order in which they subscribed, while the command runs. It may be nil, and must not call the
	// Server.
	Deliver func(subscriber int, channel, message string)
	Memory

	subscribers map[string][]int
}

// A Memory refuses commands that need memory while it is full, unless they come after a command
// that writes in the same script.
type Memory struct {
	Full  bool
	wrote bool // the script has used a command that writes
}

// Begin begins a script, or a command outside of scripts.
func (m *Memory) Begin() { m.wrote = false }

// Refuse returns the error of a command that it refuses, or nil.
func (m *Memory) Refuse(command string) any { return m.refuse(commandOf(command)) }

func (m *Memory) refuse(c *command) any {
	if c == nil || !c.writes {
		return nil
	}
	if c.grows && m.Full && !m.wrote {
		return oom
	}
	m.wrote = true
	return nil
}

// NewServer returns a server without keys.
func NewServer(clock func() time.Duration) *Server {
	return &Server{Keyspace: NewKeyspace(clock), subscribers: make(map[string][]int)}
}

const oom = resp.Error("OOM command not allowed when used memory > 'maxmemory'.")

// Run runs a script.
func (s *Server) Run(e *Engine, script *Script, keys, args []string) any {
	s.Begin()
	defer s.Begin()
	return e.Run(script, keys, args, s.do)
}

// Do runs a command.
func (s *Server) Do(args ...string) any {
	s.Begin()
	return s.do(args)
}

func (s *Server) do(args []string) any {
	switch args[0] {
	case "PUBLISH", "SPUBLISH":
		return s.publish(args[1], args[2])
	case "PUBSUB":
		out := []any{}
		for _, channel := range args[2:] {
			out = append(out, channel, int64(len(s.subscribers[channel])))
		}
		return out
	}
	c := commandOf(args[0])
	if err := s.refuse(c); err != nil {
		return err
	}
	return s.Keyspace.run(c, args)
}

func (s *Server) publish(channel, message string) any {
	to := s.subscribers[channel]
	if s.Deliver != nil {
		for _, subscriber := range to {
			s.Deliver(subscriber, channel, message)
		}
	}
	return int64(len(to))
}

// Subscribe adds a subscriber to a channel. A second call changes nothing.
func (s *Server) Subscribe(channel string, subscriber int) {
	if !slices.Contains(s.subscribers[channel], subscriber) {
		s.subscribers[channel] = append(s.subscribers[channel], subscriber)
	}
}

// Unsubscribe removes a subscriber from a channel.
func (s *Server) Unsubscribe(channel string, subscriber int) {
	if i := slices.Index(s.subscribers[channel], subscriber); i >= 0 {
		s.subscribers[channel] = slices.Delete(s.subscribers[channel], i, i+1)
	}
}
