package wire

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/luaserver"
	"github.com/holdfast-go/holdfast/internal/resp"
	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
)

// A setServer is a cluster that runs the scripts for sets. before and after may make a command fail:
// before it runs, or afterwards.
type setServer struct {
	t             *testing.T
	before, after func(verb string, names []string) *Failure
	takes         time.Duration // for how long each batch is on its way

	mu   sync.Mutex
	keys *luaserver.Server
	log  []string  // verb and names of each command
	ran  []Command // copies of all
	told []string  // channels of messages that were published
}

func (s *setServer) Exec(_ *Deadline, commands []Command, answers []Answer) {
	time.Sleep(s.takes) // without the mutex: fake time stands still while a goroutine waits for it
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range commands {
		c := &commands[i]
		for _, key := range c.Keys {
			require.Equal(s.t, SlotOf(c.Keys[0]), SlotOf(key), "a command has keys of one slot")
		}
		s.ran = append(s.ran, Command{Script: c.Script, Keys: slices.Clone(c.Keys), Args: slices.Clone(c.Args), items: c.items, ops: c.ops})
		verb, names := s.verb(c), c.names()
		if s.before != nil {
			if f := s.before(verb, names); f != nil {
				answers[i] = f.Answer()
				continue
			}
		}
		s.log = append(s.log, fmt.Sprint(verb, names))
		answers[i] = s.run(c)
		if s.after != nil {
			if f := s.after(verb, names); f != nil {
				answers[i] = f.Answer()
			}
		}
	}
}

func (s *setServer) verb(c *Command) string {
	switch c.Script {
	case severalAcquire:
		return "acquire"
	case severalRenew:
		return "renew"
	}
	return "release"
}

// holder returns who holds a plain lock, or "".
func (s *setServer) holder(name string) string {
	if v := s.keys.Get(name); v != nil {
		return v.Fields[0].Name
	}
	return ""
}

// held returns the locks that anybody holds.
func (s *setServer) held() (names []string) {
	for key, v := range s.keys.Values {
		if v.Kind == luaserver.Hash && !strings.HasSuffix(key, "_wants") && s.keys.Get(key) != nil {
			names = append(names, key)
		}
	}
	return names
}

// left returns the remaining life of the record of a lock.
func (s *setServer) left(name string) time.Duration {
	return time.Duration(s.keys.Do("PTTL", name).(int64)) * time.Millisecond
}

var engine = luaserver.NewEngine()

func (s *setServer) run(c *Command) Answer {
	script, err := luaserver.Compile(c.Script.Text)
	require.NoError(s.t, err)
	return answerOf(s.keys.Run(engine, script, c.Keys, c.Args))
}

func answerOf(reply any) Answer {
	switch v := reply.(type) {
	case int64:
		return Answer{Kind: Int, Int: v}
	case string:
		return Answer{Kind: Text, Text: v}
	case resp.Error:
		return ErrorReply(errors.New(string(v)))
	case []any:
		a := Answer{Kind: Array}
		for _, of := range v {
			a.Array = append(a.Array, answerOf(of))
		}
		return a
	}
	return Answer{}
}

// namesIn returns n names in different slots of a half.
func namesIn(half, n int) (names []string) {
	for i := 0; len(names) < n; i++ {
		if name := "n" + strconv.Itoa(i); SlotOf(name)/(Slots/2) == half {
			names = append(names, name)
		}
	}
	return names
}

// spreadNames are four names, sorted. Two are in the slots of each master. first are those of the
// first one, in the order of slots.
func spreadNames() (all, first, second []string) {
	first, second = namesIn(0, 2), namesIn(1, 2)
	all = slices.Sorted(slices.Values(slices.Concat(first, second)))
	bySlot := func(a, b string) int { return SlotOf(a) - SlotOf(b) }
	slices.SortFunc(first, bySlot)
	slices.SortFunc(second, bySlot)
	return all, first, second
}

func setOp(verb core.Verb, number uint64, names []string, others ...uint64) *core.Op {
	op := &core.Op{ID: number, Kind: core.Several, Verb: verb, Name: "the set", Number: number, OtherNumbers: others, Lease: time.Minute}
	if verb == core.VerbRelease {
		op.OtherNumbers = append(op.OtherNumbers, number)
	}
	for _, name := range names {
		op.Items = append(op.Items, core.Item{Name: name})
	}
	return op
}

var (
	lostAnswer = &Failure{Kind: Unavailable, Ran: core.Maybe, Err: errors.New("lost")}
	notServed  = &Failure{Kind: Unavailable, Ran: core.No, Err: errors.New("down")}
)

