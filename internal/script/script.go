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
// first match counts. If channels is set, the script also begins with a variable channels, the
// first part of the names of the channels, and with the function theLine, which the script calls
// only if there is a line. theLine returns a table of functions, or an error, which has no such
// functions: all calls by pcall fail, and the script goes on without the line.
var begins = []struct {
	scripts, parts, channels string
}{
	{"fair_", "server fair", ""},
	{"permits_acquire", "line permits", ""},
	{"permits_release", "plain line permits", ""},
	{"permits_return", "line permits", ""},
	{"permits_transfer", "plain permits", ""},
	{"permits_inspect", "plain large permits", ""},
	{"permits_delete", "permits", ""},
	{"permits_limit", "permits", ""},
	{"inspect", "plain large", ""},
	{"acquire", "plain", "redisson_lock__channel:"},
	{"release", "plain", "redisson_lock__channel:"},
	{"transfer", "plain", ""},
	{"permits_renew", "exceptions permits", ""},
	{"readwrite_renew", "exceptions", ""},
	{"readwrite_", "plain readers", "redisson_rwlock:"},
	{"several_renew", "", ""},
	{"several_", "plain readers", "redisson_lock__channel:"},
}

// Text returns the text of the script in a file, whose name is given without ".lua".
func Text(name string) string {
	text := ""
	for _, b := range begins {
		if !strings.HasPrefix(name, b.scripts) {
			continue
		}
		if b.channels != "" {
			text = "local channels = '" + b.channels + "'\n"
		}
		for _, part := range strings.Fields(b.parts) {
			text += read(part)
		}
		if b.channels != "" {
			text += "local function theLine()\n" + read("line") + read("server") + read("plain_line") +
				"return {enter = enter, stay = stay, depart = depart, refusal = refusal, serve = serve, wanted = wanted, yield = yield, joinBehind = joinBehind, released = released}\nend\n"
		}
		break
	}
	return text + read(name)
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
		if !slices.Contains([]string{"exceptions", "fair", "large", "line", "permits", "plain", "plain_line", "readers", "server"}, name) {
			names = append(names, name)
		}
	}
	return names
}
