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

// A replicaServer is a server with replicas, and all connections to it.
type replicaServer struct {
	mu      sync.Mutex
	enough  int64
	wait    time.Duration // what WAIT takes
	refused map[string]bool
	secret  map[string]bool // names that confirmers may not touch
	dials   int
	dialErr error
	pool    chan struct{} // connections wait for its end; nil: none does
	waitErr error
	lost    bool     // records are gone when they are renewed
	moved   bool     // or are at another master
	closed  int      // connections
	sent    []string // on connections of confirmers
}

func (s *replicaServer) Dedicate() (Connection, error) {
	s.mu.Lock()
	s.dials++
	pool := s.pool
	s.mu.Unlock()
	if pool != nil {
		<-pool
	}
	return (*replicaConn)(s), s.dialErr
}

func (s *replicaServer) Exec(_ *Deadline, commands []Command, answers []Answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range commands {
		if c := &commands[i]; c.Script != Acquire && c.Script != acquireMany {
			answers[i] = Answer{Kind: Int, Int: 1} // done
			if c.Script == renew {
				answers[i] = Answer{Kind: Array} // without exceptions
			}
			continue
		}
		var each []Answer
		for _, name := range commands[i].names() {
			a := Answer{} // granted
			if s.refused[name] {
				a = Answer{Kind: Int, Int: 1000}
			}
			each = append(each, a)
		}
		answers[i] = each[0]
		if len(each) > 1 {
			answers[i] = Answer{Kind: Array, Array: each}
		}
	}
}

type replicaConn replicaServer

func (s *replicaConn) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed++
}

func (s *replicaConn) Exec(limit *Deadline, commands []Command, answers []Answer) {
	s.mu.Lock()
	wait := s.wait
	s.mu.Unlock()
	if commands[0].blocks {
		ctx := limit.Start()
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			answers[0] = (&Failure{Kind: Unavailable, Err: errNoAnswer}).Answer()
			return
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range commands {
		c := &commands[i]
		switch {
		case c.Script != nil && slices.ContainsFunc(c.Keys, func(key string) bool { return s.secret[key] }):
			text := "NOPERM No permissions to access a key"
			answers[i] = serverFailure(errors.New(text), text).Answer()
		case c.blocks && s.waitErr != nil:
			answers[i] = serverFailure(s.waitErr, s.waitErr.Error()).Answer()
		case c.blocks:
			s.sent = append(s.sent, c.Args...)
			answers[i] = Answer{Kind: Int, Int: s.enough}
		default:
			s.sent = append(s.sent, c.Script.Name)
			switch {
			case s.moved:
				answers[i] = serverFailure(errMoved, errMoved.Error()).Answer()
			case c.Script == written:
				answers[i] = Answer{Kind: Int, Int: map[bool]int64{false: 1, true: 0}[s.lost]}
			case s.lost:
				answers[i] = *ints(1)
			default:
				answers[i] = Answer{Kind: Array}
			}
		}
	}
}

// replicaLane is a lane whose grants need two replicas within a second.
func replicaLane(t *testing.T, s Server) (*Lane, chan core.Reply) {
	cfg, replies := replicaConfig(s)
	l := NewLane(cfg)
	t.Cleanup(l.Close)
	return l, replies
}

func replicaConfig(s Server) (Config, chan core.Reply) {
	cfg, replies := testConfig(s)
	cfg.Timeout, cfg.Replicas = 2*time.Second, Replicas{Acks: 2, Timeout: time.Second}
	return cfg, replies
}

func locking(name string, id uint64) *core.Op {
	op := acquire(name, id)
	op.Lease = 30 * time.Second
	return op
}

// A grant is told when enough replicas have it. What was refused is told at once. Grants that come
// meanwhile share the next wait.
func TestReplicas_AreWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &replicaServer{enough: 2, wait: 300 * time.Millisecond, refused: map[string]bool{"taken": true}}
		l, replies := replicaLane(t, s)
		begin := time.Now()
		l.Submit([]*core.Op{locking("a", 1), locking("taken", 2)}, 0)
		require.Equal(t, "taken", (<-replies).Op.Name)
		require.Zero(t, time.Since(begin))
		time.Sleep(100 * time.Millisecond)
		l.Submit([]*core.Op{locking("b", 3), locking("c", 4)}, 0)
		synctest.Wait()
		require.Nil(t, l.Failing(0, time.Second), "nothing is under way on the lane")
		for _, name := range []string{"a", "b"} { // b waits until the first wait is over
			require.Nil(t, l.unconfirmed(name, 0, time.Millisecond), "it may soon be")
			require.Equal(t, TooFew, l.unconfirmed(name, 0, 150*time.Millisecond).Kind)
		}
		require.Nil(t, l.unconfirmed("taken", 0, time.Minute))
		r := <-replies
		require.Equal(t, "a", r.Op.Name)
		require.True(t, r.OK)
		require.Equal(t, core.VerbAcquire, r.Op.Verb)
		require.Equal(t, 300*time.Millisecond, time.Since(begin))
		require.Equal(t, "b", (<-replies).Op.Name)
		require.Equal(t, "c", (<-replies).Op.Name)
		require.Equal(t, 600*time.Millisecond, time.Since(begin))
		require.Equal(t, []string{"renew", "written", "WAIT", "2", "1000", "renew", "written", "WAIT", "2", "1000"}, s.sent)
		require.Equal(t, 1, s.dials)
	})
}

