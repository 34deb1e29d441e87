// Package script has holdfast's Lua scripts. Package lockmgr/internal/wire sends the scripts, and
// bench sends some of them without the rest of holdfast.
package script

import (
	"embed"
	"slices"
	"strings"
)

//go:embed *.lua
var files embed.FS

// begins has the parts with which scripts begin, by the first letters of the scripts' names. The
// first match counts.
var begins = []struct{ scripts, parts string }{
	{"fair_", "grant fair"},
	{"permits_acquire", "line permits"},
	{"permits_release", "messages line permits"},
	{"permits_return", "line permits"},
	{"permits_transfer", "messages permits"},
	{"permits_inspect", "messages large permits"},
	{"permits_delete", "permits"},
	{"permits_limit", "permits"},
	{"inspect", "plain messages large"},
	{"acquire", "plain"},
	{"release", "plain messages"},
	{"transfer", "plain messages"},
	{"permits_renew", "exceptions permits"},
	{"readwrite_renew", "exceptions"},
	{"readwrite_", "plain messages readers"},
	{"several_renew", ""},
	{"several_", "plain messages readers"},
}

// Text returns the text of the script in a file, whose name is given without ".lua".
//
// Text replaces theLine() in a script by an expression that makes the functions of the line, as a
// table. A script that finds no line does not get there, and makes none. The value may be an error
// in place of the table. The error has no functions: all calls by pcall fail, and the script goes on
// without the line.
func Text(name string) string {
	text := ""
	for _, b := range begins {
		if strings.HasPrefix(name, b.scripts) {
			for _, part := range strings.Fields(b.parts) {
				text += read(part)
			}
			break
		}
	}
	text += read(name)
	if !strings.Contains(text, "theLine()") {
		return text
	}
	channels := "redisson_lock__channel:"
	if strings.HasPrefix(name, "readwrite_") {
		channels = "redisson_rwlock:"
	}
	line := "(function()\n" + read("messages") + read("line") + read("grant") + read("plain_line") +
		"return {enter = enter, stay = stay, depart = depart, refusal = refusal, serve = serve, serveAfter = serveAfter, wanted = wanted, yield = yield, joinBehind = joinBehind, released = released}\nend)()"
	return "local channels = '" + channels + "'\n" + strings.ReplaceAll(text, "theLine()", line)
}

func read(name string) string {
	text, err := files.ReadFile(name + ".lua")
	if err != nil {
		panic(err) // a typo, which shows when package wire is imported
	}
	return string(text)
}

// Names returns the names of all scripts.
func Names() (names []string) {
	entries, _ := files.ReadDir(".") // never fails
	for _, e := range entries {
		name := strings.TrimSuffix(e.Name(), ".lua")
		if !slices.Contains([]string{"exceptions", "fair", "grant", "large", "line", "messages", "permits", "plain", "plain_line", "readers"}, name) {
			names = append(names, name)
		}
	}
	return names
}
