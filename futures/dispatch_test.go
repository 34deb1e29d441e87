package futures_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/futures"
)

// queue is a Source that keeps what is dispatched until the test runs it.
type queue struct {
	cancels
	runs []func()
}

func (q *queue) Dispatch(run func()) { q.runs = append(q.runs, run) }

// run runs what was dispatched, and returns how much that was.
func (q *queue) run() (n int) {
	for ; len(q.runs) > 0; n++ {
		run := q.runs[0]
		q.runs = q.runs[1:]
		run()
	}
	return n
}

func (q *queue) promise() *futures.Promise[*lease] {
	p := new(futures.Promise[*lease])
	p.Bind(q)
	return p
}

// settlements are the ways in which a future gets its result.
var settlements = map[string]func(*futures.Promise[*lease]) bool{
	"resolved":  func(p *futures.Promise[*lease]) bool { return p.Resolve(&lease{1}, nil) },
	"failed":    func(p *futures.Promise[*lease]) bool { return p.Resolve(nil, errOther) },
	"cancelled": func(p *futures.Promise[*lease]) bool { return p.Future().Cancel() },
}

// The goroutine that settles a future runs no callback of a source that dispatches. All callbacks
// of a future are dispatched together.
func TestDispatcher_RunsTheCallbacks(t *testing.T) {
	for name, settle := range settlements {
		t.Run(name, func(t *testing.T) {
			var q queue
			p := q.promise()
			f := p.Future()
			var got []int
			for i := range 3 {
				f.OnDone(func(v *lease, err error) {
					want, wantErr := f.Result()
					require.Equal(t, want, v)
					require.Equal(t, wantErr, err)
					got = append(got, i)
				})
			}
			require.True(t, settle(p))
			require.Empty(t, got)
			require.Len(t, q.runs, 1)
			require.True(t, isClosed(f.Done()), "the result does not wait for the dispatcher")
			f.OnDone(func(*lease, error) { got = append(got, 3) })
			require.Equal(t, []int{3}, got, "one that comes later is called at once")
			q.run()
			require.Equal(t, []int{3, 0, 1, 2}, got)
		})
	}
}

// Await, Result and Done need no dispatcher.
func TestDispatcher_GetsNothingWithoutACallback(t *testing.T) {
	for _, settle := range settlements {
		var q queue
		p := q.promise()
		done := p.Future().Done()
		require.True(t, settle(p))
		<-done
		_, _ = p.Future().Await(t.Context())
		p.Future().OnDone(func(*lease, error) {})
		require.Empty(t, q.runs)
	}
}

// A value is taken as soon as its callback is dispatched.
func TestDispatcher_DispatchedValueIsTaken(t *testing.T) {
	var q queue
	p := q.promise()
	var got *lease
	p.Future().OnDone(func(v *lease, _ error) { got = v })
	v := &lease{1}
	require.True(t, p.Resolve(v, nil))
	require.False(t, p.Future().Cancel())
	require.Nil(t, got)
	q.run()
	require.Same(t, v, got)
	require.Empty(t, q.dropped)
}

// The callbacks of a result go where those of its inputs go.
func TestCombinator_PassesTheDispatcherOn(t *testing.T) {
	var q queue
	a, b, plain := q.promise(), q.promise(), new(futures.Promise[*lease])
	ran := 0
	futures.All(nil, futures.Ready(&lease{0}, nil), plain.Future(), a.Future()).OnDone(func([]*lease, error) { ran++ })
	futures.Any(nil, futures.Any(nil, b.Future())).OnDone(func(*lease, error) { ran++ })
	a.Resolve(&lease{1}, nil)
	plain.Resolve(&lease{2}, nil)
	b.Resolve(&lease{3}, nil)
	require.Zero(t, ran)
	require.Equal(t, 2, q.run())
	require.Equal(t, 2, ran)
}

// An input that is cancelled because another one failed calls back by its own dispatcher, after the
// callbacks of the one that failed.
func TestCombinator_CancelledInputsAreDispatched(t *testing.T) {
	var q queue
	a, b := q.promise(), q.promise()
	var order []string
	all := futures.All(nil, a.Future(), b.Future())
	a.Future().OnDone(func(*lease, error) { order = append(order, "failed") })
	b.Future().OnDone(func(*lease, error) { order = append(order, "cancelled") })
	a.Resolve(nil, errOther)
	require.Empty(t, order)
	require.True(t, isClosed(all.Done()))
	require.Equal(t, 1, q.n, "the source of the other has been told")
	q.run()
	require.Equal(t, []string{"failed", "cancelled"}, order)
}

// drop is code of the caller, so it is dispatched too. If it is nil, values go back at once.
func TestDrop_IsDispatched(t *testing.T) {
	for _, own := range []bool{true, false} {
		var q queue
		var dropped []int
		drop := func(v *lease) { dropped = append(dropped, v.id) }
		if !own {
			drop = nil
		}
		a, b := q.promise(), q.promise()
		all := futures.All(drop, a.Future(), b.Future())
		a.Resolve(&lease{1}, nil)
		b.Resolve(nil, errOther)
		require.True(t, isClosed(all.Done()))

		one := futures.Any(drop, futures.Ready(&lease{2}, nil), q.promise().Future())
		require.True(t, one.Cancel())
		if own {
			require.Empty(t, dropped)
			require.Equal(t, 2, q.run())
			require.Equal(t, []int{1, 2}, dropped)
			require.Empty(t, q.dropped)
		} else {
			require.Empty(t, q.runs)
			require.Equal(t, []int{1}, q.dropped)
		}
	}
}
