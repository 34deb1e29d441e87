package notify

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestQueue compares two queues with plain slices.
func TestQueue(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	var queues [2]queue
	var want [2][]*channel
	chs := make([]*channel, 6)
	for i := range chs {
		chs[i] = &channel{name: fmt.Sprint(i)}
	}
	remove := func(ch *channel) {
		for i := range want {
			want[i] = slices.DeleteFunc(want[i], func(c *channel) bool { return c == ch })
		}
	}
	for range 10_000 {
		i, ch := rng.IntN(2), chs[rng.IntN(len(chs))]
		switch rng.IntN(3) {
		case 0:
			queues[i].push(ch)
			remove(ch)
			want[i] = append(want[i], ch)
		case 1:
			ch.dequeue()
			remove(ch)
		case 2:
			if !queues[i].empty() {
				require.Same(t, want[i][0], queues[i].pop())
				want[i] = want[i][1:]
			}
		}
		for i := range queues {
			var forth, back []*channel
			for ch := queues[i].head; ch != nil; ch = ch.next {
				forth = append(forth, ch)
			}
			for ch := queues[i].tail; ch != nil; ch = ch.prev {
				back = append(back, ch)
			}
			require.True(t, slices.Equal(want[i], forth), "%d", i)
			slices.Reverse(back)
			require.True(t, slices.Equal(want[i], back), "%d", i)
			require.Equal(t, len(want[i]) == 0, queues[i].empty())
		}
	}
}
