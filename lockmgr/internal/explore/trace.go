package explore

import (
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
)

func (w *world) tell(format string, args ...any) { fmt.Fprintf(w.out, format+"\n", args...) }

// at returns an instant as traces show it: since the first instant of a scene.
func (w *world) at(t time.Duration) time.Duration {
	if t == core.Forever {
		return t
	}
	return (t - firstInstant).Round(time.Microsecond)
}

func describeEvent(ev core.Event) string {
	switch ev := ev.(type) {
	case *core.Replies:
		r := ev.Replies[0]
		return fmt.Sprintf("reply #%d ran=%v ok=%v ttl=%v subscribers=%d err=%v", r.ID, r.Ran, r.OK, r.TTL, r.Subscribers, r.Err)
	case core.Wake:
		return fmt.Sprintf("wake subscribed=%v confirmed=%v message=%v", ev.Subscribed, ev.Confirmed, ev.Message)
	}
	return strings.ToLower(strings.TrimPrefix(fmt.Sprintf("%T", ev), "core."))
}

func describeEffect(e core.Effect) string {
	switch e := e.(type) {
	case core.Run:
		return fmt.Sprintf("%v #%d owner=%d others=%v lease=%v tokens=%d", e.Op.Verb, e.Op.ID, e.Op.Number, e.Op.OtherNumbers, e.Op.Lease, e.Op.Tokens)
	case core.Granted:
		return fmt.Sprintf("granted request %d token=%d", e.Request.Tag, e.Request.Hold.Token)
	case core.Failed:
		return fmt.Sprintf("failed request %d: %v", e.Request.Tag, e.Err)
	case core.Lost:
		return fmt.Sprintf("lost request %d: %v", e.Hold.Request.Tag, e.Err)
	case core.Unlocked:
		return fmt.Sprintf("unlocked request %d: %v", e.Request.Tag, e.Err)
	}
	return strings.ToLower(strings.TrimPrefix(fmt.Sprintf("%T", e), "core."))
}
