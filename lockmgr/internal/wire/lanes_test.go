package wire

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
)

func TestSlotOf(t *testing.T) {
	for key, slot := range map[string]int{
		"123456789": 12739, "foo": 12182, "": 0, "{user1000}.following": SlotOf("user1000"),
		"foo{{bar}}zap": SlotOf("{bar"), "foo{bar}{zap}": SlotOf("bar"), "a{b": SlotOf("a{b"),
	} {
		require.Equal(t, slot, SlotOf(key), key)
	}
	require.NotEqual(t, SlotOf(""), SlotOf("{}a"), "empty braces count for nothing")
}

// twoShards are two masters with half of the slots each.
func twoShards(first, second string) []Shard {
	return []Shard{{Addr: first, Slots: [][2]int{{0, Slots/2 - 1}}}, {Addr: second, Slots: [][2]int{{Slots / 2, Slots - 1}}}}
}

// oneShard is a master with all slots.
func oneShard(addr string) []Shard { return []Shard{{Addr: addr, Slots: [][2]int{{0, Slots - 1}}}} }

// still is a cluster whose layout does not change. node may be nil.
func still(first []Shard, node func(addr string) Server) *Cluster {
	return &Cluster{
		First: first, Layout: never, Node: node,
		Moved: func() {}, Left: func() {}, Queued: func(core.Queued) {}, Gone: func(uint8) {},
	}
}

// lanesOf starts lanes with a server. replies get the replies.
func lanesOf(t *testing.T, s Server, c *Cluster, with ...func(*Config)) (l *Lanes, replies chan core.Reply) {
	cfg, replies := testConfig(s)
	for _, f := range with {
		f(&cfg)
	}
	l = NewLanes(cfg, c)
	t.Cleanup(l.Close)
	return l, replies
}

// A submitter is a Lane, or Lanes.
type submitter interface {
	Submit(ops []*core.Op, now time.Duration)
}

// replyTo submits an operation and returns the reply.
func replyTo(l submitter, replies chan core.Reply, op *core.Op) core.Reply {
	l.Submit([]*core.Op{op}, 0)
	return <-replies
}

// shardOf returns the shard that an operation is of.
func shardOf(l *Lanes, replies chan core.Reply, op *core.Op) int {
	return int(replyTo(l, replies, op).Shard)
}

// nameInHalf returns a name whose slot is in the first or the second half.
func nameInHalf(half int) string {
	for c := 'a'; ; c++ {
		if SlotOf(string(c))/(Slots/2) == half {
			return string(c)
		}
	}
}

// Operations of a shard that hangs wait by themselves. Each reply says which shard it is of.
func TestLanes_HungShardDelaysNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		until := make(chan struct{})
		s := hangs(func(name string) bool { return SlotOf(name) >= Slots/2 }, until)
		l, replies := lanesOf(t, s, still(twoShards("a:1", "b:1"), nil))
		hung, other := nameInHalf(1), nameInHalf(0)
		l.Submit([]*core.Op{acquire(hung, 1), acquire(hung, 2), acquire(other, 3)}, 0)
		synctest.Wait()
		require.Len(t, replies, 1)
		r := <-replies
		require.Equal(t, other, r.Op.Name)
		require.Zero(t, r.Shard)
		require.Nil(t, l.Failing(other, 0, time.Hour))
		require.NotNil(t, l.Failing(hung, 0, time.Hour), "a silence of its own")
		for range 100 {
			l.Submit([]*core.Op{acquire(other, 4)}, 0)
			synctest.Wait()
			<-replies
		}
		close(until)
		require.EqualValues(t, 1, (<-replies).Shard)
		require.EqualValues(t, 1, (<-replies).Shard)
	})
}

