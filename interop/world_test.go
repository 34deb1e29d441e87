package interop

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/internal/leakcheck"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

const (
	oldest = "3.16.8"
	newest = "4.7.0" // the default of agent/pom.xml
)

// versions returns the Redissons that a test runs with. HOLDFAST_INTEROP names one of them, or is 1
// for both. If it is not set, the test is skipped. Another value is a mistake.
func versions(t *testing.T) []string {
	t.Helper()
	switch asked := os.Getenv("HOLDFAST_INTEROP"); asked {
	case "1":
		return []string{oldest, newest}
	case oldest, newest:
		return []string{asked}
	case "":
		t.Skip("SKIPPED: set HOLDFAST_INTEROP=1 to test against Redisson; needs java and mvn, and redis-server or valkey-server")
	default:
		t.Fatalf("HOLDFAST_INTEROP is %q, want 1, %s or %s", asked, oldest, newest)
	}
	return nil
}

const (
	// wakeLimit is how long a waiter may take to get a lock that was unlocked.
	wakeLimit = 200 * time.Millisecond
	// eventLimit is when a test gives up on what should happen at once, or at an instant that the
	// test has waited for. It is far below the default lease.
	eventLimit = 15 * time.Second
	// heardLimit is the longest wait of those who hear a message. A Go manager that hears none
	// looks after 5 s.
	heardLimit = 4 * time.Second
)

// A world is what the tests of one version share: a server, an agent, and a connection of the
// tests' own.
type world struct {
	version   string
	classPath string
	server    *server
	agent     *agent
	redis     rueidis.Client
	cluster   *cluster // the tests use it in place of server, if there is one
	err       error    // why there is none of these
}

// worlds has one world for each version that a test has asked for. Tests of one version do not run
// in parallel.
var worlds = map[string]*world{}

// each runs a test with each version of Redisson. At the end nothing may be left of it: neither a
// key nor a goroutine.
func each(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	for _, version := range versions(t) {
		t.Run(version, func(t *testing.T) {
			w := enter(t, version)
			leakcheck.Check(t)
			w.requireEmptyAtEnd(t)
			test(t, w)
		})
	}
}

// together is each for a test that waits most of the time: the versions run at a time.
func together(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	entered := startWorlds(t)
	for version := range entered {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			entered[version].requireEmptyAtEnd(t)
			test(t, entered[version])
		})
	}
}

// enter returns the world of a version, which it builds and starts when it is asked for the first
// time.
func enter(t *testing.T, version string) *world {
	t.Helper()
	w := worlds[version]
	if w == nil {
		begin := time.Now()
		w = startWorld(version)
		worlds[version] = w
		if w.err == nil {
			t.Logf("Redisson %s was ready after %.1f s", version, time.Since(begin).Seconds())
		}
	}
	require.NoError(t, w.err, "HOLDFAST_INTEROP asks for a run with Redisson %s", version)
	return w
}

// requireEmptyAtEnd checks at the end of a test that it has left no key. After a failure there is
// nothing left for the next one.
func (w *world) requireEmptyAtEnd(t *testing.T) {
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the last lines of the agent:\n%s", w.agent.stderr)
		}
		defer func() {
			if t.Failed() {
				_ = w.redis.Do(background, w.redis.B().Flushall().Build()).Error()
			}
		}()
		var left []string
		eventually(t, func() bool {
			left = nil
			for _, s := range w.servers() {
				keys := redistest.Must(s.Do(background, s.B().Keys().Pattern("*").Build()).AsStrSlice())(t)
				for _, k := range keys {
					// A manager that was killed leaves the record of its process until the TTL of
					// that ends.
					if !strings.HasPrefix(k, "holdfast:manager:") {
						left = append(left, k)
					}
				}
			}
			return len(left) == 0 || t.Failed()
		}, func() string { return "keys are left behind: " + strings.Join(left, ", ") })
	})
}

func TestVersions_NewestIsTheDefaultOfTheBuild(t *testing.T) {
	pom := redistest.Must(os.ReadFile("agent/pom.xml"))(t)
	require.Contains(t, string(pom), "<redisson.version>"+newest+"<")
}

func startWorld(version string) *world {
	w := &world{version: version}
	if w.classPath, w.err = buildAgent(version); w.err != nil {
		return w
	}
	if w.server, w.err = startServer(); w.err != nil {
		return w
	}
	if w.redis, w.err = w.server.dial(); w.err != nil {
		return w
	}
	w.agent, w.err = startAgent(version, w.classPath)
	return w
}

