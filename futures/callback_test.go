package futures_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/futures"
)

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

func TestCallback_RunsBeforeTheSource(t *testing.T) {
	var p futures.Promise[int]
	var order []string
	p.Bind(&told{func() { order = append(order, "source") }})
	p.Future().OnDone(func(_ int, err error) {
		require.Equal(t, futures.ErrCanceled, err)
		order = append(order, "callback")
	})
	p.Future().Cancel()
	require.Equal(t, []string{"callback", "source"}, order)
}

// A callback may do anything with its future; no lock is held.
func TestCallback_MayUseItsFuture(t *testing.T) {
	for name, settle := range map[string]func(*futures.Promise[int]) bool{
		"resolved":  func(p *futures.Promise[int]) bool { return p.Resolve(1, nil) },
		"cancelled": func(p *futures.Promise[int]) bool { return p.Future().Cancel() },
	} {
		t.Run(name, func(t *testing.T) {
			var p futures.Promise[int]
			f := p.Future()
			p.Bind(&told{func() { require.False(t, f.Cancel()) }})
			var order []string
			f.OnDone(func(v int, err error) {
				require.False(t, f.Cancel())
				require.False(t, p.Resolve(2, nil))
				got, gotErr := f.Await(t.Context())
				require.Equal(t, v, got)
				require.Equal(t, err, gotErr)
				order = append(order, "first")
				f.OnDone(func(int, error) { order = append(order, "from the first, at once") })
			})
			f.OnDone(func(int, error) { order = append(order, "second") })
			require.True(t, settle(&p))
			require.Equal(t, []string{"first", "from the first, at once", "second"}, order)
		})
	}
}

// told is the Source of a number.
type told struct{ cancel func() }

func (s *told) Cancel()  { s.cancel() }
func (s *told) Drop(int) { panic("there is no value") }
