package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// realSleeps are the functions of tests that sleep in real time, by their folders, each with the
// reason. What waits for something asks for it instead: see faults.Eventually. What needs hours
// sleeps in fake time.
var realSleeps = map[string]map[string]string{
	"lockmgr": {
		"requireRenewed":                           "looks at locks for longer than a lease: only time shows that they are renewed",
		"awaitWaiters":                             "nothing tells that the try after a confirmation is over; too short a sleep tests less",
		"TestCluster_NodeOfAnotherCluster":         "looks again and again whether locks are held",
		"takeOneByOne":                             "the work of a holder, in fake time",
		"take":                                     "the pace of a load that leaves the machine idle time",
		"lose":                                     "the pace of a load that leaves the machine idle time",
		"TestReplicas_ConfirmRenewals":             "a replica is away for half a lease",
		"TestReplicas_WithABorrowedClient":         "nothing tells that a WAIT has begun; too short a sleep tests less",
		"TestName_KeysOfTheLibraryAreRefused":      "nothing tells that a waiter has all its channels; too short a sleep tests less",
		"TestSet_BesideTheLineOfItsManager":        "the work of a holder",
		"TestServer_WhoCantStandInTheLineIsServed": "the work of a holder",
		"failOverToAnotherClock":                   "a message is late, by the clocks of real servers",
		"holdAlone":                                "the work of a holder",
	},
	"lockmgr/internal/turns": {"step": "short lives end on two servers, which have clocks of their own"},
	"notify":                 {"TestLog_Outage": "an outage with ten dials"},
	"internal/doctest": {
		"TestFrom_RollOut": "the work of a holder",
	},
	"internal/faults/network": {
		"TestOwnConnection_BrokenWhileIdle": "the pause after which a connection is not trusted",
		"TestOwnConnection_HasNoReader":     "nothing tells that a goroutine is back at its read; the look is repeated",
		"requireNothingLeft":                "between two questions to a server",
	},
	"internal/faults/server": {
		"hear": "the limit of a wait",
		"lane": "a subscription lasts",
		"TestLock_ProcessThatWakesUpKnowsItIsLost": "a process is stopped for two leases",
	},
	"contrib/clientgo": {
		"TestElector_EndsWithoutRelease": "the elector renews a lock whose lease is shorter than its own",
		"TestElector_Churn":              "between two looks at an elector",
	},
	"contrib/cron":   {"TestOnlyOne_TwoSchedulers": "between two looks at a counter"},
	"contrib/gocron": {"TestLocker_TwoSchedulers": "between two looks at a counter"},
	"contrib/otel":   {"TestSpans": "a span has a length"},
	"interop": {
		"TestFair_GoDies":                   "the passing of time is what is tested",
		"TestFair_Deadlines":                "the passing of time is what is tested",
		"TestFair_ShortWaitsWithLongLeases": "between two looks at deadlines",
		"TestFair_WaitsBeyondTheWaitTime":   "a holder keeps the lock for longer than others wait",
		"TestFair_GoTellsTheFirst":          "nothing tells that a thread of Redisson sleeps",
		"watchLine":                         "between two looks at a queue",
		"startTurns":                        "the work of a holder",
		"share":                             "looks at random instants",
		"eventually":                        "between two looks",
	},
}

// fakeSleeps are functions that sleep in the fake time of others, who call them. A function that
// runs testing/synctest itself needs no line.
var fakeSleeps = map[string][]string{
	"lockmgr":                  {"Read", "crowd", "keepThroughTrouble", "stoppings", "tryOptions", "withdrawStopped", "withdrawals"},
	"lockmgr/internal/cluster": {"opensSlowly"},
	"lockmgr/internal/wire":    {"Close", "batch", "Exec"},
	"notify":                   {"randomRun", "pump", "step"},
}

// A sleep that a machine is too slow for makes a test fail now and then, and one that is long
// enough for all machines is wasted on most.
func TestSleeps_AreListed(t *testing.T) {
	found := inFolders(t, sleepers)
	for folder, names := range found {
		for name := range names {
			if realSleeps[folder][name] == "" && !slices.Contains(fakeSleeps[folder], name) {
				t.Errorf("%s: %s sleeps. A test waits for an event, sleeps in fake time, or has a reason in sleeps_test.go", folder, name)
			}
		}
	}
	for folder, names := range realSleeps {
		for name := range names {
			require.True(t, found[folder][name], "%s: %s sleeps no more", folder, name)
			require.NotContains(t, fakeSleeps[folder], name, folder)
		}
	}
	for folder, names := range fakeSleeps {
		for _, name := range names {
			require.True(t, found[folder][name], "%s: %s sleeps no more", folder, name)
		}
	}
}

