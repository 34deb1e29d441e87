package lockmgr_test

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/internal/faultproxy"
	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// A lineKind is a kind of lock that processes stand in line for.
type lineKind struct {
	name, line string // of the lock, and the key of its line
	holds      func(m *lockmgr.Manager) *futures.Future[*lockmgr.Lock]
	waits      func(m *lockmgr.Manager) *futures.Future[*lockmgr.Lock]
}

// asking returns a function that asks for a name as a kind.
func asking(title, name string, opts ...lockmgr.LockOption) func(*lockmgr.Manager) *futures.Future[*lockmgr.Lock] {
	return func(m *lockmgr.Manager) *futures.Future[*lockmgr.Lock] { return kindOf(title).ask(m, name, opts...) }
}

// lineKinds returns a lock of each kind.
func lineKinds() []lineKind {
	return []lineKind{
		{"plain", "{plain}:lock_line", asking("plain", "plain"), asking("plain", "plain")},
		{"fenced", "{fenced}:lock_line", asking("plain", "fenced"), asking("plain", "fenced", lockmgr.Fenced())},
		{"writer", "{writer}:lock_line", asking("writer", "writer"), asking("writer", "writer")},
		{"reader", "{reader}:lock_line", asking("writer", "reader"), asking("reader", "reader")},
		{"set", "{set}:lock_line", asking("plain", "set"), asking("set", "set")},
		{"permits", "{permits}:line", asking("permits", "permits"), asking("permits", "permits")},
		{"fair", "redisson_lock_queue:{fair}", asking("fair", "fair"), asking("fair", "fair")},
	}
}

// awaitInLine waits until as many members stand in the line.
func (k *lineKind) awaitInLine(t *testing.T, s *redistest.Server, n string) {
	t.Helper()
	faults.Eventually(t, func() bool { return faults.Do(t, s, "LLEN", k.line) == n }, "%s: in the line: %s", k.name, n)
}

// lineKeys returns the keys of all lines.
func lineKeys(t *testing.T, s *redistest.Server) (keys []string) {
	t.Helper()
	for _, pattern := range []string{"*line", "*wants", "redisson_lock_queue:*", "redisson_lock_timeout:*"} {
		keys = append(keys, strings.Fields(faults.Do(t, s, "KEYS", pattern))...)
	}
	return keys
}

// A process that waits for replicas is granted nothing by message: the message of a process that
// waits for none would come before the replicas have the record.
func TestLine_NoGrantBeforeTheReplicasHaveIt(t *testing.T) {
	t.Parallel()
	servers := redistest.StartReplicas(t, 1)
	o := acked(1)
	o.Lease, o.Replicas.Timeout = 5*time.Minute, time.Minute // nothing ends while the replica is stopped
	a, b := dial(t, servers[0].Addr(), lockmgr.Options{}), dial(t, servers[0].Addr(), o)
	for _, k := range lineKinds() {
		held := mustAwait(t, k.holds(a))
		waits := k.waits(b)
		k.awaitInLine(t, servers[0], "1")
		servers[1].Freeze()
		mustUnlock(t, held)
		faults.Eventually(t, func() bool {
			return strings.Contains(faults.Do(t, servers[0], "INFO", "clients"), "blocked_clients:1")
		}, "%s: WAIT", k.name)
		requirePending(t, waits, k.name)
		servers[1].Thaw()
		l := mustAwait(t, waits)
		key := k.name
		if key == "permits" {
			key = "{permits}:timeout"
		}
		require.Equal(t, "1", faults.Do(t, servers[1], "EXISTS", key), k.name)
		mustUnlock(t, l)
	}
}

