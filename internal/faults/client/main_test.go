package client

import (
	"context"
	"flag"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/internal/leakcheck"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/resp"
	"github.com/holdfast-go/holdfast/lockmgr"
)

var lateness = flag.Bool("lateness", false, "measure how late Lost is, with more locks and more load")

func TestMain(m *testing.M) { leakcheck.Main(m) }

var ctx = context.Background()

// long is a lease that does not end while a test runs.
const long = 2 * time.Minute

// dial connects a manager that the test closes at its end, if it has not done so before. Its
// records outlive the test unless somebody releases them, and it leaves channels at once.
func dial(t testing.TB, s *redistest.Server, o lockmgr.Options) *lockmgr.Manager {
	t.Helper()
	if o.Lease == 0 {
		o.Lease = long
	}
	if o.Linger == 0 {
		o.Linger = -1
	}
	if o.CommandTimeout == 0 {
		o.CommandTimeout = min(20*time.Second, o.Lease*3/10) // no pause here shall look like a failure
	}
	return faults.Dial(t, s.Addr(), o)
}

// pause makes the server hold back scripts until the returned function is called, or the test ends.
// Reads and SUBSCRIBE go on.
func pause(t testing.TB, s *redistest.Server) (resume func()) {
	t.Helper()
	faults.Do(t, s, "CLIENT", "PAUSE", "60000", "WRITE")
	resumed := false
	resume = func() {
		if !resumed {
			resumed = true
			faults.Do(t, s, "CLIENT", "UNPAUSE")
		}
	}
	t.Cleanup(resume)
	return resume
}

// held waits until the server holds back scripts of n connections.
func held(t testing.TB, s *redistest.Server, n int) {
	t.Helper()
	require.Eventually(t, func() bool { return blocked(t, s) >= n }, faults.Patience, time.Millisecond, "no script arrived")
}

// blocked counts the connections whose scripts the server holds back.
func blocked(t testing.TB, s *redistest.Server) (n int) {
	for line := range strings.Lines(faults.Do(t, s, "CLIENT", "LIST")) {
		if blockedFlag.MatchString(line) {
			n++
		}
	}
	return n
}

var blockedFlag = regexp.MustCompile(` flags=\w*b\w* `)

// atOnce sends commands that the server executes with nothing in between.
func atOnce(t testing.TB, s *redistest.Server, commands ...string) {
	t.Helper()
	c := redistest.Must(resp.Dial(s.Addr(), faults.Patience))(t)
	defer c.Close()
	for _, command := range commands {
		c.Send(strings.Fields(command)...)
	}
	require.NoError(t, c.Flush())
	for _, command := range commands {
		reply := redistest.Must(c.Receive())(t)
		require.IsNotType(t, resp.Error(""), reply, command)
	}
}

// requireNothingLeft checks what Redis has after all managers were closed: nothing, and none of it
// because a lease ended.
func requireNothingLeft(t testing.TB, s *redistest.Server) {
	t.Helper()
	require.Equal(t, "0", faults.Do(t, s, "DBSIZE"), "keys are left: %s", faults.Do(t, s, "KEYS", "*"))
	// The managers' connections have been closed on their side; the server sees it a moment later.
	require.Eventually(t, func() bool { return faults.Do(t, s, "PUBSUB", "CHANNELS") == "" }, faults.Patience, time.Millisecond)
	require.Zero(t, faults.Info(t, s, "stats", "expired_keys"), "keys were left until they expired")
}
