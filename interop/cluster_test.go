package interop

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/leakcheck"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// A cluster is what a world has in place of its server.
type cluster struct {
	*redistest.Cluster
	classic bool             // both sides use classic channels
	clients []rueidis.Client // of each node that runs
}

type clusterCase struct {
	version string
	classic bool
}

// clusterCases are the versions of Redisson with the channels that they can use.
var clusterCases = []clusterCase{
	{oldest, true}, // it has no others
	{newest, false},
	{newest, true},
}

// startWorlds returns the world of each version.
func startWorlds(t *testing.T) map[string]*world {
	t.Helper()
	if os.Getenv("HOLDFAST_INTEROP") != "1" {
		t.Skip(skipped)
	}
	entered := make(map[string]*world)
	for _, version := range versions {
		entered[version] = enter(t, version)
	}
	leakcheck.Check(t)
	return entered
}

func (c clusterCase) String() string {
	if c.classic {
		return c.version + "/classic"
	}
	return c.version + "/sharded"
}

// inCluster returns a world with the agent of w, and with a cluster in place of its server.
func (w *world) inCluster(t *testing.T, replicas int, classic bool) *world {
	t.Helper()
	c := &cluster{Cluster: redistest.StartCluster(t, 3, replicas), classic: classic}
	in := *w
	in.cluster = c
	var err error
	in.redis, err = rueidis.NewClient(rueidis.ClientOption{InitAddress: c.Addrs(), DisableCache: true})
	require.NoError(t, err)
	t.Cleanup(in.redis.Close)
	for _, n := range c.Nodes {
		client, err := dialServer(n.Addr())
		require.NoError(t, err)
		t.Cleanup(client.Close)
		c.clients = append(c.clients, client)
	}
	return &in
}

func (c *cluster) ports() (all []int) {
	for _, n := range c.Nodes {
		all = append(all, n.Port())
	}
	return all
}

// suffixes returns one ending of the test's name for each master. Each master has the slot of
// the name with one of them.
func (c *cluster) suffixes(t testing.TB, title string) []string {
	t.Helper()
	bySlot := make(map[*redistest.Server]string)
	for i := 0; len(bySlot) < c.Masters; i++ {
		suffix := " " + title + " " + strconv.Itoa(i)
		bySlot[c.Owner(t.Name()+suffix)] = suffix
	}
	all := make([]string, 0, len(bySlot))
	for _, suffix := range bySlot {
		all = append(all, suffix)
	}
	return all
}

// A clusterKind is a lock that is measured in a cluster: the kind that one side has and the
// kind that the other side waits for.
type clusterKind struct {
	title, holds, waits string
	rounds              int // for each side that waits
}

var clusterKinds = []clusterKind{
	{"plain lock", "lock", "lock", 100},
	{"fair lock", "fair", "fair", 100},
	{"writer after a writer", "write", "write", 50},
	{"writer after a reader", "read", "write", 50},
	{"reader after a writer", "write", "read", 50},
}

// goOptions are the options for a kind of Redisson's locks.
var goOptions = map[string][]lockmgr.LockOption{
	"lock": nil, "fair": {fairly}, "read": {reading}, "write": {writing},
}

// Each side waits while the other one has the lock, and gets it by the message of the unlock.
// A waiter that does not get the message waits for the end of the lease of 30 s, and one of
// Go that waits for a fair lock for about a second.
func TestCluster_WakeUps(t *testing.T) {
	worlds := startWorlds(t)
	for _, c := range clusterCases {
		t.Run(c.String(), func(t *testing.T) {
			w := worlds[c.version].inCluster(t, 0, c.classic)
			w.requireEmptyAtEnd(t)
			g, java := w.goSide(t, lockmgr.Options{}), w.open(t, request{})
			for _, kind := range clusterKinds {
				w.requireJavaWakes(t, g, java, kind)
				w.requireGoWakes(t, g, java, kind)
			}
		})
	}
}

