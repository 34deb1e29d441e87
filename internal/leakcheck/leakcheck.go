// Package leakcheck makes a test binary fail when goroutines outlive its tests.
//
// A package that starts goroutines calls [Main] from its TestMain:
//
//	func TestMain(m *testing.M) { leakcheck.Main(m) }
//
// That catches a leak somewhere in the package. [Check] catches it in one test, which is easier to
// read but cannot be used beside parallel tests: whatever they have running would be taken for a
// leak.
//
// Goroutines only are looked at, not child processes or open files.
package leakcheck

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// grace is how long a goroutine may take to end after its test did. A stopped loop needs a moment
// to be scheduled for the last time, more so on a busy machine, and a real leak never ends however
// long one waits.
const grace = 10 * time.Second

// Main runs the tests of a binary and ends the process with their exit code, or with 1 if all
// passed but goroutines were still there 10 s later. It prints their stacks to standard error. It
// does not return.
//
// After a failed run nothing is checked: a test that stopped half way leaves goroutines behind for
// that very reason.
func Main(m *testing.M) {
	os.Exit(run(m.Run, os.Stderr, grace))
}

// Check fails t if goroutines that were started after this call are still there 10 s after t and
// all its later cleanups have ended. Call it first in a test, so that its cleanup runs last.
func Check(t testing.TB) {
	t.Helper()
	check(t, grace)
}

func run(tests func() int, w io.Writer, grace time.Duration) int {
	if code := tests(); code != 0 {
		return code
	}
	leaked := await(nil, grace)
	if len(leaked) == 0 {
		return 0
	}
	fmt.Fprintf(w, "leakcheck: %d goroutine(s) outlived the tests:\n\n%s\n", len(leaked), strings.Join(leaked, "\n\n"))
	return 1
}

func check(t testing.TB, grace time.Duration) {
	before := make(map[string]bool)
	for _, stack := range stray(nil) {
		before[id(stack)] = true
	}
	t.Cleanup(func() {
		if leaked := await(before, grace); len(leaked) > 0 {
			t.Errorf("leakcheck: %d goroutine(s) outlived the test:\n\n%s", len(leaked), strings.Join(leaked, "\n\n"))
		}
	})
}

// await returns the stacks that are still there when grace is over, or nothing as soon as there are
// none.
func await(known map[string]bool, grace time.Duration) []string {
	deadline := time.Now().Add(grace)
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		leaked := stray(known)
		if len(leaked) == 0 || time.Now().After(deadline) {
			return leaked
		}
		time.Sleep(pause)
	}
}

// stray returns the stacks of all goroutines but the caller's, the known ones and those of the
// runtime and of package testing.
func stray(known map[string]bool) []string {
	var out []string
	// The caller's own stack is always the first one.
	for _, stack := range allStacks()[1:] {
		if !known[id(stack)] && !ownedByRuntime(stack) {
			out = append(out, stack)
		}
	}
	return out
}

func allStacks() []string {
	for buf := make([]byte, 1<<16); ; buf = make([]byte, 2*len(buf)) {
		// A full buffer means that the text was cut off.
		if n := runtime.Stack(buf, true); n < len(buf) {
			return strings.Split(string(bytes.TrimSpace(buf[:n])), "\n\n")
		}
	}
}

// id returns "goroutine 7", the start of a stack's first line. The runtime never gives a number out
// twice.
func id(stack string) string {
	head, _, _ := strings.Cut(stack, " [")
	return head
}

// ownedByRuntime tells goroutines apart that nobody's test has started: the test runner's own,
// signal delivery, profiles and finalizers. A goroutine that a test started has none of these
// frames, not even its creator's.
func ownedByRuntime(stack string) bool {
	for _, frame := range []string{
		"\ntesting.(*M).",         // the main goroutine, its alarm
		"\ntesting.tRunner(",      // a test, waiting for its subtests or its turn
		"\ntesting.(*B).run1.",    // a benchmark
		"\ntesting.runFuzzing(",   // the fuzzer
		"\nos/signal.signal_recv", // started once, for ever, by signal.Notify
		"\nos/signal.loop(",
		"\nruntime/pprof.", // -cpuprofile
		"\nruntime/trace.", // -trace
		"\nruntime.ReadTrace(",
		"created by runtime.", // finalizers, cleanups
		"\nruntime.ensureSigM",
	} {
		if strings.Contains(stack, frame) {
			return true
		}
	}
	return false
}