// on makes a command fail.
func on(verb, name string, f *Failure) func(string, []string) *Failure {
	return func(v string, names []string) *Failure {
		if v == verb && names[0] == name {
			return f
		}
		return nil
	}
}

// take makes another manager hold a lock for an hour.
func (s *setServer) take(name string) {
	s.keys.Do("HSET", name, "other:1", "1")
	s.keys.Do("PEXPIRE", name, "3600000")
}

// spreading starts lanes to two masters that are one setServer. Three clients subscribe to the
// channel of each of the spreadNames.
func spreading(t *testing.T) (s *setServer, run func(*core.Op) core.Reply) {
	begin := time.Now()
	s = &setServer{t: t, keys: luaserver.NewServer(func() time.Duration { return time.Hour + time.Since(begin) })}
	s.keys.Deliver = func(subscriber int, channel, _ string) {
		if subscriber == 0 {
			s.told = append(s.told, channel)
		}
	}
	all, _, _ := spreadNames()
	for _, name := range all {
		for subscriber := range 3 {
			s.keys.Subscribe(ChannelOf(core.Exclusive, name), subscriber)
		}
	}
	cfg, replies := testConfig(s)
	l := NewLanes(cfg, still(twoShards("first", "second"), nil))
	t.Cleanup(l.Close)
	return s, func(op *core.Op) core.Reply {
		op.Sent = cfg.Now()
		l.Submit([]*core.Op{op}, op.Sent)
		r := <-replies
		require.Same(t, op, r.Op)
		require.Equal(t, op.ID, r.ID)
		synctest.Wait()
		require.Empty(t, replies, "one reply")
		require.Zero(t, l.spreads.count.Load(), "nothing is kept of a spread that has ended")
		return r
	}
}

func TestSpread_TakesOneMasterAfterTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, run := spreading(t)
		all, first, second := spreadNames()
		s.takes = 10 * time.Millisecond
		op := setOp(core.VerbAcquire, 1, all)
		op.Tokens = 1
		for i, name := range all {
			s.keys.Do("SET", TokenKey(name), strconv.Itoa(10*i+10))
		}
		r := run(op)
		require.True(t, r.OK && r.Ran == core.Yes, r)
		require.Equal(t, []int64{11, 21, 31, 41}, r.Tokens, "in the order of the items")
		require.Equal(t, int64(11), r.Token)
		require.Zero(t, op.Sent, "the lease counts from the first command")
		require.Len(t, s.log, 4) // the commands to one master may arrive in any order
		require.ElementsMatch(t, []string{fmt.Sprint("acquire", first[:1]), fmt.Sprint("acquire", first[1:])}, s.log[:2])
		require.ElementsMatch(t, []string{fmt.Sprint("acquire", second[:1]), fmt.Sprint("acquire", second[1:])}, s.log[2:])
		for _, name := range all {
			require.Equal(t, "m:1", s.holder(name))
		}

		r = run(setOp(core.VerbRenew, 1, all))
		require.True(t, r.OK && r.Ran == core.Yes, r)
		r = run(setOp(core.VerbRelease, 1, all))
		require.True(t, r.OK && !r.Partly && r.Ran == core.Yes, r)
		require.Equal(t, int64(3), r.Subscribers)
		require.Empty(t, s.held())
		r = run(setOp(core.VerbRelease, 1, all))
		require.True(t, !r.OK && r.Ran == core.Yes, r)
	})
}

// What a refused try has taken is given back before the reply, and those who wait are told.
func TestSpread_RefusedTryKeepsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, run := spreading(t)
		all, first, second := spreadNames()
		s.take(second[1])
		r := run(setOp(core.VerbAcquire, 1, all))
		require.True(t, r.Ran == core.Yes && !r.OK && !r.Gathered && !r.OtherKind, r)
		require.Equal(t, second[1], all[r.Item-1])
		require.Equal(t, time.Hour, r.TTL)
		require.Len(t, s.held(), 1)
		require.Len(t, s.told, 3)
		for _, name := range []string{first[0], first[1], second[0]} {
			require.Contains(t, s.told, ChannelOf(core.Exclusive, name))
		}

		s.told, s.log = nil, nil
		s.take(first[0])
		r = run(setOp(core.VerbAcquire, 2, all))
		require.Equal(t, first[0], all[r.Item-1])
		require.NotContains(t, s.log, fmt.Sprint("acquire", second[:1]), "the second master is not asked")
	})
}

