package measure

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/bench/internal/locker"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// java returns a program in the place of a JVM: a script that has the arguments of the workload as
// variables.
func java(t *testing.T, script string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "java")
	text := `#!/bin/sh
for arg; do
	case $arg in
	*=*[0-9]) eval "${arg%%=*}='${arg#*=}'" ;;
	esac
done
` + script
	require.NoError(t, os.WriteFile(path, []byte(text), 0o755))
	return path
}

// What the program says becomes the figures of the workload.
func TestInJava(t *testing.T) {
	s := redistest.Start(t)
	const run = "echo '{}'; read go; echo '{}'; echo '%s'; read end\n"
	for name, c := range map[string]struct {
		spec   Spec
		script string
		want   map[string]float64
		why    string
	}{
		"fanout": {
			Spec{Workload: "fanout", Waiters: 3},
			strings.ReplaceAll(run, "%s", `{"CPU":7000000,"Began":1000000,"Grants":[2000000,1500000,3000000],"Ends":[2000000,1500000,5000000]}`),
			map[string]float64{"drain": 4, "cpu": 7, "wait50": 1, "waitmax": 2, "commands": 0}, "",
		},
		"fair": {
			Spec{Workload: "fair", Waiters: 2},
			strings.ReplaceAll(run, "%s", `{"Grants":[2000000,1000000],"Ends":[2000000,1000000]}`),
			map[string]float64{"drain": 2, "handoff": 1000, "disorder": 1}, "",
		},
		"uncontended": {
			Spec{Workload: "uncontended", Goroutines: 1},
			strings.ReplaceAll(run, "%s", `{"Took":2000000000,"Pairs":500,"P50":3000,"P99":4000,"CPU":1000000000}`),
			map[string]float64{"pairs": 250, "p50": 3, "p99": 4, "cpu": 200}, "",
		},
		"renewal": {
			Spec{Workload: "renewal"},
			strings.ReplaceAll(run, "%s", `{"Took":2000000000,"CPU":1000000000,"Heap":12.5}`),
			map[string]float64{"cpu": 50, "heap": 12.5}, "",
		},
		"its arguments": {
			Spec{Workload: "renewal", Lease: 9 * time.Second, Window: 2 * time.Second},
			strings.ReplaceAll(run, "%s", `{"Took":1000000000,"Heap":'$lease$window'}`),
			map[string]float64{"heap": 90002000}, "",
		},
		"a lock that is lost": {
			Spec{Workload: "renewal", Locks: 5},
			strings.ReplaceAll(run, "%s", `{"Took":2000000000}`), nil, "5 of 5 locks were lost",
		},
		"a problem":  {Spec{Workload: "fanout"}, strings.ReplaceAll(run, "%s", `{"Problem":"two held it"}`), nil, "two held it"},
		"an error":   {Spec{Workload: "fanout"}, `echo '{"Error":"it is a \"trap\""}'; read end`, nil, `it is a "trap"`},
		"no JVM":     {Spec{Workload: "fanout"}, "exit 1", nil, "a worker process ended"},
		"a long one": {Spec{Workload: "fanout", Limit: 200 * time.Millisecond}, "read end", nil, "stopped by the watchdog"},
	} {
		t.Run(name, func(t *testing.T) {
			z := c.spec
			z.Candidate, z.Addr, z.Java = locker.Redisson.Name, s.Addr(), java(t, c.script)
			if z.Limit == 0 {
				z.Limit = 10 * time.Second
			}
			m, cleanup := Run(t.Context(), z)
			cleanup()
			if c.why != "" {
				require.Contains(t, m.Problem, c.why)
				return
			}
			require.Empty(t, m.Problem)
			for key, want := range c.want {
				require.InDelta(t, want, m.Values[key], 0.001, key)
			}
		})
	}
}
