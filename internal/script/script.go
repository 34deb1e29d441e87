// Package script has holdfast's Lua scripts. Package lockmgr/internal/wire sends the scripts, and
// bench sends some of them without the rest of holdfast.
package script

import (
	"embed"
	"strings"
)

//go:embed *.lua
var files embed.FS

// fair is the part with which each script of fair locks begins.
const fair = "fair"

// Text returns the text of the script in a file, whose name is given without ".lua".
func Text(name string) string {
	text, err := files.ReadFile(name + ".lua")
	if err != nil {
		panic(err) // a typo, which shows when package wire is imported
	}
	if strings.HasPrefix(name, fair+"_") {
		return Text(fair) + string(text)
	}
	return string(text)
}

// Names returns the names of all scripts.
func Names() (names []string) {
	entries, _ := files.ReadDir(".") // never fails
	for _, e := range entries {
		if name := strings.TrimSuffix(e.Name(), ".lua"); name != fair {
			names = append(names, name)
		}
	}
	return names
}
