package core

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// While nobody else waits, an entry that is passed on every millisecond needs less than one command
// for ten handoffs. Its record is never older than mostSpacing allows.
func TestTransfer_SpacingHasABound(t *testing.T) {
	const handoffs = 1000
	m := New(Config{
		Lease: time.Minute, RetryTime: time.Minute, PassCount: 32, PassTime: 100 * time.Millisecond, RecordEvery: time.Millisecond,
		PollMax: time.Minute, PollBlind: time.Minute, TrustSubscribers: true, MaxLocks: 10,
	})
	var now, last, longest time.Duration
	commands := 0
	var holder *Request
	var step func(ev Event)
	step = func(ev Event) {
		for _, e := range m.Step(now, ev, nil) {
			switch e := e.(type) {
			case Granted:
				holder = e.Request
			case Run:
				commands++
				if e.Op.Verb == VerbTransfer {
					longest, last = max(longest, now-last), now
				}
				step(&Replies{Replies: []Reply{{Op: e.Op, ID: e.Op.ID, Ran: Yes, OK: true}}})
			}
		}
	}
	for i := range uint64(handoffs) {
		step(Lock{&Request{Name: "a", ID: i + 1, Ends: Forever}})
	}
	for range handoffs - 1 {
		now += time.Millisecond
		step(Tick{})
		step(Unlock{Request: holder})
	}
	require.EqualValues(t, handoffs-1, m.Stats().Passes)
	require.Less(t, commands, handoffs/10)
	require.Equal(t, mostSpacing*time.Millisecond, longest)
}
