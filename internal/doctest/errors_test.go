package doctest

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// docs/errors.md 1
func status(err error) int {
	switch {
	case err == nil:
		return http.StatusOK
	case errors.Is(err, lockmgr.ErrLeaseLost):
		return http.StatusInternalServerError
	case errors.Is(err, lockmgr.ErrClosed):
		return http.StatusServiceUnavailable
	case errors.Is(err, lockmgr.ErrNotAcquired), errors.Is(err, lockmgr.ErrDeadlock):
		return http.StatusConflict
	case lockmgr.Temporary(err):
		return http.StatusServiceUnavailable
	case errors.Is(err, lockmgr.ErrInvalidName):
		return http.StatusBadRequest
	}
	return http.StatusInternalServerError
}

// end

// docs/errors.md 2
func lockAtLast(ctx context.Context, mgr *lockmgr.Manager, name string) (*lockmgr.Lock, error) {
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
		lock, err := mgr.Lock(ctx, name)
		if !lockmgr.Temporary(err) {
			return lock, err // held, or not worth another try
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(pause):
		}
	}
}

// end

func writeFenced(ctx context.Context, mgr *lockmgr.Manager, name string, write func(context.Context, int64) error, review func(error) error) error {
	// docs/errors.md 3
	err := mgr.Do(ctx, name, func(ctx context.Context, lock *lockmgr.Lock) error {
		return write(ctx, lock.Token())
	}, lockmgr.Fenced())
	if errors.Is(err, lockmgr.ErrLeaseLost) {
		return review(err)
	}
	return err
	// end
}

// sentinels are the errors that the page's table is about.
var sentinels = map[string]error{
	"ErrNotAcquired": lockmgr.ErrNotAcquired, "ErrWaitTimeout": lockmgr.ErrWaitTimeout, "ErrNotHeld": lockmgr.ErrNotHeld,
	"ErrLeaseLost": lockmgr.ErrLeaseLost, "ErrClosed": lockmgr.ErrClosed, "ErrDeadlock": lockmgr.ErrDeadlock,
	"ErrOverloaded": lockmgr.ErrOverloaded, "ErrNotFenced": lockmgr.ErrNotFenced, "ErrKind": lockmgr.ErrKind, "ErrLimit": lockmgr.ErrLimit, "ErrCanceled": lockmgr.ErrCanceled,
	"ErrInvalidName": lockmgr.ErrInvalidName, "ErrInvalidLease": lockmgr.ErrInvalidLease, "ErrInvalidWait": lockmgr.ErrInvalidWait,
	"ErrInvalidOwner": lockmgr.ErrInvalidOwner, "ErrInvalidOption": lockmgr.ErrInvalidOption, "ErrPermission": lockmgr.ErrPermission,
	"ErrTopology":  lockmgr.ErrTopology,
	"ErrWrongType": lockmgr.ErrWrongType, "ErrOutOfMemory": lockmgr.ErrOutOfMemory, "ErrReadOnly": lockmgr.ErrReadOnly, "ErrReplicas": lockmgr.ErrReplicas,
	"ErrServer": lockmgr.ErrServer, "ErrUnavailable": lockmgr.ErrUnavailable,
}

// The table of docs/errors.md has every error of package lockmgr, with the status
// that the page's own function gives it and with what Temporary reports.
func TestErrors_Table(t *testing.T) {
	page := redistest.Must(os.ReadFile(root + "docs/errors.md"))(t)
	rows := regexp.MustCompile("(?m)^\\| `(Err\\w+)` \\| .* \\| (\\d+) \\| (yes|no) \\|$").FindAllStringSubmatch(string(page), -1)
	told := make(map[string]bool)
	for _, row := range rows {
		name := row[1]
		require.False(t, told[name], name)
		told[name] = true
		require.Contains(t, sentinels, name)
		e := &lockmgr.LockError{Op: "lock", Name: "orders:42", Err: sentinels[name]}
		require.Equal(t, row[2], fmt.Sprint(status(e)), name)
		require.Equal(t, row[3] == "yes", lockmgr.Temporary(e), name)
	}
	file := redistest.Must(parser.ParseFile(token.NewFileSet(), root+"lockmgr/errors.go", nil, 0))(t)
	for name, o := range file.Scope.Objects {
		if o.Kind == ast.Var && strings.HasPrefix(name, "Err") {
			require.True(t, told[name], "the table has no %s", name)
		}
	}
	require.Len(t, told, len(sentinels))
	require.Equal(t, http.StatusOK, status(nil))
}

func TestErrors_OtherSnippets(t *testing.T) {
	t.Parallel()
	addr, _ := redistest.Mini(t)
	ctx := t.Context()
	require.NoError(t, dial("redis://"+addr, func(mgr *lockmgr.Manager) error {
		l := redistest.Must(lockAtLast(ctx, mgr, "orders:42"))(t)
		short, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
		defer cancel()
		_, err := lockAtLast(short, mgr, "orders:42")
		require.ErrorIs(t, err, lockmgr.ErrNotAcquired)
		require.Equal(t, http.StatusConflict, status(err))
		_, err = lockAtLast(ctx, mgr, "")
		require.ErrorIs(t, err, lockmgr.ErrInvalidName)
		require.NoError(t, l.Unlock(ctx))

		review := func(err error) error { return fmt.Errorf("to be reviewed: %w", err) }
		require.NoError(t, writeFenced(ctx, mgr, "orders:42", func(_ context.Context, token int64) error {
			require.EqualValues(t, 1, token)
			return nil
		}, review))
		err = writeFenced(ctx, mgr, "orders:42", func(ctx context.Context, _ int64) error {
			_, err := mgr.ForceUnlock(ctx, "orders:42")
			<-ctx.Done()
			return err
		}, review)
		require.ErrorContains(t, err, "to be reviewed")
		return nil
	}))
}
