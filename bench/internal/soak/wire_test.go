package soak

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/bench/internal/check"
)

// ears keeps what it hears.
type ears struct{ heard []any }

type opened check.Hold

func (e *ears) open(h check.Hold)   { e.heard = append(e.heard, opened(h)) }
func (e *ears) hold(h check.Hold)   { e.heard = append(e.heard, h) }
func (e *ears) write(w check.Write) { e.heard = append(e.heard, w) }
func (e *ears) loss(l check.Loss)   { e.heard = append(e.heard, l) }
func (e *ears) figures(f figures)   { e.heard = append(e.heard, f) }
func (e *ears) fault(text string)   { e.heard = append(e.heard, text) }
func (e *ears) ready()              { e.heard = append(e.heard, true) }
func (e *ears) last(w lastWords)    { e.heard = append(e.heard, w) }

func TestRecord_ArrivesUnchanged(t *testing.T) {
	hold := check.Hold{ID: 1<<40 | 7, Name: 3, Proc: 2, Token: 9, Asked: 1, From: 2, Seen: 3, Claim: 4, Ending: 5, Ended: 6, Wrote: 7, How: check.Lost, Early: true, Permits: 3}
	write := check.Write{Hold: 8, Token: 9, Before: 10, After: 11, Name: 1, Proc: 2, Accepted: true, Late: true, Valid: true}
	loss := check.Loss{Proc: 1, Claim: 2, Saw: 3, Timer: true}
	sums := figures{Requests: 1, Sets: 2, SetNames: 5, PermitGrants: 3, Permits: 6, Scripts: 1 << 60}
	words := lastWords{Before: 1, After: 2, Stacks: "x", Stuck: 3, Close: "y"}

	var r recorder
	r.text(recReady, nil)
	r.put(recOpen, &hold)
	r.put(recHold, &hold)
	r.put(recWrite, &write)
	r.put(recLoss, loss)
	r.json(recFigure, sums)
	r.text(recFault, []byte("two\nlines"))
	r.json(recLast, words)
	want := []any{true, opened(hold), hold, write, loss, sums, "two\nlines", words}

	var out bytes.Buffer
	spare, err := r.flush(&out, nil)
	require.NoError(t, err)
	require.NotEmpty(t, spare)
	all := out.Bytes()
	var e ears
	require.NoError(t, readRecords(bytes.NewReader(all), &e))
	require.Equal(t, want, e.heard)

	// A process that is killed leaves a part.
	for n := range all {
		var e ears
		require.NoError(t, readRecords(bytes.NewReader(all[:n]), &e))
		require.Equal(t, want[:len(e.heard)], append([]any{}, e.heard...))
		require.Less(t, len(e.heard), len(want))
	}
	require.Error(t, readRecords(bytes.NewReader([]byte("?")), &e), "noise on standard output")
}