// Submit notes at which master an operation waits. One that a master redirects, and one on several
// names, is reported when it waits at another master.
func TestLanes_TellWhereAnOperationWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := still(twoShards("a:1", "b:1"), func(addr string) Server {
			return moved(func(name string) bool { return addr == "a:1" && name == nameInSlot(0) })
		})
		var mu sync.Mutex
		var told []string
		c.Queued = func(q core.Queued) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, fmt.Sprint(q.Name, " ", q.Set, " ", q.ID, " ", q.Shard))
		}
		l, replies := lanesOf(t, serves, c)
		stray := acquire(nameInSlot(0), 1)
		stray.ID = 5
		set := setOp(core.VerbAcquire, 6, []string{nameInSlot(1), nameInSlot(Slots - 1)})
		ops := []*core.Op{acquire(nameInHalf(0), 2), acquire(nameInHalf(1), 3), stray, set}
		l.Submit(ops, 0)
		require.EqualValues(t, 0, ops[0].Shard)
		require.EqualValues(t, 1, ops[1].Shard)
		require.EqualValues(t, 0, ops[2].Shard)
		require.EqualValues(t, core.NoShard, ops[3].Shard)
		for range ops {
			<-replies
		}
		slices.Sort(told)
		require.Equal(t, []string{stray.Name + " false 5 2", "the set true 6 0", "the set true 6 1"}, told)
	})
}

// A refusal that names no address goes to a lane that finds the master of each command. If that
// lane hangs, no other one is delayed.
func TestLanes_PassOnWhatAMasterRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		away, until := func(name string) bool { return SlotOf(name) >= Slots/2 }, make(chan struct{})
		var mu sync.Mutex
		var observed []string
		c := still(oneShard("a:1"), func(addr string) Server {
			require.Equal(t, "a:1", addr)
			return moved(away)
		})
		l, replies := lanesOf(t, hangs(away, until), c, func(cfg *Config) {
			cfg.Observe = func(o *Observed) {
				mu.Lock()
				defer mu.Unlock()
				observed = append(observed, o.Names...)
			}
		})
		gone, here := nameInHalf(1), nameInHalf(0)
		answered := false
		l.Submit([]*core.Op{acquire(gone, 1), acquire(here, 2), acquire(gone, 3)}, 0)
		l.Call(Command{Args: []string{"GET"}, Keys: []string{gone}}, func(a Answer) { answered = a.Failure == nil })
		synctest.Wait()
		require.Len(t, replies, 1)
		require.Equal(t, here, (<-replies).Op.Name)
		time.Sleep(time.Minute)
		require.Nil(t, l.Failing(here, 0, time.Hour), "the first lane has nothing under way")
		require.NotNil(t, l.detour.Failing(0, time.Hour))
		require.Equal(t, []string{here}, observed)
		close(until)
		for range 2 {
			r := <-replies
			require.Equal(t, gone, r.Op.Name)
			require.Equal(t, core.Yes, r.Ran)
			require.EqualValues(t, 1, r.Shard)
		}
		synctest.Wait()
		require.True(t, answered)
		require.Equal(t, []string{"a:1"}, l.Masters())
	})
}

// redirectionTo returns the failure of a command for which a master names the one at an address.
func redirectionTo(t *testing.T, addr string) *Failure {
	c := fakeServer(t, func([]string) string { return "-ASK 0 " + addr + "\r\n" })
	return failureOf(c.Do(t.Context(), c.B().Get().Key("x").Build()).Error())
}

// Each master that others name has a lane of its own. One that hangs delays no other. A wait for a
// name of the one that hangs ends with a failure.
func TestLanes_RedirectionsDoNotShareALane(t *testing.T) {
	hung, other := nameInSlot(0), nameInSlot(1)
	to := map[int]*Failure{0: redirectionTo(t, "h:1"), 1: redirectionTo(t, "c:1")}
	synctest.Test(t, func(t *testing.T) {
		var fails *Failure
		until := make(chan struct{})
		anywhere := each(func(c *Command) Answer {
			if c.Keys[0] != hung {
				return Answer{}
			}
			if <-until; fails != nil {
				return fails.Answer()
			}
			return Answer{}
		})
		c := still(oneShard("a:1"), func(string) Server { return redirects(to) })
		l, replies := lanesOf(t, anywhere, c)
		l.Submit([]*core.Op{acquire(hung, 1)}, 0)
		synctest.Wait()
		for id := range uint64(5) {
			l.Submit([]*core.Op{acquire(other, id+2)}, 0)
			synctest.Wait()
			require.Len(t, replies, 1)
			r := <-replies
			require.Equal(t, other, r.Op.Name)
			require.NotZero(t, r.Shard)
		}
		shards := len(l.lanes)
		time.Sleep(time.Second)
		fails = &Failure{Kind: Unavailable, Err: errNoAnswer}
		close(until)
		r := <-replies
		require.Equal(t, hung, r.Op.Name)
		synctest.Wait()
		require.NotNil(t, l.Failing(hung, 0, time.Second))
		require.Nil(t, l.Failing(other, 0, time.Second))
		require.Nil(t, l.Failing(hung, time.Minute, time.Minute), "it was long ago")
		fails = nil
		replyTo(l, replies, acquire(hung, 9))
		synctest.Wait()
		require.Nil(t, l.Failing(hung, 0, time.Second), "it has answered")
		require.Len(t, l.lanes, shards, "a master that is named again has its lane already")
		require.Equal(t, []string{"a:1"}, l.Masters())
	})
}

