package interop

import (
	"errors"
	"fmt"
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
	masters int
}

// clusterCases are the versions of Redisson with the channels that they can use.
var clusterCases = []clusterCase{
	{oldest, true, 3}, // it has no others
	{newest, false, 3},
	{newest, true, 3},
	{oldest, true, 1}, // with a replica: a node that met no other does not say its address
	{newest, false, 1},
}

// startWorlds returns the world of each version.
func startWorlds(t *testing.T) map[string]*world {
	t.Helper()
	entered := make(map[string]*world)
	for _, version := range versions(t) {
		entered[version] = enter(t, version)
	}
	leakcheck.Check(t)
	return entered
}

func (c clusterCase) String() string {
	channels := "sharded"
	if c.classic {
		channels = "classic"
	}
	return fmt.Sprintf("%s/%s, masters: %d", c.version, channels, c.masters)
}

// inCluster returns a world with the agent of w, and with a cluster in place of its server.
func (w *world) inCluster(t *testing.T, by clusterCase, replicas int) *world {
	t.Helper()
	c := &cluster{Cluster: redistest.StartCluster(t, by.masters, replicas), classic: by.classic}
	in := *w
	in.cluster = c
	in.redis = redistest.Must(rueidis.NewClient(rueidis.ClientOption{InitAddress: c.Addrs(), DisableCache: true}))(t)
	t.Cleanup(in.redis.Close)
	for _, n := range c.Nodes {
		client := redistest.Must(dialServer(n.Addr()))(t)
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

// suffixes returns one ending of the test's name for each master. Each master has the slot of the
// name with one of them.
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

// A clusterKind is a lock that is measured in a cluster: the kind that one side has and the kind
// that the other side waits for.
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

// Each side waits while the other one has the lock, and gets it by the message of the unlock. A
// waiter that does not get the message waits for the end of the lease of 30 s, and one of Go that
// waits for a fair lock for about a second.
func TestCluster_WakeUps(t *testing.T) {
	worlds := startWorlds(t)
	for _, c := range clusterCases {
		if worlds[c.version] == nil {
			continue
		}
		t.Run(c.String(), func(t *testing.T) {
			replicas := 0
			if c.masters == 1 {
				replicas = 1
			}
			w := worlds[c.version].inCluster(t, c, replicas)
			w.requireEmptyAtEnd(t)
			g, java := w.manager(t, lockmgr.Options{}), w.open(t, request{})
			var byGo, byJava []time.Duration
			for _, kind := range clusterKinds {
				names := w.clusterNames(t, kind.waits, kind.title+", Java waits")
				byGo = append(byGo, w.javaWakes(t, g, java.thread("waiter").as(kind.waits), kind.holds, kind.rounds, names...)...)
				names = w.clusterNames(t, kind.waits, kind.title+", Go waits")
				byJava = append(byJava, w.goWakes(t, g, java.thread("holder").as(kind.holds), kind.waits, kind.rounds, names...)...)
			}
			requirePrompt(t, "Java after an unlock of Go", byGo)
			requirePrompt(t, "Go after an unlock of Java", byJava)
		})
	}
}

// javaWakes has a thread wait for locks that Go has of another kind, or the same. It returns how
// long each wait took.
func (w *world) javaWakes(t *testing.T, m manager, waiter thread, holds string, rounds int, names ...string) (took []time.Duration) {
	t.Helper()
	for i := range rounds {
		name := names[i%len(names)]
		l := lock(t, m, name, goOptions[holds]...)
		waiting := w.startJavaWaitOf(t, waiter, name, name)
		took = append(took, wakes(t, func() { unlock(t, l) }, waiting)...)
		require.Less(t, took[i], eventLimit, "%s: Java has missed an unlock of Go", name)
		waiter.unlock(t, name)
	}
	logPercentiles(t, names[0]+": Java after an unlock of Go", took)
	return took
}

// goWakes has Go wait for locks of a kind that a thread has. It returns how long each wait took.
func (w *world) goWakes(t *testing.T, m manager, holder thread, waits string, rounds int, names ...string) (took []time.Duration) {
	t.Helper()
	for i := range rounds {
		name := names[i%len(names)]
		w.awaitFree(t, name)
		holder.lock(t, name)
		waiting := w.startGoWaitOf(t, m, waits, name)
		took = append(took, wakes(t, func() { holder.unlock(t, name) }, waiting)...)
		require.Less(t, took[i], heardLimit, "%s: Go has missed an unlock of Java", name)
		unlock(t, waiting.lock)
	}
	logPercentiles(t, names[0]+": Go after an unlock of Java", took)
	return took
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
// sleeps. The Java name is that which the NameMapper of its client, if any, turns into the name.
func (w *world) startJavaWaitOf(t testing.TB, j thread, name, javaName string) *call {
	t.Helper()
	if j.kind != "fair" {
		return w.startJavaSleep(t, j, javaName)
	}
	owner := j.owner(t)
	var waiting *call
	id := w.joins(t, name, func() { waiting = j.send(t, "lock", javaName) })
	require.Equal(t, owner, id)
	w.awaitChannel(t, channelOf(name)+":"+id, func(have int64) bool { return have == 1 })
	require.False(t, waiting.answered())
	return waiting
}

// startGoWaitOf has Go wait for a lock that Java has, and returns when it is refused and listens.
func (w *world) startGoWaitOf(t testing.TB, m manager, kind, name string) *wait {
	t.Helper()
	var waiting *wait
	channel := channelOf(name)
	switch kind {
	case "fair":
		ours := w.goJoins(t.Context(), t, m, name)
		waiting, channel = ours.wait, channel+":"+ours.id
	case "read", "write":
		waiting, channel = m.startRefused(t, name, goOptions[kind]...), rwChannelOf(name)
	default:
		waiting = m.startRefused(t, name)
	}
	w.awaitChannel(t, channel, func(have int64) bool { return have == 1 })
	require.False(t, waiting.over())
	return waiting
}

// promptLimit bounds the p99 of the times that waiters take to get a lock that was unlocked. A
// waiter that hears no message takes a second or more.
const promptLimit = 500 * time.Millisecond

// requirePrompt checks that 99 of 100 waiters got the lock within promptLimit.
func requirePrompt(t testing.TB, who string, took []time.Duration) {
	t.Helper()
	require.Less(t, logPercentiles(t, who, took), promptLimit, "%s: p99", who)
}

// logPercentiles logs how long waiters took, and returns the p99.
func logPercentiles(t testing.TB, who string, took []time.Duration) (p99 time.Duration) {
	t.Helper()
	d := slices.Sorted(slices.Values(took))
	ms := func(d time.Duration) string { return fmt.Sprintf("%.1f ms", d.Seconds()*1000) }
	p99 = d[(len(d)*99+99)/100-1]
	t.Logf("%s, %d times: p50 %s, p99 %s, worst %s", who, len(d), ms(median(d)), ms(p99), ms(d[len(d)-1]))
	return p99
}

// A failover is a lock whose master is killed, with its holder and its waiters.
type failover struct {
	title   string
	name    string
	goHolds *lockmgr.Lock // if Go has the lock
	holder  thread        // if Java has it
	atOnce  bool          // the holder unlocks as soon as there is a new master

	goWaits   *wait
	javaWaits *call
	waiter    thread
}

// atOnceLease is the lease of the locks that are unlocked before Redisson listens at the new
// master. A waiter of Java gets the lock at the end of the lease.
const atOnceLease = 10 * time.Second

// A waiter of each side waits when the master of their lock is killed. They get the lock from its
// replica one after the other. Redisson looks for new masters every 5 s, and subscribes again then.
// It does not hear an earlier unlock.
func TestCluster_Failover(t *testing.T) {
	worlds := startWorlds(t)
	for _, c := range clusterCases {
		if worlds[c.version] == nil || c.masters == 1 { // nobody elects the replica of the only master
			continue
		}
		t.Run(c.String(), func(t *testing.T) {
			t.Parallel()
			w := worlds[c.version].inCluster(t, c, 1)
			victim := w.cluster.Nodes[0]
			locks := w.startFailovers(t, victim)
			w.cluster.awaitReplica(t, victim)

			begin := time.Now()
			w.cluster.kill(victim)
			eventually(t, func() bool {
				now := w.cluster.Owner(locks[0].name)
				return now != nil && now != victim
			}, func() string { return "a replica is the master" })
			promoted := time.Now()
			t.Logf("the replica was the master after %s", seconds(promoted.Sub(begin)))
			for _, f := range locks {
				t.Run(f.title, func(t *testing.T) {
					t.Parallel()
					w.finishFailover(t, f, promoted)
				})
			}
		})
	}
}

// startFailovers takes locks that one master has, and has a waiter of each side wait for each.
func (w *world) startFailovers(t *testing.T, master *redistest.Server) []*failover {
	t.Helper()
	locks := []*failover{
		{title: "Go_unlocks"},
		{title: "Java_unlocks"},
		{title: "Go_unlocks_at_once", atOnce: true},
		{title: "Java_unlocks_at_once", atOnce: true},
	}
	o := lockmgr.Options{RetryTime: eventLimit + atOnceLease} // an election may take long
	g, short, goWaiter := w.manager(t, o), w.manager(t, withLease(atOnceLease)), w.manager(t, o)
	java, javaShort, javaWaiter := w.open(t, request{}), w.open(t, request{Watchdog: atOnceLease.Milliseconds()}), w.open(t, request{})
	for i, f := range locks {
		f.name = w.cluster.nameOn(t, master, f.title)
		f.waiter = javaWaiter.thread(f.title)
		m, c := g, java
		if f.atOnce {
			m, c = short, javaShort
		}
		if i%2 == 0 {
			f.goHolds = lock(t, m, f.name)
		} else {
			f.holder = c.thread("holder")
			f.holder.lock(t, f.name)
		}
		f.javaWaits = w.startJavaSleep(t, f.waiter, f.name)
		f.goWaits = goWaiter.startRefused(t, f.name)
		w.awaitListeners(t, f.name, 2)
	}
	return locks
}

// finishFailover unlocks a lock whose master was killed, and has both waiters get it.
func (w *world) finishFailover(t *testing.T, f *failover, promoted time.Time) {
	t.Helper()
	limit := eventLimit
	if f.atOnce {
		limit += atOnceLease
	} else {
		w.awaitChannel(t, channelOf(f.name), func(have int64) bool { return have >= 2 })
		t.Logf("both sides listened again %s after the promotion", seconds(time.Since(promoted)))
	}
	begin := time.Now()
	unlocked := f.startUnlock(t)
	goServed := func() {
		t.Helper()
		requireDone(t, f.goWaits.done, limit, "Go waits")
		l := f.goWaits.granted(t)
		t.Logf("Go had the lock %s after the unlock began", seconds(f.goWaits.at.Sub(begin)))
		unlock(t, l)
	}
	javaServed := func() {
		t.Helper()
		requireDone(t, f.javaWaits.done, limit, "Java waits")
		require.NoError(t, f.javaWaits.result(t))
		t.Logf("Java had the lock %s after the unlock began", seconds(f.javaWaits.at.Sub(begin)))
		f.waiter.unlock(t, f.name)
	}
	select {
	case <-f.goWaits.done:
		require.False(t, f.javaWaits.answered(), "while Go has the lock")
		goServed()
		javaServed()
	case <-f.javaWaits.done:
		require.False(t, f.goWaits.over(), "while Java has the lock")
		javaServed()
		goServed()
	case <-time.After(limit):
		require.FailNow(t, "nobody gets the lock")
	}
	unlocked()

	var left string
	eventually(t, func() bool {
		var err error
		left, err = w.cluster.Owner(f.name).Do("HGETALL", f.name)
		return err == nil && left == ""
	}, func() string { return "the record is left behind: " + left })
}

// startUnlock has the holder unlock. What it returns waits for the end of that.
func (f *failover) startUnlock(t *testing.T) (unlocked func()) {
	t.Helper()
	begin := time.Now()
	if f.goHolds != nil {
		err := f.goHolds.Unlock(t.Context())
		t.Logf("Go's unlock took %s: %v", seconds(time.Since(begin)), err)
		if f.atOnce && errors.Is(err, lockmgr.ErrLeaseLost) {
			err = nil // the election took longer than the lease
		}
		require.NoError(t, err)
		return func() {}
	}
	c := f.holder.send(t, "unlock", f.name)
	return func() {
		t.Helper()
		err := c.result(t)
		t.Logf("Java's unlock took %s: %v", seconds(c.at.Sub(begin)), err)
		// At once, 3.16.8 gives up before it knows the new master.
		require.True(t, err == nil || f.atOnce, "%v", err)
	}
}

func requireDone(t testing.TB, done <-chan struct{}, limit time.Duration, what string) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(limit):
		require.FailNow(t, "not within "+limit.String(), what)
	}
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.3f s", d.Seconds()) }

// nameOn returns a name whose slot a master has.
func (c *cluster) nameOn(t testing.TB, master *redistest.Server, title string) string {
	t.Helper()
	for i := 0; ; i++ {
		name := t.Name() + " " + title + " " + strconv.Itoa(i)
		if c.Owner(name) == master {
			return name
		}
	}
}

// awaitReplica waits until the replica of a master has all its data.
func (c *cluster) awaitReplica(t testing.TB, master *redistest.Server) {
	t.Helper()
	client := c.clients[slices.Index(c.Nodes, master)]
	// WAIT is for what was written before the last command of its own connection.
	replies := client.DoMulti(background, client.B().Ping().Build(), client.B().Wait().Numreplicas(1).Timeout(eventLimit.Milliseconds()).Build())
	n := redistest.Must(replies[1].AsInt64())(t)
	require.EqualValues(t, 1, n, "the replica has all data")
}

// kill kills a node, and removes its client.
func (c *cluster) kill(n *redistest.Server) {
	n.Kill()
	i := slices.Index(c.Nodes, n)
	c.clients = slices.Delete(c.clients, i, i+1)
}
