package wire

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
)

// A server may be farther away than when the locks were taken, or only renewals may be sent to it.
// Then 30,000 leases of 9 s are all renewed in time, with round trips of 60 ms.
func TestLane_RenewalsOfAServerThatIsFartherNow(t *testing.T) {
	for name, first := range map[string]time.Duration{"slower now": 300 * time.Microsecond, "a new lane, only renewals": 0} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rtt := first
				s := execFunc(func(_ []Command, answers []Answer) {
					time.Sleep(rtt)
					fill(answers, Answer{})
				})
				l, replies := lanesOf(t, s, nil)
				if first > 0 {
					for range 10 {
						replyTo(l, replies, acquire("a", 1))
					}
				}
				rtt = 60 * time.Millisecond
				const n, lease = 30_000, 9 * time.Second
				begin := time.Now()
				go func() {
					for i := 0; i < n; i += 128 { // as core: a burst a millisecond
						var ops []*core.Op
						for j := i; j < min(n, i+128); j++ {
							ops = append(ops, &core.Op{ID: uint64(j + 2), Verb: core.VerbRenew, Name: fmt.Sprint(j), Number: 1, Lease: lease})
						}
						l.Submit(ops, 0)
						time.Sleep(time.Millisecond)
					}
				}()
				for range n {
					<-replies
				}
				require.Less(t, time.Since(begin), 2*lease/3, "a lease that was renewed at a third of its time has ended")
			})
		})
	}
}
