package lockmgr

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
)

// A trace holds what the events of a request report. A request has a trace, as the tag of its
// terms, only if there is an observer.
type trace struct {
	ctx      context.Context
	asked    time.Time
	granted  time.Time // zero before the grant
	unlocked time.Time // when Unlock was called
}

// grantEvent returns the event of a grant. token is the token of the lock.
func (t *trace) grantEvent(id *identity, r *core.Request, token int64) Event {
	return EventGranted{
		At: t.granted, Context: t.ctx, Name: r.Name, Owner: id.holder(r.Hold), Token: token,
		Passed: r.Passed, Reentry: r != r.Hold.Request, Waited: t.granted.Sub(t.asked),
	}
}

// failEvent returns the event of a request that ends now without a lock.
func (t *trace) failEvent(id *identity, r *core.Request, err error) Event {
	now := time.Now()
	return EventFailed{
		At: now, Context: t.ctx, Name: r.Name, Owner: Owner{id, r.Owner()}.String(), Waited: now.Sub(t.asked), Err: err,
	}
}

// unlockEvent returns the event of an Unlock that is answered now.
func (t *trace) unlockEvent(id *identity, r *core.Request, err error) Event {
	now := time.Now()
	return EventUnlocked{
		At: now, Context: t.ctx, Name: r.Name, Owner: id.holder(r.Hold),
		Held: t.unlocked.Sub(t.granted), Took: now.Sub(t.unlocked), Err: err,
	}
}

// lossEvent returns the event of a hold that is lost now.
func (t *trace) lossEvent(id *identity, h *core.Hold, err error) Event {
	now := time.Now()
	return EventLost{At: now, Context: t.ctx, Name: h.Request.Name, Owner: id.holder(h), Held: now.Sub(t.granted), Err: err}
}
