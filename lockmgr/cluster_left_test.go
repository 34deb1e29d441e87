package lockmgr_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// The connection for messages at a master that has left is closed, also if nobody watches a channel
// when the slots move.
func TestCluster_ConnectionToAMasterThatLeft(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3, 1)
	m := dialCluster(t, c, lockmgr.Options{})
	ctx := faults.Patient(t)
	master, replica := c.Nodes[0], c.Nodes[3]
	name := namesOn(c, 1)[master][0]
	mustLock(t, m, name)
	waiting := dialCluster(t, c, lockmgr.Options{}).LockAsync(name)
	awaitSubscribers(t, master, false)
	connections := func() int {
		return strings.Count(faults.Do(t, master, "CLIENT", "LIST", "TYPE", "normal")+faults.Do(t, master, "CLIENT", "LIST", "TYPE", "pubsub"), "addr=")
	}
	before := connections()
	faults.Do(t, replica, "CLUSTER", "FAILOVER")
	require.Eventually(t, func() bool {
		_, _ = m.TryLock(ctx, name) // it shows that the slot has moved
		return c.Owner(name) == replica && connections() < before
	}, 40*time.Second, 50*time.Millisecond)
	awaitSubscribers(t, replica, false)
	waiting.Cancel()
}
