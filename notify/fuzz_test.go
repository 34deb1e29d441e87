package notify

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzMessage_OnlyWakes sends arbitrary payloads on arbitrary channels. A
// program is lines "channel payload"; the channel "c" is the one watched.
//
// A user with permission to publish can make a watcher check again, and nothing
// else. The only reason of the wake-up is Message. The subscription, the connection
// and the errors are as before. At most 64 bytes are kept. A message for another
// channel wakes no watch.
//
//	go test ./notify -run '^$' -fuzz FuzzMessage_OnlyWakes -fuzztime 60s
func FuzzMessage_OnlyWakes(f *testing.F) {
	for _, program := range []string{
		"", "c 0", "c 1", "c", "d 0", " 0", "c \x00\xff", "C 0", "c0 0",
		"c 0\nc 0\nd x\nc 1",
		"c subscribe", "c unsubscribe\nc 0", "c +PONG", "c $-1\r\n", "c -ERR closed",
		"c Confirmed", "redisson_lock__channel:{c} 0", "c* 0", "[c] 0",
		"c " + strings.Repeat("x", 63), "c " + strings.Repeat("x", 64), "c " + strings.Repeat("x", 65),
		"c " + strings.Repeat("é", 40),
	} {
		f.Add(program)
	}
	f.Fuzz(func(t *testing.T, program string) {
		s := &still{}
		h := start(s, Options{})
		defer h.Close()
		w := h.Watch("c")
		wake, err := w.Next(0).Await(t.Context())
		require.NoError(t, err)
		require.Equal(t, Wake{Seq: 1, Reason: ReasonConfirmed, Subscribed: true}, wake)
		before := h.Stats()

		// The last line is for "c": a message of a channel that is not watched is
		// reported only with the next event.
		var payloads []string
		sent, strays := uint64(0), uint64(0)
		for line := range strings.SplitSeq(program+"\nc end", "\n") {
			channel, payload, _ := strings.Cut(line, " ")
			s.feed.message(channel, payload)
			sent++
			if channel == "c" {
				payloads = append(payloads, payload[:min(len(payload), maxPayload)])
			} else {
				strays++
			}
		}
		for h.Stats().Messages < sent {
			after := wake.Seq
			wake, err = w.Next(after).Await(t.Context())
			require.NoError(t, err)
			require.Greater(t, wake.Seq, after)
			require.Equal(t, ReasonMessage, wake.Reason)
			require.True(t, wake.Subscribed)
			require.NoError(t, wake.Err)
			require.Contains(t, payloads, wake.Payload)
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
		require.LessOrEqual(t, newest, 1+uint64(len(payloads)), "a message woke twice")
		require.True(t, w.Next(newest).Cancel())
	})
}
