package core

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A server fails since the send of the oldest command that it has not answered, in whatever order
// the failures are reported, but not since before a command that it has answered.
func TestHealth_Since(t *testing.T) {
	failed := errors.New("no answer")
	for _, tt := range []struct {
		what    string
		replies []Reply // the ID is the second at which the command was sent
		since   time.Duration
	}{
		{"in order", []Reply{{ID: 1, Err: failed}, {ID: 2, Err: failed}}, time.Second},
		{"the older one later", []Reply{{ID: 2, Err: failed}, {ID: 1, Err: failed}}, time.Second},
		{"answered between", []Reply{{ID: 2, Ran: Yes}, {ID: 3, Err: failed}, {ID: 1, Err: failed}}, 2 * time.Second},
		{"answered between, in another order", []Reply{{ID: 3, Err: failed}, {ID: 2, Ran: Yes}, {ID: 1, Err: failed}}, 2 * time.Second},
	} {
		var h health
		for _, r := range tt.replies {
			r.Op = &Op{Sent: time.Duration(r.ID) * time.Second}
			h.report(&r, 4*time.Second)
		}
		require.True(t, h.failing, tt.what)
		require.Equal(t, tt.since, h.failingSince, tt.what)
		require.Equal(t, tt.since+2*time.Second, h.checkAt, tt.what)
	}
}
