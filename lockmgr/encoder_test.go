package lockmgr

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
)

// The words of a batch share memory, and stay as they are when it is used up.
func TestEncoder_WordsStayWhenAChunkIsFull(t *testing.T) {
	e := encoder{id: newIdentity()}
	var got, want []string
	for i := range uint64(200) {
		name := fmt.Sprint("n", i)
		if i%50 == 0 {
			name = strings.Repeat("{x}", chunkSize)
		}
		got = append(got, e.field(i), e.channel(name))
		want = append(want, e.id.field(i), channelOf(name))
	}
	require.Equal(t, want, got)
}

func TestEncoder_NeedsLittleMemory(t *testing.T) {
	e := encoder{id: newIdentity()}
	acquire := &core.Op{Kind: core.KindAcquire, Name: "name", Lease: lease, Owner: 1 << 40}
	release := &core.Op{Kind: core.KindRelease, Name: "name", Others: []uint64{1 << 40}}
	var c command
	allocated := testing.AllocsPerRun(1000, func() {
		e.op(acquire, &c)
		e.op(release, &c)
	})
	require.LessOrEqual(t, allocated, 0.5, "a chunk is for several commands")
}
