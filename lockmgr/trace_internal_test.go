package lockmgr

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
)

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