func (w *world) stop() {
	if w.agent != nil {
		w.agent.stop()
	}
	if w.redis != nil {
		w.redis.Close()
	}
	if w.server != nil {
		w.server.stop()
	}
}

// eventually waits until cond is true.
func eventually(t testing.TB, cond func() bool, what func() string) {
	t.Helper()
	for deadline := time.Now().Add(eventLimit); !cond(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			require.Fail(t, "not within "+eventLimit.String(), what())
		}
	}
}

// throughout looks again and again until d has passed, which is what is tested.
func throughout(d time.Duration, look func()) {
	pause := time.NewTicker(20 * time.Millisecond)
	defer pause.Stop()
	for end := time.Now().Add(d); time.Now().Before(end); <-pause.C {
		look()
	}
}

// background is the context of the tests' own commands.
var background = context.Background()

// A waiter waits for a lock: a *wait of Go, a *call of Java, or a *member of a fair queue.
type waiter interface {
	// got waits until the waiter has the lock, and returns since when.
	got(t testing.TB) time.Time
}

// wakes does something that gives waiters their locks, and returns how long each waiter took.
func wakes[W waiter](t testing.TB, do func(), waiters ...W) (took []time.Duration) {
	t.Helper()
	begin := time.Now()
	do()
	for _, x := range waiters {
		took = append(took, x.got(t).Sub(begin))
	}
	return took
}

// ---- the Go side

// withLease returns options for a short lease on a slow machine.
func withLease(lease time.Duration) lockmgr.Options {
	return lockmgr.Options{Lease: lease, CommandTimeout: 3 * lease / 10}
}

// A manager is one of holdfast, and how often it was refused a lock.
type manager struct {
	*lockmgr.Manager
	refused *atomic.Int64
}

func (w *world) manager(t testing.TB, o lockmgr.Options) manager {
	t.Helper()
	refused := new(atomic.Int64)
	o.Observer = func(e lockmgr.Event) {
		if _, ok := e.(lockmgr.EventRefused); ok {
			refused.Add(1)
		}
	}
	addrs := []string{w.server.Addr()}
	if w.cluster != nil {
		addrs = w.cluster.Addrs()
		if w.cluster.classic {
			o.Channels = lockmgr.ClassicChannels
		}
	}
	m := redistest.Must(lockmgr.Dial(rueidis.ClientOption{InitAddress: addrs}, o))(t)
	t.Cleanup(func() { assert.NoError(t, m.Close(background)) })
	return manager{m, refused}
}

// lock takes a lock that is free, or about to be.
func lock(t testing.TB, m manager, name string, opts ...lockmgr.LockOption) *lockmgr.Lock {
	t.Helper()
	return faults.Take(t, m.Manager, name, opts...)
}

func unlock(t testing.TB, locks ...*lockmgr.Lock) {
	t.Helper()
	faults.Release(t, locks...)
}

// refuses checks that a lock can't be had, by one try.
func (m manager) refuses(t testing.TB, name string, opts ...lockmgr.LockOption) {
	t.Helper()
	_, err := m.TryLock(t.Context(), name, opts...)
	require.ErrorIs(t, err, lockmgr.ErrNotAcquired)
}

// grants checks that a lock can be had, by one try.
func (m manager) grants(t testing.TB, name string, opts ...lockmgr.LockOption) *lockmgr.Lock {
	t.Helper()
	return redistest.Must(m.TryLock(t.Context(), name, opts...))(t)
}

// forces checks that a forced unlock removes a lock.
func (m manager) forces(t testing.TB, name string) {
	t.Helper()
	was := redistest.Must(m.ForceUnlock(t.Context(), name))(t)
	require.True(t, was)
}

// A wait is a goroutine's wait for a lock.
type wait struct {
	done chan struct{}
	lock *lockmgr.Lock
	err  error
	at   time.Time // when it ended
}

// startWait begins to wait for a lock.
func startWait(t testing.TB, m manager, name string, opts ...lockmgr.LockOption) *wait {
	return start(func() (*lockmgr.Lock, error) { return m.Lock(t.Context(), name, opts...) })
}

