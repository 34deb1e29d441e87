package doctest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// A manager has one connection to each replica of a cluster. With Sentinel it has none to
// replicas, and one to a Sentinel.
func TestSpeed_ConnectionsBesideTheMasters(t *testing.T) {
	t.Parallel()
	const name = "manager"
	use := func(o rueidis.ClientOption) {
		o.ClientName, o.Sentinel.ClientName = name, name
		mgr := redistest.Must(lockmgr.Dial(o, lockmgr.Options{}))(t)
		t.Cleanup(func() { require.NoError(t, mgr.Close(context.Background())) })
		for i := range 30 { // at all masters
			require.NoError(t, mgr.Do(t.Context(), fmt.Sprint("name:", i), func(context.Context, *lockmgr.Lock) error { return nil }))
		}
	}
	connections := func(of []*redistest.Server) (n []int) {
		for _, s := range of {
			clients := redistest.Must(s.Do("CLIENT", "LIST"))(t)
			n = append(n, strings.Count(clients, " name="+name+" "))
		}
		return n
	}
	c := redistest.StartCluster(t, 3, 1)
	o := rueidis.ClientOption{InitAddress: c.Addrs()}
	o.ClusterOption.ShardsRefreshInterval = 100 * time.Millisecond // so that all nodes are soon asked
	use(o)
	require.Eventually(t, func() bool {
		n := connections(c.Nodes)
		return n[3] == 1 && n[4] == 1 && n[5] == 1
	}, patience, 10*time.Millisecond)

	w := redistest.StartSentinel(t, 1)
	use(rueidis.ClientOption{InitAddress: w.Addrs(), Sentinel: rueidis.SentinelOption{MasterSet: redistest.MasterSet}})
	require.Equal(t, 0, connections(w.Servers)[1])
	require.Eventually(t, func() bool {
		n := connections(w.Sentinels)
		return n[0]+n[1]+n[2] == 1
	}, patience, 10*time.Millisecond)
}