// A try that ends before the slot in whose line the set stands leaves that line, and no other.
func TestSpread_LeavesALaterLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, run := spreading(t)
		all, first, second := spreadNames()
		inOrder := append(slices.Clone(first), second...)
		s.take(first[1])
		try := func(at int) core.Reply {
			op := setOp(core.VerbAcquire, 1, all)
			op.Lined, op.Waits, op.Set, op.ID, op.StandsAt, op.Gather = true, time.Second, 9, 7, at, time.Second
			s.ran = nil
			return run(op)
		}
		for _, c := range []struct {
			at    string
			fails bool
			left  []string
		}{
			{at: "", left: nil},
			{at: first[0], left: nil},
			{at: first[1], left: nil},
			{at: second[0], left: second[:1]},
			{at: second[1], left: second[1:]},
			{at: "any", left: second},
			{at: "any", fails: true, left: second},
		} {
			at := slices.Index(all, c.at) + 1
			if c.at == "any" {
				at = core.AnyItem
			}
			s.before = func(verb string, _ []string) *Failure {
				if verb == "release" && c.fails {
					return notServed
				}
				return nil
			}
			r := try(at)
			require.True(t, r.Ran == core.Yes && !r.OK && r.Gathered, c)
			require.Equal(t, first[1], all[r.Item-1])
			var left []string
			for _, one := range s.ran {
				if s.verb(&one) == "release" {
					left = append(left, one.names()...)
					require.Contains(t, one.Args, "m:9 7")
				}
			}
			slices.SortFunc(left, func(a, b string) int { return slices.Index(inOrder, a) - slices.Index(inOrder, b) })
			require.Equal(t, c.left, left, c)
			require.Equal(t, "m:1", s.holder(first[0]), "what it has got stays")
		}

		// A try that fails leaves the line, too.
		s.before = on("acquire", first[0], notServed)
		require.Equal(t, core.No, try(slices.Index(all, second[1])+1).Ran)
		last := &s.ran[len(s.ran)-1]
		require.Equal(t, fmt.Sprint("release", second[1:]), fmt.Sprint(s.verb(last), last.names()))
	})
}

func TestSpread_FailuresAreUndone(t *testing.T) {
	all, first, second := spreadNames()
	for _, c := range []struct {
		what          string
		before, after func(string, []string) *Failure
		ran           core.Ran
		final         bool
		left          int
	}{
		{what: "the last part did not run", before: on("acquire", second[1], notServed), ran: core.No},
		{what: "the last part ran", after: on("acquire", second[1], lostAnswer), ran: core.Maybe},
		{what: "the first part ran", after: on("acquire", first[0], lostAnswer), ran: core.Maybe},
		{what: "the last part did not run, nor did an undo", before: func(v string, names []string) *Failure {
			if v == "acquire" && names[0] == second[1] || v == "release" && names[0] == first[0] {
				return notServed
			}
			return nil
		}, ran: core.Maybe, left: 1},
	} {
		t.Run(c.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, run := spreading(t)
				s.before, s.after = c.before, c.after
				r := run(setOp(core.VerbAcquire, 1, all))
				require.False(t, r.OK)
				require.Equal(t, c.ran, r.Ran)
				require.True(t, r.Split)
				require.Error(t, r.Err)
				require.Len(t, s.held(), c.left)
			})
		})
	}
	t.Run("refused, and not undone", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s, run := spreading(t)
			s.take(second[1])
			s.before = on("release", first[1], notServed)
			r := run(setOp(core.VerbAcquire, 1, all))
			require.True(t, !r.OK && r.Ran == core.Maybe && !r.Final, "the core must look for what is left")
			require.Error(t, r.Err)
			s.before = nil
			r = run(setOp(core.VerbAcquire, 2, all[:1], 1))
			require.True(t, r.OK, "a record of a number that is named can be taken over")
		})
	})
}

// A part that is gone is a loss. A release that finds some parts only says so.
func TestSpread_OnePartIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, run := spreading(t)
		all, first, second := spreadNames()
		require.True(t, run(setOp(core.VerbAcquire, 1, all)).OK)
		s.keys.Do("DEL", first[1])
		s.after = on("renew", second[0], lostAnswer)
		r := run(setOp(core.VerbRenew, 1, all))
		require.True(t, !r.OK && r.Ran == core.Yes, "one is gone, whatever the other parts are")
		s.before = on("release", second[1], notServed)
		r = run(setOp(core.VerbRelease, 1, all))
		require.True(t, !r.OK && r.Ran == core.Maybe, "some parts of it ran")
		s.before = nil
		r = run(setOp(core.VerbRelease, 1, all))
		require.True(t, r.OK && r.Partly && r.Ran == core.Yes, r)
		require.Empty(t, s.held())

		more := append([]string{"{" + first[0] + "}"}, all...) // in the slot of first[0], so in the first part
		require.True(t, run(setOp(core.VerbAcquire, 3, more)).OK)
		s.keys.Do("DEL", first[0])
		r = run(setOp(core.VerbRelease, 3, more))
		require.True(t, r.OK && r.Partly && r.Ran == core.Yes, "of the first part, an item is gone: %+v", r)

		require.True(t, run(setOp(core.VerbAcquire, 2, all)).OK)
		s.before = func(string, []string) *Failure { return notServed }
		r = run(setOp(core.VerbRenew, 2, all))
		require.True(t, !r.OK && r.Ran == core.No && !r.Final, "none of it ran")
	})
}

