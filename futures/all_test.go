package futures_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/futures"
)

// parts are some promises and what became of them.
type parts struct {
	t        *testing.T
	promises []*futures.Promise[*lease]
	cancels  []*cancels
	dropped  []int // ids of leases that were handed to drop
}

func newParts(t *testing.T, n int) *parts {
	p := &parts{t: t}
	for range n {
		c := &cancels{}
		promise := new(futures.Promise[*lease])
		promise.Bind(c)
		p.promises = append(p.promises, promise)
		p.cancels = append(p.cancels, c)
	}
	return p
}

func (p *parts) futures() (fs []*futures.Future[*lease]) {
	for _, promise := range p.promises {
		fs = append(fs, promise.Future())
	}
	return fs
}

// resolve brings lease i+1 for part i.
func (p *parts) resolve(i int) bool { return p.promises[i].Resolve(&lease{i + 1}, nil) }

func (p *parts) fail(i int, err error) bool { return p.promises[i].Resolve(nil, err) }

func (p *parts) drop(l *lease) { p.dropped = append(p.dropped, l.id) }

// cancelled returns the parts whose Cancel was called.
func (p *parts) cancelled() (which []int) {
	for i, c := range p.cancels {
		require.LessOrEqual(p.t, c.n, 1)
		if c.n > 0 {
			which = append(which, i)
		}
	}
	return which
}

// returned returns the values that went back to the source of each part.
func (p *parts) returned() (which [][]int) {
	for _, c := range p.cancels {
		which = append(which, c.dropped)
	}
	return which
}

func ids(ls []*lease) (ids []int) {
	for _, l := range ls {
		if l == nil {
			ids = append(ids, 0)
		} else {
			ids = append(ids, l.id)
		}
	}
	return ids
}

func TestAll_Succeed(t *testing.T) {
	p := newParts(t, 3)
	fs := p.futures()
	f := futures.All(p.drop, fs...)
	clear(fs) // the slice is the caller's again
	for _, i := range []int{2, 0, 1} {
		_, err := f.Result()
		require.Equal(t, futures.ErrPending, err)
		require.True(t, p.resolve(i))
	}
	got, err := f.Result()
	require.NoError(t, err)
	require.Equal(t, []int{1, 2, 3}, ids(got), "in the order of the inputs")
	require.Empty(t, p.cancelled())
	require.Empty(t, p.dropped)
	require.False(t, f.Cancel())
	require.Empty(t, p.dropped, "the reader has them")
}

func TestAll_FirstFailureCancelsTheRest(t *testing.T) {
	p := newParts(t, 4)
	f := futures.All(p.drop, p.futures()...)
	f.OnDone(func([]*lease, error) { require.Equal(t, []int{2}, p.dropped, "who sees the failure holds nothing") })
	p.resolve(1)
	p.fail(2, errOther)
	require.Equal(t, []int{0, 3}, p.cancelled())
	require.False(t, p.resolve(0))

	got, err := f.Result()
	require.ErrorIs(t, err, errOther)
	require.NotErrorIs(t, err, futures.ErrCanceled, "that is All's own doing")
	require.Nil(t, got)
	require.Equal(t, []int{2}, p.dropped, "what arrived is given back")
}

func TestAll_WaitsForEveryInputAfterAFailure(t *testing.T) {
	p := newParts(t, 3)
	var seen error
	p.cancels[0].do = func() { p.fail(2, errOther2) }
	f := futures.All(p.drop, p.futures()...)
	f.OnDone(func(_ []*lease, err error) { seen = err })
	p.fail(1, errOther)
	require.ErrorIs(t, seen, errOther)
	require.ErrorIs(t, seen, errOther2, "a second failure is told as well")
	require.Equal(t, "other\nanother", seen.Error(), "in the order of the inputs")
}

func TestAll_InputCancelledByAnother(t *testing.T) {
	p := newParts(t, 2)
	f := futures.All(p.drop, p.futures()...)
	p.promises[0].Future().Cancel()
	_, err := f.Result()
	require.ErrorIs(t, err, futures.ErrCanceled, "it is the reason, here")
	require.Equal(t, []int{0, 1}, p.cancelled())
}

func TestAll_Cancelled(t *testing.T) {
	p := newParts(t, 4)
	p.promises[1].Future().OnDone(func(*lease, error) {
		require.True(t, p.resolve(3)) // part 3 wins its race against the cancel, which has come to part 1 just now
	})
	f := futures.All(p.drop, p.futures()...)
	p.resolve(0)
	require.True(t, f.Cancel())
	got, err := f.Result()
	require.Nil(t, got)
	require.Equal(t, futures.ErrCanceled, err)
	require.Equal(t, []int{1, 2}, p.cancelled())
	require.Equal(t, []int{1, 4}, p.dropped)

	f = futures.All(p.drop, futures.Ready(&lease{5}, nil), futures.Ready(&lease{6}, nil))
	<-f.Done()
	require.True(t, f.Cancel(), "nobody has taken the values")
	require.Equal(t, []int{1, 4, 5, 6}, p.dropped)
}

// Without a drop, values go back to where they came from.
func TestAll_WithoutADrop(t *testing.T) {
	p := newParts(t, 2)
	f := futures.All(nil, p.futures()...)
	p.resolve(0)
	require.True(t, f.Cancel())
	require.Equal(t, []int{1}, p.cancelled())
	require.Equal(t, [][]int{{1}, nil}, p.returned())

	p = newParts(t, 2)
	futures.All(nil, p.futures()...)
	p.resolve(0)
	p.fail(1, errOther)
	require.Equal(t, [][]int{{1}, nil}, p.returned())

	f = futures.All(nil, futures.Ready(&lease{1}, nil), futures.Ready[*lease](nil, errOther))
	_, err := f.Result()
	require.ErrorIs(t, err, errOther)
}
