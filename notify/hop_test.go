package notify

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// still is a connection that does what it is asked at once.
type still struct{ feed *feed }

func (s *still) dial(f *feed) link {
	s.feed = f
	f.up()
	return s
}

func (s *still) subscribe(names []string) {
	for _, name := range names {
		s.feed.confirmed(name)
	}
	s.feed.answered(nil)
}
func (s *still) unsubscribe([]string) { s.feed.answered(nil) }
func (s *still) hangUp()              { s.feed.ended(errHungUp) }

func subscribedTo(t testing.TB, channel string) (*Hub, *Watch, *feed) {
	s := &still{}
	h := start(s, Options{})
	t.Cleanup(h.Close)
	w := h.Watch(channel)
	wake := redistest.Must(w.Next(0).Await(t.Context()))(t)
	require.Equal(t, Wake{Seq: 1, Reason: ReasonConfirmed, Subscribed: true}, wake)
	return h, w, s.feed
}

// BenchmarkHop measures the time from a message on the client's reader goroutine to the callback.
// Between them is the hub's goroutine, which is parked each time.
func BenchmarkHop(b *testing.B) {
	_, w, f := subscribedTo(b, "c")
	woken := make(chan uint64)
	seq := uint64(1)
	wake := func(w Wake, _ error) { woken <- w.Seq }
	b.ReportAllocs()
	for b.Loop() {
		w.Next(seq).OnDone(wake)
		f.message("c", "")
		seq = <-woken
	}
}

// While the hub is busy its mailbox gets one input, and the feed has one slot for each channel,
// however many messages come.
func TestMailbox_FloodIsBounded(t *testing.T) {
	_, w, f := subscribedTo(t, "c")
	posts := 0
	signal := f.signal
	busy, proceed := make(chan struct{}), make(chan struct{})
	w.Next(1).OnDone(func(Wake, error) { close(busy); <-proceed })
	f.message("c", "")
	<-busy
	f.signal = func(f *feed) { posts++; signal(f) }
	const n = 1_000_000
	allocs := testing.AllocsPerRun(1, func() {
		for range n / 2 {
			f.message("c", "")
		}
	})
	require.Less(t, allocs, 10.0, "messages must not pile up")
	require.Equal(t, 1, posts, "the mailbox must get one input, not one for each message")
	require.Len(t, f.ready, 1)
	close(proceed)
	wake := redistest.Must(w.Next(2).Await(t.Context()))(t)
	require.Equal(t, Wake{Seq: 3, Reason: ReasonMessage, Subscribed: true, More: true}, wake)
}
