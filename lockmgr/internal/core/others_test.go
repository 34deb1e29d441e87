package core

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// A server may report any number of subscribers.
func TestRun_MoreSubscribersThanThereCanBe(t *testing.T) {
	m := New(Config{TrustSubscribers: true})
	require.EqualValues(t, mostOthers, m.othersOf(&name{details: &noDetails}, math.MaxInt64))
}
