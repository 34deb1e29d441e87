package story_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/examples/internal/story"
)

func TestLines(t *testing.T) {
	var out strings.Builder
	s := story.Begin(&out)
	s.Scene("%d. The beginning", 1)
	s.Say("anna", "has %d per cent", 100)
	require.Regexp(t, `^\n1\. The beginning\n +\d+\.\d\ds  anna     has 100 per cent\n$`, out.String())
}

func TestExpect(t *testing.T) {
	want, other := errors.New("want"), errors.New("other")
	require.NoError(t, story.Expect(fmt.Errorf("wrapped: %w", want), want))
	require.ErrorContains(t, story.Expect(nil, want), "there was none")
	require.ErrorIs(t, story.Expect(other, want), other, "so that a cancelled context shows")
}

func TestPause_EndsWithTheContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, story.Pause(ctx, time.Hour), context.Canceled)
	require.NoError(t, story.Pause(t.Context(), 0))
}

func TestShort(t *testing.T) {
	for d, want := range map[time.Duration]string{
		1234 * time.Nanosecond:   "1µs",
		1234 * time.Microsecond:  "1.2ms",
		12345 * time.Microsecond: "12ms",
		1234 * time.Millisecond:  "1.234s",
		12345 * time.Millisecond: "12s",
	} {
		require.Equal(t, want, story.Short(d).String())
	}
}
