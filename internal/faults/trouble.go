package faults

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// A Trouble is a failure of a server that can end, so that waiting can help.
type Trouble struct {
	What       string   // the first word of the server's replies, or "down"
	Args       []string // of the server
	Begin, End func(t testing.TB, s *redistest.Server)
	Kind       error // of what a manager reports
}

// Troubles returns the troubles of these names.
func Troubles(names ...string) []Trouble {
	var out []Trouble
	for _, name := range names {
		i := slices.IndexFunc(troubles, func(x Trouble) bool { return x.What == name })
		out = append(out, troubles[i])
	}
	return out
}

// misnamed is a folder where the file of the data would be, so that the data can't be saved.
const misnamed = "in-the-way"

var troubles = []Trouble{
	{
		What: "READONLY", Kind: lockmgr.ErrReadOnly,
		Begin: becomeReplica, End: becomePrimary,
	},
	{
		What: "MASTERDOWN", Kind: lockmgr.ErrUnavailable,
		Args:  []string{"--replica-serve-stale-data", "no"},
		Begin: becomeReplica, End: becomePrimary,
	},
	{
		What: "NOREPLICAS", Kind: lockmgr.ErrReadOnly,
		Begin: config("min-replicas-to-write", "1"), End: config("min-replicas-to-write", "0"),
	},
	{
		What: "MISCONF", Kind: lockmgr.ErrReadOnly,
		Args: []string{"--dbfilename", misnamed},
		Begin: func(t testing.TB, s *redistest.Server) {
			dir := strings.TrimPrefix(Do(t, s, "CONFIG", "GET", "dir"), "dir\n")
			require.NoError(t, os.Mkdir(filepath.Join(dir, misnamed), 0o700))
			Do(t, s, "CONFIG", "SET", "save", "3600 1000000")
			Do(t, s, "BGSAVE")
			Eventually(t, func() bool {
				return strings.Contains(Do(t, s, "INFO", "persistence"), "rdb_last_bgsave_status:err")
			})
		},
		End: config("stop-writes-on-bgsave-error", "no"),
	},
	{
		What: "CLUSTERDOWN", Kind: lockmgr.ErrUnavailable,
		Args:  []string{"--cluster-enabled", "yes", "--cluster-require-full-coverage", "no"}, // a cluster of one, without slots
		Begin: func(testing.TB, *redistest.Server) {},
		End:   func(t testing.TB, s *redistest.Server) { Do(t, s, "CLUSTER", "ADDSLOTSRANGE", "0", "16383") },
	},
	{
		What: "BUSY", Kind: lockmgr.ErrUnavailable,
		Args: []string{"--lua-time-limit", "20"},
		Begin: func(t testing.TB, s *redistest.Server) {
			inBackground(t, s, "EVAL", "while true do end", "0")
			awaitRefusal(t, s, "BUSY")
		},
		End: func(t testing.TB, s *redistest.Server) { Do(t, s, "SCRIPT", "KILL") },
	},
	{
		What: "LOADING", Kind: lockmgr.ErrUnavailable,
		Args: []string{"--enable-debug-command", "local", "--loading-process-events-interval-bytes", "1024"},
		Begin: func(t testing.TB, s *redistest.Server) {
			Do(t, s, "DEBUG", "POPULATE", "1000", "filling", "1000")
			Do(t, s, "CONFIG", "SET", "key-load-delay", "20000")
			inBackground(t, s, "DEBUG", "RELOAD")
			awaitRefusal(t, s, "LOADING")
		},
		End: config("key-load-delay", "0"),
	},
	{
		What: "down", Kind: lockmgr.ErrUnavailable,
		Begin: func(_ testing.TB, s *redistest.Server) { s.Kill() },
		End:   func(_ testing.TB, s *redistest.Server) { s.Restart() },
	},
}

func config(name, value string) func(testing.TB, *redistest.Server) {
	return func(t testing.TB, s *redistest.Server) { Do(t, s, "CONFIG", "SET", name, value) }
}

// becomeReplica makes the server a replica of a server that is not there. A port that is free may
// be that of the next test's server. Port 1 never is.
func becomeReplica(t testing.TB, s *redistest.Server) { Do(t, s, "REPLICAOF", "127.0.0.1", "1") }

func becomePrimary(t testing.TB, s *redistest.Server) { Do(t, s, "REPLICAOF", "NO", "ONE") }

// inBackground sends a command whose reply comes late, if at all.
func inBackground(t testing.TB, s *redistest.Server, args ...string) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = s.Do(args...)
	}()
	t.Cleanup(func() { <-done })
}

// awaitRefusal waits until the server refuses to read.
func awaitRefusal(t testing.TB, s *redistest.Server, prefix string) {
	t.Helper()
	Eventually(t, func() bool {
		_, err := s.Do("GET", "x")
		return err != nil && strings.HasPrefix(err.Error(), prefix)
	})
}