// The line is lost, or the scripts, or the message of a grant. Who waits is granted the lock within
// the lease of a grant by message and a round trip.
func TestLine_LossesWhileSomebodyWaits(t *testing.T) {
	t.Parallel()
	for _, k := range lineKinds() {
		for what, lose := range map[string]func(t *testing.T, s *redistest.Server, waiter *faultproxy.Proxy){
			"line": func(t *testing.T, s *redistest.Server, _ *faultproxy.Proxy) {
				faults.Do(t, s, append([]string{"DEL"}, lineKeys(t, s)...)...)
			},
			"scripts": func(t *testing.T, s *redistest.Server, _ *faultproxy.Proxy) { faults.Do(t, s, "SCRIPT", "FLUSH") },
			"message": func(t *testing.T, _ *redistest.Server, waiter *faultproxy.Proxy) {
				for _, c := range waiter.PubSub() {
					c.BlackHole()
				}
			},
		} {
			t.Run(k.name+", "+what, func(t *testing.T) {
				t.Parallel()
				s := redistest.Start(t)
				proxy := faultproxy.Start(t, s.Addr())
				a, b := dial(t, s.Addr(), lockmgr.Options{}), dialTroubled(t, proxy.Addr(), lockmgr.Options{Linger: time.Hour})
				takesOver := func(lose func()) (took time.Duration, polled bool) {
					l := mustAwait(t, k.holds(a))
					waits := k.waits(b)
					k.awaitInLine(t, s, "1")
					polls := b.Stats().Polls
					lose()
					start := time.Now()
					mustUnlock(t, l)
					l = mustAwait(t, waits)
					took, polled = time.Since(start), b.Stats().Polls > polls
					proxy.Heal()
					mustUnlock(t, l)
					return took, polled
				}
				requireOnceWithin(t, 2500*milli, func() (took time.Duration) {
					faults.Eventually(t, func() bool {
						_, polled := takesOver(func() {})
						return !polled
					}, "b listens, and goes on listening")
					// If b asks once more before the release, b is in the line again, and nothing is lost.
					faults.Eventually(t, func() (lost bool) {
						took, lost = takesOver(func() { lose(t, s, proxy) })
						return lost || took > second || what == "scripts"
					}, "something is lost")
					return took
				})
			})
		}
	}
}

// On a server without memory who stands in the line is served. A manager that comes later joins the
// line, except that of a fair lock.
func TestLine_WithoutMemory(t *testing.T) {
	t.Parallel()
	fencedSet := asking("set", "set", lockmgr.Fenced())
	for _, k := range append(lineKinds(), lineKind{"fenced set", "{set}:lock_line", fencedSet, fencedSet}) {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t, "--maxmemory-policy", "noeviction")
			log, lines := logged(slog.LevelWarn)
			a, b, c := dial(t, s.Addr(), lockmgr.Options{}), dial(t, s.Addr(), lockmgr.Options{}), dial(t, s.Addr(), lockmgr.Options{Logger: log})
			held := mustAwait(t, k.holds(a))
			waits := k.waits(b)
			k.awaitInLine(t, s, "1")
			faults.Do(t, s, "CONFIG", "SET", "maxmemory", "1")
			asked := b.Stats().Scripts
			faults.Eventually(t, func() bool { return b.Stats().Scripts > asked }, "b looks again")
			late := k.waits(c)
			faults.Eventually(t, func() bool { return faults.Settled(late) || c.Stats().Scripts >= 2 }, "c has tried to join")
			mustUnlock(t, held)
			l := mustAwait(t, waits)
			faults.Do(t, s, "CONFIG", "SET", "maxmemory", "0")
			mustUnlock(t, l)
			l, err := late.Await(faults.Patient(t))
			if errors.Is(err, lockmgr.ErrOutOfMemory) { // it found the lock free, or has no place in a fair queue
				l, err = k.waits(c).Await(faults.Patient(t))
			}
			require.NoError(t, err)
			mustUnlock(t, l)
			mustClose(t, a, b, c)
			require.Empty(t, lines("waiters can't stand in the line"))
			for _, key := range strings.Fields(faults.Do(t, s, "KEYS", "*")) {
				require.True(t, key == "permits" || strings.HasPrefix(key, "redisson_lock_token:"), key)
			}
		})
	}
}

