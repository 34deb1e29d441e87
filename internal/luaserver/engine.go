package luaserver

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"

	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/parse"

	"github.com/holdfast-go/holdfast/internal/resp"
)

// A Script is a compiled script. All engines may run it.
type Script struct {
	Name  string // as its first line says; empty: it does not say
	SHA   string // by which EVALSHA names it
	proto *lua.FunctionProto
}

// scriptName finds the line by which each script, and each part of a script, begins.
var scriptName = regexp.MustCompile(`(?m)^-- (\w+)\.lua (is in )?`)

var (
	compiling sync.Mutex
	compiled  = make(map[string]*Script) // by text
)

// Compile compiles the text of a script. It keeps what it has compiled.
func Compile(text string) (*Script, error) {
	compiling.Lock()
	defer compiling.Unlock()
	if s := compiled[text]; s != nil {
		return s, nil
	}
	const chunk = "user_script"
	parsed, err := parse.Parse(strings.NewReader(text), chunk)
	if err != nil {
		return nil, err
	}
	proto, err := lua.Compile(parsed, chunk)
	if err != nil {
		return nil, err
	}
	sum := sha1.Sum([]byte(text))
	s := &Script{SHA: hex.EncodeToString(sum[:]), proto: proto}
	for _, m := range scriptName.FindAllStringSubmatch(text, -1) {
		if m[2] == "" { // else it is a part that several scripts share
			s.Name = m[1]
		}
	}
	compiled[text] = s
	return s, nil
}

// An Engine runs scripts, one after the other. It is not safe for concurrent use.
type Engine struct {
	state *lua.LState
	call  func(args []string) any // of the server that runs a script now
	words []string                // of a command; reused
}

// NewEngine returns an Engine. It has the parts of Lua that scripts use.
func NewEngine() *Engine {
	e := &Engine{state: lua.NewState(lua.Options{SkipOpenLibs: true})}
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
		"sha1hex": func(l *lua.LState) int {
			sum := sha1.Sum([]byte(l.CheckString(1)))
			l.Push(lua.LString(hex.EncodeToString(sum[:])))
			return 1
		},
		"error_reply": func(l *lua.LState) int {
			l.Push(e.value(resp.Error(l.CheckString(1))))
			return 1
		},
		"status_reply": func(l *lua.LState) int {
			l.Push(e.value(resp.Status(l.CheckString(1))))
			return 1
		},
	})
	e.state.SetGlobal("redis", redis)
	return e
}

// Run executes a script. call runs a command of the script, and must not keep its words.
func (e *Engine) Run(s *Script, keys, args []string, call func(args []string) any) any {
	e.call = call
	e.state.SetGlobal("KEYS", e.list(keys))
	e.state.SetGlobal("ARGV", e.list(args))
	e.state.Push(e.state.NewFunctionFromProto(s.proto))
	if err := e.state.PCall(0, 1, nil); err != nil {
		const at = ", on @user_script:1."
		if api, ok := err.(*lua.ApiError); ok {
			if t, ok := api.Object.(*lua.LTable); ok {
				return resp.Error(lua.LVAsString(t.RawGetString("err")) + " script: " + s.SHA + at)
			}
			return resp.Error("ERR " + api.Object.String() + " script: " + s.SHA + at)
		}
		return resp.Error("ERR " + err.Error() + " script: " + s.SHA + at)
	}
	out := e.state.Get(-1)
	e.state.Pop(1)
	return reply(out)
}

func (e *Engine) list(words []string) *lua.LTable {
	t := e.state.CreateTable(len(words), 0)
	for _, s := range words {
		t.Append(lua.LString(s))
	}
	return t
}

// redis is redis.call, which raises errors, or redis.pcall, which returns them.
func (e *Engine) redis(l *lua.LState, raise bool) int {
	args := e.words[:0]
	var v any
	for i := range l.GetTop() {
		switch word := l.Get(i + 1).(type) {
		case lua.LString:
			args = append(args, string(word))
		case lua.LNumber:
			args = append(args, numberText(float64(word)))
		default:
			v = resp.Error("ERR Lua redis lib command arguments must be strings or integers")
		}
	}
	if e.words = args; v == nil {
		v = e.call(args)
	}
	if _, bad := v.(resp.Error); bad && raise {
		l.Error(e.value(v), 0)
		return 0
	}
	l.Push(e.value(v))
	return 1
}

// numberText returns a number as servers write it into a command.
func numberText(f float64) string {
	if n := int64(f); float64(n) == f {
		return strconv.FormatInt(n, 10)
	}
	return strconv.FormatFloat(f, 'g', 17, 64)
}

// value converts an answer as servers do: nil becomes false.
func (e *Engine) value(v any) lua.LValue {
	switch v := v.(type) {
	case nil:
		return lua.LFalse
	case int64:
		return lua.LNumber(v)
	case string:
		return lua.LString(v)
	case resp.Status:
		t := e.state.NewTable()
		t.RawSetString("ok", lua.LString(v))
		return t
	case resp.Error:
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
	panic(fmt.Sprintf("luaserver: no Lua value for %T", v))
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
			return resp.Error(s)
		}
		if s, ok := v.RawGetString("ok").(lua.LString); ok {
			return resp.Status(s)
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
