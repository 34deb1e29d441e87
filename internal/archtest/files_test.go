package archtest

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/build"
	"go/doc/comment"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A use says that a file uses something that another file of its package declares: a function, a
// type, a constant, a variable, a method or a field.
type use struct{ by, of, name string }

// usesBetween returns the uses between the files of a package, each once. It needs the types: a
// name alone does not tell a field from a variable.
func usesBetween(dir string, fset *token.FileSet, files []*ast.File, imports types.Importer) ([]use, error) {
	info := &types.Info{Uses: make(map[*ast.Ident]types.Object)}
	config := types.Config{Importer: imports}
	pkg, err := config.Check(dir, fset, files, info)
	if err != nil {
		return nil, err
	}
	fileOf := func(at token.Pos) string { return path.Base(filepath.ToSlash(fset.Position(at).Filename)) }
	found := make(map[use]bool)
	for ident, object := range info.Uses {
		u := use{fileOf(ident.Pos()), "", ident.Name}
		if object.Pkg() != pkg {
			continue
		}
		if u.of = fileOf(object.Pos()); u.of != u.by {
			found[u] = true
		}
	}
	var uses []use
	for u := range found {
		uses = append(uses, u)
	}
	slices.SortFunc(uses, func(a, b use) int {
		return cmp.Or(cmp.Compare(a.by, b.by), cmp.Compare(a.of, b.of), cmp.Compare(a.name, b.name))
	})
	return uses, nil
}

// listedFile is how a line of the section Files begins.
var listedFile = regexp.MustCompile(`^(\w+\.go)\b`)

// listedFiles returns the files that the section Files of doc.go lists, from the top down.
func listedFiles(text string) (names []string) {
	var parser comment.Parser
	section := ""
	for _, block := range parser.Parse(text).Content {
		switch block := block.(type) {
		case *comment.Heading:
			section = fmt.Sprint(block.Text[0])
		case *comment.Code:
			for line := range strings.Lines(block.Text) {
				if m := listedFile.FindStringSubmatch(line); m != nil && section == "Files" {
					names = append(names, m[1])
				}
			}
		}
	}
	return names
}

// order checks that the list of a folder's files is complete, and that each file uses only files
// below it.
func (r *report) order(dir string, files, listed []string, uses []use) {
	for _, name := range files {
		if !slices.Contains(listed, name) && name != "doc.go" {
			r.add(dir+"/"+name, "is not listed in %s/doc.go, in the section Files: put it above all files that it uses", dir)
		}
	}
	for i, name := range listed {
		if !slices.Contains(files, name) {
			r.add(dir+"/doc.go", "lists %s, which is not there", name)
		}
		if slices.Contains(listed[:i], name) {
			r.add(dir+"/doc.go", "lists %s twice", name)
		}
	}
	for _, u := range uses {
		by, of := slices.Index(listed, u.by), slices.Index(listed, u.of)
		if by >= 0 && of >= 0 && of < by {
			r.add(dir+"/"+u.by, "uses %s of %s, which is above it in doc.go: a file uses only files below it", u.name, u.of)
		}
	}
}

// parseFolder parses the files of a folder that are no tests. names are all of them, also those for
// other systems. text is that of doc.go's comments: users need not see a list of files, so it may
// be in a comment below the package clause.
func parseFolder(t *testing.T, fset *token.FileSet, dir string) (files []*ast.File, names []string, text string) {
	entries, err := os.ReadDir(filepath.Join(root, dir))
	require.NoError(t, err)
	for _, e := range entries {
		name := e.Name()
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			continue
		}
		names = append(names, name)
		ours, err := build.Default.MatchFile(filepath.Join(root, dir), name)
		require.NoError(t, err)
		if !ours {
			continue
		}
		file, err := parser.ParseFile(fset, filepath.Join(root, dir, name), nil, parser.SkipObjectResolution|parser.ParseComments)
		require.NoError(t, err)
		files = append(files, file)
		if name == "doc.go" {
			for _, group := range file.Comments {
				text += group.Text() + "\n"
			}
		}
	}
	return files, names, text
}

