package futures_test

import (
	"context"
	"errors"
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
			for range 2 {
				require.False(t, p.Resolve(&lease{2}, errors.New("too late")))
			}
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
	done, called := f.Done(), false
	c := &cancels{do: func() {
		_, err := f.Result()
		require.Equal(t, futures.ErrCanceled, err, "the future is settled before its Source is told")
		require.True(t, isClosed(done))
	}}
	p.Bind(c)

	f.OnDone(func(_ *lease, err error) {
		require.Equal(t, futures.ErrCanceled, err)
		require.Zero(t, c.n, "callbacks run before the Source is told")
		called = true
	})
	require.True(t, f.Cancel())
	require.True(t, called)
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
	for _, endless := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			ctx := t.Context()
			if endless {
				ctx = context.WithoutCancel(ctx)
			}
			var p futures.Promise[*lease]
			go func() {
				synctest.Wait() // until Await is blocked, durably
				p.Resolve(&lease{7}, nil)
			}()
			v, err := p.Future().Await(ctx)
			require.NoError(t, err)
			require.Equal(t, 7, v.id)
		})
	}
}

func TestAwait_EndsWithItsContext(t *testing.T) {
	wrapped := errors.Join(context.DeadlineExceeded, errOther)
	for name, test := range map[string]struct {
		cause error
		want  []error
	}{
		"too late":                           {nil, []error{context.DeadlineExceeded}},
		"too late for a reason":              {errOther, []error{context.DeadlineExceeded, errOther}},
		"too late for a reason that says so": {wrapped, []error{context.DeadlineExceeded, errOther, wrapped}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeoutCause(context.Background(), time.Minute, test.cause)
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

func TestCallback_RunsInOrderAfterDone(t *testing.T) {
	var p futures.Promise[int]
	f := p.Future()
	var order []int
	done := f.Done()
	for i := range 5 {
		f.OnDone(func(v int, err error) {
			require.Equal(t, 42, v)
			require.Equal(t, errOther, err)
			require.True(t, isClosed(done))
			got, _ := f.Result()
			require.Equal(t, 42, got)
			order = append(order, i)
		})
	}
	require.Empty(t, order)
	p.Resolve(42, errOther)
	p.Resolve(43, nil)
	f.Cancel()
	require.Equal(t, []int{0, 1, 2, 3, 4}, order)
}

// A callback may do anything with its future; no lock is held.
func TestCallback_MayUseItsFuture(t *testing.T) {
	for _, settle := range settlements {
		var p futures.Promise[*lease]
		f := p.Future()
		p.Bind(&cancels{do: func() { require.False(t, f.Cancel()) }})
		var order []string
		f.OnDone(func(v *lease, err error) {
			require.False(t, f.Cancel())
			require.False(t, p.Resolve(&lease{2}, nil))
			got, gotErr := f.Await(t.Context())
			require.Same(t, v, got)
			require.Equal(t, err, gotErr)
			order = append(order, "first")
			f.OnDone(func(*lease, error) { order = append(order, "from the first, at once") })
		})
		f.OnDone(func(*lease, error) { order = append(order, "second") })
		require.True(t, settle(&p))
		require.Equal(t, []string{"first", "from the first, at once", "second"}, order)
	}
}
