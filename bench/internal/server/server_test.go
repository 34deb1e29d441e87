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
	path := redistest.Must(redisserver.Find(os.Getenv("HOLDFAST_SERVER")))(t)
	s := redistest.Must(Start(path))(t)
	c := redistest.Must(Dial(t.Context(), s.Addr()))(t)
	defer c.Close()
	redistest.Must(c.Ping())(t)
	require.NotEmpty(t, s.Name())
	s.Stop()
	_, err := c.Ping()
	require.Error(t, err)

	_, err = Start("false")
	require.Error(t, err)
}

// What reading the counters costs must not be in them.
func TestCounters_LeaveThemselvesOut(t *testing.T) {
	s := redistest.Start(t)
	c := redistest.Must(Dial(t.Context(), s.Addr()))(t)
	defer c.Close()
	// The first figures are not settled: the reply about them is counted too.
	redistest.Must(c.Snapshot())(t)

	before := redistest.Must(c.Snapshot())(t)
	after := redistest.Must(c.Snapshot())(t)
	d := after.Since(before)
	require.Zero(t, d.Commands())
	require.Zero(t, d.In)
	require.Zero(t, d.Out)

	const script = "return redis.call('SET', KEYS[1], 'x')"
	redistest.Must(c.Do("EVAL", script, "1", "k"))(t)
	out, in := c.Traffic()
	redistest.Must(c.Do("PING"))(t)
	out2, in2 := c.Traffic()
	last := redistest.Must(c.Snapshot())(t)
	d = last.Since(after)
	require.Equal(t, 1.0, d.Commands(), "not what the script calls, not the ping")
	require.Equal(t, 2.0, d.Commands("set"), "unless it is asked for")
	require.Equal(t, 1.0, d.Calls["ping"])
	require.Equal(t, float64(out+in+out2+in2), d.In+d.Out)
}
