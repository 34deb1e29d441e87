package network

import (
	"bytes"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/faultproxy"
	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// secret is the password of all users here.
const secret = "correct-horse-battery-staple"

// A log keeps what is logged.
type log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// logAll are the options of a handler that leaves nothing out.
var logAll = &slog.HandlerOptions{Level: slog.LevelDebug}

// Errors and logs of a manager that may not come in, or not any more.
func TestLog_PasswordsAreNeverTold(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	faults.Do(t, s, "ACL", "SETUSER", "someone", "on", ">"+secret, "+@all", "~*", "&*")
	p := faultproxy.Start(t, s.Addr())
	var out log
	var told []string
	var mu sync.Mutex // the manager's goroutine tells, too
	tell := func(err error) {
		mu.Lock()
		defer mu.Unlock()
		for ; err != nil; err = errors.Unwrap(err) {
			told = append(told, err.Error())
		}
	}
	options := lockmgr.Options{
		Lease: lease, CommandTimeout: timeout, Logger: slog.New(slog.NewJSONHandler(&out, logAll)), // prints all fields of a value
		Observer: func(e lockmgr.Event) {
			if f, ok := e.(lockmgr.EventCommandFailed); ok && f.Consecutive == 1 {
				tell(f.Err)
			}
		},
	}
	for _, user := range []string{"someone", "nobody"} {
		opt := calm(p.Addr())
		opt.Username, opt.Password = user, secret+"-not"
		_, err := lockmgr.Dial(opt, options)
		require.ErrorIs(t, err, lockmgr.ErrPermission)
		tell(err)
	}
	// The password is changed under a manager at work.
	opt := calm(p.Addr())
	opt.Username, opt.Password = "someone", secret
	m := dialBy(t, opt, options)
	l := take(t, m, "held")
	other := dial(t, s.Addr(), lockmgr.Options{})
	theirs := faults.Take(t, other, "theirs")
	f := m.LockAsync("theirs")
	faults.AwaitSubscribed(t, s, "theirs", 1)
	faults.Do(t, s, "ACL", "SETUSER", "someone", "resetpass", ">another")
	p.Cut()
	require.Eventually(t, func() bool {
		_, err := m.TryLock(faults.Patient(t), "new")
		tell(err)
		return errors.Is(err, lockmgr.ErrPermission)
	}, faults.Patience, 5*time.Millisecond)
	faults.AwaitLost(t, l)
	tell(l.Err())
	tell(l.Unlock(faults.Patient(t)))
	faults.Release(t, theirs)
	_, err := f.Await(faults.Patient(t))
	require.Error(t, err)
	tell(err)
	tell(m.Close(faults.Patient(t)))

	require.Contains(t, out.String(), "WRONGPASS", "the reason is told")
	for _, said := range append(told, out.String()) {
		require.NotContains(t, said, secret)
		require.NotContains(t, said, "another", "nor what nobody told it")
	}
	require.Greater(t, len(told), 5)
}
