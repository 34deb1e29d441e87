package wire

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
)

// queued returns a lane without senders that has this many operations of each verb.
func queued(renewals, releases, acquires int) *Lane {
	l := &Lane{cfg: Config{Now: func() time.Duration { return 0 }}}
	for i := range l.senders {
		l.senders[i].started = true // by the test
	}
	var ops []*core.Op
	for i := range renewals {
		ops = append(ops, renewal(fmt.Sprint("n", i), uint64(i)))
	}
	for i := range releases {
		ops = append(ops, released(fmt.Sprint("r", i), uint64(i)))
	}
	for i := range acquires {
		ops = append(ops, acquire(fmt.Sprint("a", i), uint64(i)))
	}
	l.Submit(ops, 0)
	return l
}

func verbsOf(tasks []task) map[core.Verb]int {
	out := map[core.Verb]int{}
	for _, t := range tasks {
		out[t.op.Verb]++
	}
	return out
}

// Many renewals take few round trips if the server is far away, and occupy one nearby for no longer
// than a round trip. Where more are queued than that allows, a batch takes an eighth.
func TestLane_RenewalsOfABatch(t *testing.T) {
	for _, c := range []struct {
		trip          time.Duration
		queue, renews int
	}{
		{0, 1000, maxRenewed}, {200 * time.Microsecond, 1000, maxRenewed}, {time.Millisecond, 1000, 3 * maxRenewed},
		{5 * time.Millisecond, 10_000, 13 * maxRenewed}, {50 * time.Millisecond, 10_000, maxRenewals},
		{0, 10_000, 1250}, {0, 100_000, maxRenewals},
	} {
		l := queued(c.queue, 1000, 1000)
		if c.trip > 0 {
			l.health.took(c.trip, 0, false)
			l.health.took(time.Second, 0, true)
		}
		got := verbsOf(l.takeRenewals(new(sender), nil))
		require.Equal(t, map[core.Verb]int{core.VerbRenew: c.renews}, got, c)
	}
	l := queued(0, 0, 0)
	l.health.took(50*time.Millisecond, 0, false)
	l.health.took(time.Millisecond, 0, true)
	require.Equal(t, maxRenewals, l.renewalsNow())
	l.health.took(time.Millisecond, 0, false)
	require.Equal(t, 3*maxRenewed, l.renewalsNow())
}

// A server is as far away as its fastest answer of half a minute says. Of renewals, only a
// first answer counts.
func TestHealth_Distance(t *testing.T) {
	const ms = time.Millisecond
	var h health
	require.Zero(t, h.leastTrip())
	h.took(20*ms, 0, true)
	require.Equal(t, 20*ms, h.leastTrip(), "there are renewals only")
	h.took(2*ms, 0, false)
	for now := time.Duration(0); now < 2*period; now += ms {
		require.Equal(t, 2*ms, h.leastTrip())
		h.took(50*ms, now, false)
		h.took(ms, now, true)
	}
	h.took(50*ms, 2*period, false)
	require.Equal(t, 50*ms, h.leastTrip())
	h.took(3*ms, 2*period, false)
	require.Equal(t, 3*ms, h.leastTrip())
}

// Releases go before acquires, but do not keep them back for ever.
func TestLane_ReleasesFirst(t *testing.T) {
	for queue, batch := range map[[2]int][2]int{ // releases and acquires
		{1000, 1000}: {maxBatch * 3 / 4, maxBatch / 4},
		{1000, 3}:    {maxBatch - 3, 3},
		{20, 1000}:   {20, maxBatch - 20},
	} {
		l := queued(10, queue[0], queue[1])
		require.Equal(t, map[core.Verb]int{core.VerbRelease: batch[0], core.VerbAcquire: batch[1]},
			verbsOf(l.take(new(sender), nil)), queue)
	}
}

// Other tasks do not wait for the answer to a batch of renewals, nor renewals for the batches of
// others. Renewals stay on the shared connection.
func TestLane_RenewalsHaveTheirOwnSender(t *testing.T) {
	for _, slow := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			until, mu := make(chan struct{}), sync.Mutex{}
			answered := map[core.Verb]int{}
			cfg, _ := testConfig(execFunc(func(commands []Command, answers []Answer) {
				fill(answers, refusal(Permission))
				if commands[0].renews() == slow {
					<-until
				}
			}))
			cfg.Timeout, cfg.Dedicate = time.Hour, func() (Connection, error) { panic("too few acquires for a connection") }
			cfg.Post = func(r *core.Replies) {
				mu.Lock()
				defer mu.Unlock()
				for i := range r.Replies {
					answered[r.Replies[i].Op.Verb]++
				}
			}
			l := NewLane(cfg)
			renewals, acquires := 2*dedicateAfter, dedicateAfter/2
			submit := func(renews bool) {
				if renews {
					l.Submit([]*core.Op{renewal("n", 1)}, 0)
				} else {
					l.Submit([]*core.Op{acquire("a", 1)}, 0)
				}
				synctest.Wait()
			}
			submit(slow)
			for range map[bool]int{true: acquires, false: renewals}[slow] {
				submit(!slow)
			}
			if slow {
				require.Equal(t, map[core.Verb]int{core.VerbAcquire: acquires}, answered)
			} else {
				require.Equal(t, map[core.Verb]int{core.VerbRenew: renewals}, answered)
			}
			close(until)
			for range renewals {
				submit(true)
			}
			require.GreaterOrEqual(t, answered[core.VerbRenew], renewals)
			require.NotZero(t, answered[core.VerbAcquire])
			l.Close()
		})
	}
}