// start has a goroutine make a call that waits for a lock.
func start(take func() (*lockmgr.Lock, error)) *wait {
	w := &wait{done: make(chan struct{})}
	go func() {
		defer close(w.done)
		w.lock, w.err = take()
		w.at = time.Now()
	}()
	return w
}

// granted returns the lock, as soon as the wait is over.
func (w *wait) granted(t testing.TB) *lockmgr.Lock {
	t.Helper()
	select {
	case <-w.done:
		require.NoError(t, w.err)
		return w.lock
	case <-time.After(eventLimit):
		require.FailNow(t, "Go still waits for the lock")
		return nil
	}
}

// startRefused begins to wait, and returns when Redis has refused it. No other goroutine of the
// manager may wait for the lock already.
func (m manager) startRefused(t testing.TB, name string, opts ...lockmgr.LockOption) *wait {
	t.Helper()
	before := m.refused.Load()
	waiting := startWait(t, m, name, opts...)
	eventually(t, func() bool { return m.refused.Load() > before }, func() string { return "Go is refused" })
	require.False(t, waiting.over())
	return waiting
}

// startQueued begins to wait behind other goroutines of the manager.
func (m manager) startQueued(t testing.TB, name string, opts ...lockmgr.LockOption) *wait {
	t.Helper()
	n := m.Stats().Waiting + 1
	waiting := startWait(t, m, name, opts...)
	eventually(t, func() bool { return m.Stats().Waiting == n }, func() string { return "another goroutine waits" })
	return waiting
}

func (w *wait) over() bool { return faults.Closed(w.done) }

func (w *wait) got(t testing.TB) time.Time {
	t.Helper()
	w.granted(t)
	return w.at
}

// ---- the Java side

// A client is a Redisson client of an agent.
type client struct {
	agent *agent
	name  string
	uuid  string
}

// open opens a Redisson client. r has its options.
func (w *world) open(t testing.TB, r request) *client {
	t.Helper()
	return w.openIn(t, w.agent, r)
}

// two opens two Redisson clients.
func (w *world) two(t testing.TB) (a, b *client) {
	t.Helper()
	return w.open(t, request{}), w.open(t, request{})
}

var clientNumber atomic.Int64

func (w *world) openIn(t testing.TB, a *agent, r request) *client {
	t.Helper()
	c := &client{agent: a, name: fmt.Sprintf("client %d", clientNumber.Add(1))}
	r.Op, r.Client, r.Thread, r.Port = "open", c.name, c.name, w.server.Port()
	if w.cluster != nil {
		r.Ports, r.Classic = w.cluster.ports(), w.cluster.classic
	}
	a.send(t, r).into(t, &c.uuid)
	t.Cleanup(func() {
		select {
		case <-a.ended:
		default:
			// Nothing waits for it: it takes up to two seconds.
			a.send(t, request{Op: "close", Client: c.name, Thread: c.name})
		}
	})
	return c
}

// A thread is a Java thread that uses one client and one kind of lock.
type thread struct {
	*client
	thread string
	kind   string
}

func (c *client) thread(name string) thread {
	return thread{c, c.name + " " + name, "lock"}
}

// as returns the same thread with another kind of lock.
func (j thread) as(kind string) thread {
	j.kind = kind
	return j
}

func (j thread) send(t testing.TB, op, name string) *call {
	t.Helper()
	return j.sendRequest(t, request{Op: op, Name: name, Wait: -1, Lease: -1})
}

func (j thread) sendRequest(t testing.TB, r request) *call {
	t.Helper()
	r.Client, r.Thread, r.Kind = j.name, j.thread, j.kind
	return j.agent.send(t, r)
}

// lock takes a lock that is free, or about to be.
func (j thread) lock(t testing.TB, name string) {
	t.Helper()
	require.NoError(t, j.send(t, "lock", name).result(t))
}

func (j thread) lockFor(t testing.TB, name string, lease time.Duration) {
	t.Helper()
	require.NoError(t, j.sendRequest(t, request{Op: "lock", Name: name, Lease: lease.Milliseconds()}).result(t))
}

func (j thread) unlock(t testing.TB, name string) {
	t.Helper()
	require.NoError(t, j.send(t, "unlock", name).result(t))
}

func (j thread) tryLock(t testing.TB, name string) bool {
	t.Helper()
	return j.is(t, "tryLock", name)
}

// is asks what has a boolean answer.
func (j thread) is(t testing.TB, op, name string) (value bool) {
	t.Helper()
	j.send(t, op, name).into(t, &value)
	return value
}

