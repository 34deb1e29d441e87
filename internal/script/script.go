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

// A begin is the file of a part with which some scripts begin. If inside is set, the part is the body of
// the function theLine, which the script calls only if there is a line. theLine returns functions, or an
// error, of which the functions are nil: the script goes on without the line.
type begin struct {
	part, scripts string
	inside        bool
}

// begins has the parts with which scripts begin, by the first letters of the scripts' names. The first match counts.
var begins = []begin{
	{"fair", "fair_", false},
	{"line", "permits_acquire", false},
	{"line", "permits_release", false},
	{"line", "permits_return", false},
	{"line", "acquire", true},
	{"line", "release", true},
}

// Text returns the text of the script in a file, whose name is given without ".lua".
func Text(name string) string {
	text, err := files.ReadFile(name + ".lua")
	if err != nil {
		panic(err) // a typo, which shows when package wire is imported
	}
	for _, b := range begins {
		switch part := b.part; {
		case !strings.HasPrefix(name, b.scripts):
		case b.inside:
			return "local function theLine()\n" + Text(part) + "return {stand = stand, refusal = refusal, leave = depart, freed = freed}\nend\n" + string(text)
		default:
			return Text(part) + string(text)
		}
	}
	return string(text)
}

// Names returns the names of all scripts.
func Names() (names []string) {
	entries, _ := files.ReadDir(".") // never fails
	for _, e := range entries {
		name := strings.TrimSuffix(e.Name(), ".lua")
		if !slices.ContainsFunc(begins, func(b begin) bool { return b.part == name }) {
			names = append(names, name)
		}
	}
	return names
}
