package futures_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/futures"
)

// A value has exactly one keeper: the future until a reader takes it, the reader from then on.

func offered() (*futures.Future[*lease], *cancels) {
	p, c := new(futures.Promise[*lease]), &cancels{}
	p.Bind(c)
	p.Resolve(&lease{1}, nil)
	return p.Future(), c
}

func TestCancel_GivesBackWhatNobodyHasTaken(t *testing.T) {
	f, c := offered()
	<-f.Done() // to see that there is a value does not take it
	require.True(t, f.Cancel())
	require.Equal(t, []int{1}, c.dropped)
	require.Zero(t, c.n, "there was nothing left to stop")

	require.False(t, f.Cancel())
	v, err := f.Result()
	require.Nil(t, v)
	require.Equal(t, futures.ErrCanceled, err)
	_, err = f.Await(t.Context())
	require.Equal(t, futures.ErrCanceled, err)
	f.OnDone(func(v *lease, err error) {
		require.Nil(t, v)
		require.Equal(t, futures.ErrCanceled, err)
	})
	require.True(t, isClosed(f.Done()))
	require.Equal(t, []int{1}, c.dropped, "once")
}

func TestCancel_LeavesATakenValue(t *testing.T) {
	for name, take := range map[string]func(*futures.Future[*lease]) *lease{
		"by Result": func(f *futures.Future[*lease]) *lease {
			v, _ := f.Result()
			return v
		},
		"by Await": func(f *futures.Future[*lease]) *lease {
			v, _ := f.Await(t.Context())
			return v
		},
		"by Await when its context had ended": func(f *futures.Future[*lease]) *lease {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			v, _ := f.Await(ctx)
			return v
		},
		"by a callback": func(f *futures.Future[*lease]) (got *lease) {
			f.OnDone(func(v *lease, _ error) { got = v })
			return got
		},
	} {
		t.Run(name, func(t *testing.T) {
			f, c := offered()
			v := take(f)
			require.Equal(t, 1, v.id)
			require.False(t, f.Cancel())
			require.Empty(t, c.dropped)
			for range 2 {
				again, err := f.Result()
				require.NoError(t, err)
				require.Same(t, v, again)
			}
		})
	}
}

// Of all that settle, take or cancel a future at once, one side wins for all. No value is lost: the
// readers get it, its Source gets it back, or its writer keeps it.
func TestFuture_Races(t *testing.T) {
	for i := range 5000 {
		var p futures.Promise[*lease]
		var got, cancelled, resolved, told, dropped, called atomic.Int64
		p.Bind(&counter{&told, &dropped})
		f := p.Future()
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		count := func(n *atomic.Int64, ok bool) {
			if ok {
				n.Add(1)
			}
		}
		read := func(v *lease, err error) { count(&got, err == nil && v != nil) }
		canceller := func() {
			if i%2 == 0 {
				<-f.Done()
			}
			count(&cancelled, f.Cancel())
		}
		for range 2 {
			wg.Go(func() { count(&resolved, p.Resolve(&lease{1}, nil)) })
			wg.Go(canceller)
		}
		wg.Go(func() { <-f.Done(); read(f.Result()) })
		wg.Go(func() {
			v, err := f.Await(ctx)
			read(v, err)
			count(&cancelled, errors.Is(err, context.Canceled))
		})
		if i%3 == 0 {
			wg.Go(cancel)
			wg.Go(func() { f.OnDone(func(v *lease, err error) { called.Add(1); read(v, err) }) })
		}
		wg.Wait()
		cancel()
		require.Equal(t, i%3 == 0, called.Load() == 1)
		require.EqualValues(t, 1, cancelled.Load()+min(got.Load(), 1), "taken or cancelled")
		if got.Load() > 0 {
			require.Equal(t, 2+called.Load(), got.Load(), "all readers agree")
			require.EqualValues(t, []int64{1, 0, 0}, []int64{resolved.Load(), told.Load(), dropped.Load()})
		} else {
			require.Equal(t, resolved.Load(), dropped.Load())
			require.EqualValues(t, 1, told.Load()+dropped.Load())
		}
	}
}

// counter is a Source that counts.
type counter struct{ told, dropped *atomic.Int64 }

func (c *counter) Cancel()     { c.told.Add(1) }
func (c *counter) Drop(*lease) { c.dropped.Add(1) }

// named is a Source that explains.
type named struct{ cancels }

func (n *named) Explain(err error) error { return fmt.Errorf("named: %w", err) }

func TestSource_ExplainsTheEnd(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	const cancelled = "named: futures: cancelled"
	for _, test := range []struct {
		end  func(*futures.Promise[*lease])
		ctx  context.Context
		want string
	}{
		{func(p *futures.Promise[*lease]) { p.Future().Cancel() }, t.Context(), cancelled},
		{func(p *futures.Promise[*lease]) { p.Resolve(&lease{1}, nil); p.Future().Cancel() }, t.Context(), cancelled},
		{func(*futures.Promise[*lease]) {}, ended, "named: context canceled"},
		{func(p *futures.Promise[*lease]) { p.Resolve(nil, errOther) }, t.Context(), "other"},
	} {
		var p futures.Promise[*lease]
		p.Bind(&named{})
		test.end(&p)
		_, err := p.Future().Await(test.ctx)
		require.EqualError(t, err, test.want)
	}
	var p futures.Promise[*lease]
	p.Bind(&named{})
	p.Future().OnDone(func(_ *lease, err error) { require.EqualError(t, err, cancelled) })
	p.Future().Cancel()
}