// compiled returns an importer of the packages that files import. It reads what the compiler has
// written about them.
func compiled(t *testing.T, files []*ast.File) types.Importer {
	list := exec.Command("go", "list", "-export", "-deps", "-f", "{{.ImportPath}}\t{{.Export}}")
	for _, file := range files {
		for _, spec := range file.Imports {
			list.Args = append(list.Args, strings.Trim(spec.Path.Value, `"`))
		}
	}
	list.Dir = root
	out, err := list.Output()
	require.NoError(t, err)
	exports := make(map[string]string)
	for line := range strings.Lines(string(out)) {
		pkg, file, _ := strings.Cut(strings.TrimSpace(line), "\t")
		exports[pkg] = file
	}
	return importer.ForCompiler(token.NewFileSet(), "gc", func(pkg string) (io.ReadCloser, error) {
		return os.Open(exports[pkg])
	})
}

func TestFiles_UseOnlyFilesBelow(t *testing.T) {
	for _, dir := range ordered {
		t.Run(dir, func(t *testing.T) {
			fset := token.NewFileSet()
			files, names, text := parseFolder(t, fset, dir)
			listed := listedFiles(text)
			require.NotEmpty(t, listed, "doc.go has no list of files in a section Files")
			uses, err := usesBetween(dir, fset, files, compiled(t, files))
			require.NoError(t, err)
			require.NotEmpty(t, uses)
			var r report
			r.order(dir, names, listed, uses)
			for _, v := range r.violations {
				t.Error(v)
			}
		})
	}
}

func TestFiles_UsesAreFound(t *testing.T) {
	const below = `package p
type T struct{ field int }
func (T) method() {}
func function() {}
const constant = 1
var variable = 2
type generic[E any] struct{ element E }
func (generic[E]) call() {}
`
	for _, c := range []struct{ src, want string }{
		{"var _ T", "T"},
		{"var x = function", "function"},
		{"var x = constant", "constant"},
		{"var x = variable", "variable"},
		{"func f() { T.method(variableOf()) }\nfunc variableOf() (t T) { return }", "T method"},
		{"type U struct{ T }\nvar x = U{}.field", "T field"},
		{"type U struct{ T }\nfunc f(u U) { u.method() }", "T method"},
		{"var x = generic[int]{element: 1}", "element generic"},
		{"func f(g generic[int]) { g.call() }", "call generic"},
		{"func (T) more() {}", "T"},
		{"func f(function, constant int) int { return function + constant }", ""},
		{"type U struct{ function, field int }\nvar x = U{field: 1}.function", ""},
	} {
		t.Run(c.src, func(t *testing.T) {
			fset := token.NewFileSet()
			var files []*ast.File
			for name, src := range map[string]string{"above.go": "package p\n" + c.src, "below.go": below} {
				file, err := parser.ParseFile(fset, name, src, parser.SkipObjectResolution)
				require.NoError(t, err)
				files = append(files, file)
			}
			uses, err := usesBetween("p", fset, files, nil)
			require.NoError(t, err)
			var names []string
			for _, u := range uses {
				require.Equal(t, use{"above.go", "below.go", u.name}, u)
				names = append(names, u.name)
			}
			require.Equal(t, c.want, strings.Join(names, " "))
		})
	}
}

func TestFiles_Order(t *testing.T) {
	text := "Package p does something.\n\n\tz.go is no file\n\n# Files\n\nAs follows.\n\n\ta.go  the top\n\tb.go  the rest\n\n# More\n\n\tc.go\n"
	listed := listedFiles(text)
	require.Equal(t, []string{"a.go", "b.go"}, listed)
	for _, c := range []struct {
		name  string
		files []string
		uses  []use
		want  []string
	}{
		{"down", []string{"a.go", "b.go", "doc.go"}, []use{{"a.go", "b.go", "f"}}, nil},
		{"up", []string{"a.go", "b.go"}, []use{{"b.go", "a.go", "f"}}, []string{"p/b.go: uses f of a.go, which is above it in doc.go: a file uses only files below it"}},
		{"a file that is not listed", []string{"a.go", "b.go", "c.go"}, nil, []string{"p/c.go: is not listed in p/doc.go, in the section Files: put it above all files that it uses"}},
		{"a file that is not there", []string{"a.go"}, nil, []string{"p/doc.go: lists b.go, which is not there"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var r report
			r.order("p", c.files, listed, c.uses)
			require.Equal(t, c.want, r.violations)
		})
	}
	var r report
	r.order("p", []string{"a.go"}, []string{"a.go", "a.go"}, nil)
	require.Equal(t, []string{"p/doc.go: lists a.go twice"}, r.violations)
}
