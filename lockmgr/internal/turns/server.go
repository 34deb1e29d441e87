package turns

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/luaserver"
	"github.com/holdfast-go/holdfast/internal/resp"
	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
	"github.com/holdfast-go/holdfast/lockmgr/internal/wire"
)

// A server runs the scripts of package wire on the keyspace of package luaserver. Operations are
// encoded and answers are read by package wire, as in the library.
type server struct {
	*luaserver.Server
	// Now is the server's clock, from any origin. It must not go back.
	Now time.Duration

	engine *engine
}

// An engine has the scripts that it has run.
type engine struct {
	*luaserver.Engine
	scripts map[*wire.Script]*luaserver.Script
}

// engines are those that no server uses. It takes as long to make one as to run a hundred scripts.
var engines = sync.Pool{New: func() any {
	return &engine{luaserver.NewEngine(), make(map[*wire.Script]*luaserver.Script)}
}}

// newServer returns a server without keys. close frees what it uses.
func newServer() *server {
	s := &server{engine: engines.Get().(*engine)}
	s.Server = luaserver.NewServer(func() time.Duration { return s.Now })
	return s
}

// close lets another server use the engine of this one.
func (s *server) close() {
	engines.Put(s.engine)
	s.engine = nil
}

// copyOf returns a copy of an operation. The core may reuse the operation after the answer, and the
// command may run later.
func copyOf(op *core.Op) core.Op {
	out := *op
	out.OtherNumbers = slices.Clone(op.OtherNumbers)
	if op.PlaceOp != nil {
		x := *op.PlaceOp
		x.Join, x.Leave = slices.Clone(x.Join), slices.Clone(x.Leave)
		out.PlaceOp = &x
	}
	return out
}

// run runs a command.
func (s *server) run(c wire.Command) any {
	if c.Script == nil {
		return s.Do(slices.Concat(c.Args, c.Keys, c.Rest)...)
	}
	script := s.engine.scripts[c.Script]
	if script == nil {
		var err error
		if script, err = luaserver.Compile(c.Script.Text); err != nil {
			panic(err)
		}
		s.engine.scripts[c.Script] = script
	}
	return s.Server.Run(s.engine.Engine, script, c.Keys, c.Args)
}

// eval runs the text of a script.
func (s *server) eval(text string, keys, args []string) any {
	script, err := luaserver.Compile(text)
	if err != nil {
		panic(err)
	}
	return s.Server.Run(s.engine.Engine, script, keys, args)
}

// reply runs an operation of a manager and returns what the core is told. Its error is that of the
// server.
func (s *server) reply(manager string, op *core.Op) core.Reply {
	a := answer(s.run(wire.Encode(manager, op)))
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

// fields returns the fields of a hash, which must not be changed, and the instant on the server's
// clock up to which its key exists, core.Forever if it has no end. It returns nil and zero if there
// is no such hash.
func (s *server) fields(key string) ([]luaserver.Field, time.Duration) {
	fields := s.Keyspace.Fields(key)
	if fields == nil {
		return nil, 0
	}
	until, _ := s.End(key)
	return fields, until
}