// A try that gathers keeps what comes before the refusal, for a short time. When it has got
// everything, the lease is the whole one.
func TestSpread_Gathers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, run := spreading(t)
		all, first, second := spreadNames()
		s.take(first[1])
		gather := func(number uint64, others ...uint64) *core.Op {
			op := setOp(core.VerbAcquire, number, all, others...)
			op.Gather, op.Tokens = 500*time.Millisecond, 1
			return op
		}
		r := run(gather(1))
		require.True(t, r.Ran == core.Yes && !r.OK && r.Gathered, r)
		require.Equal(t, first[1], all[r.Item-1])
		require.Equal(t, "m:1", s.holder(first[0]))
		require.Equal(t, 500*time.Millisecond, s.left(first[0]), "kept for a short time")
		require.Len(t, s.held(), 2, "%v come after the refusal", second)
		require.Empty(t, s.told)

		time.Sleep(100 * time.Millisecond)
		s.keys.Do("DEL", first[1])
		op := gather(2, 1)
		s.takes = time.Millisecond
		r = run(op)
		require.True(t, r.Ran == core.Yes && r.OK, r)
		require.Len(t, r.Tokens, 4)
		for _, name := range all {
			require.Equal(t, "m:2", s.holder(name))
			require.Greater(t, s.left(name), op.Lease-10*time.Millisecond)
		}
		require.True(t, run(setOp(core.VerbRelease, 2, all)).OK)

		// One part is gone when the rest was got.
		ends := func(name string) func(string, []string) *Failure {
			return func(verb string, names []string) *Failure {
				if verb == "acquire" && names[0] == second[1] {
					s.keys.Do("DEL", name)
				}
				return nil
			}
		}
		s.after = ends(first[0])
		r = run(gather(3))
		require.True(t, r.Ran == core.Yes && !r.OK && r.Gathered && r.Got == 0, "the next try takes it again: %+v", r)
		require.Equal(t, first[0], all[r.Item-1])
		require.Empty(t, s.held(), "a set keeps nothing behind the item that refused it")
		s.after = ends(second[0])
		r = run(gather(3))
		require.True(t, r.Ran == core.Yes && !r.OK && r.Gathered && r.Got == 2, r)
		require.Equal(t, second[0], all[r.Item-1])
		require.Equal(t, []string{"m:3", "m:3", "", ""}, []string{s.holder(first[0]), s.holder(first[1]), s.holder(second[0]), s.holder(second[1])})

		// A failure gives all of it back.
		s.after, s.before = nil, on("acquire", second[1], notServed)
		r = run(gather(4, 3))
		require.True(t, r.Ran == core.No && !r.OK, r)
		require.Empty(t, s.held())

		// What is left of a part is given back, too.
		tagged := "{" + first[0] + "}"
		s.before, s.after = nil, ends(first[0])
		op = setOp(core.VerbAcquire, 4, []string{first[0], tagged, second[1]})
		op.Gather = 500 * time.Millisecond
		r = run(op)
		require.True(t, r.Ran == core.Yes && !r.OK && r.Gathered && r.Got == 0, r)
		require.Empty(t, s.held())

		// A refusal within a slot ends the try, too.
		s.after = nil
		s.take(tagged)
		op = setOp(core.VerbAcquire, 5, []string{first[0], tagged, second[1]})
		op.Gather = 500 * time.Millisecond
		r = run(op)
		require.True(t, r.Ran == core.Yes && !r.OK && r.Gathered && r.Got == 1, r)
		require.Equal(t, "m:5", s.holder(first[0]))
		require.Empty(t, s.holder(second[1]))
	})
}

// What a set with a short lease has got does not end while the set waits for the next name.
func TestSpread_GathersForLongerThanTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, run := spreading(t)
		all, first, second := spreadNames()
		s.take(second[1])
		op := setOp(core.VerbAcquire, 1, all)
		op.Gather, op.Lease = 500*time.Millisecond, 20*time.Millisecond
		require.Equal(t, 3, run(op).Got)
		for _, name := range []string{first[0], first[1], second[0]} {
			require.Equal(t, op.Gather, s.left(name), name)
		}
	})
}

