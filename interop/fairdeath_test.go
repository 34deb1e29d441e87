package interop

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/lockmgr"
)

const (
	// deathSlack is how much later than the end of what a dead process left the next one may have
	// the lock.
	deathSlack = 2 * time.Second
	// mostScripts is how many scripts a manager may run in a second while a dead place is before
	// its own.
	mostScripts = 4
)

// A deathScene is a fair lock of which a member dies.
type deathScene struct {
	title, name string
	broken      string        // why those behind never get the lock
	before      *member       // of the dead one; may be nil
	atMost      bool          // what the dead one had may end sooner
	behind      []*member     // the first of them is to have the lock next
	asks        func() uint64 // how many scripts the manager of a member of Go behind has run

	die    func(t testing.TB)
	left   func(t testing.TB) time.Duration // how long what the dead one had lasts
	unlock func(t testing.TB)               // of the holder, after the death

	began time.Time
	lasts time.Duration
	asked uint64
}

// play has a member of each scene die, and checks that those behind it get the lock when what it
// had is over, not before, and do not ask all the time.
func play(t *testing.T, scenes []*deathScene) {
	for _, s := range scenes {
		s.die(t)
		s.began, s.lasts = time.Now(), s.left(t)
		require.Positive(t, s.lasts)
		if s.asks != nil {
			s.asked = s.asks()
		}
		s.unlock(t)
		if s.before != nil {
			s.before.hasLock(t, s.behind...)
			s.before.unlock(t)
		}
	}
	for _, s := range scenes {
		t.Run(s.title, func(t *testing.T) {
			if s.broken != "" {
				t.Skip("SKIPPED: " + s.broken)
			}
			s.behind[0].hasLock(t, s.behind[1:]...)
			took := s.behind[0].ended().Sub(s.began)
			if s.asks != nil {
				scripts := s.asks() - s.asked
				t.Logf("%d scripts", scripts)
				require.LessOrEqual(t, float64(scripts), 10+mostScripts*time.Since(s.began).Seconds())
			}
			serveAll(t, s.behind...)
			t.Logf("the next one had the lock %v after the end of what the dead one had, which was %v at its death",
				(took - s.lasts).Round(time.Millisecond), s.lasts.Round(time.Millisecond))
			if !s.atMost {
				require.Greater(t, took-s.lasts, -50*time.Millisecond)
			}
			require.Less(t, took-s.lasts, deathSlack)
		})
	}
}

