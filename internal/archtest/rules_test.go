package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

const (
	module    = "github.com/holdfast-go/holdfast"
	rueidis   = "github.com/redis/rueidis"
	testify   = "github.com/stretchr/testify"
	miniredis = "github.com/alicebob/miniredis/v2"
	lua       = "github.com/yuin/gopher-lua" // runs scripts, also those of miniredis
)

// packages are the folders that must be there, each with the folders of ours that it may import;
// "x/..." stands for x and what is below it. A new package of the library gets a line here.
var packages = map[string][]string{
	"actor":                    {},
	"futures":                  {},
	"internal/clean":           {},
	"internal/script":          {},
	"renewal":                  {},
	"notify":                   {"actor", "futures", "internal/clean"},
	"lockmgr":                  {"actor", "futures", "internal/clean", "notify", "renewal", "lockmgr/..."},
	"lockmgr/internal/core":    {"renewal"},
	"lockmgr/internal/wire":    {"internal/clean", "internal/script", "lockmgr/internal/core"},
	"lockmgr/internal/cluster": {"lockmgr/internal/core", "lockmgr/internal/wire"},
	"lockmgr/internal/turns":   {"internal/luaserver", "internal/resp", "lockmgr/internal/core", "lockmgr/internal/wire"},
}

// pure are the folders whose code must give the same result for the same input, whatever the
// machine, the hour and the scheduler do.
var pure = []string{"lockmgr/internal/core", "renewal"}

// impure are the imports that would end that. A name stands for what is below it too. Modules of
// others are all refused there.
var impure = []string{"context", "crypto/rand", "math/rand", "net", "os", "runtime", "sync", "syscall"}

// timeless is what the pure folders may use of package time: the units, so that nothing reads the
// clock or waits.
var timeless = []string{
	"Duration", "Nanosecond", "Microsecond", "Millisecond", "Second", "Minute", "Hour",
}

// ordered are the folders whose doc.go lists their files, in the section Files. Each file there
// uses only files below it.
var ordered = []string{"lockmgr", "lockmgr/internal/cluster", "lockmgr/internal/wire"}

// grouped are the folders whose doc.go lists their files in groups: each block of the section Files
// is a group. Each file there calls only functions of its own group and of the groups below, except
// for the calls named here.
var grouped = map[string][]string{
	"lockmgr/internal/core": {
		"machine.go → set.go",      // a notice says whether its name is a set
		"permits.go → unlock.go",   // a pool leaves the line
		"places.go → unlock.go",    // the record of a grant that nobody wants is removed
		"places.go → wait.go",      // a request that must wait for others subscribes
		"position.go → acquire.go", // who is told that something is free asks
		"position.go → unlock.go",  // who is told in vain leaves the line
	},
}

// programs are modules of their own, with dependencies of their own.
var programs = []string{"examples", "bench", "interop", "contrib", "locktest", "cmd"}

// rueidisFiles are the library's files that may talk to Redis.
var rueidisFiles = []string{"lockmgr/internal/wire/client.go", "lockmgr/internal/wire/connector.go", "lockmgr/internal/cluster/layout.go", "lockmgr/internal/cluster/look.go", "lockmgr/internal/cluster/node.go", "lockmgr/internal/cluster/nodes.go", "lockmgr/internal/cluster/redirect.go", "lockmgr/internal/cluster/seeds.go", "lockmgr/redis.go", "notify/redis.go"}

// testSupport are the folders that tests alone import: they may import package testing, and nothing
// that users link may import them.
var testSupport = []string{"internal", "lockmgr/internal/turns"}

// forTests reports whether a folder or file is test support. internal/clean and internal/script are
// not: the library uses both.
func forTests(name string) bool {
	return anyWithin(name, testSupport) && !within(name, "internal/clean") && !within(name, "internal/script")
}

// faultSuites is where tests of the whole client have their helpers.
const faultSuites = "internal/faults"

// requirements are the modules that the library's go.mod may require directly.
var requirements = []string{
	rueidis, testify, miniredis, lua, "github.com/google/uuid", "golang.org/x/sync",
}

// report is what a walk over the repository found.
type report struct {
	files      map[string]int // number of non-test Go files by folder
	violations []string
}

func (r *report) add(where, format string, args ...any) {
	r.violations = append(r.violations, where+": "+fmt.Sprintf(format, args...))
}