// What a redirection redirects once more fails, and the core tries again after a pause.
func TestLanes_RedirectionsFollowOneStep(t *testing.T) {
	to, tries := map[int]*Failure{0: redirectionTo(t, "h:1")}, 0
	synctest.Test(t, func(t *testing.T) {
		anywhere := each(func(c *Command) Answer {
			if tries++; tries < 10 {
				return redirects(to)(c)
			}
			return Answer{}
		})
		l, replies := lanesOf(t, anywhere, still(oneShard("a:1"), func(string) Server { return redirects(to) }))
		l.Submit([]*core.Op{acquire(nameInSlot(0), 1)}, 0)
		synctest.Wait()
		require.Len(t, replies, 1)
		require.Error(t, (<-replies).Err)
		require.Equal(t, 1, tries)
	})
}

// Close answers each operation, whichever lane has it. It makes no lane for what a master redirects
// then.
func TestLanes_CloseAnswersWhatIsPassedOn(t *testing.T) {
	for name, f := range map[string]*Failure{"without an address": &Failure{Kind: Unavailable, Ran: core.No, Elsewhere: true, Err: errors.New("not known")}, "redirected": redirectionTo(t, "h:1")} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				until := make(chan struct{})
				slow := each(func(*Command) Answer { <-until; return f.Answer() })
				l, replies := lanesOf(t, serves, still(twoShards("a:1", "b:1"), func(string) Server { return slow }))
				var answer Answer
				l.Submit([]*core.Op{acquire("a", 1), acquire("b", 2)}, 0)
				l.Call(Command{Args: []string{"GET"}, Keys: []string{"a"}}, func(a Answer) { answer = a })
				synctest.Wait()
				lanes := len(l.lanes)
				l.detour.Close()
				var closing sync.WaitGroup
				closing.Go(l.Close)
				synctest.Wait()
				close(until)
				closing.Wait()
				require.Len(t, l.lanes, lanes)
				require.Len(t, replies, 2)
				require.Equal(t, Closed, answer.Failure.Kind, "nobody has served it, so where it belongs does not matter")
			})
		})
	}
}

func never(context.Context) ([]Shard, error) { return nil, context.DeadlineExceeded }

// When a slot moves, its operations take the lane of the new master. What no master serves stays
// where it was.
func TestLanes_FollowTheLayout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &layoutServer{shards: twoShards("a:1", "b:1")}
		l, replies := lanesOf(t, serves, c.cluster())
		name, other := nameInHalf(1), nameInHalf(0)
		shardOf := func(name string) int { return shardOf(l, replies, acquire(name, 1)) }
		require.Equal(t, "b:1", l.Master(name))
		require.Equal(t, 1, shardOf(name))
		l.LookSoon()
		time.Sleep(time.Second)
		require.Zero(t, c.moved.Load(), "nothing has changed")

		c.set(twoShards("a:1", "c:1")) // a failover
		l.LookSoon()
		time.Sleep(time.Second)
		require.EqualValues(t, 1, c.moved.Load())
		require.Equal(t, "c:1", l.Master(name))
		require.Equal(t, 2, shardOf(name))
		require.Equal(t, 0, shardOf(other))
		require.ElementsMatch(t, []string{"a:1", "c:1"}, l.Masters())

		c.set(twoShards("a:1", "c:1")[:1]) // nobody serves the second half
		l.LookSoon()
		time.Sleep(time.Second)
		require.Equal(t, "c:1", l.Master(name))
		c.set(twoShards("b:1", "a:1"))
		l.LookSoon()
		time.Sleep(time.Second)
		require.Equal(t, 0, shardOf(name))
		require.Equal(t, 1, shardOf(other), "the lane of b is used again")
		require.EqualValues(t, 2, c.moved.Load())
	})
}

