package scale

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/bench/internal/server"
	"github.com/holdfast-go/holdfast/internal/leakcheck"
	"github.com/holdfast-go/holdfast/internal/rediscluster"
	"github.com/holdfast-go/holdfast/internal/redisserver"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestMain(m *testing.M) { leakcheck.Main(m) }

// Every lease is renewed once, on one server and on a cluster, and no lock is lost.
func TestRun(t *testing.T) {
	redistest.Need(t)
	path := redistest.Must(redisserver.Find(""))(t)
	one := redistest.Must(server.Start(path))(t)
	defer one.Stop()
	cluster := redistest.Must(rediscluster.StartLocal(path, 3, 0))(t)
	defer cluster.Stop()
	for _, addrs := range [][]string{{one.Addr()}, cluster.Addrs()} {
		c := Config{Addrs: addrs, Locks: 500, Lease: 3 * time.Second, Hands: 50, Pairs: 50 * time.Millisecond}
		r := redistest.Must(Run(t.Context(), c))(t)
		require.Positive(t, r.Pairs)
		require.GreaterOrEqual(t, r.Renewed, c.Locks)
		require.GreaterOrEqual(t, r.Scripts, float64(c.Locks)/128/float64(len(addrs)))
		require.Zero(t, r.Lost)
		require.Positive(t, r.Between.N)
		require.LessOrEqual(t, r.Between.P50, r.Between.Max)
	}
}

// A grant counts as one during the tick if any part of its wait was in it.
func TestTick_TellsGrantsApart(t *testing.T) {
	begin := time.Now()
	at := func(ms int) time.Time { return begin.Add(time.Duration(ms) * time.Millisecond) }
	seen := &meter{first: at(1000), last: at(1500), renewed: 7}
	var r Result
	r.tick(seen, []span{
		{at(100), time.Millisecond}, {at(900), 2 * time.Millisecond}, {at(970), 50 * time.Millisecond},
		{at(1200), 3 * time.Millisecond}, {at(1499), 4 * time.Millisecond}, {at(1501), 5 * time.Millisecond},
	})
	require.Equal(t, 3, r.During.N)
	require.Equal(t, 50*time.Millisecond, r.During.Max)
	require.Equal(t, 3, r.Between.N)
	require.Equal(t, 5*time.Millisecond, r.Between.Max)
	require.Equal(t, 500*time.Millisecond, r.Tick)
	require.Equal(t, 7, r.Renewed)
}
