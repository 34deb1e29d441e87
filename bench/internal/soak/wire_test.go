package soak

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/bench/internal/check"
)

func TestRecord_ArrivesUnchanged(t *testing.T) {
	hold := &check.Hold{ID: 1<<40 | 7, Name: 3, Proc: 2, Token: 9, Asked: 1, From: 2, Seen: 3, Claim: 4, Ending: 5, Ended: 6, Wrote: 7, How: check.Lost, Early: true, Permits: 3}
	want := []record{
		{Ready: true}, {Open: hold}, {Hold: hold}, {Hold: &check.Hold{}},
		{Write: &check.Write{Hold: 8, Token: 9, Before: 10, After: 11, Name: 1, Proc: 2, Accepted: true, Late: true, Valid: true}},
		{Loss: &check.Loss{Proc: 1, Claim: 2, Saw: 3, Timer: true}}, {Figures: &figures{requests: 1, scriptsSent: 1 << 60}},
		{Fault: "two\nlines"}, {Last: &lastWords{Before: 1, After: 2, Stacks: "x", Stuck: 3, Close: "y"}},
	}
	r := newRecorder()
	for _, x := range want {
		r.put(x)
	}
	var out bytes.Buffer
	require.NoError(t, r.flush(&out))
	read := func(b []byte) (got []record, err error) {
		return got, readRecords(bytes.NewReader(b), func(x record) { got = append(got, x) })
	}
	all := out.Bytes()
	got, err := read(all)
	require.NoError(t, err)
	require.Equal(t, want, got)

	// A process that is killed leaves a part.
	for n := range all {
		part, err := read(all[:n])
		require.NoError(t, err)
		require.Equal(t, want[:len(part)], append([]record{}, part...))
		require.Less(t, len(part), len(want))
	}
	_, err = read(bytes.Repeat([]byte("noise on standard output"), 10))
	require.Error(t, err)
}
