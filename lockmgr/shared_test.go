package lockmgr_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// burst asks for many locks at once and returns the lock or the error of each.
func burst(t *testing.T, m *lockmgr.Manager, names []string) ([]*lockmgr.Lock, []error) {
	var asked []*futures.Future[*lockmgr.Lock]
	for _, name := range names {
		asked = append(asked, m.LockAsync(name))
	}
	locks, errs := make([]*lockmgr.Lock, len(names)), make([]error, len(names))
	for i, f := range asked {
		locks[i], errs[i] = f.Await(faults.Patient(t))
	}
	return locks, errs
}

func some(n int) []string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprint("app:", i))
	}
	return out
}

func TestServer_LocksShareCommands(t *testing.T) {
	s := redistest.Start(t)
	m := dial(t, s.Addr(), lockmgr.Options{})
	must(m.Check(faults.Patient(t), ""))(t)
	before := s.Commands(t)["evalsha"]
	names := some(500)
	locks, errs := burst(t, m, names)
	for i := range names {
		require.NoError(t, errs[i])
		require.True(t, locks[i].Valid())
	}
	require.Equal(t, "500", faults.Do(t, s, "DBSIZE"))
	var given []*futures.Future[struct{}]
	for _, l := range locks {
		given = append(given, l.UnlockAsync())
	}
	for _, f := range given {
		mustAwait(t, f)
	}
	require.Equal(t, "0", faults.Do(t, s, "DBSIZE"))
	require.Less(t, s.Commands(t)["evalsha"]-before, 500, "of a thousand scripts")
}

// The server refuses a shared command because the user may not use one of its keys.
// The other locks of the command must be granted all the same.
func TestServer_ForbiddenNameHarmsNobodyElse(t *testing.T) {
	s := redistest.Start(t)
	setUser(t, s, "locker", strings.Fields(leastPrivilege)...)
	m := dialAs(t, s.Addr(), "locker", lockmgr.Options{})
	names := some(200)
	names[77] = "other:1"
	locks, errs := burst(t, m, names)
	for i := range names {
		if i == 77 {
			requireServerError(t, lockmgr.ErrPermission, errs[i])
			continue
		}
		require.NoError(t, errs[i], names[i])
		mustUnlock(t, locks[i])
	}
	require.Equal(t, "0", faults.Do(t, s, "DBSIZE"))
}

// A key that is no lock does not harm the other locks of its command.
func TestServer_WrongKeyHarmsNobodyElse(t *testing.T) {
	s := redistest.Start(t)
	m := dial(t, s.Addr(), lockmgr.Options{})
	names := some(200)
	faults.Do(t, s, "SET", names[77], "x")
	locks, errs := burst(t, m, names)
	faults.Do(t, s, "SET", names[78], "y")
	for i := range names {
		switch {
		case i == 77:
			requireServerError(t, lockmgr.ErrWrongType, errs[i])
		case i == 78:
			require.NoError(t, errs[i])
			require.ErrorIs(t, locks[i].Unlock(faults.Patient(t)), lockmgr.ErrLeaseLost, "it was overwritten")
		default:
			require.NoError(t, errs[i], names[i])
			mustUnlock(t, locks[i])
		}
	}
	require.Equal(t, "2", faults.Do(t, s, "DBSIZE"))
}
