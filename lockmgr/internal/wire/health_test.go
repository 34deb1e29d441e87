package wire

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A slot is in trouble until an operation in it ends otherwise. The trouble counts for waits that began before
// it. For later ones it counts for rememberFailure.
func TestSlotTroubles(t *testing.T) {
	const at, slot = time.Minute, 7
	trouble := &Failure{Kind: Unavailable, Scattered: true}
	for name, end := range map[string]*Failure{"an answer": nil, "a failure of another kind": {Kind: Permission}} {
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
	took := func(d time.Duration) step { return func(h *health) { h.took(d, false) } }
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
		{"a failure, and another try", []step{sent(0, 1), failed(ms, 1), sent(time.Hour, 1)}, time.Hour, time.Hour, true},
		{"silent for no longer than answers take", []step{sent(0, 1), took(200 * ms), answered(200*ms, 1), sent(time.Hour, 1)}, time.Hour + 60*ms, time.Hour + 150*ms, false},
		{"silent for much longer than answers take", []step{sent(0, 1), took(200 * ms), answered(200*ms, 1), sent(time.Hour, 1)}, time.Hour, time.Hour + 600*ms, true},
		{"one slow answer is forgotten", []step{took(time.Second), took(ms), took(ms), took(ms), took(ms), took(ms), took(ms), took(ms), took(ms), sent(0, 1)}, 0, 500 * ms, true},
		{"over", []step{sent(0, 2), failed(ms, 1), answered(2*ms, 1)}, 0, 3 * ms, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := newHealth(2 * time.Second)
			for _, s := range test.steps {
				s(&h)
			}
			f := h.failing(test.asked, test.now)
			require.Equal(t, test.failing, f.unanswered(), "%+v", f)
		})
	}
}
