package futures_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/futures"
)

var errOther = errors.New("other")

// lease stands for a value that has to be given back.
type lease struct{ id int }

// cancels is a Source. It counts its cancels and keeps what was dropped.
type cancels struct {
	n       int
	do      func()
	dropped []int // ids
}

func (c *cancels) Drop(l *lease) { c.dropped = append(c.dropped, l.id) }

func (c *cancels) Cancel() {
	c.n++
	if c.do != nil {
		c.do()
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestFuture_Size(t *testing.T) {
	require.LessOrEqual(t, unsafe.Sizeof(futures.Future[*lease]{}), uintptr(80))
	require.Equal(t, unsafe.Sizeof(futures.Future[*lease]{}), unsafe.Sizeof(futures.Promise[*lease]{}))
}

func TestFuture_Pending(t *testing.T) {
	var p futures.Promise[*lease]
	f := p.Future()
	require.Same(t, f, p.Future())
	v, err := f.Result()
	require.Nil(t, v)
	require.Equal(t, futures.ErrPending, err)
	require.False(t, isClosed(f.Done()))
	require.Equal(t, f.Done(), f.Done(), "the channel is always the same")
}

func TestResolve(t *testing.T) {
	for _, test := range []struct {
		name  string
		value *lease
		err   error
	}{
		{"a value", &lease{1}, nil},
		{"an error", nil, errOther},
		{"both", &lease{1}, errOther},
		{"neither", nil, nil},
		{"an error of our own", nil, futures.ErrPending},
	} {
		t.Run(test.name, func(t *testing.T) {
			var p futures.Promise[*lease]
			c := &cancels{}
			p.Bind(c)
			f := p.Future()
			early := f.Done()
			require.True(t, p.Resolve(test.value, test.err))
			require.False(t, p.Resolve(&lease{2}, errors.New("too late")))
			require.True(t, isClosed(early))
			require.True(t, isClosed(f.Done()))
			for range 2 {
				v, err := f.Result()
				require.Same(t, test.value, v)
				require.Equal(t, test.err, err)
				v, err = f.Await(t.Context())
				require.Same(t, test.value, v)
				require.Equal(t, test.err, err)
			}
			require.False(t, f.Cancel(), "the value is taken, or there is none")
			require.Zero(t, c.n, "nothing was cancelled")
			require.Empty(t, c.dropped)
		})
	}
}

func TestReady(t *testing.T) {
	f := futures.Ready(&lease{1}, errOther)
	require.True(t, isClosed(f.Done()))
	require.False(t, f.Cancel())
	v, err := f.Result()
	require.Equal(t, 1, v.id)
	require.Equal(t, errOther, err)
	called := false
	f.OnDone(func(*lease, error) { called = true })
	require.True(t, called)
}

func TestCancel(t *testing.T) {
	var p futures.Promise[*lease]
	f := p.Future()
	done := f.Done()
	c := &cancels{do: func() {
		_, err := f.Result()
		require.Equal(t, futures.ErrCanceled, err, "the future is settled before its Source is told")
		require.True(t, isClosed(done))
	}}
	p.Bind(c)

	require.True(t, f.Cancel())
	require.False(t, f.Cancel())
	require.False(t, p.Resolve(&lease{1}, nil), "the value stays with whoever brought it")
	require.True(t, isClosed(done))
	v, err := f.Result()
	require.Nil(t, v)
	require.Equal(t, futures.ErrCanceled, err)
	_, err = f.Await(t.Context())
	require.Equal(t, futures.ErrCanceled, err)
	require.Equal(t, 1, c.n)
}

func TestCancel_WithoutSource(t *testing.T) {
	require.True(t, new(futures.Promise[int]).Future().Cancel())
	require.True(t, new(futures.Future[int]).Cancel())
}

func TestAwait_GetsWhatComesLater(t *testing.T) {
	for name, ctx := range map[string]func(context.Context) context.Context{
		"a context that may end":   func(ctx context.Context) context.Context { return ctx },
		"a context without an end": context.WithoutCancel,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var p futures.Promise[*lease]
				go func() {
					synctest.Wait() // until Await is blocked, durably
					p.Resolve(&lease{7}, nil)
				}()
				v, err := p.Future().Await(ctx(t.Context()))
				require.NoError(t, err)
				require.Equal(t, 7, v.id)
			})
		})
	}
}

