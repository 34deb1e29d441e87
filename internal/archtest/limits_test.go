package archtest

import (
	"go/ast"
	"go/token"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// shortest is the shortest limit of real time that a test may set to what a busy machine does.
const shortest = 2 * time.Second

// fakeLimits are functions that other functions call, in fake time only.
var fakeLimits = map[string][]string{"lockmgr": {"keepThroughTrouble"}}

// A limit of real time that a busy machine exceeds makes a test fail now and then. A test makes its
// rival slower, looks in fake time, or tries again until the limit is kept once. Only limits
// written directly on time.Since and WithinDuration are found.
func TestLimits_AreLong(t *testing.T) {
	found := inFolders(t, limiters)
	for folder, names := range found {
		for name := range names {
			if !slices.Contains(fakeLimits[folder], name) {
				t.Errorf("%s: %s sets a limit of less than %s to real time", folder, name, shortest)
			}
		}
	}
	for folder, names := range fakeLimits {
		for _, name := range names {
			require.True(t, found[folder][name], "%s: %s sets no limit any more", folder, name)
		}
	}
}

func TestLimits_AreFound(t *testing.T) {
	const text = `package p
func TestShort(t *testing.T)  { require.Less(t, time.Since(begin), 1900*time.Millisecond) }
func TestWithin(t *testing.T) { require.WithinDuration(t, a, b, hold+time.Second) }
func TestLong(t *testing.T)   { require.Less(t, time.Since(begin), 5*time.Second) }
func TestOther(t *testing.T)  { require.Less(t, time.Since(begin), o.RetryTime) }
func TestCount(t *testing.T)  { require.Less(t, n, 100*time.Second/second) }
func TestFake(t *testing.T)   { synctest.Test(t, func(t *testing.T) { require.Less(t, time.Since(begin), second) }) }
`
	require.Equal(t, []string{"TestShort", "TestWithin"}, slices.Sorted(maps.Keys(limiters(t, text))))
}

// limiters returns the functions and variables of a package's test files that set a short limit to
// real time.
func limiters(t *testing.T, texts ...string) map[string]bool {
	return inRealTime(t, func(call *ast.CallExpr, _ bool) bool {
		within := strings.HasSuffix(callee(call), ".WithinDuration")
		if !within && !strings.Contains(callee(call), ".Less") || len(call.Args) < 3 {
			return false
		}
		limit := call.Args[2]
		if within {
			limit = call.Args[3]
		} else if since, is := call.Args[1].(*ast.CallExpr); !is || callee(since) != "time.Since" {
			return false
		}
		d := constant(limit)
		return d > 0 && d < shortest
	}, texts...)
}

// units are the names of tests for lengths of time.
var units = map[string]time.Duration{
	"Nanosecond": 1, "Microsecond": time.Microsecond, "Millisecond": time.Millisecond, "Second": time.Second, "Minute": time.Minute, "Hour": time.Hour,
	"milli": time.Millisecond, "second": time.Second,
}

// constant returns the value of an expression as far as it is constant. Of a sum one term is
// enough.
func constant(e ast.Expr) time.Duration {
	switch e := e.(type) {
	case *ast.BasicLit:
		n, _ := strconv.Atoi(e.Value)
		return time.Duration(n)
	case *ast.Ident:
		return units[e.Name]
	case *ast.SelectorExpr:
		return units[e.Sel.Name]
	case *ast.ParenExpr:
		return constant(e.X)
	case *ast.BinaryExpr:
		x, y := constant(e.X), constant(e.Y)
		switch {
		case e.Op == token.MUL:
			return x * y
		case e.Op == token.ADD:
			return x + y
		case e.Op == token.QUO && y > 0:
			return x / y
		}
	}
	return 0
}