// number asks what has a number as its answer.
func (j thread) number(t testing.TB, op, name string) (value int64) {
	t.Helper()
	j.send(t, op, name).into(t, &value)
	return value
}

// owner returns the owner as it stands in a record.
func (j thread) owner(t testing.TB) (value string) {
	t.Helper()
	j.as("lock").send(t, "owner", "any").into(t, &value)
	return value
}

// requireNotOwner checks that unlock fails as it does for a lock of others.
func (j thread) requireNotOwner(t testing.TB, name string) {
	t.Helper()
	require.ErrorContains(t, j.send(t, "unlock", name).result(t), "IllegalMonitorStateException")
}

// ---- Redis

// servers returns a client of each server.
func (w *world) servers() []rueidis.Client {
	if w.cluster == nil {
		return []rueidis.Client{w.redis}
	}
	return w.cluster.clients
}

// record returns the hash of a lock: owner to count. It is empty if nobody has it.
func (w *world) record(t testing.TB, name string) map[string]string {
	t.Helper()
	return redistest.Must(w.redis.Do(background, w.redis.B().Hgetall().Key(name).Build()).AsStrMap())(t)
}

// ttl returns the remaining life of a key. It is negative if there is no key.
func (w *world) ttl(t testing.TB, name string) time.Duration {
	t.Helper()
	ms := redistest.Must(w.redis.Do(background, w.redis.B().Pttl().Key(name).Build()).AsInt64())(t)
	return time.Duration(ms) * time.Millisecond
}

// number returns a counter, and removes it.
func (w *world) number(t testing.TB, key string) int64 {
	t.Helper()
	return redistest.Must(w.redis.Do(background, w.redis.B().Getdel().Key(key).Build()).AsInt64())(t)
}

func channelOf(name string) string { return "redisson_lock__channel:" + braced(name) }

// braced is how Redisson writes a name into the keys and channels beside a lock.
func braced(name string) string {
	if strings.Contains(name, "{") {
		return name
	}
	return "{" + name + "}"
}

// awaitListeners waits until exactly n connections listen for the lock's unlocks.
func (w *world) awaitListeners(t testing.TB, name string, n int64) {
	t.Helper()
	w.awaitChannel(t, channelOf(name), func(have int64) bool { return have == n })
}

// awaitChannel waits until enough connections listen to a channel.
func (w *world) awaitChannel(t testing.TB, channel string, enough func(int64) bool) {
	t.Helper()
	sub := "NUMSUB"
	if w.cluster != nil && !w.cluster.classic {
		sub = "SHARDNUMSUB"
	}
	eventually(t, func() bool {
		var n int64
		for _, s := range w.servers() {
			m := redistest.Must(s.Do(background, s.B().Arbitrary("PUBSUB", sub, channel).Build()).AsIntMap())(t)
			n += m[channel]
		}
		return enough(n)
	}, func() string { return "listeners of " + channel })
}

// startJavaWait has a Java thread wait for a lock that Go holds, and returns when it sleeps: it has
// tried, subscribed, and tried again. Each refused try asks for the TTL, and nobody else may do so
// meanwhile.
func (w *world) startJavaWait(t testing.TB, j thread, name string) *call {
	t.Helper()
	return w.untilRefused(t, "pttl", func() *call { return j.send(t, "lock", name) })
}

// untilRefused sends a request and returns when a command that each refused try calls was called
// twice.
func (w *world) untilRefused(t testing.TB, command string, send func() *call) *call {
	t.Helper()
	before := w.calls(t, command)
	c := send()
	eventually(t, func() bool { return w.calls(t, command) >= before+2 }, func() string { return "Java is refused twice" })
	return c
}

// calls returns how often a command was called, by scripts too.
func (w *world) calls(t testing.TB, command string) int {
	t.Helper()
	sum := 0
	for _, s := range w.servers() {
		info := redistest.Must(s.Do(background, s.B().Info().Section("commandstats").Build()).ToString())(t)
		_, rest, _ := strings.Cut(info, "cmdstat_"+command+":calls=")
		text, _, _ := strings.Cut(rest, ",")
		n, _ := strconv.Atoi(text) // absent before the first call
		sum += n
	}
	return sum
}

func median(d []time.Duration) time.Duration {
	d = slices.Sorted(slices.Values(d))
	return d[len(d)/2]
}