// A name that has become forbidden fails alone, also if its lease is renewed by a command with
// others.
func TestReplicas_AForbiddenNameFailsAlone(t *testing.T) {
	for _, forbidden := range []string{"a", "b", "c"} {
		synctest.Test(t, func(t *testing.T) {
			l, replies := replicaLane(t, &replicaServer{enough: 2, secret: map[string]bool{forbidden: true}})
			l.Submit([]*core.Op{locking("a", 1), locking("b", 2), locking("c", 3)}, 0)
			for range 3 {
				r := <-replies
				require.Equal(t, r.Op.Name != forbidden, r.Ran == core.Yes && r.OK, "%s, %s is forbidden", r.Op.Name, forbidden)
			}
		})
	}
}

// If one name is forbidden, and the record of another is gone, each is told its own reason.
func TestReplicas_EachForItsOwnReason(t *testing.T) {
	for _, forbidden := range []string{"a", "b"} {
		synctest.Test(t, func(t *testing.T) {
			s := &replicaServer{enough: 2, lost: true, secret: map[string]bool{forbidden: true}}
			l, replies := replicaLane(t, s)
			l.Submit([]*core.Op{locking("a", 1), locking("b", 2)}, 0)
			for range 2 {
				r := <-replies
				require.Equal(t, r.Op.Name != forbidden, errors.Is(r.Err, errTaken), r.Op.Name)
				require.True(t, r.OnlyThis, "the server has answered, and is not in trouble")
			}
			require.NotContains(t, s.sent, "WAIT")
		})
	}
}

// A reply by which a record is trusted for longer, or becomes another's, waits for replicas. Others
// do not.
func TestReplicas_ConfirmWhatIsTrusted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const wait = 300 * time.Millisecond
		l, replies := replicaLane(t, &replicaServer{enough: 2, wait: wait})
		for verb, waits := range map[core.Verb]bool{
			core.VerbAcquire: true, core.VerbTransfer: true, core.VerbRenew: true, core.VerbRelease: false,
		} {
			op := locking("a", 1)
			op.Verb = verb
			begin := time.Now()
			r := replyTo(l, replies, op)
			require.Equal(t, core.Yes, r.Ran, verb)
			require.True(t, r.OK, verb)
			require.Equal(t, waits, time.Since(begin) == wait, verb)
		}
		op := locking("a", 2)
		op.Unfinished = true
		begin := time.Now()
		require.True(t, replyTo(l, replies, op).OK)
		require.Zero(t, time.Since(begin), "a part of a set that gathers: its renewal waits")
	})
}

// All grants that come during a WAIT share the next one, however many there are.
func TestReplicas_ManyShareAWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, replies := replicaLane(t, &replicaServer{enough: 2, wait: 300 * time.Millisecond})
		begin := time.Now()
		l.Submit([]*core.Op{locking("first", 0)}, 0)
		time.Sleep(100 * time.Millisecond)
		const many = 3 * maxBatch
		var ops []*core.Op
		for id := range uint64(many) {
			ops = append(ops, locking(fmt.Sprint(id), id+1))
		}
		l.Submit(ops, 0)
		for range 1 + many {
			require.True(t, (<-replies).OK)
		}
		require.Equal(t, 600*time.Millisecond, time.Since(begin))
	})
}

// A watchedContext counts the functions that wait for its end.
type watchedContext struct {
	context.Context
	waiting atomic.Int32
}

// Value hides the context below, to which AfterFunc would be given instead.
func (c *watchedContext) Value(any) any { return nil }

func (c *watchedContext) AfterFunc(f func()) (stop func() bool) {
	c.waiting.Add(1)
	unbind := context.AfterFunc(c.Context, f)
	return func() bool {
		c.waiting.Add(-1)
		return unbind()
	}
}

// The waits for replicas that are over leave nothing behind.
func TestReplicas_LeaveNothingBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, replies := replicaLane(t, &replicaServer{enough: 2})
		watched := &watchedContext{Context: l.confirms.ctx}
		l.confirms.ctx = watched
		for id := range uint64(10) {
			require.True(t, replyTo(l, replies, locking("a", id)).OK)
		}
		synctest.Wait()
		require.Zero(t, watched.waiting.Load())
	})
}

