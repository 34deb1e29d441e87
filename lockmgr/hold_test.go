package lockmgr

import (
	"errors"
	"sync"
	"testing"
)

// A channel that is asked for while the loss is being told is closed once. With
// the race detector this fails at once if the two do not agree on who does it.
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
