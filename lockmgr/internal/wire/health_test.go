package wire

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
)

// A slot is in trouble until an operation in it ends otherwise. The trouble counts for waits that
// began before it. For later ones it counts for rememberFailure.
func TestSlotTroubles(t *testing.T) {
	const at, slot = time.Minute, 7
	for name, end := range map[string]*Failure{"an answer": nil, "a failure of another kind": {Kind: Permission}} {
		trouble := &Failure{Kind: ReadOnly}
		if end == nil {
			trouble = &Failure{Kind: Unavailable, OnlyThis: true}
		}
		var s slotTroubles
		s.note(slot, at, trouble, false)
		s.note(slot+1, at, end, false)
		require.Equal(t, trouble, s.failing(slot, at, time.Hour), "the wait began before")
		require.Equal(t, trouble, s.failing(slot, at+1, at+rememberFailure))
		require.Nil(t, s.failing(slot, at+1, at+rememberFailure+1))
		require.Nil(t, s.failing(slot+1, at, at))
		require.False(t, s.none())
		s.note(slot, at, end, false)
		require.Nil(t, s.failing(slot, at, at), name)
		require.True(t, s.none(), name)
	}
}

func TestHealth(t *testing.T) {
	const ms = time.Millisecond
	down := &Failure{Kind: Unavailable, Err: textError("down")}
	type step func(h *health)
	sent := func(at time.Duration, n int) step { return func(h *health) { h.sent(n, at) } }
	answered := func(at time.Duration, n int) step { return func(h *health) { h.ended(n, at, nil) } }
	took := func(d time.Duration) step { return func(h *health) { h.took(d, 0, false) } }
	failed := func(at time.Duration, n int) step { return func(h *health) { h.ended(n, at, down) } }
	for _, test := range []struct {
		name       string
		steps      []step
		asked, now time.Duration
		failing    bool
	}{
		{"nothing was asked", nil, 0, time.Hour, false},
		{"answered", []step{sent(0, 1), answered(ms, 1)}, 0, time.Hour, false},
		{"silent for all of a wait", []step{sent(0, 1)}, 0, 60 * ms, true},
		{"silent for all but the first moment of a wait", []step{sent(ms, 1)}, 0, 100 * ms, true},
		{"silent for the second half of a wait", []step{sent(150*ms, 1)}, 0, 300 * ms, false},
		{"silent for all of a wait too short to tell", []step{sent(0, 1)}, 0, 40 * ms, false},
		{"the wait began when a command was under way", []step{sent(0, 1)}, 100 * ms, 160 * ms, true},
		{"answers during the wait", []step{sent(0, 2), answered(400*ms, 1)}, 0, 800 * ms, false},
		{"silent for long at the end of a wait", []step{sent(0, 2), answered(400*ms, 1)}, 0, 900 * ms, true},
		{"silent after a rest", []step{sent(0, 1), answered(ms, 1), sent(time.Hour, 1)}, 0, time.Hour + 499*ms, false},
		{"a failure during the wait", []step{sent(0, 1), failed(ms, 1)}, 0, time.Hour, true},
		{"a failure before the wait", []step{sent(0, 1), failed(ms, 1)}, 2 * ms, 3 * ms, true},
		{"a failure long before the wait", []step{sent(0, 1), failed(ms, 1)}, time.Minute, time.Hour, false},
		{"a failure, and another try", []step{sent(0, 1), failed(ms, 1), sent(time.Second, 1)}, time.Second, time.Second, true},
		{"a failure, and another try that hangs", []step{sent(0, 1), failed(ms, 1), sent(time.Second, 1)}, 5 * time.Second, 5 * time.Second, true},
		{"a failure long ago, and another try", []step{sent(0, 1), failed(ms, 1), sent(time.Hour, 1)}, time.Hour, time.Hour, false},
		{"a failure long ago, but during the wait", []step{sent(0, 1), failed(ms, 1), sent(time.Hour, 1)}, 0, time.Hour, true},
		{"silent for no longer than answers take", []step{sent(0, 1), took(200 * ms), answered(200*ms, 1), sent(time.Hour, 1)}, time.Hour + 60*ms, time.Hour + 150*ms, false},
		{"silent for much longer than answers take", []step{sent(0, 1), took(200 * ms), answered(200*ms, 1), sent(time.Hour, 1)}, time.Hour, time.Hour + 600*ms, true},
		{"one slow answer is forgotten", []step{took(time.Second), took(ms), took(ms), took(ms), took(ms), took(ms), took(ms), took(ms), took(ms), sent(0, 1)}, 0, 500 * ms, true},
		{"a failure that is reported after a later answer", []step{sent(0, 2), answered(10*ms, 1), failed(9*ms, 1)}, 0, time.Second, false},
		{"over", []step{sent(0, 2), failed(ms, 1), answered(2*ms, 1)}, 0, 3 * ms, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := newHealth(2 * time.Second)
			for _, s := range test.steps {
				s(&h)
			}
			f := h.failing(test.asked, test.now)
			require.Equal(t, test.failing, f.Unanswered(), "%+v", f)
		})
	}
}