// A process of Go dies while it waits: its place costs those behind it five seconds at most. Or it
// dies while it has the lock: then the next one has it when the lease has ended.
//
// A thread of 3.16.8 that waits for longer than the lease was when it came does not look again
// before it is told. If a process dies that has the lock, nobody tells it, which is so with
// Redisson alone, too. If Go waits as well, Go tells it. If a process dies that waits, a thread of
// 3.16.8 alone behind it looks when the time is over that it was told: it does not hear that the
// unlock has shortened the dead place.
func TestFair_GoDies(t *testing.T) {
	const lives = deadLease + time.Second // so that it has moved its deadline, and renewed its lease
	together(t, func(t *testing.T, w *world) {
		m, java := w.manager(t, lockmgr.Options{}), w.open(t, request{})
		var scenes []*deathScene
		for _, title := range []string{
			"waits before Go", "waits before Java", "waits before Java and Go", "waits behind Java and before Go",
			"has the lock before Go", "has the lock before Java", "has the lock before Java and Go",
		} {
			s := &deathScene{title: title, name: w.fairName(t, " "+title), unlock: func(testing.TB) {}}
			task := childTask{Addr: w.server.Addr(), Name: s.name, Lease: deadLease, Kind: "fair"}
			if strings.HasPrefix(title, "waits") {
				l := lock(t, m, s.name, fairly)
				behindJava := strings.Contains(title, "behind")
				if behindJava {
					s.before = w.javaJoins(t, java.thread(title), s.name, 2*lives)
				}
				dead := w.joins(t, s.name, func() {
					victim, _ := startWaitingChild(t, task)
					s.die = func(testing.TB) { victim.kill() }
				})
				s.atMost = behindJava || title == "waits before Java" && w.version == oldest
				s.left = func(t testing.TB) time.Duration {
					left := w.left(t, s.name)[dead]
					if s.atMost {
						return placeTime // the wait of a thread before it is taken off, or a thread of 3.16.8 sleeps
					}
					require.LessOrEqual(t, left, placeTime)
					return min(left, placeTime*2/5) // the unlock finds that nobody hears it
				}
				s.unlock = func(t testing.TB) { unlock(t, l) }
			} else {
				victim := startChild(t, task)
				s.die = func(testing.TB) { victim.kill() }
				s.left = func(t testing.TB) time.Duration { return w.ttl(t, s.name) }
			}
			if strings.Contains(title, "before Java") {
				s.behind = append(s.behind, w.javaJoins(t, java.thread(title), s.name, 0))
			}
			if strings.Contains(title, "Go") {
				next := w.manager(t, lockmgr.Options{})
				s.behind = append(s.behind, w.goJoins(t.Context(), t, next, s.name))
				s.asks = func() uint64 { return next.Stats().Scripts }
			}
			if title == "has the lock before Java" && w.version == oldest {
				s.broken = "a thread of Redisson " + oldest + " sleeps without end if it is not told"
				defer func() {
					// An unlock tells the next one, though nobody has the lock.
					w.open(t, request{}).thread("waker").fair().unlock(t, s.name)
					serveAll(t, s.behind...)
				}()
			}
			scenes = append(scenes, s)
		}
		time.Sleep(lives)
		play(t, scenes)
	})
}

// A thread of Java dies while it waits, or is interrupted, which leaves its place, too. By the
// protocol of Redisson the others wait for its deadline. Or it dies while it has the lock.
func TestFair_JavaDies(t *testing.T) {
	const (
		limit = 2 * time.Second
		lease = time.Second
	)
	together(t, func(t *testing.T, w *world) {
		m, java := w.manager(t, withLease(lease)), w.open(t, request{})
		other := w.openDoomed(t, request{Watchdog: deadLease.Milliseconds()})
		var scenes []*deathScene
		for _, title := range []string{
			"killed", "killed in the middle", "interrupted", "interrupted in the middle", "killed with the lock",
		} {
			s := &deathScene{title: title, name: w.fairName(t, " "+title), unlock: func(testing.TB) {}}
			from := java
			if strings.HasPrefix(title, "killed") {
				from = other
			}
			next := w.manager(t, lockmgr.Options{})
			s.asks = func() uint64 { return next.Stats().Scripts }
			if title == "killed with the lock" {
				from.thread(title).fair().lock(t, s.name)
				s.left = func(t testing.TB) time.Duration { return w.ttl(t, s.name) }
				s.die = func(testing.TB) { other.agent.kill() }
			} else {
				l := lock(t, m, s.name, fairly)
				s.unlock = func(t testing.TB) { unlock(t, l) }
				if strings.HasSuffix(title, "middle") {
					s.before = w.goJoins(t.Context(), t, m, s.name)
				}
				dead := w.javaJoins(t, from.thread(title), s.name, limit)
				s.left = func(t testing.TB) time.Duration { return w.left(t, s.name)[dead.id] }
				s.die = func(t testing.TB) {
					if from == other {
						other.agent.kill()
						return
					}
					require.NoError(t, dead.java.send(t, "interrupt", s.name).result(t))
					require.ErrorContains(t, dead.call.result(t), "InterruptedException")
				}
			}
			s.behind = []*member{
				w.goJoins(t.Context(), t, next, s.name),
				w.javaJoins(t, java.thread(title+" behind"), s.name, 0),
				w.goJoins(t.Context(), t, m, s.name),
			}
			scenes = append(scenes, s)
		}
		play(t, scenes)
	})
}
