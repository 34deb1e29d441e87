package wire

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Each round trip has the whole time-out, though the context is used again.
func TestDeadline_OfEachRoundTrip(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parent, cancel := context.WithCancel(t.Context())
		defer cancel()
		d := &Deadline{parent: parent, timeout: time.Second}
		var first context.Context
		for range 3 {
			ctx := d.StartTimed()
			if first == nil {
				first = ctx
			}
			require.Equal(t, first, ctx, "it is used again")
			at, reported := ctx.Deadline()
			require.True(t, reported)
			require.Equal(t, time.Now().Add(time.Second), at)
			time.Sleep(600 * time.Millisecond)
			require.NoError(t, ctx.Err())
			d.finish()

			ctx = d.Start()
			_, reported = ctx.Deadline()
			require.False(t, reported)
			time.Sleep(600 * time.Millisecond)
			require.NoError(t, ctx.Err())
			d.finish()
		}
		ctx := d.StartTimed()
		time.Sleep(time.Second + time.Millisecond)
		synctest.Wait()
		require.ErrorIs(t, ctx.Err(), context.DeadlineExceeded)
		d.finish()
		require.NoError(t, d.Start().Err(), "an ended context is not used again")
		cancel()
		synctest.Wait()
		ctx = d.Start()
		synctest.Wait()
		require.Error(t, ctx.Err())
		d.finish()
	})
}

// After Close the parent has nothing of a Deadline any more.
func TestDeadline_Close(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parent, cancel := context.WithCancel(t.Context())
		d := &Deadline{parent: parent, timeout: time.Second}
		d.Close()
		ctx := d.Start()
		d.Close()
		cancel()
		time.Sleep(time.Minute)
		require.NoError(t, ctx.Err())
	})
}