// A grant that is not confirmed is a command that may have run, so that the core releases it.
func TestReplicas_NotConfirmed(t *testing.T) {
	refusal := errors.New("NOPERM User a has no permissions to run the 'wait' command")
	replica := errors.New("ERR WAIT cannot be used with replica instances. Please also note")
	unblocked := errors.New("UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)")
	for name, c := range map[string]struct {
		server *replicaServer
		err    error
		final  bool
		dials  int
	}{
		"too few":        {&replicaServer{enough: 1}, errFewReplicas, true, 1},
		"none":           {&replicaServer{}, errFewReplicas, true, 1},
		"taken away":     {&replicaServer{enough: 2, lost: true}, errTaken, false, 1},
		"no connection":  {&replicaServer{enough: 2, dialErr: errNoAnswer}, errNoAnswer, false, 2},
		"no answer":      {&replicaServer{enough: 2, wait: time.Minute}, errNoAnswer, false, 2},
		"not allowed":    {&replicaServer{waitErr: refusal}, refusal, true, 2},
		"moved":          {&replicaServer{enough: 2, moved: true}, errMoved, false, 1},
		"demoted":        {&replicaServer{waitErr: unblocked}, unblocked, false, 2},
		"a replica now":  {&replicaServer{waitErr: replica}, replica, false, 2},
		"enough or more": {&replicaServer{enough: 3}, nil, false, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, replies := replicaLane(t, c.server)
				for id := range uint64(2) {
					begin := time.Now()
					r := replyTo(l, replies, locking("a", id))
					require.LessOrEqual(t, time.Since(begin), 3*time.Second, "the time-outs of WAIT and of a command")
					require.Equal(t, c.err == nil, r.OK)
					require.ErrorIs(t, r.Err, c.err)
					require.Equal(t, c.final, r.Final)
					if c.err != nil {
						require.Equal(t, core.Maybe, r.Ran)
						require.Equal(t, name == "taken away" || name == "moved", r.OnlyThis, "only these concern no other lock")
						if name == "taken away" {
							require.Equal(t, TooFew, r.Err.(failureError).Kind, "the server is there")
							require.Nil(t, l.unconfirmed("b", 0, 0), "nor do the replicas keep other names")
						}
						require.Equal(t, id, r.Op.Number)
						require.NotEqual(t, Topology, r.Err.(failureError).Kind, "the slot may have moved since")
					}
				}
				require.Equal(t, c.dials, c.server.dials, "a connection that failed is not used again")
			})
		})
	}
}

// The pool of the client is used up, so there is no connection. A grant fails after a time. One
// call for a connection goes on. Close does not wait for it.
func TestReplicas_NoConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &replicaServer{enough: 2, pool: make(chan struct{})}
		l, replies := replicaLane(t, s)
		for id := range uint64(3) {
			begin := time.Now()
			require.ErrorIs(t, replyTo(l, replies, locking("a", id)).Err, errNoConnection)
			require.Equal(t, 3*time.Second, time.Since(begin))
		}
		require.Equal(t, 1, s.dials)
		l.Submit([]*core.Op{locking("a", 4)}, 0)
		time.Sleep(time.Second)
		close(s.pool)
		require.True(t, (<-replies).OK)

		time.Sleep(time.Minute) // the connection is not trusted any more
		s.pool = make(chan struct{})
		l.Submit([]*core.Op{locking("a", 5)}, 0)
		synctest.Wait()
		begin := time.Now()
		l.Close()
		require.Zero(t, time.Since(begin))
		require.Len(t, replies, 1)
		require.Equal(t, 1, s.closed)
		close(s.pool)
		synctest.Wait()
		require.Equal(t, 2, s.closed, "the one that came too late")
	})
}

// A connection that was not used for a while is not trusted.
func TestReplicas_IdleConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &replicaServer{enough: 2}
		l, replies := replicaLane(t, s)
		for id := range uint64(3) {
			require.True(t, replyTo(l, replies, locking("a", id)).OK)
			time.Sleep(time.Duration(id) * 900 * time.Millisecond)
		}
		require.True(t, replyTo(l, replies, locking("a", 9)).OK)
		require.Equal(t, 2, s.dials)
	})
}

// Close answers what waits. It dials for nothing that is left.
func TestReplicas_CloseAnswersAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &replicaServer{enough: 2, wait: time.Hour}
		l, replies := replicaLane(t, s)
		l.Submit([]*core.Op{locking("a", 1)}, 0)
		synctest.Wait()
		l.Submit([]*core.Op{locking("b", 2)}, 0)
		synctest.Wait()
		require.Empty(t, replies)
		begin := time.Now()
		l.Close()
		require.Zero(t, time.Since(begin), "Close cuts the wait off")
		require.Len(t, replies, 2)
		for _, final := range []bool{false, true} { // only a was being confirmed
			r := <-replies
			require.Equal(t, core.Maybe, r.Ran)
			require.Equal(t, final, r.Final)
		}
		synctest.Wait()
		require.Equal(t, 1, s.dials)
	})
}

// A grant of a slot that moves is not confirmed: it is not known which master has it.
func TestReplicas_OfAMovingSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg, replies := replicaConfig(&replicaServer{enough: 2})
		node := moved(func(string) bool { return true })
		l := NewLanes(cfg, still(twoShards("a:1", "b:1"), func(string) Server { return node }))
		defer l.Close()
		r := replyTo(l, replies, locking("a", 1))
		require.Equal(t, core.Maybe, r.Ran)
		require.ErrorIs(t, r.Err, errMovingSlot)
		require.False(t, r.Final)
	})
}