// A request whose token counter is broken fails alone: its process keeps its position in the line
// for the next request.
func TestLine_BrokenTokenCounterCostsNoPosition(t *testing.T) {
	t.Parallel()
	for _, side := range [][]lockmgr.LockOption{nil, {lockmgr.Exclusive()}} {
		s := redistest.Start(t)
		a, b := dial(t, s.Addr(), lockmgr.Options{}), dial(t, s.Addr(), lockmgr.Options{})
		c := dial(t, s.Addr(), lockmgr.Options{})
		k := lineKind{name: "plain or writer", line: "{lock}:lock_line"}
		faults.Do(t, s, "SET", "redisson_lock_token:{lock}", "broken")
		held := mustLock(t, a, "lock", side...)
		broken := b.LockAsync("lock", append([]lockmgr.LockOption{lockmgr.Fenced()}, side...)...)
		k.awaitInLine(t, s, "1")
		next, other := b.LockAsync("lock", side...), c.LockAsync("lock", side...)
		k.awaitInLine(t, s, "2")
		mustUnlock(t, held)
		require.ErrorContains(t, errOf(broken.Await(faults.Patient(t))), "redisson_lock_token:{NAME}")
		select {
		case <-next.Done():
		case <-other.Done():
			require.Fail(t, "overtaken")
		}
		mustUnlock(t, mustAwait(t, next))
		mustUnlock(t, mustAwait(t, other))
	}
}

// lineSteps returns how many commands about lines the server has run.
func lineSteps(t *testing.T, s *redistest.Server) (n int) {
	t.Helper()
	all := s.Commands(t)
	for _, c := range []string{"lindex", "lrem", "rpush", "hget", "hset", "hdel", "publish", "pubsub|numsub"} {
		n += all[c]
	}
	return n
}

// What it costs a script to join a line, and to serve it, does not depend on how many wait. The
// least of several counts: those who wait look from time to time.
func TestLine_StepsDoNotGrowWithTheLine(t *testing.T) {
	t.Parallel()
	for _, k := range lineKinds() {
		if k.name == "reader" || k.name == "set" { // a side of writer, and several lines
			continue
		}
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			granted := make(chan *lockmgr.Lock, 100)
			waiting := 0
			wait := func() {
				k.waits(dial(t, s.Addr(), lockmgr.Options{})).OnDone(func(l *lockmgr.Lock, _ error) { granted <- l })
				waiting++
				k.awaitInLine(t, s, strconv.Itoa(waiting))
			}
			l := mustAwait(t, k.holds(dial(t, s.Addr(), lockmgr.Options{})))
			guest := dial(t, s.Addr(), lockmgr.Options{})
			steps := func() (joins, serves int) {
				joins, serves = math.MaxInt, math.MaxInt
				for range 5 {
					before := lineSteps(t, s)
					f := k.waits(guest)
					k.awaitInLine(t, s, strconv.Itoa(waiting+1))
					joins = min(joins, lineSteps(t, s)-before)
					f.Cancel()
					k.awaitInLine(t, s, strconv.Itoa(waiting))
					before = lineSteps(t, s)
					mustUnlock(t, l)
					l = <-granted
					waiting--
					k.awaitInLine(t, s, strconv.Itoa(waiting))
					serves = min(serves, lineSteps(t, s)-before)
				}
				return joins, serves
			}
			for range 6 {
				wait()
			}
			joins, serves := steps()
			for range 40 {
				wait()
			}
			joins40, serves40 := steps()
			t.Logf("6 wait: %d and %d; 40 wait: %d and %d", joins, serves, joins40, serves40)
			require.LessOrEqual(t, joins40, joins+10)
			require.LessOrEqual(t, serves40, serves+10)
		})
	}
}

