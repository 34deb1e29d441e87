package mutants

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/shard"
	"github.com/holdfast-go/holdfast/internal/thorough"
)

var (
	run  = flag.Bool("mutants", false, "build and run every mutant")
	part shard.Shard
)

func init() {
	flag.Var(&part, "shard", "run only the part `k/n` of the mutants: every n-th, from the k-th on")
}

// The tests of a package run in its folder.
const root = "../.."

// A mutant is holdfast with one of its rules taken away. A rule has one mutant, or two.
type mutant struct {
	rule string // stated in a doc.go, in the header of a script, or in docs/guarantees.md
	name string // how the rule is broken
	in   string // the folder of a package, or the file of a script, from the root of the repository
	fn   string // the function that is changed, or "Type.method"; empty for a script
	old  string // the text that is replaced. It occurs exactly once in fn, or in the script
	new  string
	by   string // the package and, after a space, the tests that must catch it, separated by spaces
}

// Where the mutants are.
const (
	machine = "lockmgr/internal/core"
	wire    = "lockmgr/internal/wire"
	nodes   = "lockmgr/internal/cluster"
	scripts = "internal/script/"
	manager = "lockmgr"
)

// What catches them: a package and its tests, or a package to which a test is added.
const (
	seeds       = "internal/clientsim TestSeeds"
	stories     = "lockmgr/internal/core TestStories"
	fairTables  = "internal/script TestScripts_Fair"
	grantTables = "internal/script TestScript_FairGrantByMessage"

	sharing = "lockmgr/internal/turns "
	wires   = "lockmgr/internal/wire "
	ofNodes = "lockmgr/internal/cluster "
	shell   = "lockmgr "
	tables  = "internal/script "
	client  = "internal/faults/client "
	servers = "internal/faults/server "
	hub     = "notify "
	renewer = "renewal "
	future  = "futures "
	actors  = "actor "
)

// mostMutants is the limit of the list, since each change of the code may have to edit it.
const mostMutants = 200

var mutants = slices.Concat(coreMutants, scriptMutants, clientMutants)

func (m *mutant) String() string { return m.rule + ": " + m.name }

// tests splits what must catch a mutant.
func (m *mutant) tests() (pkg string, tests []string) {
	fields := strings.Fields(m.by)
	return fields[0], fields[1:]
}

