package check

import "sync/atomic"

// The word of a register: the largest token it has seen, above the number of the holder that came
// with it.
const (
	holderBits = 24
	maxToken   = 1<<(63-holderBits) - 1
)

// A Register is a resource that refuses stale tokens. It is one word, so that processes can share
// it by mapping the same memory, and one that is killed or stopped at any instruction leaves it
// whole. Zero is ready for use.
type Register struct{ word atomic.Uint64 }

// Write offers a token of a holder and reports whether it was accepted: the token is larger than
// all before, or equal to the largest and from the same holder. Of the holder's number the lower 24
// bits count. Tokens that are not positive, or above 2^39-1, are refused. It never blocks.
func (r *Register) Write(token int64, holder uint64) bool {
	if token <= 0 || token > maxToken {
		return false
	}
	mine := uint64(token)<<holderBits | holder&(1<<holderBits-1)
	for {
		was := r.word.Load()
		switch largest := int64(was >> holderBits); {
		case was == mine:
			return true
		case token <= largest:
			return false
		case r.word.CompareAndSwap(was, mine):
			return true
		}
	}
}

// Token returns the largest token seen.
func (r *Register) Token() int64 { return int64(r.word.Load() >> holderBits) }