// A master that has left keeps no goroutine and no buffer: its lane is closed after laneRest, but
// not while an operation is under way on it.
func TestLanes_CloseTheLaneOfAMasterThatLeft(t *testing.T) {
	const look = layoutEvery + 2*layoutPause
	synctest.Test(t, func(t *testing.T) {
		c := &layoutServer{shards: twoShards("a:1", "b:1")}
		name := nameInHalf(1)
		slow := "{" + name + "}slow"
		until := make(chan struct{})
		s := hangs(func(n string) bool { return n == slow }, until)
		l, replies := lanesOf(t, s, c.cluster())
		lanes := func() (n int) {
			l.mu.Lock()
			defer l.mu.Unlock()
			for _, lane := range l.lanes {
				if lane != nil {
					n++
				}
			}
			return n
		}
		shardOf := func(op *core.Op) int { return shardOf(l, replies, op) }
		require.Equal(t, 1, shardOf(renewal(name, 1)))
		c.set(twoShards("a:1", "c:1"))
		time.Sleep(look)
		require.Equal(t, 2, shardOf(renewal(name, 1)))
		time.Sleep(laneRest / 2)
		require.Equal(t, 3, lanes())
		c.set(twoShards("a:1", "b:1")) // b comes back in time
		time.Sleep(laneRest + 2*look)
		require.Equal(t, 1, shardOf(renewal(name, 1)))
		require.Equal(t, 2, lanes(), "c has left")
		c.set(twoShards("a:1", "c:1"))
		time.Sleep(2 * look)
		require.Equal(t, 3, lanes(), "b has just left again")
		c.set(twoShards("a:1", "b:1"))
		time.Sleep(laneRest + 2*look)
		require.Equal(t, 2, lanes())

		old := l.lanes[1]
		l.Submit([]*core.Op{renewal(slow, 9)}, 0)
		c.set(twoShards("a:1", "d:1"))
		time.Sleep(10 * laneRest)
		require.Equal(t, 3, lanes(), "a renewal is under way at b")
		close(until)
		require.EqualValues(t, 1, (<-replies).Shard)
		time.Sleep(look)
		require.Equal(t, 2, lanes())
		synctest.Wait()
		require.True(t, old.closed)
		var a Answer
		require.True(t, l.CallAt("b:1", Command{}, func(told Answer) { a = told }))
		require.Equal(t, Unavailable, a.Failure.Kind, "the lanes are not closed")
		require.Equal(t, "b:1", a.Failure.Addr)
		require.Equal(t, 2, shardOf(renewal(slow, 9)))
		require.ElementsMatch(t, []string{"a:1", "d:1"}, l.Masters())
		require.EqualValues(t, 5, l.RenewalScripts())

		c.set(twoShards("b:1", "a:1"))
		time.Sleep(look)
		require.Equal(t, 1, shardOf(acquire(nameInHalf(0), 1)), "b has another lane")
		require.NotSame(t, old, l.lanes[1])
		_, gone := c.takeLeft()
		require.Equal(t, []uint8{2, 2, 1}, gone)
		time.Sleep(2 * laneRest)
		left, gone := c.takeLeft()
		require.Greater(t, left, 1, "d has left")
		require.Equal(t, []uint8{2}, gone)
		time.Sleep(2 * laneRest)
		left, gone = c.takeLeft()
		require.Zero(t, left)
		require.Empty(t, gone)
		require.Zero(t, shardOf(acquire(slow, 1)))
	})
}