// Ten managers that wait for a hundred names leave no key when they are closed, nor does the manager
// that holds the names, and is closed among them.
func TestLine_CloseLeavesNothing(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	var managers []*lockmgr.Manager
	for i := range 11 {
		managers = append(managers, dial(t, s.Addr(), lockmgr.Options{
			Process: lockmgr.Process{PID: i + 1}, ForgetPermits: true,
			Lease: 5 * time.Minute, CommandTimeout: 30 * time.Second, RetryTime: time.Minute, // no failure on a busy machine
		}))
	}
	ask := func(m *lockmgr.Manager) (all []*futures.Future[*lockmgr.Lock]) {
		for i := range 20 {
			for _, title := range []string{"plain", "writer", "set", "permits", "fair"} {
				all = append(all, kindOf(title).ask(m, title+strconv.Itoa(i)))
			}
		}
		return all
	}
	for _, f := range ask(managers[5]) {
		mustAwait(t, f)
	}
	for i, m := range managers {
		if i != 5 {
			ask(m)
		}
	}
	for _, k := range lineKinds() {
		if k.name == "fenced" || k.name == "reader" {
			continue
		}
		last := k.name + "19"
		k.line = strings.Replace(k.line, k.name, last, 1)
		k.awaitInLine(t, s, "10")
		memory := 0
		for _, key := range lineKeys(t, s) {
			if strings.Contains(key, "{"+last+"}") {
				memory += must(strconv.Atoi(faults.Do(t, s, "MEMORY", "USAGE", key)))(t)
			}
		}
		t.Logf("%s: a line of ten has %d bytes", k.name, memory)
	}
	mustClose(t, managers...)
	require.Empty(t, faults.Do(t, s, "KEYS", "*"))
}

// A process in the line is dead, or hangs, when its turn comes. If the process is dead, the next one
// gets the lock at once. If the process hangs, or had a fair place, the next one waits for a turn,
// and those after it do not.
func TestLine_ProcessThatIsGone(t *testing.T) {
	t.Parallel()
	for _, k := range lineKinds() {
		for _, dead := range []bool{true, false} {
			t.Run(fmt.Sprint(k.name, ", dead: ", dead), func(t *testing.T) {
				t.Parallel()
				limit := 2500 * milli
				if dead && k.name != "fair" {
					limit = 1500 * milli // of a told manager that hangs: 2 s
				}
				requireOnceWithin(t, limit, func() time.Duration {
					s := redistest.Start(t)
					proxy := faultproxy.Start(t, s.Addr())
					a, b := dial(t, s.Addr(), lockmgr.Options{}), dial(t, s.Addr(), lockmgr.Options{})
					gone := dialTroubled(t, proxy.Addr(), lockmgr.Options{})
					l := mustAwait(t, k.holds(a))
					k.waits(gone)
					faults.Eventually(t, func() bool { return gone.Stats().Scripts >= 2 }, "it listens, and has said so")
					next := k.waits(b)
					k.awaitInLine(t, s, "2")
					if dead {
						proxy.Refuse()
						proxy.Cut()
						faults.Eventually(t, func() bool {
							return !strings.Contains(faults.Do(t, s, "PUBSUB", "CHANNELS"), gone.ID())
						}, "the server knows")
					} else {
						proxy.Stall()
					}
					start := time.Now()
					mustUnlock(t, l)
					l = mustAwait(t, next)
					took := time.Since(start)
					after := k.holds(a)
					faults.Eventually(t, func() bool { // the position of the process that is gone goes with the next turn
						return strings.Contains(faults.Do(t, s, "LRANGE", k.line, "0", "-1"), a.ID())
					})
					start = time.Now()
					mustUnlock(t, l)
					mustUnlock(t, mustAwait(t, after))
					if again := time.Since(start); again > time.Second && k.name != "reader" { // readers are told together
						took += limit // not once
					}
					proxy.Heal()
					return took
				})
			})
		}
	}
}
