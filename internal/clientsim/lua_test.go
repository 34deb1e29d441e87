package clientsim

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"

	lua "github.com/yuin/gopher-lua"

	"github.com/holdfast-go/holdfast/internal/resp"
)

// A command or a script answers with a value of package resp.
type (
	status  = resp.Status
	failure = resp.Error
)

// An engine runs Lua scripts. Compiled scripts are kept, and one Lua state
// serves all seeds: they run one after the other.
type engine struct {
	state    *lua.LState
	compiled map[string]*lua.FunctionProto // by SHA-1
	names    map[string]string             // of the scripts
	call     func(args []string) any       // of the server that runs a script now
}

var scripts = newEngine()

func newEngine() *engine {
	e := &engine{
		state:    lua.NewState(lua.Options{SkipOpenLibs: true}),
		compiled: make(map[string]*lua.FunctionProto), names: make(map[string]string),
	}
	for name, open := range map[string]lua.LGFunction{
		lua.BaseLibName: lua.OpenBase, lua.TabLibName: lua.OpenTable,
		lua.StringLibName: lua.OpenString, lua.MathLibName: lua.OpenMath,
	} {
		e.state.Push(e.state.NewFunction(open))
		e.state.Push(lua.LString(name))
		e.state.Call(1, 0)
	}
	redis := e.state.NewTable()
	e.state.SetFuncs(redis, map[string]lua.LGFunction{
		"call":  func(l *lua.LState) int { return e.redis(l, true) },
		"pcall": func(l *lua.LState) int { return e.redis(l, false) },
		"error_reply": func(l *lua.LState) int {
			l.Push(e.value(failure(l.CheckString(1))))
			return 1
		},
		"status_reply": func(l *lua.LState) int {
			l.Push(e.value(status(l.CheckString(1))))
			return 1
		},
	})
	e.state.SetGlobal("redis", redis)
	return e
}

// scriptName finds the line by which each script begins.
var scriptName = regexp.MustCompile(`(?m)^-- (\w+)\.lua `)

// load compiles a script and returns its SHA-1.
func (e *engine) load(text string) (sha string, err error) {
	sum := sha1.Sum([]byte(text))
	sha = hex.EncodeToString(sum[:])
	if e.compiled[sha] == nil {
		f, err := e.state.LoadString(text)
		if err != nil {
			return "", err
		}
		e.compiled[sha] = f.Proto
		for _, m := range scriptName.FindAllStringSubmatch(text, -1) {
			e.names[sha] = m[1] // the last: the first may be a part that several share
		}
	}
	return sha, nil
}

// run executes a compiled script.
func (e *engine) run(sha string, keys, args []string, call func([]string) any) any {
	e.call = call
	e.state.SetGlobal("KEYS", e.list(keys))
	e.state.SetGlobal("ARGV", e.list(args))
	e.state.Push(e.state.NewFunctionFromProto(e.compiled[sha]))
	if err := e.state.PCall(0, 1, nil); err != nil {
		if api, ok := err.(*lua.ApiError); ok {
			if t, ok := api.Object.(*lua.LTable); ok {
				return failure(lua.LVAsString(t.RawGetString("err")) + " script: " + sha + ", on @user_script:1.")
			}
		}
		return failure("ERR " + strings.ReplaceAll(err.Error(), "\n", " "))
	}
	out := e.state.Get(-1)
	e.state.Pop(1)
	return reply(out)
}

func (e *engine) list(words []string) *lua.LTable {
	t := e.state.CreateTable(len(words), 0)
	for _, s := range words {
		t.Append(lua.LString(s))
	}
	return t
}

// redis is redis.call, which raises errors, or redis.pcall, which returns
// them.
func (e *engine) redis(l *lua.LState, raise bool) int {
	args := make([]string, l.GetTop())
	for i := range args {
		args[i] = lua.LVAsString(l.Get(i + 1))
	}
	v := e.call(args)
	if _, bad := v.(failure); bad && raise {
		l.Error(e.value(v), 0)
		return 0
	}
	l.Push(e.value(v))
	return 1
}

// value converts an answer as servers do: nil becomes false.
func (e *engine) value(v any) lua.LValue {
	switch v := v.(type) {
	case nil:
		return lua.LFalse
	case int64:
		return lua.LNumber(v)
	case string:
		return lua.LString(v)
	case status:
		t := e.state.NewTable()
		t.RawSetString("ok", lua.LString(v))
		return t
	case failure:
		t := e.state.NewTable()
		t.RawSetString("err", lua.LString(v))
		return t
	case []any:
		t := e.state.CreateTable(len(v), 0)
		for _, item := range v {
			t.Append(e.value(item))
		}
		return t
	}
	panic(fmt.Sprintf("clientsim: no Lua value for %T", v))
}

// reply converts what a script returned.
func reply(v lua.LValue) any {
	switch v := v.(type) {
	case lua.LBool:
		if v {
			return int64(1)
		}
		return nil
	case lua.LNumber:
		return int64(v)
	case lua.LString:
		return string(v)
	case *lua.LTable:
		if s, ok := v.RawGetString("err").(lua.LString); ok {
			return failure(s)
		}
		if s, ok := v.RawGetString("ok").(lua.LString); ok {
			return status(s)
		}
		out := make([]any, 0, v.Len())
		for i := 1; ; i++ {
			item := v.RawGetInt(i)
			if item == lua.LNil {
				return out
			}
			out = append(out, reply(item))
		}
	}
	return nil
}
