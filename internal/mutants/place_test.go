package mutants

import (
	"fmt"
	"go/ast"
	"go/build"
	"go/importer"
	"go/parser"
	"go/scanner"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// apply returns the file that a mutant changes, from the root of the repository, and its text with
// the change.
//
// The place is found by the tokens of Go in one function: a mutant survives new comments, new line
// breaks, a move of the function to another file, and changes of other functions. It must be found
// exactly once, so that a mutant whose place is gone is noticed.
func (m *mutant) apply() (file, text string, err error) {
	if strings.HasSuffix(m.in, ".lua") {
		src, err := os.ReadFile(filepath.Join(root, m.in))
		if err != nil {
			return "", "", err
		}
		if n := strings.Count(string(src), m.old); n != 1 {
			return "", "", fmt.Errorf("%s contains %q %d times, not once", m.in, m.old, n)
		}
		return m.in, strings.Replace(string(src), m.old, m.new, 1), nil
	}
	files, err := sources(m.in)
	if err != nil {
		return "", "", err
	}
	want, known, found := tokens([]byte(m.old)), false, 0
	for _, f := range files {
		for _, span := range f.functions[m.fn] {
			known = true
			in := tokens(f.src[span.begin:span.end])
			for i := range in {
				if !begins(in[i:], want) {
					continue
				}
				found++
				last := in[i+len(want)-1]
				file = f.path
				text = string(f.src[:span.begin+in[i].at]) + m.new + string(f.src[span.begin+last.at+len(last.text):])
			}
		}
	}
	switch {
	case !known:
		return "", "", fmt.Errorf("%s has no function %s", m.in, m.fn)
	case found != 1:
		return "", "", fmt.Errorf("%s in %s contains %q %d times, not once", m.fn, m.in, m.old, found)
	}
	return file, text, nil
}

// A source is a Go file of a package that is not a test.
type source struct {
	path      string // from the root of the repository
	src       []byte
	functions map[string][]span
}

type span struct{ begin, end int }

var sourcesOf sync.Map // by folder

func sources(dir string) ([]source, error) {
	if known, ok := sourcesOf.Load(dir); ok {
		return known.([]source), nil
	}
	paths, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
	if err != nil {
		return nil, err
	}
	var files []source
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		src, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		functions, err := functionsOf(src)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		files = append(files, source{filepath.Join(dir, filepath.Base(path)), src, functions})
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s has no Go files", dir)
	}
	sourcesOf.Store(dir, files)
	return files, nil
}

// functionsOf returns where the functions of a file are.
func functionsOf(src []byte) (map[string][]span, error) {
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, "", src, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	functions := map[string][]span{}
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		name := functionName(fn)
		functions[name] = append(functions[name], span{set.Position(fn.Pos()).Offset, set.Position(fn.End()).Offset})
	}
	return functions, nil
}

// functionName returns the name of a function. A method's name is that of its type, a dot, and its
// own.
func functionName(fn *ast.FuncDecl) string {
	if fn.Recv == nil {
		return fn.Name.Name
	}
	return typeName(fn.Recv.List[0].Type) + "." + fn.Name.Name
}

// typeName returns the name of a receiver's type, without its parameters.
func typeName(receiver ast.Expr) string {
	switch x := receiver.(type) {
	case *ast.StarExpr:
		return typeName(x.X)
	case *ast.IndexExpr:
		return typeName(x.X)
	case *ast.IndexListExpr:
		return typeName(x.X)
	}
	return receiver.(*ast.Ident).Name
}

type lexeme struct {
	at   int
	text string
}

// tokens splits Go text. Comments and the semicolons of line ends are left out.
func tokens(src []byte) []lexeme {
	files := token.NewFileSet()
	file := files.AddFile("", files.Base(), len(src))
	var s scanner.Scanner
	s.Init(file, src, func(token.Position, string) {}, 0) // a part of a file need not be whole
	var all []lexeme
	for {
		pos, tok, text := s.Scan()
		switch {
		case tok == token.EOF:
			return all
		case tok == token.SEMICOLON && text == "\n":
			continue
		case text == "":
			text = tok.String()
		}
		all = append(all, lexeme{file.Offset(pos), text})
	}
}

func begins(in, with []lexeme) bool {
	return len(with) > 0 && len(in) >= len(with) &&
		slices.EqualFunc(in[:len(with)], with, func(a, b lexeme) bool { return a.text == b.text })
}

// compiles reports what is wrong with the text of a file. The file is checked in full, and of the
// others in its package the declarations.
func compiles(t *testing.T, file, text string) error {
	dir := filepath.Dir(file)
	all, err := sources(dir)
	require.NoError(t, err)
	set := token.NewFileSet()
	var files []*ast.File
	for _, s := range all {
		if ok, err := build.Default.MatchFile(filepath.Join(root, dir), filepath.Base(s.path)); err != nil || !ok {
			continue // for another system
		}
		if s.path == file {
			s.src = []byte(text)
		}
		f, err := parser.ParseFile(set, s.path, s.src, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		if s.path != file {
			for _, d := range f.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok {
					fn.Body = nil
				}
			}
		}
		files = append(files, f)
	}
	var first error
	config := types.Config{Importer: exports(t), Error: func(err error) {
		if at := set.Position(err.(types.Error).Pos); first == nil && at.Filename == file {
			first = err
		}
	}}
	_, _ = config.Check(dir, set, files, nil)
	return first
}

var exported struct {
	sync.Once
	importer types.Importer
}

// exports returns an importer of what the mutants' packages import.
func exports(t *testing.T) types.Importer {
	exported.Do(func() {
		list := exec.Command("go", "list", "-export", "-deps", "-f", "{{.ImportPath}}\t{{.Export}}",
			"./actor", "./futures", "./notify", "./renewal", "./lockmgr/...")
		list.Dir = root
		out, err := list.Output()
		require.NoError(t, err)
		paths := map[string]string{}
		for line := range strings.Lines(string(out)) {
			path, file, _ := strings.Cut(strings.TrimSpace(line), "\t")
			paths[path] = file
		}
		exported.importer = importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) {
			if paths[path] == "" {
				return nil, fmt.Errorf("no export data of %s", path)
			}
			return os.Open(paths[path])
		})
	})
	return exported.importer
}
