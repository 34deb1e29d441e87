package check

import (
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRegister_RefusesStaleTokens(t *testing.T) {
	var r Register
	require.True(t, r.Write(5, 1))
	require.True(t, r.Write(5, 1), "the holder may write again")
	require.False(t, r.Write(5, 2), "an equal token from another holder")
	require.False(t, r.Write(4, 1))
	require.False(t, r.Write(4, 2))
	require.True(t, r.Write(6, 2))
	require.False(t, r.Write(5, 1))
	require.EqualValues(t, 6, r.Token())
	require.False(t, r.Write(0, 2), "no token")
	require.False(t, r.Write(-1, 2))
	require.False(t, r.Write(maxToken+1, 2), "would not fit")
	require.True(t, r.Write(maxToken, 1<<holderBits-1))
	require.Equal(t, int64(maxToken), r.Token())
}

// Of many at once, each token is accepted of one holder only, and none after a larger one was seen.
func TestRegister_UnderContention(t *testing.T) {
	var r Register
	var mu sync.Mutex
	holders := map[int64]map[uint64]bool{}
	var wg sync.WaitGroup
	for holder := range uint64(8) {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(holder, 2))
			for i := range 2000 {
				token := int64(i) + 1 + rng.Int64N(5)
				before := r.Token()
				if r.Write(token, holder) {
					if token < before {
						t.Errorf("token %d was accepted after %d", token, before)
					}
					mu.Lock()
					if holders[token] == nil {
						holders[token] = map[uint64]bool{}
					}
					holders[token][holder] = true
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	require.NotEmpty(t, holders)
	for token, by := range holders {
		require.Len(t, by, 1, "token %d", token)
	}
}
