package faults

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/lockmgr"
)

// A Witness keeps what a manager's observer is told.
type Witness struct {
	mu     sync.Mutex
	events []lockmgr.Event
	more   chan struct{} // closed at the next event
}

// NewWitness returns a witness that has seen nothing.
func NewWitness() *Witness { return &Witness{more: make(chan struct{})} }

// Observe is for Options.Observer.
func (w *Witness) Observe(e lockmgr.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, e)
	close(w.more)
	w.more = make(chan struct{})
}

// seen returns the events until now, and what is closed at the next one.
func (w *Witness) seen() (events []lockmgr.Event, more <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.events, w.more
}

// Always is a condition that every event of a kind meets.
func Always[E lockmgr.Event](E) bool { return true }

// Count returns how many events of a kind have met a condition.
func Count[E lockmgr.Event](w *Witness, so func(E) bool) (n int) {
	events, _ := w.seen()
	for _, e := range events {
		if e, ok := e.(E); ok && so(e) {
			n++
		}
	}
	return n
}

// AwaitEvent returns the first event of a kind that meets a condition, be it past or to come.
func AwaitEvent[E lockmgr.Event](t testing.TB, w *Witness, so func(E) bool) E {
	t.Helper()
	timeout := time.After(Patience)
	for looked := 0; ; {
		events, more := w.seen()
		for ; looked < len(events); looked++ {
			if e, ok := events[looked].(E); ok && so(e) {
				return e
			}
		}
		select {
		case <-more:
		case <-timeout:
			var none E
			require.FailNow(t, "no such event", "%T, but only %v", none, events)
		}
	}
}

// Reached waits until there were n events of a kind. It returns false if done is closed before.
func Reached[E lockmgr.Event](w *Witness, n int, done <-chan struct{}) bool {
	for {
		_, more := w.seen()
		if Count(w, Always[E]) >= n {
			return true
		}
		select {
		case <-more:
		case <-done:
			return false
		}
	}
}