// requireJavaWakes has Java wait while Go has the lock.
func (w *world) requireJavaWakes(t *testing.T, g goSide, java *client, kind clusterKind) {
	t.Helper()
	waiter := java.thread("waiter").as(kind.waits)
	names := w.clusterNames(t, kind.waits, kind.title+", Java waits")
	var took []time.Duration
	for i := range kind.rounds {
		name := names[i%len(names)]
		l := lock(t, g.Manager, name, goOptions[kind.holds]...)
		waiting := w.startJavaWaitOf(t, waiter, name)
		require.False(t, waiting.answered())
		begin := time.Now()
		unlock(t, l)
		require.NoError(t, waiting.result(t))
		took = append(took, waiting.at.Sub(begin))
		require.Less(t, took[i], eventLimit, "%s: Java has missed an unlock of Go", kind.title)
		waiter.unlock(t, name)
	}
	requirePrompt(t, kind.title+": Java after an unlock of Go", took)
}

// requireGoWakes has Go wait while Java has the lock.
func (w *world) requireGoWakes(t *testing.T, g goSide, java *client, kind clusterKind) {
	t.Helper()
	holder := java.thread("holder").as(kind.holds)
	names := w.clusterNames(t, kind.waits, kind.title+", Go waits")
	var took []time.Duration
	for i := range kind.rounds {
		name := names[i%len(names)]
		w.awaitFree(t, name)
		holder.lock(t, name)
		waiting := w.startGoWaitOf(t, g, kind.waits, name)
		begin := time.Now()
		holder.unlock(t, name)
		l := waiting.granted(t)
		took = append(took, waiting.at.Sub(begin))
		require.Less(t, took[i], eventLimit, "%s: Go has missed an unlock of Java", kind.title)
		unlock(t, l)
	}
	requirePrompt(t, kind.title+": Go after an unlock of Java", took)
}

// clusterNames returns names of locks of one kind, one on each master.
func (w *world) clusterNames(t testing.TB, kind, title string) (names []string) {
	t.Helper()
	for _, suffix := range w.cluster.suffixes(t, title) {
		if kind == "fair" {
			names = append(names, w.fairName(t, suffix))
		} else {
			names = append(names, t.Name()+suffix)
		}
	}
	return names
}

// startJavaWaitOf has a Java thread wait for a lock of its kind that Go has, and returns when it
// sleeps.
func (w *world) startJavaWaitOf(t testing.TB, j thread, name string) *call {
	t.Helper()
	if j.kind != "fair" {
		return w.startJavaSleep(t, j, name)
	}
	m := w.javaJoins(t, j, name, 0)
	w.awaitChannel(t, channelOf(name)+":"+m.id, func(have int64) bool { return have == 1 })
	return m.call
}

// startGoWaitOf has Go wait for a lock that Java has, and returns when it is refused and listens.
func (w *world) startGoWaitOf(t testing.TB, g goSide, kind, name string) *wait {
	t.Helper()
	var waiting *wait
	channel := channelOf(name)
	switch kind {
	case "fair":
		m := w.goJoins(t.Context(), t, g.Manager, name)
		waiting, channel = m.wait, channel+":"+m.id
	case "lock":
		waiting = g.startRefused(t, name)
	default:
		waiting, channel = g.startRefused(t, name, goOptions[kind]...), rwChannelOf(name)
	}
	w.awaitChannel(t, channel, func(have int64) bool { return have == 1 })
	require.False(t, waiting.over())
	return waiting
}

// requirePrompt checks that most waiters got the lock soon, and logs the percentiles.
func requirePrompt(t testing.TB, who string, took []time.Duration) {
	t.Helper()
	d := slices.Sorted(slices.Values(took))
	ms := func(d time.Duration) string { return fmt.Sprintf("%.1f ms", d.Seconds()*1000) }
	t.Logf("%s, %d times: p50 %s, p99 %s, worst %s", who, len(d), ms(median(d)), ms(d[(len(d)*99+99)/100-1]), ms(d[len(d)-1]))
	require.Less(t, median(d), wakeLimit)
}