// A hungServer answers nothing.
type hungServer struct{}

func (hungServer) Exec(d *Deadline, _ []Command, answers []Answer) {
	<-d.Start().Done()
	fill(answers, (&Failure{Kind: Unavailable, Err: errNoAnswer}).Answer())
}

// ask calls a lane, and returns a channel for the answer. The channel has room for a second answer,
// which would be wrong.
func ask(l *Lane) chan Answer {
	ended := make(chan Answer, 2)
	l.Call(getOf("b")[0], func(a Answer) { ended <- a })
	return ended
}

// laneTo starts a lane, whose replies nobody needs.
func laneTo(t *testing.T, s Server) *Lane {
	cfg, _ := testConfig(s)
	cfg.Post = func(*core.Replies) {}
	l := NewLane(cfg)
	t.Cleanup(l.Close)
	return l
}

// At a server that does not answer, a call fails after the time-out, however many tasks wait before
// it.
func TestLane_CallFailsInItsTime(t *testing.T) {
	for name, before := range map[string]int{"alone": 0, "behind operations": 10_000} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := laneTo(t, hungServer{})
				begin := time.Now()
				for i := range before {
					l.Submit([]*core.Op{acquire("a", uint64(i))}, 0)
				}
				const calls = 2000
				ended := make(chan Answer, calls)
				for range calls {
					require.True(t, l.Call(getOf("b")[0], func(a Answer) { ended <- a }))
				}
				for range calls {
					require.Equal(t, Unavailable, (<-ended).Failure.Kind)
				}
				require.Equal(t, time.Second, time.Since(begin))
			})
		})
	}
}

// A call that waits for long behind operations that are answered gets its answer.
func TestLane_CallBehindManyAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := execFunc(func(_ []Command, answers []Answer) {
			time.Sleep(900 * time.Millisecond)
			fill(answers, Answer{})
		})
		l := laneTo(t, slow)
		for i := range 256 * 8 {
			l.Submit([]*core.Op{acquire("a", uint64(i))}, 0)
		}
		ended := ask(l)
		time.Sleep(time.Minute)
		require.Len(t, ended, 1)
		require.Nil(t, (<-ended).Failure)
	})
}

// A call that is under way may need several round trips, which together take longer than the
// time-out.
func TestLane_CallOfSeveralRoundTrips(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := laneTo(t, each(func(*Command) Answer { time.Sleep(1500 * time.Millisecond); return Answer{} }))
		require.Nil(t, (<-ask(l)).Failure)
	})
}

// Demoted is called for an answer that says so, and for no other failure.
func TestLane_Demoted(t *testing.T) {
	for demoted, want := range map[bool]int{false: 0, true: 1} {
		synctest.Test(t, func(t *testing.T) {
			calls := 0
			cfg, _ := testConfig(each(func(*Command) Answer {
				return (&Failure{Kind: Unavailable, Err: errNoAnswer, Demoted: demoted}).Answer()
			}))
			cfg.Demoted = func() { calls++ }
			l := NewLane(cfg)
			<-ask(l)
			l.Close()
			require.Equal(t, want, calls)
		})
	}
}
