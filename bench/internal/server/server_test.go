package server

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/leakcheck"
	"github.com/holdfast-go/holdfast/internal/redisserver"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestMain(m *testing.M) { leakcheck.Main(m) }

func TestServer_StartAndStop(t *testing.T) {
	redistest.Start(t) // skips where there is no server
	path, err := redisserver.Find(os.Getenv("HOLDFAST_SERVER"))
	require.NoError(t, err)
	s, err := Start(path)
	require.NoError(t, err)
	c, err := Dial(t.Context(), s.Addr)
	require.NoError(t, err)
	defer c.Close()
	_, err = c.Ping()
	require.NoError(t, err)
	require.NotEmpty(t, s.Name)
	s.Stop()
	_, err = c.Ping()
	require.Error(t, err)

	_, err = Start("false")
	require.Error(t, err)
}

// What reading the counters costs must not be in them.
func TestCounters_LeaveThemselvesOut(t *testing.T) {
	s := redistest.Start(t)
	c, err := Dial(t.Context(), s.Addr())
	require.NoError(t, err)
	defer c.Close()
	// The first figures are not settled: the reply about them is counted too.
	_, err = c.Snapshot(false)
	require.NoError(t, err)

	before, err := c.Snapshot(false)
	require.NoError(t, err)
	after, err := c.Snapshot(false)
	require.NoError(t, err)
	d := after.Since(before)
	require.True(t, d.Detailed)
	require.Zero(t, d.Total)
	require.Zero(t, d.Commands())
	require.Zero(t, d.In)
	require.Zero(t, d.Out)

	const script = "return redis.call('SET', KEYS[1], 'x')"
	_, err = c.Do("EVAL", script, "1", "k")
	require.NoError(t, err)
	out, in := c.Traffic()
	_, err = c.Do("PING")
	require.NoError(t, err)
	out2, in2 := c.Traffic()
	last, err := c.Snapshot(false)
	require.NoError(t, err)
	d = last.Since(after)
	require.Equal(t, 1.0, d.Commands(), "not what the script calls, not the ping")
	require.Equal(t, 2.0, d.Commands("set"), "unless it is asked for")
	require.Equal(t, 1.0, d.Pings())
	require.Equal(t, float64(out+in+out2+in2), d.In+d.Out)
}

func TestEmbedded_CountsCommands(t *testing.T) {
	s, err := Embedded()
	require.NoError(t, err)
	defer s.Stop()
	c, err := Dial(t.Context(), s.Addr)
	require.NoError(t, err)
	defer c.Close()
	before, err := c.Snapshot(true)
	require.NoError(t, err)
	_, err = c.Ping()
	require.NoError(t, err)
	after, err := c.Snapshot(true)
	require.NoError(t, err)
	d := after.Since(before)
	require.False(t, d.Detailed)
	require.Equal(t, 1.0, d.Commands())
}
