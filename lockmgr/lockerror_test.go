package lockmgr_test

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// requireLockError checks that an error is one LockError, which names its lock and each kind
// exactly once.
func requireLockError(t *testing.T, err error, op, name string, kinds ...error) *lockmgr.LockError {
	t.Helper()
	var e *lockmgr.LockError
	require.ErrorAs(t, err, &e)
	require.Equal(t, op, e.Op)
	require.Equal(t, name, e.Name)
	require.False(t, errors.As(e.Err, new(*lockmgr.LockError)), "wrapped twice: %v", err)
	require.True(t, strings.HasPrefix(err.Error(), fmt.Sprintf("lockmgr: %s %q: ", op, name)), "%v", err)
	require.Equal(t, 1, strings.Count(err.Error(), name), "the name is said once: %v", err)
	require.Equal(t, 1, strings.Count(err.Error(), "lockmgr: "), "%v", err)
	for _, kind := range kinds {
		require.ErrorIs(t, err, kind)
		require.Equal(t, 1, strings.Count(err.Error(), kind.Error()[strings.Index(kind.Error(), ": ")+1:]), "%v", err)
	}
	return e
}

func TestError_NamesItsLockOnce(t *testing.T) {
	t.Parallel()
	m := dialMini(t, lockmgr.Options{MaxLocks: 2})
	ended, cancel := context.WithCancel(ctx)
	cancel()
	const name = "orders:42"
	held := mustLock(t, m, name)

	_, err := m.TryLock(ctx, name)
	require.Zero(t, requireLockError(t, err, "lock", name, lockmgr.ErrNotAcquired).Waited)
	_, err = m.Lock(ctx, name, lockmgr.MaxWait(2*time.Millisecond))
	require.GreaterOrEqual(t, requireLockError(t, err, "lock", name, lockmgr.ErrWaitTimeout).Waited, 2*time.Millisecond)
	require.Contains(t, err.Error(), "it was not free (waited ")
	requireLockError(t, errOf(m.Lock(ended, name)), "lock", name, context.Canceled)
	requireLockError(t, errOf(m.Lock(lockmgr.WithOwner(ctx, lockmgr.Owner{}), name)), "lock", name, lockmgr.ErrInvalidOwner)
	requireLockError(t, errOf(m.Lock(ctx, name, lockmgr.FixedLease(-1))), "lock", name, lockmgr.ErrInvalidLease)
	requireLockError(t, errOf(m.Lock(ctx, "a{b")), "lock", "a{b", lockmgr.ErrInvalidName)
	requireLockError(t, errOf(m.Lock(ctx, "redisson_lock_token:{a}")), "lock", "redisson_lock_token:{a}", lockmgr.ErrInvalidName)
	f := m.LockAsync(name)
	f.Cancel()
	requireLockError(t, errOf(f.Result()), "lock", name, lockmgr.ErrCanceled)
	second := mustLock(t, m, "second")
	err = errOf(m.Lock(ctx, "third"))
	requireLockError(t, err, "lock", "third", lockmgr.ErrOverloaded)
	require.ErrorContains(t, err, "MaxLocks is 2")

	mustAwait(t, held.UnlockAsync())
	requireLockError(t, held.Unlock(ctx), "unlock", name, lockmgr.ErrNotHeld)
	requireLockError(t, errOf(m.Inspect(ended, name)), "inspect", name, context.Canceled)
	requireLockError(t, errOf(m.Inspect(ctx, "a{b")), "inspect", "a{b", lockmgr.ErrInvalidName)
	requireLockError(t, errOf(m.ForceUnlock(ended, name)), "force unlock", name, context.Canceled)
	brief := mustLock(t, m, name, lockmgr.FixedLease(500*time.Millisecond))
	during := brief.Context(ctx)
	<-brief.Lost()
	requireLockError(t, brief.Err(), "hold", name, lockmgr.ErrLeaseLost)
	requireLockError(t, context.Cause(during), "hold", name, lockmgr.ErrLeaseLost)
	requireLockError(t, context.Cause(brief.Context(ctx)), "hold", name, lockmgr.ErrLeaseLost)
	requireLockError(t, brief.Extend(ctx, time.Minute), "extend", name, lockmgr.ErrLeaseLost)
	requireLockError(t, brief.Unlock(ctx), "unlock", name, lockmgr.ErrLeaseLost)

	mustClose(t, m)
	requireLockError(t, second.Err(), "hold", "second", lockmgr.ErrClosed)
	requireLockError(t, second.Unlock(ctx), "unlock", "second", lockmgr.ErrClosed)
	requireLockError(t, errOf(m.Lock(ctx, name)), "lock", name, lockmgr.ErrClosed)
	requireLockError(t, errOf(m.Inspect(ctx, name)), "inspect", name, lockmgr.ErrClosed)
}

