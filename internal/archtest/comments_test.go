package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each exported name of a package that users import has a comment.
func TestExportedNames_HaveAComment(t *testing.T) {
	var files []string
	for _, folder := range []string{"actor", "futures", "lockmgr", "notify", "renewal", "locktest", "contrib/*"} {
		found, err := filepath.Glob(root + "/" + folder + "/*.go")
		require.NoError(t, err)
		require.NotEmpty(t, found, folder)
		files = append(files, found...)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		require.NoError(t, err)
		for _, name := range bare(f) {
			t.Errorf("%s: %s has no comment", file, name)
		}
	}
}

// bare returns the exported names of a file that have no comment.
func bare(f *ast.File) (names []string) {
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Doc == nil && d.Name.IsExported() && exportedReceiver(d) {
				names = append(names, d.Name.Name)
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					if d.Doc == nil && s.Doc == nil && s.Name.IsExported() {
						names = append(names, s.Name.Name)
					}
				case *ast.ValueSpec:
					if d.Doc == nil && s.Doc == nil && s.Comment == nil && s.Names[0].IsExported() {
						names = append(names, s.Names[0].Name)
					}
				}
			}
		}
	}
	return names
}

// exportedReceiver reports whether a function is no method, or that of an exported type.
func exportedReceiver(d *ast.FuncDecl) bool {
	if d.Recv == nil {
		return true
	}
	of := d.Recv.List[0].Type
	for {
		switch x := of.(type) {
		case *ast.StarExpr:
			of = x.X
		case *ast.IndexExpr:
			of = x.X
		case *ast.Ident:
			return x.IsExported()
		default:
			return false
		}
	}
}

func TestBare(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), "", `package p
type A int
// B is.
type B int
func (a *A) C() {}
func (a a) D() {}
// E does.
func E() {}
func F[T any]() {}
func (g G[T]) H() {}
var I = 1
var (
	J = 1 // is
	k = 1
)
// L are.
const (
	L = iota
	M
)
`, parser.ParseComments)
	require.NoError(t, err)
	require.Equal(t, []string{"A", "C", "F", "H", "I"}, bare(f))
}