func TestAwait_EndsWithItsContext(t *testing.T) {
	wrapped := errors.Join(context.DeadlineExceeded, errOther)
	for _, test := range []struct {
		name string
		make func() (context.Context, context.CancelFunc)
		want []error
	}{
		{"cancelled", func() (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(context.Background())
			time.AfterFunc(time.Minute, cancel)
			return ctx, cancel
		}, []error{context.Canceled}},
		{"cancelled for a reason", func() (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancelCause(context.Background())
			time.AfterFunc(time.Minute, func() { cancel(errOther) })
			return ctx, func() { cancel(nil) }
		}, []error{context.Canceled, errOther}},
		{"too late", func() (context.Context, context.CancelFunc) {
			return context.WithTimeout(context.Background(), time.Minute)
		}, []error{context.DeadlineExceeded}},
		{"too late for a reason", func() (context.Context, context.CancelFunc) {
			return context.WithTimeoutCause(context.Background(), time.Minute, errOther)
		}, []error{context.DeadlineExceeded, errOther}},
		{"too late for a reason that says so", func() (context.Context, context.CancelFunc) {
			return context.WithTimeoutCause(context.Background(), time.Minute, wrapped)
		}, []error{context.DeadlineExceeded, errOther, wrapped}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := test.make()
				defer cancel()
				var p futures.Promise[*lease]
				c := &cancels{}
				p.Bind(c)
				start := time.Now()
				v, err := p.Future().Await(ctx)
				require.Equal(t, time.Minute, time.Since(start))
				require.Nil(t, v)
				for _, want := range test.want {
					require.ErrorIs(t, err, want)
				}
				require.Equal(t, 1, c.n)
				require.False(t, p.Resolve(&lease{1}, nil))
				_, err = p.Future().Result()
				require.Equal(t, futures.ErrCanceled, err)
			})
		})
	}
}

func TestAwait_PrefersAResultToAnEndedContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	v, err := futures.Ready(&lease{1}, nil).Await(ctx)
	require.NoError(t, err)
	require.Equal(t, 1, v.id)
}

// lateEnd is a context that has ended. Its Done resolves the future.
type lateEnd struct {
	context.Context
	p *futures.Promise[*lease]
}

func (c lateEnd) Done() <-chan struct{} {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	c.p.Resolve(&lease{1}, nil)
	return ended.Done()
}

func TestAwait_ReturnsAResultThatRacesTheEnd(t *testing.T) {
	for range 100 { // select picks either
		var p futures.Promise[*lease]
		v, err := p.Future().Await(lateEnd{t.Context(), &p})
		require.NoError(t, err)
		require.Equal(t, 1, v.id)
	}
}

func TestAwait_CancelledByAnotherReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p futures.Promise[*lease]
		go func() {
			synctest.Wait()
			p.Future().Cancel()
		}()
		_, err := p.Future().Await(t.Context())
		require.Equal(t, futures.ErrCanceled, err)
	})
}

// If several goroutines try to settle a future, one of them does. No value is
// lost: a reader gets it, or its writer keeps it.
func TestResolve_RacesCancel(t *testing.T) {
	for i := range 3000 {
		var p futures.Promise[*lease]
		told := make(chan struct{}, 10)
		p.Bind(&cancels{do: func() { told <- struct{}{} }})
		f := p.Future()
		ctx, cancel := context.WithCancel(t.Context())

		var mu sync.Mutex
		settled, owned, read, called := 0, 0, 0, 0
		count := func(n *int, ok bool) {
			mu.Lock()
			defer mu.Unlock()
			if ok {
				*n++
			}
		}
		callback := func(*lease, error) { count(&called, true) }
		f.OnDone(callback)

		var wg sync.WaitGroup
		race := func(fn func()) { wg.Go(fn) }
		for n := range 2 {
			race(func() {
				won := p.Resolve(&lease{n}, nil)
				count(&settled, won)
				count(&owned, !won)
			})
		}
		if i%3 > 0 {
			race(func() { count(&settled, f.Cancel()) })
		}
		if i%3 > 1 {
			race(cancel)
		}
		race(func() {
			v, err := f.Await(ctx)
			count(&settled, errors.Is(err, context.Canceled))
			count(&read, err == nil && v != nil)
		})
		race(func() { f.OnDone(callback) })
		race(func() { <-f.Done() })
		wg.Wait()
		cancel()

		v, err := f.Result()
		require.NotEqual(t, futures.ErrPending, err)
		require.Equal(t, err == nil, v != nil)
		require.Equal(t, 1, settled, "settled once")
		require.Equal(t, 2, called, "each callback once")
		if err == nil {
			require.Equal(t, 1, owned)
			require.Equal(t, 1, read)
			require.Empty(t, told)
		} else {
			require.Equal(t, 2, owned)
			require.Zero(t, read)
			require.Len(t, told, 1)
		}
	}
}

func TestFuture_NoChannelUnlessNeeded(t *testing.T) {
	type request struct {
		_ [4]int
		futures.Promise[*lease]
	}
	l := &lease{1}
	var sink *request
	require.Equal(t, 1.0, testing.AllocsPerRun(1000, func() {
		sink = new(request)
		f := sink.Future()
		_, _ = f.Result()
		sink.Resolve(l, nil)
		<-f.Done()
		_, _ = f.Await(t.Context())
	}), "the request itself")
}
