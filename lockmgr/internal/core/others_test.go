package core

import (
	"math"
	"testing"
	"time"
)

// Whatever a server says of its subscribers, nothing is divided by zero.
func TestMoreSubscribersThanThereCanBe(t *testing.T) {
	m := New(Config{Lease: time.Second, BackTime: 5 * time.Millisecond, PollMax: time.Second, PollBlind: time.Second, TrustSubscribers: true, MaxLocks: 10})
	l := m.lookup("a")
	l.phase, l.sub = waiting, subOn
	c := l.more()
	c.left, c.rounds = 2, 2
	c.others = m.othersOf(&lock{}, math.MaxInt64)
	m.wake(Wake{Name: "a", Subscribed: true, Message: true})
}
