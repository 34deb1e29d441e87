package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// faultFolders are the short names that FAULTS.md gives to folders.
var faultFolders = map[string]string{
	"mgr": "lockmgr", "wire": "lockmgr/internal/wire", "cluster": "lockmgr/internal/cluster", "script": "internal/script", "notify": "notify", "bench": "bench/internal/soak",
	"core": "lockmgr/internal/core", "turns": "lockmgr/internal/turns", "clientsim": "internal/clientsim", "futures": "futures",
	"net": "internal/faults/network", "srv": "internal/faults/server", "cli": "internal/faults/client",
	"interop": "interop", "cmd": "cmd/holdfast",
}

// A page that names tests is worth something only while they are there.
func TestFaults_NamesTestsThatExist(t *testing.T) {
	text, err := os.ReadFile(root + "/FAULTS.md")
	require.NoError(t, err)
	page := strings.Join(strings.Fields(string(text)), " ")
	tests := map[string][]string{}
	for short, folder := range faultFolders {
		tests[short] = testsIn(t, folder)
		require.NotEmpty(t, tests[short], folder)
	}
	named := regexp.MustCompile(`\b(\w+) ((?:Test|Fuzz)[A-Z]\w+)`).FindAllStringSubmatch(page, -1)
	require.Greater(t, len(named), 60)
	for _, n := range named {
		require.Contains(t, faultFolders, n[1], "%s: in no folder that the page knows", n[2])
		require.Contains(t, tests[n[1]], n[2], "%s has no such test", faultFolders[n[1]])
	}
	bare := regexp.MustCompile(`\b(?:Test|Fuzz)[A-Z]\w+`).FindAllString(page, -1)
	require.Len(t, bare, len(named), "each has its folder before it")

	for _, row := range regexp.MustCompile(`\| (\d+) \|[^|]*\|([^|]*)\|([^|]*)\|`).FindAllStringSubmatch(page, -1) {
		if !strings.HasPrefix(strings.TrimSpace(row[2]), "not applicable: ") {
			require.Regexp(t, `(Test|Fuzz)[A-Z]`, row[3], "row %s", row[1])
		}
	}
	for i := range 40 {
		require.Contains(t, page, fmt.Sprintf("| %d | ", i+1))
	}
}

func testsIn(t *testing.T, folder string) []string {
	var out []string
	files, err := fs.Glob(os.DirFS(root), path.Join(folder, "*_test.go"))
	require.NoError(t, err)
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), root+"/"+name, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil {
				out = append(out, f.Name.Name)
			}
		}
	}
	slices.Sort(out)
	return out
}
