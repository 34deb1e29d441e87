package notify

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// FuzzMessage_OnlyWakes sends messages on arbitrary channels. A program has a channel on each line;
// the channel "c" is the one watched.
//
// A user with permission to publish can make a watcher check again, and nothing else. The only
// reason of the wake-up is Message. The subscription, the connection and the errors are as before.
// A message for another channel wakes no watch.
//
//	go test ./notify -run '^$' -fuzz FuzzMessage_OnlyWakes -fuzztime 60s
func FuzzMessage_OnlyWakes(f *testing.F) {
	for _, program := range []string{
		"", "c", "d", "C", "c0", "c\x00", "c\nc\nd\nc", "redisson_lock__channel:{c}", "c*", "[c]", "c\r",
	} {
		f.Add(program)
	}
	f.Fuzz(func(t *testing.T, program string) {
		s := &still{}
		h := start(s, Options{})
		defer h.Close()
		w := h.Watch("c")
		wake := redistest.Must(w.Next(0).Await(t.Context()))(t)
		require.Equal(t, Wake{Seq: 1, Reason: ReasonConfirmed, Subscribed: true}, wake)
		before := h.Stats()

		// The last line is for "c": a message of a channel that is not watched is reported only
		// with the next event.
		sent, strays := uint64(0), uint64(0)
		for channel := range strings.SplitSeq(program+"\nc", "\n") {
			s.feed.message(channel, "")
			sent++
			if channel != "c" {
				strays++
			}
		}
		for h.Stats().Messages < sent {
			after := wake.Seq
			wake = redistest.Must(w.Next(after).Await(t.Context()))(t)
			require.Greater(t, wake.Seq, after)
			require.Equal(t, ReasonMessage, wake.Reason)
			require.True(t, wake.Subscribed)
			require.NoError(t, wake.Err)
		}
		after := h.Stats()
		require.Equal(t, strays, after.Strays)
		require.LessOrEqual(t, after.Coalesced, after.Messages)
		// Nothing else has changed.
		after.Messages, after.Strays, after.Coalesced, after.Wakes = before.Messages, before.Strays, before.Coalesced, before.Wakes
		require.Equal(t, before, after)
		require.NoError(t, h.Err())
		w.mu.Lock()
		newest := w.marks.seq
		w.mu.Unlock()
		require.LessOrEqual(t, newest, 1+sent-strays, "a message woke twice")
		require.True(t, w.Next(newest).Cancel())
	})
}