// The error of a wait whose context ended says that once, and why there was no lock.
func TestError_TellsAnEndedContextOnce(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, _ := w.manager(lockmgr.Options{})
		held := mustLock(t, m, "a long name")
		reason := errors.New("the shop is closed")
		for what, test := range map[string]struct {
			make  func() (context.Context, context.CancelFunc)
			kinds []error
		}{
			"cancelled": {func() (context.Context, context.CancelFunc) {
				c, cancel := context.WithCancel(ctx)
				time.AfterFunc(second, cancel)
				return c, cancel
			}, []error{context.Canceled}},
			"too late": {func() (context.Context, context.CancelFunc) {
				return context.WithTimeout(ctx, second)
			}, []error{context.DeadlineExceeded}},
			"for a reason": {func() (context.Context, context.CancelFunc) {
				return context.WithTimeoutCause(ctx, second, reason)
			}, []error{context.DeadlineExceeded, reason}},
		} {
			for call, lock := range map[string]func(context.Context) (*lockmgr.Lock, error){
				"Lock":  func(c context.Context) (*lockmgr.Lock, error) { return m.Lock(c, "a long name") },
				"Await": func(c context.Context) (*lockmgr.Lock, error) { return m.LockAsync("a long name").Await(c) },
			} {
				t.Log(what, call)
				c, cancel := test.make()
				e := requireLockError(t, errOf(lock(c)), "lock", "a long name", append(test.kinds, lockmgr.ErrNotAcquired)...)
				require.Equal(t, second, e.Waited)
				cancel()
			}
		}
		mustUnlock(t, held)
	})
}

// "The server is silent" and "another owner holds it" never look alike, however the wait ended.
func TestLock_OnASilentServerIsUnavailable(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, n := w.manager(lockmgr.Options{})
		held := mustLock(t, m, "held")
		n.hush()
		for what, wait := range map[string]func(c context.Context) error{
			"MaxWait":     func(context.Context) error { return errOf(m.Lock(ctx, "orders", lockmgr.MaxWait(300*milli))) },
			"context":     func(c context.Context) error { return errOf(m.Lock(c, "orders")) },
			"WaitContext": func(c context.Context) error { return errOf(m.Lock(ctx, "orders", lockmgr.WaitContext(c))) },
			"future":      func(c context.Context) error { return errOf(m.LockAsync("orders").Await(c)) },
		} {
			err := wait(endsIn(t, 300*time.Millisecond))
			require.Equal(t, what != "MaxWait", errors.Is(err, context.DeadlineExceeded), what)
			require.Equal(t, 300*time.Millisecond, requireLockError(t, err, "lock", "orders", lockmgr.ErrUnavailable).Waited, what)
			require.NotErrorIs(t, err, lockmgr.ErrNotAcquired, what)
			require.True(t, lockmgr.Temporary(err))
		}
		requireLockError(t, held.Unlock(endsIn(t, time.Second)), "unlock", "held", lockmgr.ErrUnavailable, context.DeadlineExceeded)

		n.heal()
		time.Sleep(10 * time.Second)
		require.Empty(t, w.owners("held"), "the manager goes on releasing")
		l := mustLock(t, m, "orders")
		require.ErrorIs(t, errOf(m.Lock(ctx, "orders", lockmgr.MaxWait(300*time.Millisecond))), lockmgr.ErrWaitTimeout, "the failure is over")
		require.ErrorIs(t, errOf(m.Lock(endsIn(t, 300*time.Millisecond), "orders")), lockmgr.ErrNotAcquired)
		mustUnlock(t, l)
	})
}

