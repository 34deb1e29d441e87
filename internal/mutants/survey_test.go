package mutants

import (
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var (
	sample = flag.Int("sample", 0, "build and run `n` changes of the code that no list names")
	seed   = flag.Uint64("seed", 1, "which sample")
)

// A stage is tests that may catch a change.
type stage struct {
	pkg   string
	limit time.Duration
	args  []string
}

// A survey is a package that is changed, and the stages of its tests. A stage runs if those before
// it have passed.
type survey struct {
	in     string
	stages []stage
}

// ofManager are the tests of lockmgr, which wait much of the time.
var ofManager = stage{manager, 8 * time.Minute, []string{"-test.parallel=8"}}

var surveyed = []survey{
	{machine, []stage{
		{machine, time.Minute, []string{"-test.skip=^TestRenewal_Bursts$"}},
		{"internal/clientsim", 5 * time.Minute, []string{"-test.run=^TestSeeds$", "-seeds=300", "-tail=0", "-hang=1m"}},
		{machine, time.Minute, []string{"-test.run=^TestRenewal_Bursts$"}},
		ofManager,
	}},
	{wire, []stage{{wire, time.Minute, nil}, ofManager}},
	{nodes, []stage{{nodes, time.Minute, nil}, ofManager}},
	{"notify", []stage{{"notify", time.Minute, nil}}},
	{"actor", []stage{{"actor", time.Minute, nil}}},
	{"futures", []stage{{"futures", time.Minute, nil}}},
	{"renewal", []stage{{"renewal", time.Minute, nil}}},
}

// A change is a surveyed package with one condition, operator or statement changed.
type change struct {
	survey
	source
	edit
}

// An edit replaces a part of a file. The name says in which function, what is done, and with which
// text, so that the name survives other edits of the function.
type edit struct {
	span
	name, new string
}

func (c *change) String() string { return filepath.Base(c.in) + "/" + c.name }

// changes returns all changes of the surveyed packages.
func changes(t *testing.T) (all []change) {
	for _, s := range surveyed {
		files, err := sources(s.in)
		require.NoError(t, err)
		for _, f := range files {
			for _, e := range editsOf(t, f.src) {
				all = append(all, change{s, f, e})
			}
		}
	}
	return all
}

// swapped are operators and what is put in their place.
var swapped = map[token.Token]token.Token{
	token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ, token.GEQ: token.GTR,
	token.ADD: token.SUB, token.SUB: token.ADD, token.MUL: token.QUO, token.QUO: token.MUL,
}

// editsOf returns the edits of a file: each condition and each part of one becomes true or false,
// each operator of swapped another one, and each statement that declares nothing is left out. What
// an edit leaves out is still compiled, so that nothing is declared and not used.
func editsOf(t *testing.T, src []byte) (edits []edit) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, "", src, parser.SkipObjectResolution)
	require.NoError(t, err)
	at := func(p token.Pos) int { return set.Position(p).Offset }
	text := func(n ast.Node) string { return string(src[at(n.Pos()):at(n.End())]) }
	for _, d := range file.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		names := map[string]int{}
		add := func(n ast.Node, what, format string, args ...any) {
			name := fmt.Sprintf("%s: %s %.70s", functionName(fn), what, strings.Join(strings.Fields(text(n)), " "))
			if names[name]++; names[name] > 1 {
				name += fmt.Sprintf(" (%d)", names[name])
			}
			edits = append(edits, edit{span{at(n.Pos()), at(n.End())}, name, fmt.Sprintf(format, args...)})
		}
		conditions := map[ast.Expr]string{} // what each may become
		ast.Inspect(fn, func(n ast.Node) bool {
			var list []ast.Stmt
			switch n := n.(type) {
			case *ast.IfStmt:
				conditions[n.Cond] = "true false"
			case *ast.ForStmt:
				conditions[n.Cond] = "false" // true would not end
			case *ast.SwitchStmt:
				for _, c := range n.Body.List {
					for _, e := range c.(*ast.CaseClause).List {
						if n.Tag == nil {
							conditions[e] = "true false"
						}
					}
				}
			case *ast.BinaryExpr:
				partsOf(n, conditions)
				if other, ok := swapped[n.Op]; ok {
					add(n, other.String(), "%s %s %s", text(n.X), other, text(n.Y))
				}
			case *ast.BlockStmt:
				list = n.List
			case *ast.CaseClause:
				list = n.Body
			case *ast.CommClause:
				list = n.Body
			}
			for _, s := range list {
				if droppable(s) && !strings.HasPrefix(text(s), "panic(") { // which nothing should reach
					add(s, "drop", "if false {\n%s\n}", text(s))
				}
			}
			if e, ok := n.(ast.Expr); ok {
				for _, value := range strings.Fields(conditions[e]) {
					add(n, value, map[string]string{"true": "(%s || true)", "false": "(%s && false)"}[value], text(n))
				}
			}
			return true
		})
	}
	return edits
}

