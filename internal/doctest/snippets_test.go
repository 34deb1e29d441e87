package doctest

import (
	"fmt"
	"os"
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
	pages, err := filepath.Glob(root + "docs/*.md")
	require.NoError(t, err)
	link := regexp.MustCompile(`\]\(([^)\s]*)\)`)
	notInAnchors := regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	for _, page := range append(pages, root+"README.md", root+"FAULTS.md", root+"CONTRIBUTING.md", root+"SECURITY.md", root+"examples/README.md") {
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
				require.FileExists(t, target, page)
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
