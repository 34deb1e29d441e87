// Package readme checks the README of a module whose Go code stands in an example, too.
package readme

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// MaxLines is the length of a README of a module.
const MaxLines = 44

// Check fails if the Go code of README.md is not in example_test.go, which is compiled and run, if
// the page does not begin with the import of the module, or if the page is long. Both files are in
// the folder of the test.
func Check(t *testing.T) {
	t.Helper()
	page, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(page), "\n"); n > MaxLines {
		t.Errorf("README.md has %d lines, more than %d", n, MaxLines)
	}
	example, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	start := begin.FindStringSubmatch(string(page))
	if start == nil {
		t.Fatal("README.md does not begin with the import of the module")
	}
	snippets := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(page)[len(start[0]):], -1)
	if len(snippets) == 0 {
		t.Fatal("README.md has no Go code")
	}
	snippets = append(snippets, start)
	code := indent.ReplaceAllString(string(example), "\n")
	for _, s := range snippets {
		if !strings.Contains(code, indent.ReplaceAllString("\n"+s[1], "\n")) {
			t.Errorf("example_test.go has not this code of README.md:\n%s", s[1])
		}
	}
}

// begin is how a README begins: its title and the import.
var begin = regexp.MustCompile("^# .*\n\n```go\nimport (.*\"github.com/holdfast-go/holdfast/.*\"\n)```\n")

var indent = regexp.MustCompile(`\n\s*`)
