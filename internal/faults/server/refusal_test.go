package server_test

import (
	"errors"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// A server that refuses to work takes nothing away. A lock is lost when its deadline passes
// meanwhile, and not before; one with time left goes on.
func TestLock_RefusalCostsNoneBeforeItsDeadline(t *testing.T) {
	t.Parallel()
	for _, tt := range faults.Troubles("READONLY", "NOREPLICAS", "MISCONF", "BUSY", "LOADING") {
		t.Run(tt.What, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t, tt.Args...)
			troubled := &trouble{t: t, s: s, kind: tt.Kind}
			troubled.run(func() { tt.Begin(t, s) }, func() { tt.End(t, s) })
		})
	}
}

// The same for a user whose rights are taken away, connections and all, and given back.
func TestLock_RevokedUserLosesNoneBeforeItsDeadline(t *testing.T) {
	t.Parallel()
	const password = "correct-horse-battery-staple"
	restore := []string{"ACL", "SETUSER", "someone", "reset", "on", ">" + password, "+@all", "~*", "&*"}
	for what, revoke := range map[string][][]string{
		"password changed": {{"ACL", "SETUSER", "someone", "resetpass", ">another"}, {"CLIENT", "KILL", "USER", "someone"}},
		"user deleted":     {{"ACL", "DELUSER", "someone"}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			faults.Do(t, s, restore...)
			troubled := &trouble{t: t, s: s, kind: lockmgr.ErrPermission, user: "someone", password: password}
			troubled.run(func() {
				for _, command := range revoke {
					faults.Do(t, s, command...)
				}
			}, func() { faults.Do(t, s, restore...) })
		})
	}
}

// trouble is a server that does not do what it is told.
type trouble struct {
	t              *testing.T
	s              *redistest.Server
	kind           error // of what requests are told
	user, password string
}

func (x *trouble) dial(o lockmgr.Options) *lockmgr.Manager {
	o.Anonymous = true // it counts keys
	opt := rueidis.ClientOption{InitAddress: []string{x.s.Addr()}, Username: x.user, Password: x.password}
	m := redistest.Must(lockmgr.Dial(opt, o))(x.t)
	faults.CloseAtEnd(x.t, m)
	return m
}

func (x *trouble) run(begin, end func()) {
	t := x.t
	w := faults.NewWitness()
	o := with(steady)
	o.Observer = w.Observe
	o.RetryTime = time.Minute // on a busy machine the trouble may last longer than the default
	patientHolder, hastyHolder := x.dial(o), x.dial(with(short))
	kept, lost := faults.Take(t, patientHolder, "kept"), faults.Take(t, hastyHolder, "lost")
	next := patientHolder.LockAsync("lost")

	begin()
	left, asked := lost.Remaining(), time.Now()
	// The first command may meet no more than the end of a connection.
	faults.Eventually(t, func() bool {
		_, err := hastyHolder.TryLock(faults.Patient(t), "new")
		require.Error(t, err)
		return errors.Is(err, x.kind)
	})
	requireLost(t, lost, ranOut)
	require.GreaterOrEqual(t, time.Since(asked), left-time.Millisecond)
	require.ErrorIs(t, lost.Unlock(faults.Patient(t)), lockmgr.ErrLeaseLost)
	faults.Eventually(t, func() bool {
		return faults.Count(w, func(e lockmgr.EventRenewalFailed) bool { return errors.Is(e.Err, x.kind) }) > 0
	})
	require.True(t, kept.Valid())
	renewed := patientHolder.Stats().Renewals
	end()
	faults.Eventually(t, func() bool { return patientHolder.Stats().Renewals > renewed })
	require.NoError(t, kept.Err())
	if x.kind != lockmgr.ErrPermission { // else it has been told so
		faults.Release(t, faults.Await(t, next))
	}
	faults.Release(t, kept)
	faults.Eventually(t, func() bool {
		l, err := hastyHolder.Lock(faults.Patient(t), "lost")
		return err == nil && l.Unlock(faults.Patient(t)) == nil
	})
	require.Zero(t, patientHolder.Stats().Losses)
}
