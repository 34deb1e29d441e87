package doctest

import (
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/leakcheck"
)

func TestMain(m *testing.M) { leakcheck.Main(m) }

// The tests of a package run in its folder.
const root = "../../"

// ours are literals of the pages, and the variables that stand for them here.
var ours = strings.NewReplacer(`"127.0.0.1:6379"`, "addr", `"redis://127.0.0.1:6379"`, "url", `"redis.example.org:6380"`, "addr", `"orders:42"`, "name")

// blocks returns the Go code of the pages, as "page number".
func blocks(t *testing.T) map[string]string {
	pages, err := filepath.Glob(root + "*.md")
	require.NoError(t, err)
	more, err := filepath.Glob(root + "docs/*.md")
	require.NoError(t, err)
	found := make(map[string]string)
	for _, page := range append(pages, more...) {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		name, err := filepath.Rel(root, page)
		require.NoError(t, err)
		for n, after := range strings.Split("\n"+string(text), "\n```go\n")[1:] {
			code, _, ok := strings.Cut(after, "\n```")
			require.True(t, ok, "%s: block %d has no end", name, n+1)
			found[fmt.Sprint(filepath.ToSlash(name), " ", n+1)] = ours.Replace(code)
		}
	}
	return found
}

// copies returns the code of this package's test files that stands between the
// comments, by the text of the first one.
func copies(t *testing.T) map[string]string {
	files, err := filepath.Glob("*_test.go")
	require.NoError(t, err)
	found := make(map[string]string)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		lines := strings.Split(string(text), "\n")
		for len(lines) > 0 {
			first := strings.TrimSpace(lines[0])
			lines = lines[1:]
			name, ok := strings.CutPrefix(first, "// ")
			if !ok || !strings.Contains(name, ".md ") || strings.Count(name, " ") != 1 {
				continue
			}
			end := slices.IndexFunc(lines, func(l string) bool { return strings.TrimSpace(l) == "// end" })
			require.GreaterOrEqual(t, end, 0, "%s: %s has no end", file, name)
			code := strings.TrimRight(dedent(lines[:end]), "\n")
			if before, ok := found[name]; ok {
				code = before + "\n\n" + code
			}
			found[name] = code
			lines = lines[end+1:]
		}
	}
	return found
}

// dedent takes the tabs of the first line off every line.
func dedent(lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	margin := lines[0][:len(lines[0])-len(strings.TrimLeft(lines[0], "\t"))]
	out := make([]string, len(lines))
	for i, l := range lines {
		out[i] = strings.TrimPrefix(l, margin)
	}
	return strings.Join(out, "\n")
}

func TestSnippets_AreWhatIsRunHere(t *testing.T) {
	pages, here := blocks(t), copies(t)
	require.Contains(t, pages, "README.md 1")
	for name, code := range pages {
		require.Contains(t, here, name, "a block of Go code without a copy in this package")
		require.Equal(t, code, here[name], name)
	}
	for name := range here {
		require.Contains(t, pages, name, "a copy of a block that is gone")
	}
}

// A link of a page to a file of the repository, or to a heading in it, leads somewhere.
func TestPages_LinksLeadSomewhere(t *testing.T) {
	pages := found(t, ".md")
	require.Contains(t, pages, root+"contrib/cron/README.md")
	link := regexp.MustCompile(`\]\(([^)\s]*)\)`)
	notInAnchors := regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	for _, page := range pages {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, found := range link.FindAllStringSubmatch(string(text), -1) {
			file, anchor, _ := strings.Cut(found[1], "#")
			if strings.Contains(file, "://") {
				continue
			}
			target := page
			if file != "" {
				target = filepath.Join(filepath.Dir(page), file)
			}
			if anchor == "" {
				_, err := os.Stat(target)
				require.NoError(t, err, page)
				continue
			}
			other, err := os.ReadFile(target)
			require.NoError(t, err, page)
			var anchors []string
			for line := range strings.Lines(string(other)) {
				if title, ok := strings.CutPrefix(strings.TrimLeft(line, "#"), " "); ok && line[0] == '#' {
					title = notInAnchors.ReplaceAllString(strings.ToLower(strings.TrimSpace(title)), "")
					anchors = append(anchors, strings.ReplaceAll(title, " ", "-"))
				}
			}
			require.Contains(t, anchors, anchor, "%s: %s", page, found[1])
		}
	}
}

// found returns the files of the repository whose names end with a suffix.
func found(t *testing.T, suffix string) (files []string) {
	require.NoError(t, filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if strings.HasSuffix(file, suffix) {
			files = append(files, filepath.ToSlash(file))
		}
		if name := d.Name(); d.IsDir() && (name == "testdata" || name == "target" || len(name) > 1 && name[0] == '.' && name != "..") {
			return fs.SkipDir
		}
		return err
	}))
	return files
}

// A [link] in a comment that users read names something that is there.
func TestDoc_LinksLeadSomewhere(t *testing.T) {
	folders := make(map[string][]*ast.File)
	fset := token.NewFileSet()
	for _, file := range found(t, ".go") {
		if !strings.HasSuffix(file, "_test.go") {
			parsed, err := parser.ParseFile(fset, file, nil, parser.ParseComments)
			require.NoError(t, err)
			folders[path.Dir(file)] = append(folders[path.Dir(file)], parsed)
		}
	}
	require.Contains(t, folders, root+"lockmgr")
	broken := regexp.MustCompile(`\\\[\*?(\w+\.)?[A-Z]\w*(\.\w+)*\]`) // Markdown of a link that is none, such as \[Lock.Unlock]
	for dir, files := range folders {
		p, err := doc.NewFromFiles(fset, files, dir, doc.AllDecls|doc.PreserveAST)
		require.NoError(t, err)
		for _, file := range files {
			for _, comment := range file.Comments {
				require.NotRegexp(t, broken, string(p.Markdown(comment.Text())), fset.Position(comment.Pos()))
			}
		}
	}
}
