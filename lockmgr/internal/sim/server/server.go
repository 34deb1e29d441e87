// Package server is the server of the simulations of the core: the scripts of package wire on the
// keyspace of package luaserver. Operations are encoded and answers are read by package wire, as in
// the library.
package server

import (
	_ "embed" // a script
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/luaserver"
	"github.com/holdfast-go/holdfast/internal/resp"
	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
	"github.com/holdfast-go/holdfast/lockmgr/internal/wire"
)

// A Server runs commands of package wire. It is not safe for concurrent use.
type Server struct {
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

// New returns a server without keys. Close frees what it uses.
func New() *Server {
	s := &Server{engine: engines.Get().(*engine)}
	s.Server = luaserver.NewServer(func() time.Duration { return s.Now })
	return s
}

// Close lets another server use the engine of this one.
func (s *Server) Close() {
	engines.Put(s.engine)
	s.engine = nil
}

// Copy returns a copy of an operation. The core may reuse the operation after the answer, and the
// command may run later.
func Copy(op *core.Op) core.Op {
	out := *op
	out.OtherNumbers = slices.Clone(op.OtherNumbers)
	if op.PlaceOp != nil {
		x := *op.PlaceOp
		x.Join, x.Leave = slices.Clone(x.Join), slices.Clone(x.Leave)
		out.PlaceOp = &x
	}
	return out
}

// Run runs a command.
func (s *Server) Run(c wire.Command) any {
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

// Redisson runs redisson.lua.
func (s *Server) Redisson(keys, args []string) any { return s.eval(redisson, keys, args) }

//go:embed redisson.lua
var redisson string

func (s *Server) eval(text string, keys, args []string) any {
	script, err := luaserver.Compile(text)
	if err != nil {
		panic(err)
	}
	return s.Server.Run(s.engine.Engine, script, keys, args)
}

// Reply runs an operation of a manager and returns what the core is told. Its error is that of the
// server.
func (s *Server) Reply(manager string, op *core.Op) core.Reply {
	a := answer(s.Run(wire.Encode(manager, op)))
	return wire.Decode(op, &a, func(f *wire.Failure) error {
		if f == nil {
			return nil
		}
		if f.Kind == wire.Unknown && (op.Tokens == 0 || !known(f.Err.Error())) {
			panic(fmt.Sprintf("%s: %v", op.Verb, f.Err))
		}
		return f.Err
	})
}

// known reports whether an error is one that the library does not know, but that a script may have:
// that of a token counter.
func known(text string) bool {
	return strings.HasPrefix(text, NotInteger) || strings.HasPrefix(text, Overflow)
}

// The beginnings of the errors of a server.
const (
	WrongType  = "WRONGTYPE "
	OOM        = "OOM "
	NotInteger = "ERR value is not an integer"
	Overflow   = "ERR increment or decrement would overflow"
)

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

// Fields returns the fields of a hash, which must not be changed, and the instant on the server's
// clock up to which its key exists, core.Forever if it has no end. It returns nil and zero if there
// is no such hash.
func (s *Server) Fields(key string) ([]luaserver.Field, time.Duration) {
	fields := s.Keyspace.Fields(key)
	if fields == nil {
		return nil, 0
	}
	until, _ := s.End(key)
	return fields, until
}

// Exists reports whether there is a key.
func (s *Server) Exists(key string) bool { return s.Get(key) != nil }

// Differs reports whether a copy and the server differ in the keys that of accepts. Keys that have
// expired count as gone.
func (s *Server) Differs(data map[string]*luaserver.Value, of func(key string) bool) bool {
	n := 0
	for key, v := range data {
		if !of(key) || v.End != 0 && s.Ms() > v.End {
			continue
		}
		if now := s.Get(key); now == nil || !now.Equal(v) {
			return true
		}
		n++
	}
	return n != len(s.Copy(of))
}

// Restore replaces the keys that of accepts by those of a copy.
func (s *Server) Restore(data map[string]*luaserver.Value, of func(key string) bool) {
	for key := range s.Values {
		if of(key) {
			delete(s.Values, key)
		}
	}
	for key, v := range data {
		if of(key) {
			s.Values[key] = v.Copy()
		}
	}
}
