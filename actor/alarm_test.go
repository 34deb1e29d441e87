package actor_test

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/actor"
)

// call is one call of a handler: when, and how many messages it got.
type call struct {
	at time.Duration
	n  int
}

// recorder answers each message by sleeping as long as the message says, and an alarm by sleeping
// as long as after says.
type recorder struct {
	start time.Time
	after time.Duration
	calls []call
}

func (r *recorder) Handle(batch []time.Duration) time.Duration {
	r.calls = append(r.calls, call{time.Since(r.start), len(batch)})
	if len(batch) == 0 {
		return r.after
	}
	return batch[len(batch)-1]
}

func TestAlarms(t *testing.T) {
	const s = time.Second
	type post struct{ at, next time.Duration }
	for _, test := range []struct {
		name  string
		posts []post
		after time.Duration // what the handler returns for an alarm
		want  []call
	}{
		{name: "nothing posted, nothing called", after: s},
		{
			name:  "an alarm comes once",
			posts: []post{{1 * s, 2 * s}}, after: -1,
			want: []call{{1 * s, 1}, {3 * s, 0}},
		},
		{
			name:  "an alarm repeats as long as the handler asks for it",
			posts: []post{{0, 20 * s}}, after: 25 * s,
			want: []call{{0, 1}, {20 * s, 0}, {45 * s, 0}, {70 * s, 0}, {95 * s, 0}},
		},
		{
			name:  "no alarm unless asked for",
			posts: []post{{1 * s, -1}, {2 * s, math.MinInt64}}, after: s,
			want: []call{{1 * s, 1}, {2 * s, 1}},
		},
		{
			name:  "a message calls an alarm off",
			posts: []post{{0, 2 * s}, {1 * s, -1}}, after: -1,
			want: []call{{0, 1}, {1 * s, 1}},
		},
		{
			name:  "a message puts an alarm off",
			posts: []post{{0, 2 * s}, {1 * s, 3 * s}, {3 * s, 3 * s}}, after: -1,
			want: []call{{0, 1}, {1 * s, 1}, {3 * s, 1}, {6 * s, 0}},
		},
		{
			name:  "a message brings an alarm forward",
			posts: []post{{0, 50 * s}, {1 * s, 2 * s}}, after: -1,
			want: []call{{0, 1}, {1 * s, 1}, {3 * s, 0}},
		},
		{
			name:  "an alarm called off does not stand in the way of a later one",
			posts: []post{{0, 2 * s}, {1 * s, -1}, {5 * s, 1 * s}}, after: -1,
			want: []call{{0, 1}, {1 * s, 1}, {5 * s, 1}, {6 * s, 0}},
		},
		{
			name:  "an alarm put off for centuries",
			posts: []post{{1 * s, 2 * s}, {2 * s, math.MaxInt64}}, after: -1,
			want: []call{{1 * s, 1}, {2 * s, 1}},
		},
		{
			name:  "an alarm centuries away",
			posts: []post{{0, math.MaxInt64}, {1 * s, math.MaxInt64}, {2 * s, math.MaxInt64 - 2*s}}, after: -1,
			want: []call{{0, 1}, {1 * s, 1}, {2 * s, 1}},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &recorder{start: time.Now(), after: test.after}
				a := actor.Start(r)
				for _, p := range test.posts {
					time.Sleep(p.at - time.Since(r.start))
					a.Post(p.next)
					synctest.Wait()
				}
				time.Sleep(100*s - time.Since(r.start))
				a.Stop()
				<-a.Done()
				require.Equal(t, test.want, r.calls)
			})
		})
	}
}