// TryLock does not wait, and does not take a silent server for another owner either: nobody holds
// the lock "orders" here.
func TestTryLock_OnASilentServerIsUnavailable(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, n := w.manager(lockmgr.Options{})
		held := mustLock(t, m, "held")
		n.hush()
		waiter := m.LockAsync("orders")
		time.Sleep(3 * time.Second) // longer than CommandTimeout
		_, err := m.TryLock(ctx, "orders")
		assert.ErrorIs(t, err, lockmgr.ErrUnavailable, "while another request waits for the server")
		assert.NotErrorIs(t, err, lockmgr.ErrNotAcquired)

		require.ErrorIs(t, errOf(waiter.Await(ctx)), lockmgr.ErrUnavailable)
		_, err = m.TryLock(ctx, "orders")
		assert.ErrorIs(t, err, lockmgr.ErrUnavailable, "after the other request has failed")
		assert.NotErrorIs(t, err, lockmgr.ErrNotAcquired)

		require.ErrorIs(t, errOf(m.TryLock(ctx, "held")), lockmgr.ErrNotAcquired, "this one is held")
		n.heal()
		mustUnlock(t, held)
	})
}

func TestError_CutsALongName(t *testing.T) {
	name := strings.Repeat("x", 200)
	err := &lockmgr.LockError{Op: "lock", Name: name, Err: lockmgr.ErrNotHeld}
	require.Equal(t, "lockmgr: lock \""+name[:128]+"\"… (200 bytes): lock not held", err.Error())
	require.Less(t, len((&lockmgr.LockError{Op: "lock", Name: strings.Repeat("\x00", 1<<20), Err: lockmgr.ErrNotHeld}).Error()), 1000)
}

// Every sentinel is either temporary or not, and wrapping does not change that.
func TestTemporary(t *testing.T) {
	want := map[string]struct {
		err       error
		temporary bool
	}{
		"ErrNotAcquired":   {lockmgr.ErrNotAcquired, true},
		"ErrWaitTimeout":   {lockmgr.ErrWaitTimeout, true},
		"ErrNotHeld":       {lockmgr.ErrNotHeld, false},
		"ErrLeaseLost":     {lockmgr.ErrLeaseLost, false},
		"ErrClosed":        {lockmgr.ErrClosed, false},
		"ErrDeadlock":      {lockmgr.ErrDeadlock, false},
		"ErrOverloaded":    {lockmgr.ErrOverloaded, true},
		"ErrNotFenced":     {lockmgr.ErrNotFenced, false},
		"ErrKind":          {lockmgr.ErrKind, false},
		"ErrLimit":         {lockmgr.ErrLimit, false},
		"ErrCanceled":      {lockmgr.ErrCanceled, false},
		"ErrInvalidName":   {lockmgr.ErrInvalidName, false},
		"ErrInvalidLease":  {lockmgr.ErrInvalidLease, false},
		"ErrInvalidWait":   {lockmgr.ErrInvalidWait, false},
		"ErrInvalidOwner":  {lockmgr.ErrInvalidOwner, false},
		"ErrInvalidOption": {lockmgr.ErrInvalidOption, false},
		"ErrTopology":      {lockmgr.ErrTopology, false},
		"ErrPermission":    {lockmgr.ErrPermission, false},
		"ErrWrongType":     {lockmgr.ErrWrongType, false},
		"ErrOutOfMemory":   {lockmgr.ErrOutOfMemory, true},
		"ErrReadOnly":      {lockmgr.ErrReadOnly, true},
		"ErrReplicas":      {lockmgr.ErrReplicas, true},
		"ErrServer":        {lockmgr.ErrServer, false},
		"ErrUnavailable":   {lockmgr.ErrUnavailable, true},
	}
	for _, name := range sentinels(t) {
		require.Contains(t, want, name, "a new error: is it temporary?")
	}
	require.Len(t, want, len(sentinels(t)))
	for name, w := range want {
		require.Equal(t, w.temporary, lockmgr.Temporary(w.err), name)
		require.Equal(t, w.temporary, lockmgr.Temporary(&lockmgr.LockError{Op: "lock", Name: "a", Err: w.err}), name)
	}
	require.False(t, lockmgr.Temporary(nil))
	require.False(t, lockmgr.Temporary(context.Canceled))
	require.False(t, lockmgr.Temporary(context.DeadlineExceeded))
	require.False(t, lockmgr.Temporary(futures.ErrPending))
	require.True(t, lockmgr.Temporary(errors.Join(context.DeadlineExceeded, lockmgr.ErrUnavailable)))

	lost := &lockmgr.LockError{Op: "unlock", Name: "a", Err: lockmgr.ErrLeaseLost}
	inner := &lockmgr.LockError{Op: "lock", Name: "b", Err: lockmgr.ErrNotAcquired}
	require.False(t, lockmgr.Temporary(errors.Join(inner, lost)), "a loss in Do")
	require.False(t, lockmgr.Temporary(&lockmgr.LockError{Op: "unlock", Name: "a", Err: lockmgr.ErrUnavailable}), "the release goes on")
}

