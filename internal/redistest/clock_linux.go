package redistest

import (
	"cmp"
	_ "embed"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

//go:embed testdata/clock.c
var clockSource string

// StartSentinelApart is [StartSentinel] for one replica, whose wall clock is ahead of ours by some
// seconds, or behind. Without a C compiler the test is skipped, or fails, as without a server.
func StartSentinelApart(t testing.TB, ahead int) *Watched {
	t.Helper()
	find(t)
	compiler := findCompiler(t, os.Stderr)
	dir := t.TempDir()
	source, library := filepath.Join(dir, "clock.c"), filepath.Join(dir, "clock.so")
	if err := os.WriteFile(source, []byte(clockSource), 0o600); err != nil {
		t.Fatal(err)
	}
	cc := exec.Command(compiler, fmt.Sprintf("-DAHEAD=(%d)", ahead), "-shared", "-fPIC", "-o", library, source)
	if out, err := cc.CombinedOutput(); err != nil {
		t.Fatalf("redistest: %v: %v\n%s", cc, err, out)
	}
	servers := startReplicas(t, 1, nil, "LD_PRELOAD="+library)
	begin := time.Now()
	reply, err := servers[1].Do("TIME")
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	var seconds, micros int64
	if _, err := fmt.Sscan(reply, &seconds, &micros); err != nil {
		t.Fatalf("redistest: TIME: %v", err)
	}
	clock := time.Unix(seconds, micros*1000).Add(-time.Duration(ahead) * time.Second)
	if clock.Before(begin.Add(-clockNoise)) || clock.After(time.Now().Add(clockNoise)) {
		t.Fatalf("redistest: the clock of %s is not ahead by %d s: LD_PRELOAD does not act", servers[1].server.Binary, ahead)
	}
	return watch(t, servers)
}

// findCompiler returns a C compiler, or ends the test as find does without a server.
func findCompiler(t testing.TB, w io.Writer) string {
	t.Helper()
	compiler := cmp.Or(os.Getenv("CC"), "gcc")
	if _, err := exec.LookPath(compiler); err != nil {
		if os.Getenv(envRequire) == "1" {
			t.Fatalf("redistest: no C compiler, and %s=1 asks for one: %v", envRequire, err)
		}
		fmt.Fprintf(w, "\n*** NO C COMPILER: %s IS SKIPPED. INSTALL gcc, OR SET CC ***\n\n", t.Name())
		t.Skip("SKIPPED: no C compiler; set CC to one, or " + envRequire + "=1 to fail instead")
	}
	return compiler
}

// clockNoise is the greatest difference of two readings of a clock at one time.
const clockNoise = 100 * time.Millisecond
