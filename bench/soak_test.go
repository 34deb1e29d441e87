package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/bench/internal/soak"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// soakFor runs the command in small.
func soakFor(t *testing.T, args ...string) (status int, out string) {
	t.Helper()
	redistest.Need(t)
	var o, errs bytes.Buffer
	args = append([]string{"soak", "-procs", "2", "-workers", "8", "-names", "4", "-lease", "300ms", "-every", "100ms", "-redis", os.Getenv("HOLDFAST_SERVER")}, args...)
	status = program{out: &o, err: &errs}.main(t.Context(), args)
	require.Empty(t, errs.String(), "away from a terminal there is no noise")
	return status, o.String()
}

func TestSoak_PassesTheLibrary(t *testing.T) {
	file := filepath.Join(t.TempDir(), "verdict.json")
	counts := []string{`sets +[1-9][0-9,]*, of [1-9]`, `permits +[1-9][0-9,]* in [1-9]`, `too many permits +0 of [1-9]`, `belief overlaps +0 of [1-9]`}
	out := soakUntil(t, 800*time.Millisecond, func(d time.Duration) string {
		status, out := soakFor(t, "-d", d.String(), "-seed", "4", "-v", "-json", file)
		require.Zero(t, status, out)
		return out
	}, counts...)
	require.Contains(t, out, "verdict: no violation")
	require.Contains(t, out, "schedule of faults")

	text := redistest.Must(os.ReadFile(file))(t)
	var verdict struct {
		soak.Result
		Violations []string
	}
	require.NoError(t, json.Unmarshal(text, &verdict))
	require.Empty(t, verdict.Violations)
	require.EqualValues(t, 4, verdict.Seed)
	require.Positive(t, verdict.Grants)
	require.NotEmpty(t, verdict.Schedule)
}

// The verdict counts the histories of which nobody knows whether they are legal.
func TestSoak_TellsUndecidedHistories(t *testing.T) {
	for undecided, want := range map[int]string{0: "verdict: no violation\n", 3: "verdict: no violation, 3 of 8 histories undecided\n"} {
		var out bytes.Buffer
		r := &soak.Result{Histories: 8, Tally: soak.Tally{Grants: 1, Legal: 8 - undecided, Undecided: undecided}}
		printVerdict(&out, r, r.Violations())
		require.Contains(t, out.String(), want)
	}
}

func TestSoak_FailsABrokenClient(t *testing.T) {
	t.Setenv(soakClientEnv, "doubled")
	var status int
	var length time.Duration
	// One in 20 refused tries is taken for a grant.
	out := soakUntil(t, 1500*time.Millisecond, func(d time.Duration) (out string) {
		length = d
		status, out = soakFor(t, "-d", d.String(), "-seed", "4", "-faults", "stop,scripts")
		return out
	}, "two believed at once")
	require.Equal(t, 1, status, out)
	require.Contains(t, out, "verdict: FAILED")
	require.Contains(t, out, "schedule of faults", "without being asked for")
	require.Contains(t, out, "go run ./bench soak -seed 4 -d "+length.String(), "how to repeat it")
}

// soakUntil runs for longer and longer, until the output has what is wanted. A busy machine gets
// little done in a short run.
func soakUntil(t *testing.T, d time.Duration, run func(time.Duration) string, want ...string) (out string) {
	t.Helper()
	missing := func(text string) bool { return !regexp.MustCompile(text).MatchString(out) }
	for ; d < time.Minute; d *= 3 {
		if out = run(d); !slices.ContainsFunc(want, missing) {
			return out
		}
	}
	t.Fatalf("not all of %q in:\n%s", want, out)
	return out
}

func TestSoak_RefusesBadArguments(t *testing.T) {
	for name, args := range map[string][]string{
		"fault":    {"soak", "-faults", "earthquake"},
		"flag":     {"soak", "-earthquake"},
		"argument": {"soak", "60s"},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errs bytes.Buffer
			require.Equal(t, 2, program{out: &out, err: &errs}.main(t.Context(), args))
			require.NotEmpty(t, errs.String())
		})
	}
	var out, errs bytes.Buffer
	require.Zero(t, program{out: &out, err: &errs}.main(t.Context(), []string{"soak", "-h"}))
	require.Contains(t, errs.String(), "killpubsub")
}
