package client

import (
	"context"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

var scriptRunner = regexp.MustCompile(`(?m)^id=(\d+) .* cmd=evalsha`)

// A script that takes longer than its time-out, and a caller whose context ends, leave the
// connection alone, and the commands of everybody else on it.
func TestConnection_ClosedByNoImpatientCaller(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	m := dial(t, s, lockmgr.Options{CommandTimeout: 500 * time.Millisecond})
	l := faults.Take(t, m, "held")
	redistest.Must(m.Inspect(faults.Patient(t), "held"))(t) // so that there is no EVAL, but EVALSHA last
	redistest.Must(m.Inspect(faults.Patient(t), "held"))(t)
	before := scriptRunner.FindStringSubmatch(faults.Do(t, s, "CLIENT", "LIST"))
	require.Len(t, before, 2)
	resume := pause(t, s)
	_, err := m.TryLock(faults.Patient(t), "a")
	require.ErrorIs(t, err, lockmgr.ErrUnavailable)
	require.ErrorContains(t, err, "time-out")
	hasty, cancel := context.WithTimeout(ctx, time.Millisecond)
	defer cancel()
	_, err = m.Lock(hasty, "b")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	resume()
	require.Eventually(t, func() bool { return faults.Do(t, s, "EXISTS", "a", "b") == "0" && m.Stats().Pending == 0 }, faults.Patience, 5*time.Millisecond)
	faults.Release(t, l)
	require.Contains(t, faults.Do(t, s, "CLIENT", "LIST"), "id="+before[1]+" ", "its connection is another one now")
}
