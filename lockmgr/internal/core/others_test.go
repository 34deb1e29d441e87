package core

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A manager in a line whose message was lost tries while it still has its turn, or the record that
// was granted to it.
func TestPoll_ComesBeforeATurnIsOver(t *testing.T) {
	m := New(Config{PlaceTime: 5 * time.Second, GrantLease: 2 * time.Second, PollMax: 5 * time.Second})
	n := &name{details: withPosition(&position{}), sub: subOn}
	for range 1000 {
		require.Less(t, m.poll(n, time.Minute), m.cfg.GrantLease-m.cfg.GrantLease/20)
	}
}
