package lockmgr

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
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

// observe reports commands from first on, which were sent at begin and have
// been answered.
func (b *batch) observe(events *dispatcher[Event], first int, begin time.Time) {
	now := time.Now()
	for i := first; i < len(b.commands); i++ {
		c := &b.commands[i]
		e := EventCommand{At: now, Took: now.Sub(begin)}
		if c.script == nil {
			e.Command = c.args[0]
		} else {
			e.Command, e.Names = strings.TrimSuffix(c.script.name, "_many"), c.names()
		}
		if a := &b.answers[i]; a.kind == answerError {
			e.Err = a.err
		}
		events.put(e)
	}
}

// names returns the locks of a script. The memory of keys is not theirs.
func (c *command) names() []string {
	switch c.script {
	case acquireManyScript, renewScript:
		return slices.Clone(c.keys)
	case releaseManyScript: // each key is followed by its channel
		var out []string
		for i := 0; i < len(c.keys); i += 2 {
			out = append(out, c.keys[i])
		}
		return out
	}
	return []string{c.keys[0]}
}
