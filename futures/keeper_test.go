package futures_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/futures"
)

// A value has exactly one keeper: the future until a reader takes it, the reader
// from then on.

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

// A callback that is given the value while the future settles has it before
// anybody else can cancel.
func TestCallback_TakesTheValueItWaitsFor(t *testing.T) {
	var p futures.Promise[*lease]
	c := &cancels{}
	p.Bind(c)
	var got *lease
	p.Future().OnDone(func(v *lease, _ error) {
		require.False(t, p.Future().Cancel())
		got = v
	})
	require.True(t, p.Resolve(&lease{1}, nil))
	require.Equal(t, 1, got.id)
	require.False(t, p.Future().Cancel())
	require.Empty(t, c.dropped)
}

func TestCancel_AfterAFailureGivesNothingBack(t *testing.T) {
	var p futures.Promise[*lease]
	c := &cancels{}
	p.Bind(c)
	p.Resolve(nil, errOther)
	require.False(t, p.Future().Cancel())
	_, err := p.Future().Result()
	require.Equal(t, errOther, err)
	require.Empty(t, c.dropped)
}

// Of readers that take a value and readers that cancel, one side wins for all.
func TestResult_RacesCancelAfterTheGrant(t *testing.T) {
	wins := map[bool]int{}
	for i := range 5000 {
		var p futures.Promise[*lease]
		var dropped atomic.Int64
		p.Bind(&counter{&dropped})
		f := p.Future()
		var got, cancelled atomic.Int64
		var wg sync.WaitGroup
		race := func(fn func()) { wg.Go(fn) }
		reader := func() {
			<-f.Done()
			if v, err := f.Result(); err == nil && v != nil {
				got.Add(1)
			}
		}
		canceller := func() {
			if i%2 == 0 {
				<-f.Done()
			}
			if f.Cancel() {
				cancelled.Add(1)
			}
		}
		resolved := false
		race(func() { resolved = p.Resolve(&lease{1}, nil) })
		race(canceller)
		race(reader)
		race(reader)
		race(canceller)
		wg.Wait()
		taken := got.Load() > 0
		wins[taken]++
		if taken {
			require.EqualValues(t, 2, got.Load(), "all readers agree")
			require.Zero(t, cancelled.Load())
			require.Zero(t, dropped.Load())
		} else {
			require.EqualValues(t, 1, cancelled.Load())
			require.Equal(t, resolved, dropped.Load() == 1, "dropped, or left with the one who brought it")
		}
	}
	t.Logf("taken %d times, cancelled %d times", wins[true], wins[false])
}

// counter is a Source that counts what is dropped.
type counter struct{ dropped *atomic.Int64 }

func (c *counter) Cancel()     {}
func (c *counter) Drop(*lease) { c.dropped.Add(1) }

// named is a Source that explains.
type named struct{ cancels }

func (n *named) Explain(err error) error { return fmt.Errorf("named: %w", err) }

func TestSource_ExplainsTheEnd(t *testing.T) {
	start := func() *futures.Promise[*lease] {
		p := new(futures.Promise[*lease])
		p.Bind(&named{})
		return p
	}
	p := start()
	p.Future().Cancel()
	_, err := p.Future().Result()
	require.ErrorIs(t, err, futures.ErrCanceled)
	require.EqualError(t, err, "named: futures: cancelled")

	p = start()
	p.Resolve(&lease{1}, nil)
	p.Future().Cancel()
	_, err = p.Future().Result()
	require.EqualError(t, err, "named: futures: cancelled")

	p = start()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = p.Future().Await(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.EqualError(t, err, "named: context canceled")

	p = start()
	p.Future().OnDone(func(_ *lease, err error) { require.EqualError(t, err, "named: futures: cancelled") })
	p.Future().Cancel()

	p = start()
	p.Resolve(nil, errOther)
	_, err = p.Future().Result()
	require.Equal(t, errOther, err, "what the source said itself needs no explanation")
}
