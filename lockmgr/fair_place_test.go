package lockmgr_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// A manager that waits listens on a channel of its own. A client of Redisson knows only that of the
// first place. The manager listens there, too, while such a client takes part.
func TestFair_Channels(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	m := dial(t, s.Addr(), lockmgr.Options{Linger: -1})
	faults.Do(t, s, "HSET", "f", "java:1", "1")
	waits := m.LockAsync("f", lockmgr.Fair())
	awaitQueue(t, m, "f", 1)
	place := queue(t, m, "f")[0]
	hears := func(who string) bool {
		return faults.Do(t, s, "PUBLISH", "redisson_lock__channel:{f}:"+who, "0") == "1"
	}
	faults.Eventually(t, func() bool { return hears(m.ID()) })
	faults.Eventually(t, func() bool { return hears(place) })
	faults.Do(t, s, "DEL", "f")
	require.True(t, hears(place))
	mustUnlock(t, mustAwait(t, waits))
	faults.Eventually(t, func() bool { return !hears(m.ID()) && !hears(place) })
}
