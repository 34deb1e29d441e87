package lockmgr_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/internal/faultproxy"
	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// While a manager stands in lines, Sentinels make a server with another clock the master. A release
// there must not grant by message: what the line knows was noted by the old clock. If the new clock
// is a second ahead, and the message comes after 1.3 s, the message would look new. Its lock would
// be valid for a second after the end of the record.
func TestSentinel_FailoverToAnotherClock(t *testing.T) {
	t.Parallel()
	for _, ahead := range []int{1, -600} {
		t.Run(fmt.Sprintf("ahead by %d s", ahead), func(t *testing.T) {
			t.Parallel()
			failOverToAnotherClock(t, redistest.StartSentinelApart(t, ahead))
		})
	}
}

func failOverToAnotherClock(t *testing.T, w *redistest.Watched) {
	before, after := w.Servers[0], w.Servers[1]
	proxy := faultproxy.Start(t, after.Addr()) // between b and the new master
	opt := rueidis.ClientOption{InitAddress: w.Addrs(), Sentinel: rueidis.SentinelOption{MasterSet: redistest.MasterSet}}
	// No lease ends, and nobody gives up a connection that stands still.
	o := lockmgr.Options{Lease: time.Minute, CommandTimeout: 10 * time.Second, RetryTime: 20 * time.Second, Anonymous: true}
	a := dialOption(t, opt, o)
	opt.ConnWriteTimeout = 10 * time.Second
	opt.DialCtxFn = func(ctx context.Context, addr string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
		if addr == after.Addr() {
			addr = proxy.Addr()
		}
		return d.DialContext(ctx, "tcp", addr)
	}
	b := dialOption(t, opt, o)
	lines := slices.DeleteFunc(lineKinds(), func(k lineKind) bool { return k.name == "set" || k.name == "permits" }) // never by message
	var held []*lockmgr.Lock
	for _, k := range lines {
		held = append(held, mustAwait(t, k.holds(a)))
	}
	var h holders
	for _, k := range lines {
		h.holdAlone(t, k.waits(b))
	}
	faults.Eventually(t, func() bool {
		return !slices.ContainsFunc(lines, func(k lineKind) bool { return !mayBeGranted(t, before, k) })
	})
	listening := channelsOfLocks(before)
	faults.Do(t, before, "WAIT", "1", "5000")

	refused := proxy.On(faultproxy.Command("EVAL", "EVALSHA")).Refuse("LOADING") // b can't ask
	faults.Do(t, w.Sentinels[0], "SENTINEL", "FAILOVER", redistest.MasterSet)
	faults.Eventually(t, func() bool { return channelsOfLocks(after) == listening }, "b listens")
	faults.Eventually(t, func() bool {
		l := mustLock(t, a, "probe")
		exists, _ := after.Do("EXISTS", "probe")
		_ = l.Unlock(ctx) // lost if the failover comes between
		return exists == "1"
	}, "a is there")
	messages := proxy.PubSub()
	for _, c := range messages {
		c.Stall()
	}
	mustUnlock(t, held...)
	for _, k := range lines {
		h.holdAlone(t, k.holds(a))
	}
	<-time.After(1300 * milli)
	for _, c := range messages {
		c.Heal()
	}
	<-time.After(2 * second) // the records of grants have ended
	proxy.Heal()
	h.all.Wait()
	require.NotZero(t, refused.Count())
}

// mayBeGranted reports whether a manager that waits may be granted a lock by message: the manager
// has said that it listens.
func mayBeGranted(t *testing.T, s *redistest.Server, k lineKind) bool {
	key := strings.Replace(k.line, "_line", "_wants", 1)
	if k.name == "fair" {
		key = faults.FairLock{Name: k.name}.Waits()
	}
	noted := faults.Do(t, s, "HVALS", key)
	return noted != "" && !strings.Contains(noted, " d ") // deaf: see line.lua
}

// channelsOfLocks returns the channels of locks that clients of a server listen on. It returns none
// if a Sentinel ends the connection, as it does at a new master.
func channelsOfLocks(s *redistest.Server) string {
	reply, _ := s.Do("PUBSUB", "CHANNELS", "*{*")
	all := strings.Fields(reply)
	slices.Sort(all)
	return strings.Join(all, " ")
}

// holders are those whose requests are granted, one after the other.
type holders struct {
	all   sync.WaitGroup
	mu    sync.Mutex
	locks []*lockmgr.Lock
}

// holdAlone awaits a lock, which must be the only valid one of its name, and holds it for a while.
func (h *holders) holdAlone(t *testing.T, f *futures.Future[*lockmgr.Lock]) {
	h.all.Go(func() {
		l, err := f.Await(faults.Patient(t))
		if err != nil {
			t.Errorf("not granted: %v", err)
			return
		}
		h.mu.Lock()
		for _, other := range h.locks {
			if other.Name() == l.Name() && other.Valid() && l.Valid() {
				t.Errorf("two locks are valid: %s", l.Name())
			}
		}
		h.locks = append(h.locks, l)
		h.mu.Unlock()
		<-time.After(1500 * milli)
		_ = l.Unlock(ctx) // if the grant was a mistake, the lock is lost
	})
}
