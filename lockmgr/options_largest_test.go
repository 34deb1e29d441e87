package lockmgr_test

import (
	"context"
	"errors"
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/raced"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// largest are values at which a sum or a product could overflow.
var largest = []int64{math.MaxInt64, math.MaxInt64 - 1, math.MaxInt64 / 2, math.MaxInt64/2 + 1, math.MaxInt32, int64(lockmgr.MaxLease), int64(lockmgr.MaxLease) + 1}

// The largest values of each numeric field of Options work like any others, or are refused.
func TestOptions_LargestNumbers(t *testing.T) {
	if raced.On {
		t.Skip("SKIPPED: the race detector watches other tests, which run the same code")
	}
	fields := reflect.TypeFor[lockmgr.Options]()
	var walk func(t *testing.T, of reflect.Type, index []int)
	walk = func(t *testing.T, of reflect.Type, index []int) {
		for i := range of.NumField() {
			f := of.Field(i)
			at := append(index[:len(index):len(index)], i)
			switch {
			case !f.IsExported():
			case f.Type.Kind() == reflect.Struct:
				walk(t, f.Type, at)
			case reflect.Zero(f.Type).CanInt():
				t.Run(f.Name, func(t *testing.T) {
					for _, n := range largest {
						if reflect.Zero(f.Type).OverflowInt(n) {
							continue
						}
						var o lockmgr.Options
						reflect.ValueOf(&o).Elem().FieldByIndex(at).SetInt(n)
						bubble(t, func(t *testing.T, w *scene) { tryOptions(t, w, o, n) })
					}
				})
			}
		}
	}
	walk(t, fields, nil)
}

// tryOptions locks, waits, hands over and unlocks with managers that have some options.
func tryOptions(t *testing.T, w *scene, o lockmgr.Options, n int64) {
	o.Anonymous = true
	net := &network{server: w.server}
	m, err := lockmgr.Dial(rueidis.ClientOption{InitAddress: []string{"pipe:0"}, ForceSingleClient: true, DialCtxFn: net.dial}, o)
	if err != nil {
		require.ErrorIs(t, err, lockmgr.ErrInvalidOption)
		require.Nil(t, m)
		return
	}
	defer func() { mustClose(t, m) }()
	other, _ := w.manager(lockmgr.Options{})
	for range 2 {
		held := must(other.Lock(ctx, "a"))(t, n)
		f, g := m.LockAsync("a"), m.LockAsync("a", lockmgr.Fenced())
		time.Sleep(time.Minute)
		require.NoError(t, held.Unlock(ctx), n)
		l := must(f.Await(ctx))(t, n)
		require.True(t, l.Valid(), n)
		require.ErrorIs(t, errOf(other.TryLock(ctx, "a")), lockmgr.ErrNotAcquired, n)
		require.NoError(t, l.Unlock(ctx), n)
		l = must(g.Await(ctx))(t, n)
		time.Sleep(time.Minute)
		require.True(t, l.Valid(), "renewed")
		require.NoError(t, l.Unlock(ctx), n)
		time.Sleep(time.Minute)
	}
	mustUnlock(t, mustLockAll(t, m, lockmgr.All("b", "c")))
	require.NoError(t, m.Do(ctx, "d", func(context.Context, *lockmgr.Lock) error { return nil }))
	if o.Linger > time.Hour {
		require.NotEmpty(t, w.server.PubSubChannels("*"), "it lingers")
	}
	if o.RetryTime > time.Hour {
		net.cut()
		f := m.LockAsync("e")
		time.Sleep(time.Minute)
		net.heal()
		mustUnlock(t, mustAwait(t, f))
	}
}

// The largest value of each time that a call takes works like any other, or is refused.
func TestLock_LargestTimes(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, other := w.managers(lockmgr.Options{})
		for _, n := range largest {
			d := time.Duration(n)
			if d < time.Hour {
				continue
			}
			for name, o := range map[string]lockmgr.LockOption{
				"wait": lockmgr.MaxWait(d), "lease": lockmgr.FixedLease(d), "hold": lockmgr.MaxHold(d), "keep": lockmgr.KeepFor(d),
			} {
				l, err := m.Lock(ctx, name, o)
				if err != nil {
					require.ErrorIs(t, err, lockmgr.ErrInvalidLease, o.Name())
					require.Greater(t, d, lockmgr.MaxLease)
					continue
				}
				f := other.LockAsync(name, lockmgr.MaxWait(d))
				time.Sleep(time.Minute)
				require.True(t, l.Valid(), "%s of %v", o.Name(), d)
				err = l.Extend(ctx, d)
				require.Truef(t, err == nil || errors.Is(err, lockmgr.ErrInvalidLease) && d > lockmgr.MaxLease, "Extend by %v: %v", d, err)
				require.True(t, l.Valid())
				mustUnlock(t, l)
				if name == "keep" && d > time.Minute {
					f.Cancel()
					must(other.ForceUnlock(ctx, name))(t)
					continue
				}
				next, err := f.Await(ctx)
				require.NoErrorf(t, err, "%s of %v", o.Name(), d)
				mustUnlock(t, next)
			}
			p := m.Permits("permits", 1)
			mustUnlock(t, mustAcquire(t, p, 1, lockmgr.MaxWait(d), lockmgr.MaxHold(d)))
		}
	})
}
