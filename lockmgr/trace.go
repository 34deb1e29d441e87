package lockmgr

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
	"github.com/holdfast-go/holdfast/lockmgr/internal/wire"
)

// A trace holds what the events of a request report. A ticket has one only if
// there is an observer.
type trace struct {
	ctx      context.Context
	asked    time.Time
	granted  time.Time // zero before the grant
	unlocked time.Time // when Unlock was called
}

// trace begins the trace of a request, or returns nil if nobody observes it.
func (m *Manager) trace(ctx context.Context) *trace {
	if m.events == nil {
		return nil
	}
	return &trace{ctx: ctx, asked: time.Now()}
}

func (p *loop) observeGrant(r *core.Request) {
	t := ticketOf(r).trace
	p.observe(EventGranted{
		At: t.granted, Context: t.ctx, Name: r.Name, Owner: p.m.id.field(r.Hold.Number), Token: r.Hold.Token,
		Passed: r.Passed, Reentry: r != r.Hold.Request, Waited: t.granted.Sub(t.asked),
	})
}

func (p *loop) observeFailure(r *core.Request, err error) {
	if t := ticketOf(r).trace; t != nil {
		now := time.Now()
		p.observe(EventFailed{
			At: now, Context: t.ctx, Name: r.Name, Owner: Owner{p.m.id, r.Owner}.String(), Waited: now.Sub(t.asked), Err: err,
		})
	}
}

func (p *loop) observeUnlock(r *core.Request, err error) {
	if t := ticketOf(r).trace; t != nil {
		now := time.Now()
		p.observe(EventUnlocked{
			At: now, Context: t.ctx, Name: r.Name, Owner: p.m.id.field(r.Hold.Number),
			Held: t.unlocked.Sub(t.granted), Took: now.Sub(t.unlocked), Err: err,
		})
	}
}

func (p *loop) observeLoss(h *core.Hold, err error) {
	if t := ticketOf(h.Request).trace; t != nil {
		now := time.Now()
		p.observe(EventLost{
			At: now, Context: t.ctx, Name: h.Request.Name, Owner: p.m.id.field(h.Number), Held: now.Sub(t.granted), Err: err,
		})
	}
}

// observeCommand reports a command of the lane.
func (m *Manager) observeCommand(o *wire.Observed) {
	m.events.put(EventCommand{At: time.Now(), Command: o.Command, Names: o.Names, Took: o.Took, Err: serverError(o.Failure)})
}
