package core

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A server may report any number of subscribers: nothing is divided by zero.
func TestTurns_MoreSubscribersThanThereCanBe(t1 *testing.T) {
	m := New(Config{Lease: time.Second, BackTime: 5 * time.Millisecond, PassTime: time.Second, PollMax: time.Second, PollBlind: time.Second, TrustSubscribers: true, MaxLocks: 10})
	n := m.lookup("a", nil)
	n.entry.phase, n.sub = waiting, subOn
	n.queue.push(&Request{Name: "a", entry: &n.entry})
	t := &n.makeDetails().turns
	t.others = m.othersOf(&name{details: &noDetails}, math.MaxInt64)
	t.turnEnded(time.Hour, 0, &m.cfg)
	t.standBack(time.Hour, &m.cfg, &m.jitter)
	m.now = time.Hour
	m.wake(Wake{Name: "a", Subscribed: true, Message: true})
	require.Less(t1, m.Next(), 2*time.Hour)
}
