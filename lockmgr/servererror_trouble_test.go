package lockmgr_test

import (
	"errors"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// TryLock fails at once. A waiting request fails after RetryTime, unless the trouble is over by
// then.
func TestServerError_PassingTrouble(t *testing.T) {
	t.Parallel()
	for _, tt := range faults.Troubles("READONLY", "MASTERDOWN", "NOREPLICAS", "MISCONF", "CLUSTERDOWN", "BUSY", "down") {
		t.Run(tt.What, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t, tt.Args...)
			w := faults.NewWitness()
			// The server without its cluster's slots is a single server to the client.
			opt := rueidis.ClientOption{InitAddress: []string{s.Addr()}, ForceSingleClient: true}
			hasty := dialOption(t, opt, lockmgr.Options{Anonymous: true, RetryTime: 50 * time.Millisecond})
			steady := dialOption(t, opt, lockmgr.Options{Anonymous: true, RetryTime: time.Minute, Observer: w.Observe})
			tt.Begin(t, s)
			waiting := steady.LockAsync("a")
			faults.AwaitEvent(t, w, func(e lockmgr.EventCommandFailed) bool { return e.Consecutive == 2 && errors.Is(e.Err, tt.Kind) })

			requireServerError(t, tt.Kind, errOf(hasty.TryLock(faults.Patient(t), "b")))
			require.EqualValues(t, 1, hasty.Stats().Failures, "one try")
			_, err := hasty.Lock(faults.Patient(t), "c") // how often it tries depends on the machine
			requireServerError(t, tt.Kind, err)
			known := hasty.Stats().Locks
			requireServerError(t, tt.Kind, errOf(hasty.TryLock(faults.Patient(t), "d")))
			// A busy machine may answer a try after RetryTime.
			faults.Eventually(t, func() bool { return hasty.Stats().Locks <= known }, "a script that did not run leaves nothing to release")
			_, err = hasty.Inspect(faults.Patient(t), "d")
			if err != nil { // a script that only reads may work
				requireServerError(t, tt.Kind, err)
			}

			require.False(t, faults.Settled(waiting), "it waits")
			tt.End(t, s)
			l := must(waiting.Await(faults.Patient(t)))(t)
			mustUnlock(t, l)
			faults.Eventually(t, func() bool {
				l, err = hasty.Lock(faults.Patient(t), "b")
				return !lockmgr.Temporary(err) // it waits for 50 ms only
			})
			require.NoError(t, err)
			mustUnlock(t, l)
		})
	}
}