// sentinels reads the names of this package's errors from its source.
func sentinels(t *testing.T) (names []string) {
	t.Helper()
	file := must(parser.ParseFile(token.NewFileSet(), "errors.go", nil, 0))(t)
	for name, o := range file.Scope.Objects {
		if o.Kind == ast.Var && strings.HasPrefix(name, "Err") {
			names = append(names, name)
		}
	}
	require.NotEmpty(t, names)
	return names
}

// Each error of the package has a word of its own group, also if it is wrapped or is of several
// kinds.
func TestReason(t *testing.T) {
	for word, errs := range map[string][]error{
		"unavailable": {lockmgr.ErrUnavailable, errors.Join(lockmgr.ErrUnavailable, lockmgr.ErrCanceled)},
		"canceled":    {lockmgr.ErrCanceled, context.Canceled, fmt.Errorf("%w: %w", lockmgr.ErrNotAcquired, context.Canceled)},
		"timeout":     {lockmgr.ErrWaitTimeout, context.DeadlineExceeded, fmt.Errorf("%w: %w", lockmgr.ErrNotAcquired, context.DeadlineExceeded)},
		"lost":        {lockmgr.ErrLeaseLost, errors.Join(lockmgr.ErrLeaseLost, context.Canceled)},
		"busy":        {lockmgr.ErrNotAcquired, &lockmgr.LockError{Op: "lock", Name: "a", Err: lockmgr.ErrNotAcquired}},
		"overloaded":  {lockmgr.ErrOverloaded},
		"deadlock":    {lockmgr.ErrDeadlock},
		"closed":      {lockmgr.ErrClosed},
		"permission":  {lockmgr.ErrPermission},
		"misuse": {
			lockmgr.ErrKind, lockmgr.ErrLimit, lockmgr.ErrWrongType, lockmgr.ErrNotFenced, lockmgr.ErrTopology, lockmgr.ErrNotHeld, lockmgr.ErrInvalidName,
			lockmgr.ErrInvalidLease, lockmgr.ErrInvalidWait, lockmgr.ErrInvalidOwner, lockmgr.ErrInvalidOption,
		},
		"server": {lockmgr.ErrOutOfMemory, lockmgr.ErrReadOnly, lockmgr.ErrReplicas, lockmgr.ErrServer},
		"other":  {errors.New("x")},
		"":       {nil},
	} {
		for _, err := range errs {
			require.Equal(t, word, lockmgr.Reason(err), err)
			if err != nil {
				require.Equal(t, word, lockmgr.Reason(fmt.Errorf("orders: %w", err)), err)
				require.Contains(t, lockmgr.Reasons(), word)
			}
		}
	}
	require.Len(t, lockmgr.Reasons(), 12)
}
