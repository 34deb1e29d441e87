package clientsim

import (
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast/internal/resp"
)

// A server runs one command at a time, in no time. All of it is guarded by the
// mutex of its network.
type server struct {
	keys        keyspace
	known       map[string]bool    // scripts by SHA-1
	subscribers map[string][]*conn // by channel
	stopped     int                // how many faults have stopped it
	backlog     []arrival          // what came meanwhile
	commands    int

	tracef func(format string, args ...any)
	cheat  string
	apart  map[*host]keyspace // of a server that cheats
}

// An arrival is one command, or the end of a connection if args is nil.
type arrival struct {
	from *conn
	args []string
}

func newServer(tracef func(string, ...any)) *server {
	return &server{
		keys: make(keyspace), known: make(map[string]bool),
		subscribers: make(map[string][]*conn), tracef: tracef, apart: make(map[*host]keyspace),
	}
}

// arrive takes a command in.
func (s *server) arrive(a arrival) {
	if s.stopped > 0 {
		s.backlog = append(s.backlog, a)
		return
	}
	s.serve(a)
}

// resume ends one stop. The last one lets the backlog run.
func (s *server) resume() {
	if s.stopped--; s.stopped > 0 {
		return
	}
	backlog := s.backlog
	s.backlog = nil
	for _, a := range backlog {
		s.serve(a)
	}
}

func (s *server) serve(a arrival) {
	if a.args == nil {
		s.hangUp(a.from)
		return
	}
	s.commands++
	out := s.command(a.from, a.args)
	if len(out) > 0 {
		a.from.reply(out)
	}
}

func (s *server) hangUp(c *conn) {
	for channel := range c.subscribed {
		s.unsubscribe(c, channel)
	}
}

func (s *server) unsubscribe(c *conn, channel string) {
	delete(c.subscribed, channel)
	subs := s.subscribers[channel]
	if i := slices.Index(subs, c); i >= 0 {
		subs = slices.Delete(subs, i, i+1)
	}
	if s.subscribers[channel] = subs; len(subs) == 0 {
		delete(s.subscribers, channel)
	}
}

// command returns the bytes of the answer.
func (s *server) command(c *conn, args []string) []byte {
	switch name := strings.ToUpper(args[0]); name {
	case "HELLO":
		return []byte("%4\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$5\r\n7.4.0\r\n$5\r\nproto\r\n:3\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n")
	case "CLIENT":
		return resp.Append(nil, status("OK"))
	case "PING":
		return resp.Append(nil, status("PONG"))
	case "SUBSCRIBE":
		if s.cheat == unsubscribed {
			return resp.Append(nil, failure("ERR not now"))
		}
		if c.from.mute {
			return resp.Append(nil, failure("NOPERM No permissions to access a channel"))
		}
		var out []byte
		for _, channel := range args[1:] {
			if !c.subscribed[channel] {
				c.subscribed[channel] = true
				s.subscribers[channel] = append(s.subscribers[channel], c)
			}
			out = resp.Append(out, resp.Push{"subscribe", channel, int64(len(c.subscribed))})
		}
		return out
	case "UNSUBSCRIBE":
		var out []byte
		for _, channel := range args[1:] {
			s.unsubscribe(c, channel)
			out = resp.Append(out, resp.Push{"unsubscribe", channel, int64(len(c.subscribed))})
		}
		return out
	case "SCRIPT":
		if strings.ToUpper(args[1]) != "LOAD" {
			return resp.Append(nil, failure("ERR unknown subcommand"))
		}
		sha, err := scripts.load(args[2])
		if err != nil {
			return resp.Append(nil, failure("ERR "+err.Error()))
		}
		s.known[sha] = true
		return resp.Append(nil, sha)
	case "EVAL", "EVALSHA":
		return resp.Append(nil, s.eval(c, name, args))
	}
	return resp.Append(nil, s.plain(args))
}

func (s *server) eval(c *conn, name string, args []string) any {
	sha := args[1]
	n, _ := strconv.Atoi(args[2])
	keys := args[3 : 3+n]
	for _, key := range keys {
		if c.from.refused[key] > 0 {
			return failure("NOPERM No permissions to access a key")
		}
	}
	if name == "EVAL" {
		var err error
		if sha, err = scripts.load(args[1]); err != nil {
			return failure("ERR " + err.Error())
		}
		s.known[sha] = true
	}
	if !s.known[sha] {
		return failure("NOSCRIPT No matching script. Please use EVAL.")
	}
	if s.cheat == divided {
		if s.apart[c.from] == nil {
			s.apart[c.from] = make(keyspace)
		}
		s.keys = s.apart[c.from]
	}
	out := scripts.run(sha, keys, args[3+n:], s.plain)
	s.tracef("  server: %s script %.6s keys %q args %q: %v", c, sha, keys, args[3+n:], out)
	return out
}

// plain is a command that a script may use too.
func (s *server) plain(args []string) any {
	switch strings.ToUpper(args[0]) {
	case "PUBLISH", "SPUBLISH":
		subs := s.subscribers[args[1]]
		if s.cheat == quiet {
			return int64(len(subs))
		}
		for _, c := range subs {
			c.reply(resp.Append(nil, resp.Push{"message", args[1], args[2]}))
		}
		return int64(len(subs))
	case "PUBSUB":
		out := []any{}
		for _, channel := range args[2:] {
			out = append(out, channel, int64(len(s.subscribers[channel])))
		}
		return out
	}
	return s.keys.do(args)
}
