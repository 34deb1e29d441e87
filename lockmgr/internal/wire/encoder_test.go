package wire

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// manager is as long as a real one.
const manager = "00112233-4455-6677-8899-aabbccddeeff"

// Words share a chunk, and do not change when the next chunk begins.
func TestEncoder_WordsStayWhenAChunkIsFull(t *testing.T) {
	e := encoder{manager: manager}
	var got, want []string
	for i := range uint64(200) {
		name := fmt.Sprint("n", i)
		if i%50 == 0 {
			name = strings.Repeat("{x}", chunkSize)
		}
		got = append(got, e.holder(i), e.channel(name))
		want = append(want, HolderID(manager, i), Channel(name))
	}
	require.Equal(t, want, got)
}
