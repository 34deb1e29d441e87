package leakcheck

import (
	"bytes"
	"fmt"
	"os"
	"os/signal"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) { Main(m) }

// short is a grace for leaks that are there on purpose.
const short = 20 * time.Millisecond

func passed() int { return 0 }

// leakOnPurpose starts a goroutine that stays until the returned func is called.
func leakOnPurpose() (end func()) {
	stop, ended := make(chan struct{}), make(chan struct{})
	go leaker(stop, ended)
	return func() { close(stop); <-ended }
}

func leaker(stop, ended chan struct{}) {
	defer close(ended)
	<-stop
}

func TestRun_ReportsALeak(t *testing.T) {
	defer leakOnPurpose()()
	var report bytes.Buffer
	require.Equal(t, 1, run(passed, &report, short))
	require.Contains(t, report.String(), "1 goroutine(s) outlived")
	require.Contains(t, report.String(), "leakcheck.leakOnPurpose", "the stack says who it is, even before it has run")
}

func TestRun_KeepsTheExitCodeOfFailedTests(t *testing.T) {
	defer leakOnPurpose()()
	var report bytes.Buffer
	require.Equal(t, 2, run(func() int { return 2 }, &report, short))
	require.Empty(t, report.String())
}

// A goroutine that is about to end is no leak: run waits for it.
func TestRun_WaitsForGoroutinesAboutToEnd(t *testing.T) {
	end := leakOnPurpose()
	time.AfterFunc(5*short, end)
	var report bytes.Buffer
	require.Equal(t, 0, run(passed, &report, time.Minute), &report)
}

// signal.Notify starts a goroutine that no caller can end.
func TestRun_IgnoresTheRuntimesGoroutines(t *testing.T) {
	c := make(chan os.Signal, 1)
	signal.Notify(c, os.Interrupt)
	defer signal.Stop(c)
	var report bytes.Buffer
	require.Equal(t, 0, run(passed, &report, short), &report)
}

func TestCheck(t *testing.T) {
	older := leakOnPurpose()
	defer older()

	t.Run("clean", func(t *testing.T) {
		tb := &recorder{TB: t}
		check(tb, time.Minute)
		leakOnPurpose()()
		tb.cleanup()
		require.Empty(t, tb.errors, "what ran before the test is not the test's leak")
	})
	t.Run("leak", func(t *testing.T) {
		tb := &recorder{TB: t}
		check(tb, short)
		defer leakOnPurpose()()
		tb.cleanup()
		require.Len(t, tb.errors, 1)
		require.Contains(t, tb.errors[0], "leakcheck.leaker")
	})
	t.Run("for real", func(t *testing.T) {
		Check(t)
		leakOnPurpose()()
	})
}

// recorder is a test that keeps its errors to itself.
type recorder struct {
	testing.TB
	cleanup func()
	errors  []string
}

func (r *recorder) Cleanup(f func()) { r.cleanup = f }

func (r *recorder) Errorf(format string, args ...any) {
	r.errors = append(r.errors, fmt.Sprintf(format, args...))
}
