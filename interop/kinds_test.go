package interop

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// Redisson's spin lock, which does not listen for messages, has the record of a plain lock.
func TestAgent_SpinLock(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		m, java := w.manager(t, lockmgr.Options{}), w.open(t, request{}).thread("a").as("spin")
		java.lock(t, t.Name())
		require.Equal(t, map[string]string{java.owner(t): "1"}, w.record(t, t.Name()))
		m.refuses(t, t.Name())
		java.unlock(t, t.Name())
		l := lock(t, m, t.Name())
		require.False(t, java.tryLock(t, t.Name()))
		unlock(t, l)
	})
}

func TestAgent_CommandsThatFail(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		a := w.open(t, request{}).thread("a")
		require.ErrorContains(t, a.send(t, "dance", "n").result(t), "no command dance")
		require.ErrorContains(t, a.as("trap").send(t, "lock", "n").result(t), "no kind trap")
		require.ErrorContains(t, thread{&client{agent: w.agent, name: "nobody"}, "a", "lock"}.send(t, "lock", "n").result(t), "no client nobody")
		redistest.Must(w.agent.in.Write([]byte("not a command\n\n")))(t)
		a.lock(t, t.Name())
		a.unlock(t, t.Name())
	})
}