// partsOf notes what a condition and the parts of the condition may become. A part that decides the
// whole is left alone: then the whole becomes that.
func partsOf(n *ast.BinaryExpr, conditions map[ast.Expr]string) {
	becomes := map[token.Token]string{token.LAND: "true", token.LOR: "false"}[n.Op]
	if _, part := conditions[n]; !part && (becomes != "" || n.Op == token.EQL || n.Op == token.NEQ) {
		conditions[n] = "true false"
	}
	for _, e := range []ast.Expr{n.X, n.Y} {
		if part, ok := e.(*ast.BinaryExpr); ok && part.Op == n.Op {
			conditions[e] = "" // its parts are parts of this
		} else if becomes != "" {
			conditions[e] = becomes
		}
	}
}

// droppable reports whether the code may compile without a statement.
func droppable(s ast.Stmt) bool {
	switch s := s.(type) {
	case *ast.AssignStmt:
		return s.Tok != token.DEFINE
	case *ast.ExprStmt, *ast.IncDecStmt, *ast.SendStmt, *ast.DeferStmt, *ast.GoStmt:
		return true
	}
	return false
}

func TestEditsOf(t *testing.T) {
	src := `package p
func (x *T[K]) f(a, b bool, n int) bool {
	if a && b { n++; n++ }
	switch { case b: panic("") }
	for n < 3 { x.g(n + 1) }
	return n == 2
}`
	got := []string{}
	for _, e := range editsOf(t, []byte(src)) {
		got = append(got, e.name+" -> "+strings.ReplaceAll(e.new, "\n", " "))
	}
	require.Equal(t, []string{
		"T.f: true a && b -> (a && b || true)",
		"T.f: false a && b -> (a && b && false)",
		"T.f: true a -> (a || true)",
		"T.f: true b -> (b || true)",
		"T.f: drop n++ -> if false { n++ }",
		"T.f: drop n++ (2) -> if false { n++ }",
		"T.f: true b (2) -> (b || true)",
		"T.f: false b -> (b && false)",
		"T.f: <= n < 3 -> n <= 3",
		"T.f: false n < 3 -> (n < 3 && false)",
		"T.f: drop x.g(n + 1) -> if false { x.g(n + 1) }",
		"T.f: - n + 1 -> n - 1",
		"T.f: true n == 2 -> (n == 2 || true)",
		"T.f: false n == 2 -> (n == 2 && false)",
	}, got)
}

// An accepted change that is no longer there must leave the list.
func TestAccepted_IsUpToDate(t *testing.T) {
	all := map[string]bool{}
	for _, c := range changes(t) {
		require.False(t, all[c.String()], "%s is there twice", &c)
		all[c.String()] = true
	}
	for name, why := range accepted {
		if !all[name] || why == "" {
			t.Errorf("%s: there is no such change, or no reason to accept it", name)
		}
	}
}

// TestSurvey changes the code at places that no rule names, and fails for each change that no test
// notices. Such a change shows a rule without a test, code that nothing needs, or two ways to write
// the same. The last kind belongs in accepted.
func TestSurvey(t *testing.T) {
	if *sample == 0 {
		t.Skip("SKIPPED: builds and runs up to four test binaries for each change: -sample 100 -timeout 0")
	}
	chosen := slices.DeleteFunc(changes(t), func(c change) bool { return accepted[c.String()] != "" })
	others := len(chosen)
	rand.New(rand.NewPCG(*seed, 0)).Shuffle(others, func(i, j int) { chosen[i], chosen[j] = chosen[j], chosen[i] })
	chosen = chosen[:min(*sample, others)]
	verdicts := make([]string, len(chosen))
	begun := time.Now()
	t.Cleanup(func() { // when the last subtest has ended
		counts := map[string]int{}
		for _, v := range verdicts {
			counts[v]++
		}
		t.Logf("%d accepted; of %d others %v, in %v", len(accepted), others, counts, time.Since(begun).Round(time.Second))
	})
	for _, s := range surveyed {
		t.Run(filepath.Base(s.in), func(t *testing.T) {
			t.Parallel()
			files, err := sources(s.in)
			require.NoError(t, err)
			unchanged := change{survey: s, source: files[0]}
			require.Equal(t, survived, unchanged.verdict(t), "the tests must pass without a change")
			for i, c := range chosen {
				if c.in != s.in {
					continue
				}
				t.Run(c.name, func(t *testing.T) {
					t.Parallel()
					verdicts[i] = c.verdict(t)
					if verdicts[i] == survived {
						t.Errorf("SURVIVED %s:%d: %s", c.path, 1+strings.Count(string(c.src[:c.begin]), "\n"), c.new)
					}
				})
			}
		})
	}
}

const survived = "survived"

// verdict runs the stages until one fails, and returns how that ends.
func (c *change) verdict(t *testing.T) string {
	text := string(c.src[:c.begin]) + c.new + string(c.src[c.end:])
	for _, s := range c.stages {
		out, err := try(t, c.path, text, s.pkg, s.limit, []string{"GOMAXPROCS=1"}, s.args)
		switch {
		case err == nil:
			continue
		case errors.Is(err, errNotBuilt):
			return "not built"
		case strings.Contains(out, "panic: test timed out"):
			return "does not end"
		}
		t.Log(failedTest.FindString(out))
		return "caught"
	}
	return survived
}
