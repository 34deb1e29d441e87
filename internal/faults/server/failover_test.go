//go:build unix

package server_test

import (
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// An address is what clients know of a server: it can be given to another one.
type address struct {
	listener net.Listener
	wg       sync.WaitGroup

	mu     sync.Mutex
	target string
	conns  map[net.Conn]struct{}
}

func newAddress(t testing.TB, target string) *address {
	t.Helper()
	l := redistest.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	a := &address{listener: l, target: target, conns: map[net.Conn]struct{}{}}
	a.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			a.wg.Go(func() { a.serve(c) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		a.move("")
		a.wg.Wait()
	})
	return a
}

// move gives the address to another server. Old connections break.
func (a *address) move(target string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.target = target
	for c := range a.conns {
		c.Close()
	}
}

func (a *address) serve(client net.Conn) {
	defer client.Close()
	a.mu.Lock()
	target := a.target
	a.conns[client] = struct{}{}
	a.mu.Unlock()
	defer func() {
		a.mu.Lock()
		delete(a.conns, client)
		a.mu.Unlock()
	}()
	server, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	a.wg.Go(func() {
		_, _ = io.Copy(server, client)
		server.Close()
	})
	_, _ = io.Copy(client, server)
}

// What a failover costs that loses the newest writes, as it may: the holder learns of it at its
// next renewal, and no record comes back. Until then there may be two holders, even with one token.
func TestRenewal_NoticesAFailoverThatLosesTheLock(t *testing.T) {
	t.Parallel()
	primary := redistest.Start(t, "--repl-diskless-sync-delay", "0")
	replica := redistest.Start(t)
	faults.Do(t, replica, "REPLICAOF", "127.0.0.1", strconv.Itoa(primary.Port()))
	a := newAddress(t, primary.Addr())
	addr := a.listener.Addr().String()
	holder, other := faults.Dial(t, addr, with(watched)), faults.Dial(t, addr, with(watched))
	first := faults.Take(t, holder, "a", lockmgr.Fenced())
	faults.Release(t, first)
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
	a.move(replica.Addr())

	second := faults.Take(t, other, "a", lockmgr.Fenced())
	require.Equal(t, lost.Token(), second.Token(), "the reason why resources must not take an equal token from anybody")
	t.Logf("noticed after %v", requireNoticed(t, lost, watched, went))
	require.ErrorIs(t, lost.Unlock(faults.Patient(t)), lockmgr.ErrLeaseLost)
	require.Equal(t, []string{second.HolderID()}, owners(t, replica, "a"))
	requireKept(t, other, second, kept) // what the replica knew goes on
	faults.Release(t, second)
	faults.Release(t, kept)
	require.True(t, strings.Contains(faults.Do(t, replica, "INFO", "replication"), "role:master"))
}
