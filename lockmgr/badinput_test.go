package lockmgr_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// Bad arguments fail at once, and send nothing.
func TestLock_BadInputSendsNothing(t *testing.T) {
	m, other := dialMini(t, lockmgr.Options{}), dialMini(t, lockmgr.Options{})
	closed := dialMini(t, lockmgr.Options{})
	mustClose(t, closed)
	tests := []struct {
		what string
		m    *lockmgr.Manager
		name string
		opts []lockmgr.LockOption
		want error
	}{
		{"empty name", m, "", nil, lockmgr.ErrInvalidName},
		{"lease too short", m, "a", []lockmgr.LockOption{lockmgr.FixedLease(lockmgr.MinLease - 1)}, lockmgr.ErrInvalidLease},
		{"lease zero", m, "a", []lockmgr.LockOption{lockmgr.FixedLease(0)}, lockmgr.ErrInvalidLease},
		{"lease too long", m, "a", []lockmgr.LockOption{lockmgr.FixedLease(lockmgr.MaxLease + 1)}, lockmgr.ErrInvalidLease},
		{"time to keep too short", m, "a", []lockmgr.LockOption{lockmgr.KeepFor(lockmgr.MinLease - 1)}, lockmgr.ErrInvalidLease},
		{"time to keep zero", m, "a", []lockmgr.LockOption{lockmgr.KeepFor(0)}, lockmgr.ErrInvalidLease},
		{"negative wait", m, "a", []lockmgr.LockOption{lockmgr.MaxWait(-1)}, lockmgr.ErrInvalidWait},
		{"zero owner", m, "a", []lockmgr.LockOption{lockmgr.AsOwner(lockmgr.Owner{})}, lockmgr.ErrInvalidOwner},
		{"foreign owner", m, "a", []lockmgr.LockOption{lockmgr.AsOwner(other.NewOwner())}, lockmgr.ErrInvalidOwner},
		{"closed manager", closed, "a", nil, lockmgr.ErrClosed},
	}
	for _, tt := range tests {
		t.Run(tt.what, func(t *testing.T) {
			f := tt.m.LockAsync(tt.name, tt.opts...)
			require.ErrorIs(t, errOf(f.Result()), tt.want, "LockAsync must have settled at once")
			require.ErrorIs(t, errOf(tt.m.Lock(ctx, tt.name, tt.opts...)), tt.want)
			if tt.want != lockmgr.ErrInvalidWait { // TryLock takes no wait
				require.ErrorIs(t, errOf(tt.m.TryLock(ctx, tt.name, tt.opts...)), tt.want)
			}
		})
	}
	for _, name := range []string{"", "a{b"} {
		require.ErrorIs(t, errOf(m.Inspect(ctx, name)), lockmgr.ErrInvalidName)
		require.ErrorIs(t, errOf(m.ForceUnlock(ctx, name)), lockmgr.ErrInvalidName)
		require.ErrorIs(t, errOf(m.ForceUnlockHolders(ctx, name, "x")), lockmgr.ErrInvalidName)
	}
	require.ErrorIs(t, errOf(closed.Inspect(ctx, "a")), lockmgr.ErrClosed)
	require.ErrorIs(t, errOf(closed.ForceUnlock(ctx, "a")), lockmgr.ErrClosed)
	ended, cancel := context.WithCancelCause(ctx)
	cancel(context.DeadlineExceeded)
	for _, err := range []error{errOf(m.Lock(ended, "a")), errOf(m.TryLock(ended, "a")), errOf(m.Inspect(ended, "a"))} {
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, context.DeadlineExceeded, "the cause")
	}
	require.Zero(t, m.Stats().Scripts)
	require.Zero(t, m.Stats().Pending)
	require.Zero(t, m.Stats().Locks)
}

func TestNew_RefusesNonsense(t *testing.T) {
	require.ErrorIs(t, errOf(lockmgr.New(nil, lockmgr.Options{})), lockmgr.ErrInvalidOption)
	addr, _ := redistest.Mini(t)
	client := must(rueidis.NewClient(lockmgr.TuneClient(rueidis.ClientOption{InitAddress: []string{addr}})))(t)
	defer client.Close()
	for what, o := range map[string]lockmgr.Options{
		"lease too short":      {Lease: time.Millisecond},
		"lease too long":       {Lease: lockmgr.MaxLease + 1},
		"margin too large":     {Margin: time.Second},
		"time-out over a tick": {Lease: 3 * time.Second, CommandTimeout: time.Second},
	} {
		require.ErrorIs(t, errOf(lockmgr.New(client, o)), lockmgr.ErrInvalidOption, what)
		require.ErrorIs(t, errOf(lockmgr.Dial(rueidis.ClientOption{InitAddress: []string{addr}}, o)), lockmgr.ErrInvalidOption, what)
	}
}

// TuneClient overrides what would make a command run twice or out of order, and leaves sizes alone
// that somebody has set.
func TestTuneClient(t *testing.T) {
	opt := lockmgr.TuneClient(rueidis.ClientOption{DisableAutoPipelining: true, ReadBufferEachConn: 1 << 20})
	require.False(t, opt.DisableAutoPipelining, "it would switch AlwaysPipelining off")
	require.True(t, opt.AlwaysPipelining)
	require.True(t, opt.DisableRetry)
	require.True(t, opt.DisableCache)
	require.Equal(t, -1, opt.PipelineMultiplex)
	require.Equal(t, 1<<20, opt.ReadBufferEachConn)
	require.Equal(t, 64<<10, opt.WriteBufferEachConn)
}

func TestDial_BadAddresses(t *testing.T) {
	for _, addresses := range [][]string{nil, {"redis://127.0.0.1:6379"}, {"rediss://user:correct-horse@host:1"}} {
		_, err := lockmgr.Dial(rueidis.ClientOption{InitAddress: addresses}, lockmgr.Options{})
		require.ErrorIs(t, err, lockmgr.ErrInvalidOption, "%q", addresses)
		require.NotContains(t, err.Error(), "correct-horse")
	}
}
