package mutants

import (
	"context"
	"encoding/json"
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

func all() []mutant { return slices.Concat(shellMutants, scriptMutants, partMutants) }

func (m *mutant) String() string { return m.rule + ": " + m.name }

// tests splits what must catch a mutant.
func (m *mutant) tests() (pkg string, tests []string) {
	fields := strings.Fields(m.by)
	return fields[0], fields[1:]
}

// mutated returns the file of a mutant as it shall be.
func (m *mutant) mutated() (string, error) {
	src, err := os.ReadFile(filepath.Join(root, m.file))
	if err != nil {
		return "", err
	}
	if n := strings.Count(string(src), m.old); n != 1 {
		return "", fmt.Errorf("%s contains %q %d times, not once: the list is out of date", m.file, m.old, n)
	}
	return strings.Replace(string(src), m.old, m.new, 1), nil
}

// A mutant of text that has gone tests nothing, and so does one whose test has.
func TestTheListIsUpToDate(t *testing.T) {
	names := map[string]bool{}
	for _, m := range all() {
		require.False(t, names[m.String()], "%v is there twice", &m)
		names[m.String()] = true
		if _, err := m.mutated(); err != nil {
			t.Errorf("%v: %v", &m, err)
		}
		pkg, tests := m.tests()
		require.NotEmpty(t, tests, &m)
		for _, test := range tests {
			if !declared(t, pkg, test) {
				t.Errorf("%v: %s has no %s", &m, pkg, test)
			}
		}
	}
	require.GreaterOrEqual(t, len(names), 30)
}

// declared tells whether a package has a test.
func declared(t *testing.T, pkg, test string) bool {
	files, err := filepath.Glob(filepath.Join(root, pkg, "*_test.go"))
	require.NoError(t, err)
	for _, file := range files {
		src, err := os.ReadFile(file)
		require.NoError(t, err)
		if strings.Contains(string(src), "\nfunc "+test+"(") {
			return true
		}
	}
	return false
}

// TestMutants shows that each rule has a test which notices when it is broken.
// Each mutant is a subtest.
func TestMutants(t *testing.T) {
	if !*run {
		t.Skip("SKIPPED: builds a test binary for each of more than a hundred mutants, in some ten minutes: -mutants")
	}
	goTool, err := exec.LookPath("go")
	require.NoError(t, err)
	mutants := all()
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
			fmt.Fprintf(&b, "\n    %-48s %s", m.name, verdicts[i])
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
			caught, err := m.hunt(t, goTool)
			require.NoError(t, err)
			verdicts[i] = caught
		})
	}
}

// testTime is for how long a mutant may run. These tests take a few seconds at
// most, so who takes longer hangs; the table says so.
const testTime = 20 * time.Second

// time returns for how long a mutant may run. A simulation takes some ten
// seconds, and must not pass for one that hangs.
func (m *mutant) time() time.Duration {
	if pkg, _ := m.tests(); pkg == strings.TrimSpace(sharing) {
		return 4 * testTime
	}
	return testTime
}

var failed = regexp.MustCompile(`(?m)^--- FAIL: (\w+)`)

// hunt builds the tests of a mutant and runs those that must catch it. It
// returns what caught it.
func (m *mutant) hunt(t *testing.T, goTool string) (string, error) {
	text, err := m.mutated()
	if err != nil {
		return "", err
	}
	file, err := filepath.Abs(filepath.Join(root, m.file))
	if err != nil {
		return "", err
	}
	pkg, tests := m.tests()
	dir := t.TempDir()
	patched, overlay, bin := filepath.Join(dir, filepath.Base(m.file)), filepath.Join(dir, "overlay.json"), filepath.Join(dir, "mutant.test")
	replace, _ := json.Marshal(map[string]map[string]string{"Replace": {file: patched}})
	for name, content := range map[string]string{patched: text, overlay: string(replace)} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			return "", err
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute+m.time())
	defer cancel()
	build := exec.CommandContext(ctx, goTool, "test", "-c", "-vet=off", "-ldflags=-s -w", "-overlay", overlay, "-o", bin, "./"+pkg)
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("does not build: %v\n%s", err, out)
	}
	tester := exec.CommandContext(ctx, bin, "-test.run=^("+strings.Join(tests, "|")+")$", "-test.failfast", "-test.timeout="+m.time().String())
	tester.Dir = filepath.Join(root, pkg)
	if strings.HasSuffix(m.file, ".lua") {
		// These tests read the scripts from the folder that they run in.
		if tester.Dir, err = withScript(dir, filepath.Base(m.file), text); err != nil {
			return "", err
		}
	}
	out, err := tester.CombinedOutput()
	if err == nil {
		return "", fmt.Errorf("SURVIVED %v", tests)
	}
	if found := failed.FindSubmatch(out); found != nil && slices.Contains(tests, string(found[1])) {
		return string(found[1]), nil
	}
	// These end the whole binary, which runs no other tests.
	for _, end := range [][2]string{
		{"panic: test timed out", "does not end"}, {"panic: ", "panic"}, {"fatal error: ", "fatal error"}, {"leakcheck: ", "leak"},
	} {
		if strings.Contains(string(out), end[0]) {
			return fmt.Sprintf("%s (%s)", tests[0], end[1]), nil
		}
	}
	return "", fmt.Errorf("failed in another way: %v\n%s", err, out)
}

// withScript makes a folder like that of lockmgr's tests, with one script
// changed.
func withScript(dir, name, text string) (string, error) {
	scripts, err := filepath.Glob(filepath.Join(root, "lockmgr", "script", "*.lua"))
	if err != nil {
		return "", err
	}
	work := filepath.Join(dir, "work")
	if err := os.MkdirAll(filepath.Join(work, "script"), 0o700); err != nil {
		return "", err
	}
	for _, script := range scripts {
		content, err := os.ReadFile(script)
		if err != nil {
			return "", err
		}
		if filepath.Base(script) == name {
			content = []byte(text)
		}
		if err := os.WriteFile(filepath.Join(work, "script", filepath.Base(script)), content, 0o600); err != nil {
			return "", err
		}
	}
	return work, nil
}
