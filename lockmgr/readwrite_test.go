package lockmgr_test

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/lockmgr"
)

// A try to read is never refused while only readers of its own process have the name, or ask for it: not
// while their first command is under way, and not when they have had the name for so long that a process
// which is not known gets a chance.
func TestReadWrite_TryLockIsNotRefusedBesideReaders(t *testing.T) {
	for _, hold := range []time.Duration{100 * time.Microsecond, 5 * time.Millisecond, 50 * time.Millisecond} {
		bubble(t, func(t *testing.T, w *scene) {
			m, _ := w.manager(lockmgr.Options{})
			var wg sync.WaitGroup
			for i := range 8 {
				wg.Go(func() {
					lengths := rand.New(rand.NewPCG(uint64(i), 0))
					for range 500 {
						l := mustTryLock(t, m, "doc", lockmgr.Shared())
						time.Sleep(time.Duration(lengths.Int64N(int64(hold))))
						mustUnlock(t, l)
					}
				})
			}
			wg.Wait()
		})
	}
}

// A thousand local readers that come and go within a moment cost three scripts: the first and the
// last reader need one each, and one looks for the record before others join.
func TestReadWrite_ManyReadersThreeScripts(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, _ := w.manager(lockmgr.Options{})
		var locks []*lockmgr.Lock
		for range 1000 {
			locks = append(locks, mustLock(t, m, "doc", lockmgr.Shared()))
		}
		require.EqualValues(t, 2, m.Stats().Scripts)
		mustUnlock(t, locks...)
		require.EqualValues(t, 3, m.Stats().Scripts)
	})
}