// A batch does not keep the memory of many renewals.
func TestBatch_KeepsNoMemoryOfAWave(t *testing.T) {
	b := newBatch(&Config{Manager: "u"})
	l := queued(maxRenewals, 0, 0)
	l.health.took(time.Second, 0, false)
	b.tasks = l.takeRenewals(new(sender), nil)
	b.build(0)
	require.Len(t, b.commands, maxRenewals/maxRenewed)
	fill(b.answers, refusal(Permission))
	require.True(t, b.split())
	require.Len(t, b.commands, maxRenewals/maxRenewed+maxRenewals)
	b.clear()
	require.LessOrEqual(t, cap(b.tasks), 4*maxBatch)
	require.LessOrEqual(t, cap(b.commands), 4*maxBatch)
}

// laneOver returns a lane to a batchServer at an instant, and functions that submit tasks and
// answer a batch.
func laneOver(server *batchServer, now *time.Duration) (l *Lane, submit func(n int), answer func()) {
	cfg, _ := testConfig(server)
	cfg.Timeout, cfg.Now, cfg.Post = time.Hour, func() time.Duration { return *now }, func(*core.Replies) {}
	l = NewLane(cfg)
	return l, func(n int) {
			for range n {
				l.Submit([]*core.Op{released("a", 1, 2)}, 0) // two numbers: not joined to others
			}
			synctest.Wait()
		}, func() {
			server.answer <- struct{}{}
			synctest.Wait()
		}
}

// Few tasks wait for no others. Beyond these, the next batch has as many tasks as are under way.
func TestLane_BatchesGrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, now := newBatchServer(), time.Duration(0)
		l, submit, answer := laneOver(server, &now)
		for range few + 1 {
			submit(1)
			require.Equal(t, 1, <-server.begun)
		}
		for beyond := 1; beyond <= 4; beyond *= 2 { // under way
			submit(beyond - 1)
			require.Empty(t, server.begun)
			submit(1)
			require.Equal(t, beyond, <-server.begun)
		}
		submit(7)
		require.Empty(t, server.begun)
		answer()
		require.Equal(t, 7, <-server.begun)
		submit(senders * maxBatch)
		close(server.answer)
		l.Close()
	})
}

// Of tasks for a far server, more wait for no others: one for each batchCost of the round trip. No
// more batches are under way than there are senders.
func TestLane_FarServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, now := newBatchServer(), time.Duration(0)
		l, submit, answer := laneOver(server, &now)
		submit(1)
		require.Equal(t, 1, <-server.begun)
		now += 2 * senders * batchCost
		answer()
		for range senders {
			submit(1)
			require.Equal(t, 1, <-server.begun)
		}
		submit(3)
		require.Empty(t, server.begun)
		now += time.Millisecond
		answer()
		require.Equal(t, 3, <-server.begun)
		close(server.answer)
		l.Close()
	})
}

// A batchServer tells how many commands a batch has, and answers when the test lets it.
type batchServer struct {
	begun  chan int
	answer chan struct{}
}

func newBatchServer() *batchServer {
	return &batchServer{begun: make(chan int, 2*senders), answer: make(chan struct{})}
}

func (s *batchServer) Exec(_ *Deadline, commands []Command, answers []Answer) {
	fill(answers, refusal(Permission))
	s.begun <- len(commands)
	<-s.answer
}

// Where one sender is enough it is always the same one: only that one needs a connection of its
// own.
func TestLane_OneSenderServesAFewCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &Lane{cfg: Config{Now: func() time.Duration { return 0 }}}
		var got [senders]int
		l.arriving = len(l.senders) // all are started
		for i := range l.senders {
			s := &l.senders[i]
			s.filled.L, s.started = &l.mu, true
			l.wg.Go(func() {
				for tasks := l.take(s, nil); len(tasks) > 0; tasks = l.take(s, tasks) {
					got[i] += len(tasks)
				}
			})
		}
		synctest.Wait()
		for i := range 100 {
			for range 3 { // a burst, before the sender runs
				l.Submit([]*core.Op{acquire("a", uint64(i))}, 0)
			}
			synctest.Wait()
		}
		l.mu.Lock()
		l.closed = true
		for i := range l.senders {
			l.rouse(&l.senders[i])
		}
		l.mu.Unlock()
		l.wg.Wait()
		require.Equal(t, [senders]int{300}, got)
	})
}
