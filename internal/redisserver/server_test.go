package redisserver_test

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/leakcheck"
	"github.com/holdfast-go/holdfast/internal/redisserver"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/resp"
)

// Most tests of this package are those of redistest.

func TestMain(m *testing.M) { leakcheck.Main(m) }

func binary(t *testing.T) string {
	t.Helper()
	redistest.Need(t)
	path := redistest.Must(redisserver.Find(os.Getenv("HOLDFAST_SERVER")))(t)
	return path
}

// Another server on the port answers PING, if only with a refusal. It must not be taken for the
// child.
func TestServer_NoticesAnotherOneOnItsPort(t *testing.T) {
	stranger := redistest.Start(t).Unrestricted() // it tells its pid
	notice := func() {
		s := &redisserver.Server{Binary: binary(t), Dir: t.TempDir()}
		require.ErrorIs(t, s.StartOn(stranger.Port()), redisserver.ErrEnded)
		require.False(t, s.Running())
	}
	for range 5 {
		notice()
	}
	_, err := stranger.Do("CONFIG", "SET", "requirepass", "secret") // connections from now on tell nothing
	require.NoError(t, err)
	notice()
}

func TestRestart_KeepsThePortAndWhatArgsKeep(t *testing.T) {
	s := &redisserver.Server{Binary: binary(t), Dir: t.TempDir(), Detached: true}
	keep := []string{"--appendonly", "yes", "--appendfsync", "always"}
	require.False(t, s.Running())
	s.Kill()
	require.NoError(t, s.Start(resp.Login{}, keep...))
	t.Cleanup(s.Kill)
	require.Regexp(t, `^(redis|valkey) \d+\.`, s.Name())
	addr, pid := s.Addr(), s.PID()
	do := func(args ...string) string {
		reply := redistest.Must(resp.Do(addr, resp.Login{}, time.Minute, args...))(t)
		return reply
	}
	do("SET", "k", "v")
	s.Kill()
	require.False(t, s.Running())
	require.ErrorIs(t, s.Signal(os.Interrupt), os.ErrProcessDone)
	for range 2 { // one that has ended, one that runs
		require.NoError(t, s.Restart(resp.Login{}, keep...))
		require.True(t, s.Running())
		require.Equal(t, addr, s.Addr())
		require.NotEqual(t, pid, s.PID())
		require.Equal(t, "v", do("GET", "k"))
	}
}

func TestStart_FailsWithAWrongProgram(t *testing.T) {
	s := &redisserver.Server{Binary: "/no/such/program", Dir: t.TempDir()}
	require.ErrorIs(t, s.Start(resp.Login{}), os.ErrNotExist)
	s.Kill()
	require.False(t, s.Running())

	t.Setenv("PATH", t.TempDir())
	_, err := redisserver.Find("")
	require.ErrorIs(t, err, redisserver.ErrNone)
	_, err = redisserver.Find("no-such-server")
	require.Error(t, err)
	require.NotErrorIs(t, err, redisserver.ErrNone)
}