// Whatever fails, and however late copies of commands run: a granted set is had in full, and what
// the core is told of is enough to remove all of it.
func TestSpread_RandomFaults(t *testing.T) {
	for seed := range uint64(100) {
		synctest.Test(t, func(t *testing.T) {
			s, run := spreading(t)
			all, first, second := spreadNames()
			inOrder := append(slices.Clone(first), second...)
			rnd := rand.New(rand.NewPCG(seed, 1))
			fault := func(of *Failure) func(string, []string) *Failure {
				return func(verb string, names []string) *Failure {
					if rnd.IntN(6) == 0 {
						return of
					}
					return nil
				}
			}
			calm := func() { s.before, s.after = nil, nil }
			storm := func() { s.before, s.after = fault(notServed), fault(lostAnswer) }
			var suspects []uint64 // as the core keeps them
			for number := uint64(1); number < 30; number++ {
				blocked := all[rnd.IntN(4)]
				if rnd.IntN(2) == 0 && s.holder(blocked) == "" {
					s.take(blocked)
				}
				op := setOp(core.VerbAcquire, number, all, suspects...)
				if rnd.IntN(3) == 0 {
					op.Gather = 500 * time.Millisecond
				}
				storm()
				if after := s.after; op.Gather > 0 { // what it keeps may end before it has the rest
					s.after = func(verb string, names []string) *Failure {
						if ends := all[rnd.IntN(4)]; verb == "acquire" && s.holder(ends) == setRecordHolder(number) && rnd.IntN(4) == 0 {
							s.keys.Do("DEL", ends)
						}
						return after(verb, names)
					}
				}
				r := run(op)
				calm()
				if r.Ran == core.Yes && !r.OK { // the core forgets a try when a later one has got as much
					for _, name := range inOrder[r.Got:] {
						require.NotEqual(t, setRecordHolder(number), s.holder(name), "seed %d: a refused try keeps more than it tells", seed)
					}
				}
				switch {
				case r.Ran == core.Maybe, r.Gathered:
					suspects = append(suspects, number)
				case r.Ran == core.Yes && r.OK:
					for _, name := range all {
						require.Equal(t, setRecordHolder(number), s.holder(name), "seed %d, number %d", seed, number)
						require.Greater(t, s.left(name), op.Lease/2)
					}
					storm()
					r := run(setOp(core.VerbRelease, number, all, suspects...))
					calm()
					if r.Ran != core.Yes {
						suspects = append(suspects, number)
					}
				default:
					for _, name := range all {
						require.NotEqual(t, setRecordHolder(number), s.holder(name), "seed %d: a try that is told to have taken nothing", seed)
					}
				}
				for _, name := range s.held() {
					if s.holder(name) == "other:1" {
						s.keys.Do("DEL", name)
					}
				}
			}
			for _, c := range s.ran { // a late copy of an acquire
				if s.verb(&c) == "acquire" && len(suspects) > 0 && c.Args[2*len(c.names())+5] == setRecordHolder(suspects[0]) {
					s.run(&c)
				}
			}
			require.Equal(t, core.Yes, run(setOp(core.VerbRelease, 1000, all, suspects...)).Ran)
			require.Empty(t, s.held(), "seed %d", seed)
		})
	}
}

func setRecordHolder(number uint64) string { return "m:" + strconv.FormatUint(number, 10) }

// Sets in one slot, and those of a master that Sentinels replace, are one command.
func TestSpread_OneSlotIsOneCommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, run := spreading(t)
		names := []string{"{x}1", "{x}2", "{x}3"}
		require.True(t, run(setOp(core.VerbAcquire, 1, names)).OK)
		require.Equal(t, []string{fmt.Sprint("acquire", names)}, s.log)
	})
}

// The parts of a set that gathers have a short lease. They are renewed before the set is granted,
// so only the renewals wait for replicas.
func TestSpread_GatheredPartsAreUnfinished(t *testing.T) {
	all, _, _ := spreadNames()
	for _, gather := range []time.Duration{0, time.Millisecond} {
		sent := 0
		parts := &spreads{submit: func(op *core.Op) {
			sent++
			require.Equal(t, gather > 0, op.Unfinished)
		}}
		op := setOp(core.VerbAcquire, 1, all)
		op.Gather = gather
		parts.newSpread(op, new([Slots]uint16)).start()
		require.Greater(t, sent, 1)
	}
}
