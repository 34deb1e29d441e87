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
		l := heldLock()
		h := l.ticket.hold()
		h.makeMore() // as after Context
		var wg sync.WaitGroup
		wg.Go(func() { h.end(errors.New("lost")) })
		<-l.Lost()
		wg.Wait()
	}
}
