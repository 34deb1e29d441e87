//go:build unix

package main

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/lockmgr"
)

// The tests of this file run a manager of today beside the command of the last release: .ci/run
// builds that from the newest tag. Without a release they run beside the command of today.

// released starts the command of the last release.
func (w *world) released(args ...string) *process {
	old := os.Getenv("HOLDFAST_RELEASED")
	if old == "" {
		old = binary
	}
	return w.command(exec.Command(old, args...))
}

// ways are the kinds of lock, as the command and a manager ask for them. Of two kinds, the command
// has the first.
var ways = map[string]struct {
	flags []string
	lock  func(*world, ...lockmgr.LockOption) (*lockmgr.Lock, error)
}{
	"plain":            {nil, plainly()},
	"fair":             {[]string{"--fair"}, plainly(lockmgr.Fair())},
	"write":            {[]string{"--exclusive"}, plainly(lockmgr.Exclusive())},
	"read, then write": {[]string{"--shared"}, plainly(lockmgr.Exclusive())},
	"write, then read": {[]string{"--exclusive"}, plainly(lockmgr.Shared())},
	"permits": {[]string{"--permits", "1"}, func(w *world, opts ...lockmgr.LockOption) (*lockmgr.Lock, error) {
		return w.m.Permits("a", 1).Acquire(w.t.Context(), 1, opts...)
	}},
	"set": {nil, func(w *world, opts ...lockmgr.LockOption) (*lockmgr.Lock, error) {
		return w.m.LockAll(w.t.Context(), lockmgr.All("a", "b"), opts...)
	}},
}

func plainly(kind ...lockmgr.LockOption) func(*world, ...lockmgr.LockOption) (*lockmgr.Lock, error) {
	return func(w *world, opts ...lockmgr.LockOption) (*lockmgr.Lock, error) {
		return w.m.Lock(w.t.Context(), "a", append(kind, opts...)...)
	}
}

// Each excludes the other, and gets the lock after the other's release. A message of the released
// command wakes the manager of today, which also gets the lock after the released command was
// killed.
func TestReleased(t *testing.T) {
	for title, way := range ways {
		t.Run(title, func(t *testing.T) {
			w := newWorld(t)
			run := func(opts []string, command ...string) *process {
				return w.released(append(append(append([]string{"run"}, way.flags...), opts...), append([]string{"a", "--"}, command...)...)...)
			}
			waits := func() {
				require.Eventually(t, func() bool {
					if info, err := w.m.Inspect(t.Context(), "a"); err == nil {
						return info.Waiting > 0 || len(info.Queue) > 0
					}
					info, err := w.m.Permits("a", 1).Inspect(t.Context())
					return err == nil && info.Waiting > 0
				}, patient, 5*time.Millisecond)
			}
			ours, err := way.lock(w)
			require.NoError(t, err)
			require.Equal(t, exitBusy, run([]string{"-n"}, "true").wait())
			theirs := run(nil, "true")
			waits()
			require.NoError(t, ours.Unlock(t.Context()))
			require.Zero(t, theirs.wait())

			// handsOver lets a request of ours wait for theirs, and reports whether we have not
			// looked meanwhile.
			handsOver := func() bool {
				path, touch := marker(t)
				run(nil, "sh", "-c", touch+"; while ! [ -e "+path+".end ]; do sleep 0.01; done")
				awaitFile(t, path)
				_, err = way.lock(w, lockmgr.OnlyIfFree())
				require.ErrorIs(t, err, lockmgr.ErrNotAcquired)
				granted := make(chan *lockmgr.Lock)
				go func() {
					l, err := way.lock(w)
					require.NoError(t, err)
					granted <- l
				}()
				waits()
				polls := w.m.Stats().Polls
				require.NoError(t, os.WriteFile(path+".end", nil, 0o600))
				require.NoError(t, (<-granted).Unlock(t.Context()))
				return w.m.Stats().Polls == polls
			}
			woken := handsOver() || title == "set" // a set looks often
			for i := 0; !woken && i < 5; i++ {     // on a busy machine it looks now and then
				woken = handsOver()
			}
			require.True(t, woken, "a message wakes it")

			path, touch := marker(t)
			dies := run([]string{"--lease", "1s"}, "sh", "-c", touch+"; sleep 60")
			awaitFile(t, path)
			require.NoError(t, dies.Process.Kill())
			l, err := way.lock(w, lockmgr.MaxWait(patient))
			require.NoError(t, err)
			require.NoError(t, l.Unlock(t.Context()))
		})
	}
}

// Tokens rise from one to the other, and what one has kept is the other's to take over.
func TestReleased_TokensAndKept(t *testing.T) {
	w := newWorld(t)
	for want := int64(1); want < 6; want += 2 {
		p := w.released("run", "--token", "a", "--", "sh", "-c", "echo $HOLDFAST_TOKEN")
		require.Zero(t, p.wait())
		require.Equal(t, strconv.FormatInt(want, 10), strings.TrimSpace(p.out.String()))
		l := w.lock("a", lockmgr.Fenced())
		require.Equal(t, want+1, l.Token())
		require.NoError(t, l.Unlock(t.Context()))
	}
	require.Zero(t, w.released("run", "--keep", "1h", "--note", "dump", "a", "--", "true").wait())
	info, err := w.m.Inspect(t.Context(), "a")
	require.NoError(t, err)
	require.True(t, info.Holders[0].Kept())
	require.Equal(t, "dump", info.Holders[0].Note)
	require.Equal(t, exitBusy, w.released("run", "-n", "a", "--", "true").wait())
	l := w.lock("a", lockmgr.TakeOver(info.Holders[0].Owner))
	require.NoError(t, l.Unlock(t.Context()))
	w.free("a")
}
