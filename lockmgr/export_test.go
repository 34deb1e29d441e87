package lockmgr

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
)

// WithClocks returns o for a manager that reads these clocks of its host: one stands still while
// the host is suspended, the other does not.
func WithClocks(o Options, read func() (awake, all time.Duration, ok bool)) Options {
	o.readClocks = read
	return o
}

// A Stopper stops the goroutine of the manager that is made with its Options.
type Stopper struct{ next atomic.Pointer[stop] }

type stop struct{ reached, leave chan struct{} }

// Options returns o for a manager that s can stop.
func (s *Stopper) Options(o Options) Options {
	o.onBatch = func() {
		if next := s.next.Swap(nil); next != nil {
			close(next.reached)
			<-next.leave
		}
	}
	return o
}

// Stop stops the goroutine of m until resume is called. It returns when the goroutine stands still.
func (s *Stopper) Stop(m *Manager) (resume func()) {
	next := &stop{make(chan struct{}), make(chan struct{})}
	s.next.Store(next)
	m.actor.Post(core.Tick{})
	<-next.reached
	return sync.OnceFunc(func() { close(next.leave) })
}

// MaxUndelivered is how many events wait for a slow observer.
const MaxUndelivered = maxUndelivered
