package lockmgr

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
)

// A use is a core.Use, and copies of fields that only the manager's goroutine may read.
type use struct {
	core.Use
	since   time.Duration // when it was granted, or else when it was asked for
	permits int           // that the hold has; zero for a request
}

// A survey is a message that asks the manager's goroutine for its holds and requests: all holds and
// requests, or only those of a name and of all sets.
type survey struct {
	name string // "" for all
	uses futures.Promise[[]use]
}

// survey returns the uses of a name and of all sets, or of all names if name is "".
func (s *shell) survey(ctx context.Context, name string) ([]use, error) {
	ask := &survey{name: name}
	if !s.actor.Post(ask) {
		return nil, ErrClosed
	}
	return ask.uses.Future().Await(ctx)
}

// answer answers a survey. The manager's goroutine calls it.
func (s *survey) answer(machine *core.Machine) {
	var all []use
	add := func(u core.Use) bool {
		permits := 0
		if u.Held {
			permits = int(u.Request.Hold.Permits)
		}
		all = append(all, use{u, ticketOf(u.Request).since(), permits})
		return true
	}
	if s.name == "" {
		machine.Survey(add)
	} else {
		machine.SurveyName(s.name, add)
	}
	s.uses.Resolve(all, nil)
}