// inFolders returns what find finds in the test files of each folder.
func inFolders(t *testing.T, find func(t *testing.T, texts ...string) map[string]bool) map[string]map[string]bool {
	found := map[string]map[string]bool{}
	repo := os.DirFS(root)
	require.NoError(t, fs.WalkDir(repo, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if strings.HasPrefix(d.Name(), ".") && name != "." {
			return fs.SkipDir
		}
		files, err := fs.Glob(repo, path.Join(name, "*_test.go"))
		if err != nil {
			return err
		}
		var texts []string
		for _, file := range files {
			text, err := fs.ReadFile(repo, file)
			if err != nil {
				return err
			}
			texts = append(texts, string(text))
		}
		found[name] = find(t, texts...)
		return nil
	}))
	return found
}

func TestSleeps_AreFound(t *testing.T) {
	const text = `package p
func TestReal(t *testing.T)  { time.Sleep(1) }
func TestAfter(t *testing.T) { <-time.After(1) }
func TestLimit(t *testing.T) {
	select {
	case <-done:
	case <-time.After(1):
	}
}
func TestFake(t *testing.T)   { synctest.Test(t, func(t *testing.T) { time.Sleep(1) }) }
func inBubble(f func())       { synctest.Test(t, func(t *testing.T) { f() }) }
func TestBubble(t *testing.T) { inBubble(func() { time.Sleep(1) }) }
var table = []func(){func() { time.Sleep(1) }}
`
	require.Equal(t, []string{"TestAfter", "TestReal", "table"}, slices.Sorted(maps.Keys(sleepers(t, text))))
}

// sleepers returns the functions and variables of a package's test files that sleep, but for those
// that run in fake time what they sleep in: they call synctest.Test, or a function of the package
// that does. A time-out in a select is no sleep.
func sleepers(t *testing.T, texts ...string) map[string]bool {
	return inRealTime(t, func(n *ast.CallExpr, limit bool) bool {
		called := callee(n)
		return called == "time.Sleep" || called == "time.After" && !limit
	}, texts...)
}

// inRealTime returns the functions and variables of a package's test files that have a call of a
// sort, but for those that run in fake time. limit reports whether the call is a time-out in a
// select.
func inRealTime(t *testing.T, is func(call *ast.CallExpr, limit bool) bool, texts ...string) map[string]bool {
	calls, found := map[string]map[string]bool{}, map[string]bool{}
	for _, text := range texts {
		file, err := parser.ParseFile(token.NewFileSet(), "", text, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, d := range file.Decls {
			for name, node := range declared(d) {
				if calls[name] == nil {
					calls[name] = map[string]bool{}
				}
				var limits []ast.Node
				ast.Inspect(node, func(n ast.Node) bool {
					switch n := n.(type) {
					case *ast.CommClause:
						limits = append(limits, n.Comm)
					case *ast.CallExpr:
						calls[name][callee(n)] = true
						limit := slices.ContainsFunc(limits, func(l ast.Node) bool { return l != nil && l.Pos() <= n.Pos() && n.End() <= l.End() })
						if is(n, limit) {
							found[name] = true
						}
					}
					return true
				})
			}
		}
	}
	fake := map[string]bool{"synctest.Test": true}
	for grown := true; grown; {
		grown = false
		for name, called := range calls {
			for other := range called {
				if fake[other] && !fake[name] {
					fake[name], grown = true, true
				}
			}
		}
	}
	maps.DeleteFunc(found, func(name string, _ bool) bool { return fake[name] })
	return found
}

// declared returns what a declaration declares.
func declared(d ast.Decl) map[string]ast.Node {
	out := map[string]ast.Node{}
	switch d := d.(type) {
	case *ast.FuncDecl:
		out[d.Name.Name] = d
	case *ast.GenDecl:
		for _, s := range d.Specs {
			if v, is := s.(*ast.ValueSpec); is {
				out[v.Names[0].Name] = v
			}
		}
	}
	return out
}

// callee returns the name of a called function: "f" or "package.F".
func callee(c *ast.CallExpr) string {
	switch f := c.Fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		if x, is := f.X.(*ast.Ident); is {
			return x.Name + "." + f.Sel.Name
		}
	}
	return ""
}
