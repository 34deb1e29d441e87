//go:build unix

package server_test

import (
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/faultproxy"
	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// What a failover costs that loses the newest writes, as it may: the holder learns of it at its
// next renewal, and no record comes back. Until then there may be two holders, even with one token.
func TestRenewal_NoticesAFailoverThatLosesTheLock(t *testing.T) {
	t.Parallel()
	primary := redistest.Start(t, "--repl-diskless-sync-delay", "0")
	replica := redistest.Start(t)
	faults.Do(t, replica, "REPLICAOF", "127.0.0.1", strconv.Itoa(primary.Port()))
	address := faultproxy.Start(t, primary.Addr())
	holder, other := faults.Dial(t, address.Addr(), with(watched)), faults.Dial(t, address.Addr(), with(watched))
	faults.Release(t, faults.Take(t, holder, "a", lockmgr.Fenced()))
	kept := faults.Take(t, other, "kept")
	faults.Eventually(t, func() bool {
		return faults.Do(t, replica, "GET", "redisson_lock_token:{a}") == "1" && faults.Do(t, replica, "EXISTS", "kept") == "1"
	})

	replica.Signal(syscall.SIGSTOP)
	faults.Do(t, primary, "CLIENT", "KILL", "TYPE", "replica") // what is not sent can't arrive when it goes on
	lost := faults.Take(t, holder, "a", lockmgr.Fenced())
	require.EqualValues(t, 2, lost.Token())
	primary.Kill()
	replica.Signal(syscall.SIGCONT)
	faults.Do(t, replica, "REPLICAOF", "NO", "ONE")
	require.Equal(t, "0", faults.Do(t, replica, "EXISTS", "a"))
	went := time.Now()
	address.To(replica.Addr())
	address.Cut()

	second := faults.Take(t, other, "a", lockmgr.Fenced())
	require.Equal(t, lost.Token(), second.Token(), "the reason why resources must not take an equal token from anybody")
	t.Logf("noticed after %v", requireNoticed(t, lost, watched, went))
	require.ErrorIs(t, lost.Unlock(faults.Patient(t)), lockmgr.ErrLeaseLost)
	require.Equal(t, []string{second.HolderID()}, owners(t, replica, "a"))
	requireKept(t, other, second, kept) // what the replica knew goes on
	faults.Release(t, second, kept)
	require.True(t, strings.Contains(faults.Do(t, replica, "INFO", "replication"), "role:master"))
}
