package gocron

import (
	"context"
	"errors"

	"github.com/go-co-op/gocron/v2"

	"github.com/holdfast-go/holdfast/lockmgr"
)

// ErrNotLeader is what [Elector.IsLeader] returns while another process leads, or none.
var ErrNotLeader = errors.New("holdfast: this process does not lead")

// An Elector lets jobs run in the process that leads. It implements the Elector interface of
// gocron. Its methods are safe for concurrent use.
//
//	leader := mgr.CampaignFor(ctx, "scheduler")
//	s, err := gocron.NewScheduler(gocron.WithDistributedElector(holdfastgocron.NewElector(leader)))
//
// gocron asks once for each run, when the run begins. It does not tell a job that its process has
// stopped leading meanwhile.
type Elector struct{ leader *lockmgr.Leader }

var _ gocron.Elector = (*Elector)(nil)

// NewElector returns an elector for a campaign. It does no I/O. Call Resign of the leader after the
// scheduler was shut down.
func NewElector(leader *lockmgr.Leader) *Elector { return &Elector{leader} }

// IsLeader returns nil if this process leads, and ErrNotLeader if not. It never blocks and does no
// I/O: a leader that can't reach the server stops leading at its own deadline.
func (e *Elector) IsLeader(context.Context) error {
	if e.leader.IsLeader() {
		return nil
	}
	return ErrNotLeader
}