// A mutant whose place has gone tests nothing, and so does one whose test has.
func TestLists_AreUpToDate(t *testing.T) {
	names := map[string]bool{}
	for _, m := range mutants {
		name := m.String()
		require.False(t, names[name], "%s is there twice", name)
		names[name] = true
		file, text, err := m.apply()
		if err == nil && strings.HasSuffix(file, ".go") {
			err = compiles(t, file, text)
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		pkg, tests := m.tests()
		require.NotEmpty(t, tests, name)
		for _, test := range tests {
			if !declared(t, pkg, test) {
				t.Errorf("%s: %s has no %s", name, pkg, test)
			}
		}
	}
	require.LessOrEqual(t, len(mutants), mostMutants, "a mutant that breaks no stated rule does not belong here")
}

var testsOf = map[string]string{} // the text of a package's tests

// declared reports whether a package has a test.
func declared(t *testing.T, pkg, test string) bool {
	if testsOf[pkg] == "" {
		files, err := filepath.Glob(filepath.Join(root, pkg, "*_test.go"))
		require.NoError(t, err)
		for _, file := range files {
			src, err := os.ReadFile(file)
			require.NoError(t, err)
			testsOf[pkg] += string(src)
		}
	}
	return strings.Contains(testsOf[pkg], "\nfunc "+test+"(")
}

// TestMutants shows that each rule has a test which notices when it is broken. Each mutant is a
// subtest.
func TestMutants(t *testing.T) {
	if !*run {
		t.Skip("SKIPPED: builds and runs a test binary for each of some 180 mutants, in a quarter of an hour on two idle cores: -mutants -timeout 0")
	}
	verdicts := make([]string, len(mutants))
	begun := time.Now()
	t.Cleanup(func() { // when the last subtest has ended
		var b strings.Builder
		rule, n := "", 0
		for i, m := range mutants {
			if verdicts[i] == "" {
				continue // of another shard, or not asked for
			}
			if m.rule != rule {
				rule = m.rule
				fmt.Fprintf(&b, "\n%s", rule)
			}
			fmt.Fprintf(&b, "\n    %-52s %s", m.name, verdicts[i])
			n++
		}
		t.Logf("%d of %d mutants in %v%s", n, len(mutants), time.Since(begun).Round(time.Second), b.String())
	})
	for i := range mutants {
		if !part.Has(i) {
			continue
		}
		m := &mutants[i]
		t.Run(m.String(), func(t *testing.T) {
			t.Parallel()
			verdicts[i] = "NOT CAUGHT"
			caught, err := m.hunt(t)
			require.NoError(t, err)
			verdicts[i] = caught
		})
	}
}

// time returns for how long the tests of a mutant may run. Most take a few seconds, so a test that
// takes longer hangs, and the table says so. A simulation takes longer, and must not pass for one
// that hangs.
func (m *mutant) time() time.Duration {
	switch pkg, _ := m.tests(); {
	case m.simulated():
		return 3 * time.Minute
	case pkg == strings.TrimSpace(sharing):
		return 4 * time.Minute
	}
	return 20 * time.Second
}

// simulated reports whether seeds of a simulation must catch the mutant.
func (m *mutant) simulated() bool {
	return strings.HasPrefix(m.by, seeds)
}

// arguments returns those of the test binary.
func (m *mutant) arguments() []string {
	_, tests := m.tests()
	args := []string{"-test.run=^(" + strings.Join(tests, "|") + ")$"}
	if m.simulated() {
		args = append(args, "-seeds=900", "-tail=0", "-hang=1m") // fewer than are run in processes of their own
	}
	return args
}

// hunt builds the tests of a mutant and runs those that must catch it. It returns what caught it.
func (m *mutant) hunt(t *testing.T) (string, error) {
	path, text, err := m.apply()
	if err != nil {
		return "", err
	}
	pkg, _ := m.tests()
	env := []string{thorough.Variable + "=1"}
	if m.simulated() {
		env = append(env, "GOMAXPROCS=1") // the mutants are parallel, not their seeds
	}
	out, err := try(t, path, text, pkg, m.time(), env, m.arguments())
	switch {
	case err == nil:
		return "", fmt.Errorf("SURVIVED %s", m.by)
	case errors.Is(err, errNotBuilt):
		return "", err
	}
	return m.verdict(out, err)
}

var errNotBuilt = errors.New("does not build")

// try builds the tests of a package with another text of one file and runs them. It returns what
// they print, and errNotBuilt or how they end.
func try(t *testing.T, path, text, pkg string, limit time.Duration, env, args []string) (string, error) {
	file, err := filepath.Abs(filepath.Join(root, path))
	require.NoError(t, err)
	dir := t.TempDir()
	patched, overlay, bin := filepath.Join(dir, filepath.Base(path)), filepath.Join(dir, "overlay.json"), filepath.Join(dir, "mutant.test")
	replace, _ := json.Marshal(map[string]map[string]string{"Replace": {file: patched}})
	for name, content := range map[string]string{patched: text, overlay: string(replace)} {
		require.NoError(t, os.WriteFile(name, []byte(content), 0o600))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute+limit)
	defer cancel()
	build := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-ldflags=-s -w", "-overlay", overlay, "-o", bin, "./"+pkg)
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %v\n%s", errNotBuilt, err, out)
	}
	tester := exec.CommandContext(ctx, bin, append(args, "-test.failfast", "-test.timeout="+limit.String())...)
	tester.Dir = filepath.Join(root, pkg)
	tester.Env = append(os.Environ(), env...)
	out, err := tester.CombinedOutput()
	return string(out), err
}

var (
	failedTest  = regexp.MustCompile(`(?m)^--- FAIL: (\w+)`)
	failedStory = regexp.MustCompile(`(?m)^\s+--- FAIL: TestStories/(\S+)`)
	failedSeed  = regexp.MustCompile(`(?m)^\s+seeds_test\.go:\d+: seed (\d+): at [^:]+: (\w+):`)
)

// verdict reads what caught a mutant out of the tests' output.
func (m *mutant) verdict(out string, err error) (string, error) {
	_, tests := m.tests()
	if found := failedSeed.FindStringSubmatch(out); m.simulated() && found != nil {
		return found[2] + ", seed " + found[1], nil
	}
	if found := failedStory.FindStringSubmatch(out); m.by == stories && found != nil {
		return "story " + found[1], nil
	}
	if found := failedTest.FindStringSubmatch(out); found != nil && slices.Contains(tests, found[1]) {
		return found[1], nil
	}
	// These end the whole binary, which runs no other tests.
	for _, end := range [][2]string{
		{"panic: test timed out", "does not end"}, {"does not end", "does not end"}, {"panic: ", "panic"},
		{"fatal error: ", "fatal error"}, {"leakcheck: ", "leak"},
	} {
		if strings.Contains(out, end[0]) {
			return fmt.Sprintf("%s (%s)", tests[0], end[1]), nil
		}
	}
	return "", fmt.Errorf("failed in another way: %v\n%s", err, out)
}
