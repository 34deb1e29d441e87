package wire

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
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

func TestEncoder_NeedsLittleMemory(t *testing.T) {
	e := encoder{manager: manager}
	acquire := &core.Op{Verb: core.VerbAcquire, Name: "name", Lease: lease, Number: 1 << 40}
	release := &core.Op{Verb: core.VerbRelease, Name: "name", OtherNumbers: []uint64{1 << 40}}
	var c Command
	allocated := testing.AllocsPerRun(1000, func() {
		formatOf(acquire).write(&e, acquire, &c)
		formatOf(release).write(&e, release, &c)
	})
	require.LessOrEqual(t, allocated, 0.5, "a chunk is for several commands")
}
