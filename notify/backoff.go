package notify

import (
	"math/rand/v2"
	"time"
)

// backoff is a pause that doubles from min to max, with jitter. A backoff belongs to a single
// goroutine.
type backoff struct {
	min, max time.Duration
	pause    time.Duration // the last pause, without jitter; zero after a reset
	rng      *rand.Rand    // not shared with the program
}

func newBackoff(min, max time.Duration) backoff {
	return backoff{min: min, max: max, rng: rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))}
}

// next returns the next pause: half is fixed, the rest random. The pause is never zero, so the hub
// does not retry in a loop if the server fails at once.
func (b *backoff) next() time.Duration {
	b.pause = min(max(2*b.pause, b.min), b.max)
	half := b.pause / 2
	return b.pause - time.Duration(b.rng.Int64N(int64(half)+1))
}

func (b *backoff) reset() { b.pause = 0 }
