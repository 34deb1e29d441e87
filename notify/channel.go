package notify

import "slices"

// A phase is the state of a channel's subscription on the current connection.
type phase uint8

const (
	absent  phase = iota // not subscribed; queued if it is wanted and a connection is up
	asking               // SUBSCRIBE sent, not confirmed
	live                 // confirmed; queued for UNSUBSCRIBE if no watch is left
	leaving              // UNSUBSCRIBE sent, not answered
	refused              // refused by the server; queued for a later round
)

// A channel is the hub's state of a channel: the watches and the phase of the subscription. Only
// the hub's goroutine uses a channel.
type channel struct {
	name    string
	watches []*Watch // usually one
	phase   phase
	refusal error // set when it is refused alone, until any connection confirms it
	group   int   // the most channels that its next SUBSCRIBE may have

	queued     *queue
	prev, next *channel
}

func (ch *channel) wanted() bool { return len(ch.watches) > 0 }

// remove takes w from the channel's watches.
func (ch *channel) remove(w *Watch) bool {
	i := slices.Index(ch.watches, w)
	if i < 0 {
		return false
	}
	ch.watches = slices.Delete(ch.watches, i, i+1)
	return true
}
