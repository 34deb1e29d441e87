package clientsim

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/lockmgr"
)

// While a manager stands in the line, another server takes the place of its server, with the same
// data and another clock. The other server grants nothing by message for a script that has run on the
// first one. Else a clock that is ahead by as much as the message is late would make the message look
// fresh, and the lock would be valid after the end of its record. A clock that is wrong by minutes
// makes the message a hint by its age alone.
func TestGrant_ByAnotherServer(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for _, kind := range []feature{plain, writer, reader, fair} {
		for _, late := range []time.Duration{sec, 1500 * ms, 3 * sec} {
			for _, ahead := range []time.Duration{-10 * time.Minute, -sec, late - 500*ms, late - 100*ms, 10 * time.Minute} {
				t.Run(fmt.Sprintf("%v, late by %v, ahead by %v", kind, late, ahead), func(t *testing.T) {
					uuid.SetRand(&randReader{stream(1, 2)})
					defer uuid.SetRand(nil)
					synctest.Test(t, func(t *testing.T) { grantByAnother(t, kind, late, ahead) })
				})
			}
		}
	}
}

func grantByAnother(t *testing.T, kind feature, late, ahead time.Duration) {
	w := newWorld(options{seed: 1}, settings{
		servers: 1, rate: 1, managers: 2, latency: []time.Duration{ms, ms}, lease: 30 * sec, timeout: 2 * sec, retry: 5 * sec,
		keepAlive: 10 * sec, writeTimeout: 10 * sec, // nobody gives up a connection that stands still
	})
	w.connect()
	defer w.tearDown()
	a, b := w.machines[0], w.machines[1]
	other := kind // what a asks for
	if kind == reader {
		other = writer
	}
	lock := func(m *machine, kind feature) (*lockmgr.Lock, error) {
		opts := map[feature][]lockmgr.LockOption{writer: {lockmgr.Exclusive()}, reader: {lockmgr.Shared()}, fair: {lockmgr.Fair()}}
		return m.manager.Lock(w.ctx, "name", opts[kind]...)
	}
	locks := make(chan *lockmgr.Lock, 2)
	hold := func(m *machine, kind feature) {
		if l, err := lock(m, kind); err == nil {
			locks <- l
			w.pause(3 * sec)
			_ = l.Unlock(context.Background()) // the record of a grant that was a mistake has ended
		}
	}
	first, err := lock(a, other)
	require.NoError(t, err)
	w.spawn(func() { hold(b, kind) })
	w.pause(3 * sec)
	for ran := b.lastRan(); b.lastRan().Equal(ran); { // b listens, and has just said so
		w.pause(ms)
	}
	w.pause(5 * ms) // b has the answer

	w.mu.Lock()
	keys := w.servers[0].keys
	keys.Skew, keys.ReplicationID = ahead, w.newKeyspace().ReplicationID
	for _, c := range b.host.conns {
		if c.down.hold = time.Now().Add(late); len(c.subscribed) == 0 {
			c.up.hold = time.Now().Add(late + 3*sec) // b learns no sooner that its record has ended
		}
	}
	w.mu.Unlock()
	require.NoError(t, first.Unlock(context.Background()))
	w.spawn(func() { hold(a, other) })

	x := <-locks
	for y := (*lockmgr.Lock)(nil); y == nil; {
		select {
		case y = <-locks:
			require.False(t, x.Valid() && y.Valid(), "two locks are valid")
		case <-time.After(time.Minute):
			require.Fail(t, "somebody waits for a minute")
		}
	}
	w.calls.Wait()
}

// lastRan returns when the server last ran a command of a machine.
func (m *machine) lastRan() time.Time {
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	return m.host.ran
}
