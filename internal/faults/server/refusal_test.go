package server_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// inBackground sends a command whose answer comes late, if at all.
func inBackground(t testing.TB, s *redistest.Server, args ...string) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = s.Do(args...)
	}()
	t.Cleanup(func() { <-done })
}

// nobody is a port where nobody listens.
func nobody(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}

func answers(s *redistest.Server, prefix string) func() bool {
	return func() bool {
		_, err := s.Do("GET", "x")
		return err != nil && strings.HasPrefix(err.Error(), prefix)
	}
}

// refusals are what a server may say to every script for a time.
var refusals = []struct {
	what       string
	args       []string
	begin, end func(t testing.TB, s *redistest.Server)
	kind       error
}{
	{
		what:  "READONLY",
		begin: func(t testing.TB, s *redistest.Server) { faults.Do(t, s, "REPLICAOF", "127.0.0.1", nobody(t)) },
		end:   func(t testing.TB, s *redistest.Server) { faults.Do(t, s, "REPLICAOF", "NO", "ONE") },
		kind:  lockmgr.ErrReadOnly,
	},
	{
		what: "NOREPLICAS",
		begin: func(t testing.TB, s *redistest.Server) {
			faults.Do(t, s, "CONFIG", "SET", "min-replicas-to-write", "1")
		},
		end: func(t testing.TB, s *redistest.Server) {
			faults.Do(t, s, "CONFIG", "SET", "min-replicas-to-write", "0")
		},
		kind: lockmgr.ErrReadOnly,
	},
	{
		what: "MISCONF",
		args: []string{"--dbfilename", "in-the-way"},
		begin: func(t testing.TB, s *redistest.Server) {
			dir := strings.TrimPrefix(faults.Do(t, s, "CONFIG", "GET", "dir"), "dir\n")
			require.NoError(t, os.Mkdir(filepath.Join(dir, "in-the-way"), 0o700))
			faults.Do(t, s, "CONFIG", "SET", "save", "3600 1000000")
			faults.Do(t, s, "BGSAVE")
			faults.Eventually(t, func() bool {
				return strings.Contains(faults.Do(t, s, "INFO", "persistence"), "rdb_last_bgsave_status:err")
			})
		},
		end: func(t testing.TB, s *redistest.Server) {
			faults.Do(t, s, "CONFIG", "SET", "stop-writes-on-bgsave-error", "no")
		},
		kind: lockmgr.ErrReadOnly,
	},
	{
		what: "BUSY",
		args: []string{"--lua-time-limit", "20"},
		begin: func(t testing.TB, s *redistest.Server) {
			inBackground(t, s, "EVAL", "while true do end", "0")
			faults.Eventually(t, answers(s, "BUSY"))
		},
		end:  func(t testing.TB, s *redistest.Server) { faults.Do(t, s, "SCRIPT", "KILL") },
		kind: lockmgr.ErrUnavailable,
	},
	{
		what: "LOADING",
		args: []string{"--enable-debug-command", "local", "--loading-process-events-interval-bytes", "1024"},
		begin: func(t testing.TB, s *redistest.Server) {
			faults.Do(t, s, "DEBUG", "POPULATE", "1000", "filling", "1000")
			faults.Do(t, s, "CONFIG", "SET", "key-load-delay", "20000")
			inBackground(t, s, "DEBUG", "RELOAD")
			faults.Eventually(t, answers(s, "LOADING"))
		},
		end:  func(t testing.TB, s *redistest.Server) { faults.Do(t, s, "CONFIG", "SET", "key-load-delay", "0") },
		kind: lockmgr.ErrUnavailable,
	},
}

// A server that refuses to work takes nothing away. A lock is lost when its
// deadline passes meanwhile, and not before; one with time left goes on.
func TestLock_RefusalCostsNoneBeforeItsDeadline(t *testing.T) {
	t.Parallel()
	for _, tt := range refusals {
		t.Run(tt.what, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t, tt.args...)
			troubled := &trouble{t: t, s: s, kind: tt.kind}
			troubled.run(func() { tt.begin(t, s) }, func() { tt.end(t, s) })
		})
	}
}

// The same for a user whose rights are taken away, connections and all, and
// given back.
func TestLock_RevokedUserLosesNoneBeforeItsDeadline(t *testing.T) {
	t.Parallel()
	const password = "correct-horse-battery-staple"
	restore := []string{"ACL", "SETUSER", "someone", "reset", "on", ">" + password, "+@all", "~*", "&*"}
	for what, revoke := range map[string][][]string{
		"password changed": {{"ACL", "SETUSER", "someone", "resetpass", ">another"}, {"CLIENT", "KILL", "USER", "someone"}},
		"user deleted":     {{"ACL", "DELUSER", "someone"}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			faults.Do(t, s, restore...)
			troubled := &trouble{t: t, s: s, kind: lockmgr.ErrPermission, user: "someone", password: password}
			troubled.run(func() {
				for _, command := range revoke {
					faults.Do(t, s, command...)
				}
			}, func() { faults.Do(t, s, restore...) })
		})
	}
}

// trouble is a server that does not do what it is told.
type trouble struct {
	t              *testing.T
	s              *redistest.Server
	kind           error // of what requests are told
	user, password string
}

func (x *trouble) dial(o lockmgr.Options) *lockmgr.Manager {
	return dialOpt(x.t, rueidis.ClientOption{InitAddress: []string{x.s.Addr()}, Username: x.user, Password: x.password}, o)
}

func (x *trouble) run(begin, end func()) {
	t := x.t
	w := faults.NewWitness()
	o := with(steady)
	o.Observer = w.Observe
	patientHolder, hastyHolder := x.dial(o), x.dial(with(short))
	kept, lost := take(t, patientHolder, "kept"), take(t, hastyHolder, "lost")
	next := patientHolder.LockAsync("lost")

	begin()
	left, asked := lost.Remaining(), time.Now()
	// The first command may meet no more than the end of a connection.
	faults.Eventually(t, func() bool {
		_, err := hastyHolder.TryLock(faults.Patient(t), "new")
		require.Error(t, err)
		return errors.Is(err, x.kind)
	})
	requireLost(t, lost, ranOut)
	require.GreaterOrEqual(t, time.Since(asked), left-time.Millisecond)
	require.ErrorIs(t, lost.Unlock(faults.Patient(t)), lockmgr.ErrLeaseLost)
	faults.Eventually(t, func() bool {
		return faults.Count(w, func(e lockmgr.EventRenewalFailed) bool { return errors.Is(e.Err, x.kind) }) > 0
	})
	require.True(t, kept.Valid())
	renewed := patientHolder.Stats().Renewals
	end()
	faults.Eventually(t, func() bool { return patientHolder.Stats().Renewals > renewed })
	require.NoError(t, kept.Err())
	if x.kind != lockmgr.ErrPermission { // else it has been told so
		release(t, faults.Await(t, next))
	}
	release(t, kept)
	faults.Eventually(t, func() bool {
		l, err := hastyHolder.Lock(faults.Patient(t), "lost")
		return err == nil && l.Unlock(faults.Patient(t)) == nil
	})
	require.Zero(t, patientHolder.Stats().Losses)
}