// A lane for redirections is closed after laneRest, but not while an operation is under way on it.
// The next redirection makes another one.
func TestLanes_CloseALaneForRedirections(t *testing.T) {
	const look = layoutEvery + 2*layoutPause
	to := map[int]*Failure{0: redirectionTo(t, "h:1")}
	synctest.Test(t, func(t *testing.T) {
		c := &layoutServer{shards: twoShards("a:1", "b:1")}
		name := nameInSlot(0)
		slow := "{" + name + "}slow"
		until := make(chan struct{})
		s := hangs(func(n string) bool { return n == slow }, until)
		cluster := c.cluster()
		cluster.Node = func(string) Server { return redirects(to) }
		l, replies := lanesOf(t, s, cluster)
		there := func() bool {
			l.mu.Lock()
			defer l.mu.Unlock()
			_, known := l.number[detourPrefix+"h:1"]
			return known
		}
		require.Equal(t, 3, shardOf(l, replies, acquire(name, 1)), "after a, b and the lane for any master")
		time.Sleep(laneRest)
		require.True(t, there())
		time.Sleep(2 * look)
		require.False(t, there())
		l.Submit([]*core.Op{acquire(slow, 2)}, 0)
		time.Sleep(10 * laneRest)
		require.True(t, there(), "an operation is under way")
		close(until)
		require.EqualValues(t, 3, (<-replies).Shard)
		time.Sleep(look)
		require.False(t, there())
		_, gone := c.takeLeft()
		require.Equal(t, []uint8{3, 3}, gone)
	})
}

// Numbers are used again: the core knows few. So two masters that serve slots at a time never have
// the same one, however many there were.
func TestLanes_NumbersAreUsedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &layoutServer{shards: twoShards("a:1", "b:1")}
		l, replies := lanesOf(t, serves, c.cluster())
		for i := range 2 * core.NoShard {
			c.set(twoShards("a:1", fmt.Sprintf("b:%d", i)))
			time.Sleep(2 * laneRest)
			first := shardOf(l, replies, acquire(nameInHalf(0), 1))
			require.NotEqual(t, first, shardOf(l, replies, acquire(nameInHalf(1), 1)))
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		require.LessOrEqual(t, len(l.lanes), 3)
	})
}

// The failure of an operation has no address if the master that redirected it does not know the
// host.
func TestLanes_RedirectionToAnUnknownHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := lanesOf(t, serves, still(twoShards("a:1", "b:1"), func(string) Server { return serves }))
		l.mu.Lock()
		defer l.mu.Unlock()
		for to, where := range map[string]string{"h:1": "h:1", "?:1": ""} {
			require.Equal(t, where, l.lanes[l.ensureLane(detourPrefix+to)].cfg.where)
		}
	})
}

// More lanes than there are numbers share some. A number is gone when the last lane that has it is.
func TestLanes_SharedNumberIsNotGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var shards []Shard
		for i := range core.NoShard + 1 { // the first and the last share a number
			shards = append(shards, Shard{Addr: fmt.Sprintf("m:%d", i), Slots: [][2]int{{i, i}}})
		}
		shards[0].Slots[0] = [2]int{core.NoShard + 1, Slots - 1}
		c := &layoutServer{shards: shards}
		l, _ := lanesOf(t, serves, c.cluster())
		last := shards[core.NoShard]
		shards = slices.Clone(shards[:core.NoShard])
		shards[1].Slots = append([][2]int{{core.NoShard, core.NoShard}}, shards[1].Slots...)
		c.set(shards)
		time.Sleep(2 * laneRest)
		_, gone := c.takeLeft()
		require.Empty(t, gone, last.Addr)
		l.mu.Lock()
		defer l.mu.Unlock()
		require.Nil(t, l.lanes[core.NoShard], "it was closed")
	})
}

// The master of a client of Sentinel is looked for often, as that does no I/O.
func TestLanes_FollowTheLayoutOfSentinel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &layoutServer{shards: oneShard("a:1")}
		cluster := c.cluster()
		cluster.Every, cluster.OneSlot = 250*time.Millisecond, true
		l, _ := lanesOf(t, serves, cluster)
		time.Sleep(time.Minute)
		c.set(oneShard("b:1"))
		time.Sleep(400 * time.Millisecond)
		require.EqualValues(t, 1, c.moved.Load())
		require.Equal(t, "b:1", l.Master("x"))
	})
}

