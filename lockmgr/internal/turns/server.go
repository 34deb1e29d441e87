package turns

import (
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/luaserver"
	"github.com/holdfast-go/holdfast/internal/resp"
	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
	"github.com/holdfast-go/holdfast/lockmgr/internal/wire"
)

// A server runs scripts on the keyspace of package luaserver. Operations are encoded and answers
// are read by package wire, as in the library.
type server struct {
	*luaserver.Server
	// Now is the server's clock, from any origin. It must not go back.
	Now time.Duration

	engine  *luaserver.Engine
	scripts map[string]*luaserver.Script // that it has run, by their texts
}

// newServer returns a server without keys.
func newServer() *server {
	s := &server{engine: luaserver.NewEngine(), scripts: make(map[string]*luaserver.Script)}
	s.Server = luaserver.NewServer(func() time.Duration { return s.Now })
	return s
}

// eval runs the text of a script.
func (s *server) eval(text string, keys, args []string) any {
	script := s.scripts[text]
	if script == nil {
		var err error
		if script, err = luaserver.Compile(text); err != nil {
			panic(err)
		}
		s.scripts[text] = script
	}
	return s.Run(s.engine, script, keys, args)
}

// reply runs an operation of a manager and returns what the core is told. Its error is that of the
// server.
func (s *server) reply(manager string, op *core.Op) core.Reply {
	c := wire.Encode(manager, op)
	a := answer(s.eval(c.Script.Text, c.Keys, c.Args))
	return wire.Decode(op, &a, func(f *wire.Failure) error {
		if f == nil {
			return nil
		}
		return f.Err
	})
}

// answer converts a reply.
func answer(v any) wire.Answer {
	switch v := v.(type) {
	case nil:
		return wire.Answer{}
	case int64:
		return wire.Answer{Kind: wire.Int, Int: v}
	case string:
		return wire.Answer{Kind: wire.Text, Text: v}
	case resp.Status:
		return wire.Answer{Kind: wire.Text, Text: string(v)}
	case resp.Error:
		return wire.ErrorReply(v)
	case []any:
		a := wire.Answer{Kind: wire.Array, Array: make([]wire.Answer, len(v))}
		for i := range v {
			a.Array[i] = answer(v[i])
		}
		return a
	}
	panic(fmt.Sprintf("a reply of type %T", v))
}
