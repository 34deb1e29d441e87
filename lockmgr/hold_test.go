package lockmgr

import (
	"errors"
	"sync"
	"testing"
)

// A call of Lost while the loss is reported: the channel is closed exactly once. With
// the race detector this fails at once if both close it, or neither.
func TestLock_LostIsAskedForDuringTheLoss(t *testing.T) {
	for range 2000 {
		h := &hold{more: &holdMore{}} // as after Context
		l := &Lock{hold: h}
		var wg sync.WaitGroup
		wg.Go(func() { h.end(errors.New("lost")) })
		<-l.Lost()
		wg.Wait()
	}
}
