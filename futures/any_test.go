package futures_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/futures"
)

var errOther2 = errors.New("another")

func TestAny_FirstSuccess(t *testing.T) {
	p := newParts(t, 4)
	p.cancels[0].do = func() { require.True(t, p.resolve(3)) } // wins its race against the cancel
	fs := p.futures()
	f := futures.Any(p.drop, fs...)
	clear(fs)
	p.fail(2, errOther)
	_, err := f.Result()
	require.Equal(t, futures.ErrPending, err)

	p.resolve(1)
	got, err := f.Result()
	require.NoError(t, err)
	require.Equal(t, 2, got.id)
	require.Equal(t, []int{0}, p.cancelled())
	require.Equal(t, []int{4}, p.dropped, "came second")
	require.False(t, f.Cancel(), "the value is taken")
	require.Equal(t, []int{4}, p.dropped)
}

func TestAny_CancelledAfterItSucceeded(t *testing.T) {
	p := newParts(t, 3)
	f := futures.Any(p.drop, p.futures()...)
	p.resolve(1)
	<-f.Done()
	require.True(t, f.Cancel())
	require.Equal(t, []int{2}, p.dropped)

	p = newParts(t, 3)
	f = futures.Any(nil, p.futures()...)
	p.resolve(2)
	require.True(t, f.Cancel())
	require.Equal(t, [][]int{nil, nil, {3}}, p.returned())
}

func TestAny_AllFail(t *testing.T) {
	p := newParts(t, 3)
	f := futures.Any(p.drop, p.futures()...)
	p.fail(2, errOther2)
	p.promises[1].Future().Cancel()
	p.fail(0, errOther)
	got, err := f.Result()
	require.Nil(t, got)
	require.ErrorIs(t, err, errOther)
	require.ErrorIs(t, err, futures.ErrCanceled)
	require.Equal(t, "other\nfutures: cancelled\nanother", err.Error(), "in the order of the inputs")
}

func TestCombinator_OfNone(t *testing.T) {
	got, err := futures.All[int](nil).Result()
	require.NoError(t, err)
	require.Empty(t, got)
	_, err = futures.Any[int](nil).Result()
	require.Equal(t, futures.ErrNone, err)
}

func TestAny_Cancelled(t *testing.T) {
	p := newParts(t, 3)
	p.cancels[0].do = func() { require.True(t, p.resolve(2)) }
	f := futures.Any(p.drop, p.futures()...)
	require.True(t, f.Cancel())
	_, err := f.Result()
	require.Equal(t, futures.ErrCanceled, err)
	require.Equal(t, []int{0, 1}, p.cancelled())
	require.Equal(t, []int{3}, p.dropped)

	p = newParts(t, 2)
	p.cancels[0].do = func() { require.True(t, p.resolve(1)) }
	require.True(t, futures.Any(nil, p.futures()...).Cancel())
	require.Equal(t, [][]int{nil, {2}}, p.returned())
}

// In every race, each value that a future accepted is in exactly one place: it is in the result, or
// it was dropped.
func TestCombinator_LosesNothing(t *testing.T) {
	for i := range 4000 {
		var accepted, dropped atomic.Int64
		p := newParts(t, 4)
		drop := func(*lease) { dropped.Add(1) }
		inResult := 0
		count := func(ls ...*lease) {
			for _, l := range ls {
				if l != nil {
					inResult++
				}
			}
		}
		var cancel func() bool
		if i%2 == 0 {
			f := futures.All(drop, p.futures()...)
			f.OnDone(func(ls []*lease, _ error) { count(ls...) })
			cancel = f.Cancel
		} else {
			f := futures.Any(drop, p.futures()...)
			f.OnDone(func(l *lease, _ error) { count(l) })
			cancel = f.Cancel
		}
		var wg sync.WaitGroup
		for part := range p.promises {
			wg.Go(func() {
				if i/2%4 == 1 && part == i/8%4 {
					p.fail(part, errOther)
				} else if p.resolve(part) {
					accepted.Add(1)
				}
			})
		}
		if i/2%4 > 1 {
			wg.Go(func() { cancel() })
		}
		wg.Wait()
		require.Equal(t, accepted.Load(), int64(inResult)+dropped.Load())
	}
}
