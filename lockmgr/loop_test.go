package lockmgr

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
	"github.com/holdfast-go/holdfast/notify"
)

// A wake-up of a watch that was closed meanwhile may still be in the mailbox when its name is
// watched again. It says nothing about the new subscription.
func TestWatch_WakeOfAClosedOneIsIgnored(t *testing.T) {
	o, err := Options{}.complete()
	require.NoError(t, err)
	p := newLoop(&shell{id: newIdentity(), options: o, clock: newClock(o.readClocks)})
	var sent *core.Op
	subscribed := false
	effects := func() []core.Effect {
		out := p.effects
		p.effects = nil
		for _, e := range out {
			switch e := e.(type) {
			case core.Run:
				sent = e.Op
			case core.Subscribe:
				subscribed = true
			}
		}
		return out
	}
	r := &core.Request{Name: "a", ID: 1, Ends: core.Forever}
	p.step(0, []message{core.Lock{Request: r}})
	effects()
	require.NotNil(t, sent)
	p.step(0, []message{&core.Replies{Replies: []core.Reply{{Op: sent, ID: sent.ID, Ran: core.Yes, TTL: time.Minute}}}})
	effects()
	require.True(t, subscribed)

	closed, open := new(notify.Watch), new(notify.Watch)
	p.watches[watchKey{name: "a"}] = listening{Watch: open}
	p.step(0, []message{&wakeup{event: core.Wake{Name: "a", Subscribed: true, Confirmed: true}, watch: closed}})
	require.Empty(t, effects(), "the new subscription is not confirmed, so nothing is to be tried")
	require.Zero(t, p.core.Stats().Wakes)
}

// A message of an unknown type is a bug of this package, and panics: otherwise a caller might wait
// for an answer for ever.
func TestLoop_UnknownMessage(t *testing.T) {
	o, err := Options{}.complete()
	require.NoError(t, err)
	p := newLoop(&shell{id: newIdentity(), options: o, clock: newClock(o.readClocks)})
	require.Panics(t, func() { p.step(0, []message{core.Prolongation{}}) })
}

// Without an observer, traces and events cost no memory.
func TestObserver_NothingIsTracedWithoutOne(t *testing.T) {
	m := &shell{}
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if m.newTrace(context.Background()) != nil {
			t.Error("a trace")
		}
	}))
	p := &loop{shell: m}
	l := &Lock{}
	tick := &l.ticket
	tick.request.Tag = l
	require.Zero(t, testing.AllocsPerRun(100, func() {
		p.observeFailure(&tick.request, ErrCanceled)
		p.observeUnlock(&tick.request, nil)
		p.observeLoss(&core.Hold{Request: &tick.request}, ErrLeaseLost)
	}))
}
