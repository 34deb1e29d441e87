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

// usesBetween returns the uses between the files of a package, each once, or only the uses of
// functions and methods. It needs the types: a name alone does not tell a field from a variable.
func usesBetween(
	dir string, fset *token.FileSet, files []*ast.File, imports types.Importer, calls bool,
) ([]use, error) {
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
		if _, function := object.(*types.Func); object.Pkg() != pkg || calls && !function {
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

// listedFiles returns the files that the section Files of doc.go lists, from the top down, by the
// blocks of the section.
func listedFiles(text string) (blocks [][]string) {
	var parser comment.Parser
	section := ""
	for _, block := range parser.Parse(text).Content {
		switch block := block.(type) {
		case *comment.Heading:
			section = fmt.Sprint(block.Text[0])
		case *comment.Code:
			var names []string
			for line := range strings.Lines(block.Text) {
				if m := listedFile.FindStringSubmatch(line); m != nil && section == "Files" {
					names = append(names, m[1])
				}
			}
			if names != nil {
				blocks = append(blocks, names)
			}
		}
	}
	return blocks
}

// apart returns the files of blocks, each in a group of its own.
func apart(blocks [][]string) (groups [][]string) {
	for _, name := range slices.Concat(blocks...) {
		groups = append(groups, []string{name})
	}
	return groups
}

// order checks that the list of a folder's files is complete, and that each file uses only files of
// its own group and of the groups below, except for the uses named in but.
func (r *report) order(dir string, files []string, groups [][]string, uses []use, but []string) {
	listed := slices.Concat(groups...)
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
	group := func(name string) int {
		return slices.IndexFunc(groups, func(names []string) bool { return slices.Contains(names, name) })
	}
	needed := make(map[string]bool)
	for _, u := range uses {
		by, of, up := group(u.by), group(u.of), u.by+" → "+u.of
		switch {
		case by < 0 || of < 0 || of >= by:
		case slices.Contains(but, up):
			needed[up] = true
		default:
			r.add(dir+"/"+u.by, "uses %s of %s, which is above it in doc.go: a file uses only files below it", u.name, u.of)
		}
	}
	for _, up := range but {
		if !needed[up] {
			r.add(dir, "%s is an exception, but is no use any more", up)
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
	check := func(dir string, each bool, but []string) {
		t.Run(dir, func(t *testing.T) {
			fset := token.NewFileSet()
			files, names, text := parseFolder(t, fset, dir)
			groups := listedFiles(text)
			if each {
				groups = apart(groups)
			}
			require.NotEmpty(t, groups, "doc.go has no list of files in a section Files")
			uses, err := usesBetween(dir, fset, files, compiled(t, files), !each)
			require.NoError(t, err)
			require.NotEmpty(t, uses)
			var r report
			r.order(dir, names, groups, uses, but)
			for _, v := range r.violations {
				t.Error(v)
			}
		})
	}
	for _, dir := range ordered {
		check(dir, true, nil)
	}
	for dir, but := range grouped {
		check(dir, false, but)
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
	for _, c := range []struct{ src, want, calls string }{
		{"var _ T", "T", ""},
		{"var x = function", "function", "function"},
		{"var x = constant", "constant", ""},
		{"var x = variable", "variable", ""},
		{"func f() { T.method(variableOf()) }\nfunc variableOf() (t T) { return }", "T method", "method"},
		{"type U struct{ T }\nvar x = U{}.field", "T field", ""},
		{"type U struct{ T }\nfunc f(u U) { u.method() }", "T method", "method"},
		{"var x = generic[int]{element: 1}", "element generic", ""},
		{"func f(g generic[int]) { g.call() }", "call generic", "call"},
		{"func (T) more() {}", "T", ""},
		{"func f(function, constant int) int { return function + constant }", "", ""},
		{"type U struct{ function, field int }\nvar x = U{field: 1}.function", "", ""},
	} {
		t.Run(c.src, func(t *testing.T) {
			fset := token.NewFileSet()
			var files []*ast.File
			for name, src := range map[string]string{"above.go": "package p\n" + c.src, "below.go": below} {
				file, err := parser.ParseFile(fset, name, src, parser.SkipObjectResolution)
				require.NoError(t, err)
				files = append(files, file)
			}
			for calls, want := range map[bool]string{false: c.want, true: c.calls} {
				uses, err := usesBetween("p", fset, files, nil, calls)
				require.NoError(t, err)
				var names []string
				for _, u := range uses {
					require.Equal(t, use{"above.go", "below.go", u.name}, u)
					names = append(names, u.name)
				}
				require.Equal(t, want, strings.Join(names, " "))
			}
		})
	}
}

func TestFiles_Order(t *testing.T) {
	text := "Package p does something.\n\n\tz.go is no file\n\n# Files\n\nAs follows.\n\n" +
		"\n\ta.go  the top\n\tb.go  the rest\n\nMore.\n\n\tc.go\n\n# More\n\n\td.go\n"
	blocks := listedFiles(text)
	require.Equal(t, [][]string{{"a.go", "b.go"}, {"c.go"}}, blocks)
	require.Equal(t, [][]string{{"a.go"}, {"b.go"}, {"c.go"}}, apart(blocks))
	all, each := []string{"a.go", "b.go", "c.go", "doc.go"}, apart(blocks)
	up := []use{{"c.go", "a.go", "f"}}
	const above = "uses f of a.go, which is above it in doc.go: a file uses only files below it"
	const unlisted = "p/e.go: is not listed in p/doc.go, in the section Files: put it above all files that it uses"
	for _, c := range []struct {
		name   string
		groups [][]string
		files  []string
		uses   []use
		but    []string
		want   string
	}{
		{"down", each, all, []use{{"a.go", "b.go", "f"}, {"b.go", "c.go", "f"}}, nil, ""},
		{"up", each, all, []use{{"b.go", "a.go", "f"}}, nil, "p/b.go: " + above},
		{"up in a group", blocks, all, []use{{"b.go", "a.go", "f"}}, nil, ""},
		{"up from a group", blocks, all, up, nil, "p/c.go: " + above},
		{"an exception", blocks, all, up, []string{"c.go → a.go"}, ""},
		{"another is the exception", blocks, all, append(up, use{"c.go", "b.go", "f"}), []string{"c.go → b.go"},
			"p/c.go: " + above},
		{"an exception in vain", blocks, all, nil, []string{"c.go → a.go"},
			"p: c.go → a.go is an exception, but is no use any more"},
		{"a file that is not listed", each, append(all, "e.go"), nil, nil, unlisted},
		{"a file that is not there", each, all[:2], nil, nil, "p/doc.go: lists c.go, which is not there"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var r report
			r.order("p", c.files, c.groups, c.uses, c.but)
			require.Equal(t, c.want, strings.Join(r.violations, "\n"))
		})
	}
	var r report
	r.order("p", []string{"a.go"}, [][]string{{"a.go", "a.go"}}, nil, nil)
	require.Equal(t, []string{"p/doc.go: lists a.go twice"}, r.violations)
}
