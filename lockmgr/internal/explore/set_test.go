package explore

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSet_IsLikeAMap(t *testing.T) {
	var s set
	_, known := s.find(digest{1, 2})
	require.False(t, known)
	want := map[digest]int32{}
	seed := uint64(1)
	for range 5000 {
		seed = mix(seed, 0xe7037ed1a0b428db)
		d := digest{seed % 100 << 40, seed >> 32 % 10} // all want the first slot
		n, known := want[d]
		if !known {
			n = int32(len(want))
			want[d] = n
		}
		i, found := s.find(d)
		require.Equal(t, known, found)
		if known {
			require.Equal(t, n, i)
		}
		i, isNew := s.add(d)
		require.Equal(t, n, i)
		require.Equal(t, !known, isNew)
		require.Equal(t, len(want), s.len())
	}
}
