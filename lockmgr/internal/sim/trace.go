package sim

import (
	"fmt"
	"strings"

	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
)

func describeEvent(ev core.Event) string {
	switch ev := ev.(type) {
	case core.Lock:
		return fmt.Sprintf("lock %s", ev.Request.Tag.(*call))
	case core.LockSet:
		return fmt.Sprintf("lock set %s", ev.Request.Tag.(*call))
	case core.LockPermits:
		return fmt.Sprintf("lock %d permits %s", ev.Permits, ev.Request.Tag.(*call))
	case core.Cancel:
		return fmt.Sprintf("cancel %s", ev.Request.Tag.(*call))
	case core.Unlock:
		return fmt.Sprintf("unlock %s", ev.Request.Tag.(*call))
	case core.Untaken:
		return fmt.Sprintf("unlock %s", ev.Request.Tag.(*call))
	case core.ShardGone:
		return fmt.Sprintf("shard %d is gone", ev.Shard)
	case *core.Replies:
		var b strings.Builder
		for i, r := range ev.Replies {
			if i > 0 {
				b.WriteString("; ")
			}
			fmt.Fprintf(&b, "reply #%d ran=%v ok=%v", r.ID, r.Ran, r.OK)
			if r.TTL != 0 {
				fmt.Fprintf(&b, " ttl=%v", r.TTL)
			}
			if r.Token != 0 {
				fmt.Fprintf(&b, " token=%d", r.Token)
			}
			if r.Subscribers != 0 {
				fmt.Fprintf(&b, " subscribers=%d", r.Subscribers)
			}
			if r.Item != 0 {
				fmt.Fprintf(&b, " item=%d", r.Item)
			}
			if r.Partly {
				fmt.Fprintf(&b, " partly")
			}
			if r.Tokens != nil {
				fmt.Fprintf(&b, " tokens=%v", r.Tokens)
			}
			if r.Err != nil {
				fmt.Fprintf(&b, " (%v, final=%v)", r.Err, r.Final)
			}
		}
		return b.String()
	case *heard:
		name := ev.Name
		if ev.Item > 0 {
			name += fmt.Sprintf("/%d", ev.Item)
		}
		return fmt.Sprintf("wake %s place=%d served=%v subscribed=%v confirmed=%v message=%v more=%v (forced %d)", name, ev.Place, ev.Served, ev.Subscribed, ev.Confirmed,
			ev.Message, ev.More, ev.forced)
	case core.Verify:
		return "verify " + ev.Name
	}
	return strings.ToLower(strings.TrimPrefix(fmt.Sprintf("%T", ev), "core."))
}

func (n *node) describeEffect(e core.Effect) string {
	switch e := e.(type) {
	case core.Run:
		o := e.Op
		s := fmt.Sprintf("%v #%d %s owner=%d others=%v", o.Verb, o.ID, o.Name, o.Number, o.OtherNumbers)
		if o.Lease > 0 {
			s += fmt.Sprintf(" lease=%v", o.Lease)
		}
		if o.Reserve > 0 {
			s += fmt.Sprintf(" reserve=%v", o.Reserve)
		}
		if o.Gather > 0 {
			s += fmt.Sprintf(" gather=%v", o.Gather)
		}
		if o.Permits > 0 {
			s += fmt.Sprintf(" permits=%d/%d", o.Permits, o.Most)
		}
		if o.Tokens > 0 {
			s += fmt.Sprintf(" tokens=%d", o.Tokens)
		}
		if x := o.PlaceOp; x != nil {
			s += fmt.Sprintf(" join=%v leave=%v before=%d pass=%v refresh=%v", x.Join, x.Leave, x.Before, x.Pass, x.Refresh)
		}
		return s
	case core.Granted:
		return fmt.Sprintf("GRANTED %s until %v token=%d", e.Request.Tag.(*call), n.trueTime(e.Request.Hold.Until), e.Request.Hold.Token)
	case core.Tokens:
		return fmt.Sprintf("tokens %v of %s", e.Tokens, e.Request.Tag.(*call))
	case core.Failed:
		return fmt.Sprintf("failed %s: %v", e.Request.Tag.(*call), e.Err)
	case core.Extended:
		return fmt.Sprintf("extended %s until %v", e.Hold.Request.Tag.(*call), n.trueTime(e.Hold.Until))
	case core.Lost:
		return fmt.Sprintf("LOST %s: %v", e.Hold.Request.Tag.(*call), e.Err)
	case core.Unlocked:
		return fmt.Sprintf("unlocked %s: %v", e.Request.Tag.(*call), e.Err)
	case core.Subscribe:
		return "subscribe " + e.Name + ofPlace(e.Place)
	case core.Unsubscribe:
		return "unsubscribe " + e.Name + ofPlace(e.Place)
	case *core.Notice:
		return fmt.Sprintf("notice %v %s n=%d err=%v", e.What, e.Name, e.N, e.Err)
	}
	return strings.ToLower(strings.TrimPrefix(fmt.Sprintf("%T", e), "core."))
}

// ofPlace returns a place for a trace, or nothing if there is none.
func ofPlace(n uint64) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(" place ", n)
}
