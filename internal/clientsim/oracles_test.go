package clientsim

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each promise of the page has an oracle, and each oracle a promise.
func TestOracles_AreThePromises(t *testing.T) {
	page, err := os.ReadFile("../../docs/guarantees.md")
	require.NoError(t, err)
	_, text, _ := strings.Cut(string(page), "## Promises\n")
	text, _, found := strings.Cut(text, "\n## ")
	require.True(t, found)
	var promised []string
	for _, m := range regexp.MustCompile(`(?m)^(\d+)\. `).FindAllStringSubmatch(text, -1) {
		promised = append(promised, m[1])
	}
	var kept []string
	for _, name := range oracles {
		n := regexp.MustCompile(`^promise(\d+)[a-z]?$`).FindStringSubmatch(name)
		require.NotNil(t, n, name)
		kept = append(kept, n[1])
	}
	require.Equal(t, promised, slices.Compact(kept))
}

// Each oracle is a method of the book of that name.
func TestOracles_AreMethods(t *testing.T) {
	files, err := filepath.Glob("*_test.go")
	require.NoError(t, err)
	var methods []string
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		require.NoError(t, err)
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && strings.HasPrefix(fn.Name.Name, "promise") {
				require.NotNil(t, fn.Recv, fn.Name.Name)
				methods = append(methods, fn.Name.Name)
			}
		}
	}
	require.ElementsMatch(t, oracles, methods)
}