// survey reads all Go files of repo and checks those that are not tests.
func survey(repo fs.FS) (*report, error) {
	r := &report{files: make(map[string]int)}
	err := fs.WalkDir(repo, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			// What the go command leaves out.
			if base := path.Base(name); name != "." && (strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") || base == "testdata") {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		src, err := fs.ReadFile(repo, name)
		if err != nil {
			return err
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, name, src, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		r.files[path.Dir(name)]++
		r.imports(name, file)
		if anyWithin(name, pure) {
			r.purity(name, fset, file)
		}
		if !anyWithin(name, programs) {
			r.globals(name, file)
		}
		return nil
	})
	return r, err
}

// imports checks what a file imports against the tables.
func (r *report) imports(name string, file *ast.File) {
	owner, mayImport := ownerOf(name)
	program, support := anyWithin(name, programs), forTests(name)
	for _, spec := range file.Imports {
		imported, _ := strconv.Unquote(spec.Path.Value)
		switch {
		case within(imported, rueidis) && !program && !slices.Contains(rueidisFiles, name):
			r.add(name, "imports rueidis: only %s may, the rest is testable without Redis", strings.Join(rueidisFiles, ", "))
		case within(imported, testify) || within(imported, "github.com/alicebob/miniredis") || within(imported, lua):
			// Programs bring a server with them, so that they run anywhere.
			embeds := program && !within(imported, testify)
			engine := within(imported, lua) && within(name, "internal/luaserver")
			if !within(name, "internal/redistest") && !within(name, faultSuites) && !embeds && !engine {
				r.add(name, "imports %s outside a test: it would be linked into users' programs", imported)
			}
		case imported == module || strings.HasPrefix(imported, module+"/"):
			ours := strings.TrimPrefix(strings.TrimPrefix(imported, module), "/")
			if owner != "" && !allowed(ours, mayImport) {
				r.add(name, "imports %s: %s may import %v of ours", ours, owner, mayImport)
			}
			if owner == "" && !program && within(ours, "lockmgr") && !within(name, faultSuites) {
				r.add(name, "imports %s: only programs and tests may, imports point one way", ours)
			}
			if forTests(ours) && !support && !program {
				r.add(name, "imports %s: it is for tests", ours)
			}
		case imported == "testing" && !support && !program:
			r.add(name, "imports testing: it would be linked into users' programs")
		}
	}
}

// purity checks that a file can neither wait, nor run beside itself, nor see anything but its
// arguments.
func (r *report) purity(name string, fset *token.FileSet, file *ast.File) {
	timeName := ""
	for _, spec := range file.Imports {
		imported, _ := strconv.Unquote(spec.Path.Value)
		first, _, _ := strings.Cut(imported, "/")
		switch {
		case anyWithin(imported, impure):
			r.add(name, "imports %s: this folder is pure", imported)
		case strings.Contains(first, ".") && !within(imported, module):
			r.add(name, "imports %s: this folder is pure and needs no module of others", imported)
		case imported == "time":
			timeName = "time"
			if spec.Name != nil {
				timeName = spec.Name.Name
			}
			if timeName == "." {
				r.add(name, "imports time with a dot, which hides what is used of it")
			}
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		what := ""
		switch n := n.(type) {
		case *ast.GoStmt:
			what = "a go statement"
		case *ast.ChanType:
			what = "a channel type"
		case *ast.SelectStmt:
			what = "a select statement"
		case *ast.SendStmt:
			what = "a channel send"
		case *ast.UnaryExpr:
			if n.Op == token.ARROW {
				what = "a channel receive"
			}
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && x.Name == timeName && !slices.Contains(timeless, n.Sel.Name) {
				what = "time." + n.Sel.Name
			}
		}
		if what != "" {
			r.add(name, "line %d has %s: this folder is pure, the time is an argument", fset.Position(n.Pos()).Line, what)
		}
		return true
	})
}

// globals refuses init functions: importing the library does nothing.
func (r *report) globals(name string, file *ast.File) {
	for _, decl := range file.Decls {
		if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" {
			r.add(name, "has an init function: importing the library does nothing")
		}
	}
}

// requires checks the direct requirements in the text of a go.mod and returns how many
// requirements, direct or not, it has read.
func (r *report) requires(name, text string) (read int) {
	block := false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		code, comment, _ := strings.Cut(line, "//")
		fields := strings.Fields(code)
		switch {
		case len(fields) == 0:
			continue
		case block && fields[0] == ")":
			block = false
			continue
		case fields[0] == "require" && len(fields) == 2 && fields[1] == "(":
			block = true
			continue
		case fields[0] == "require":
			fields = fields[1:]
		case !block:
			continue
		}
		read++
		indirect := strings.HasPrefix(strings.TrimSpace(comment), "indirect")
		if !indirect && !slices.Contains(requirements, fields[0]) {
			r.add(name, "requires %s: the library's dependencies are %v", fields[0], requirements)
		}
	}
	return read
}

// ownerOf returns the innermost of packages that a file belongs to.
func ownerOf(name string) (owner string, mayImport []string) {
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if may, ok := packages[dir]; ok {
			return dir, may
		}
	}
	return "", nil
}

func allowed(ours string, may []string) bool {
	return slices.ContainsFunc(may, func(m string) bool {
		tree, ok := strings.CutSuffix(m, "/...")
		return ours == m || ok && within(ours, tree)
	})
}

// within reports whether a slash-separated name is dir or below it.
func within(name, dir string) bool { return name == dir || strings.HasPrefix(name, dir+"/") }

func anyWithin(name string, dirs []string) bool {
	return slices.ContainsFunc(dirs, func(dir string) bool { return within(name, dir) })
}