// The layout is looked at now and then, and often for a while after a failure.
func TestLanes_LookOftenAfterAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &layoutServer{}
		cluster := c.cluster()
		cluster.First = twoShards("a:1", "b:1")
		l, _ := lanesOf(t, serves, cluster)
		time.Sleep(25 * time.Second)
		require.Len(t, c.takeLooks(), 2, "every ten seconds")
		for range 10 {
			l.LookSoon()
		}
		synctest.Wait()
		time.Sleep(20 * time.Second)
		looks := c.takeLooks()
		require.InDelta(t, 34, len(looks), 3)
		require.GreaterOrEqual(t, slices.Min(steps(looks)), layoutPause)
		time.Sleep(15 * time.Second)
		c.takeLooks()
		time.Sleep(21 * time.Second)
		require.Len(t, c.takeLooks(), 2)
	})
}

func steps(at []time.Time) (out []time.Duration) {
	for i := 1; i < len(at); i++ {
		out = append(out, at[i].Sub(at[i-1]))
	}
	return out
}

// A layoutServer is a cluster that tells its layout. Without shards it does not answer.
type layoutServer struct {
	mu     sync.Mutex
	shards []Shard
	looks  []time.Time
	gone   []uint8
	moved  atomic.Int32
	left   atomic.Int32
}

// cluster is the cluster as lanes know it.
func (c *layoutServer) cluster() *Cluster {
	return &Cluster{
		First: c.shards, Layout: c.layout, Gone: c.noteGone,
		Moved: func() { c.moved.Add(1) }, Left: func() { c.left.Add(1) }, Queued: func(core.Queued) {},
	}
}

func (c *layoutServer) layout(context.Context) ([]Shard, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.looks = append(c.looks, time.Now())
	if c.shards == nil {
		return nil, context.DeadlineExceeded
	}
	return c.shards, nil
}

func (c *layoutServer) set(shards []Shard) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shards = shards
}

func (c *layoutServer) noteGone(shard uint8) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gone = append(c.gone, shard)
}

// takeLeft returns how often a master without slots was told since the last call, and the numbers
// of those whose lanes were closed.
func (c *layoutServer) takeLeft() (left int, gone []uint8) {
	c.mu.Lock()
	defer c.mu.Unlock()
	gone = c.gone
	c.gone = nil
	return int(c.left.Swap(0)), gone
}

// takeLooks returns when the layout was asked for since the last call.
func (c *layoutServer) takeLooks() []time.Time {
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	looks := c.looks
	c.looks = nil
	return looks
}

// The locks that share a command are in one slot of a cluster, and in any of a single server.
func TestLanes_NoCommandHasTwoSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sentinel := still(oneShard("a:1"), nil)
		sentinel.OneSlot = true
		for _, cluster := range []*Cluster{nil, still(twoShards("a:1", "b:1"), nil), sentinel} {
			var mu sync.Mutex
			slots, locks := 0, 0 // the most of one command
			l, replies := lanesOf(t, each(func(c *Command) Answer {
				mu.Lock()
				defer mu.Unlock()
				in := make(map[int]bool)
				for _, key := range c.Keys {
					in[SlotOf(key)] = true
				}
				slots, locks = max(slots, len(in)), max(locks, c.ops)
				return Answer{}
			}), cluster)
			var ops []*core.Op
			for i := range uint64(50) {
				ops = append(ops, acquire(string(rune('a'+i)), i), acquire("{tag}"+string(rune('a'+i)), i))
			}
			l.Submit(ops, 0)
			for range ops {
				<-replies
			}
			l.Close()
			require.Greater(t, locks, 1)
			if cluster != nil && !cluster.OneSlot {
				require.Equal(t, 1, slots)
			} else {
				require.Greater(t, slots, 1)
			}
		}
	})
}

// nameInSlot returns a name in a slot.
func nameInSlot(slot int) string {
	for i := 0; ; i++ {
		if name := fmt.Sprint("n", i); SlotOf(name) == slot {
			return name
		}
	}
}
