package clientsim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/lockmgr"
)

const dialTimeout = 2 * sec

// A machine is one place for a manager. When the manager is closed before the end, a new one takes
// its place.
type machine struct {
	w     *world
	host  *host
	index int

	shared *sharedClient // nil: the manager has a client of its own

	mu      sync.Mutex
	manager *lockmgr.Manager // nil while there is none
	owners  []lockmgr.Owner
	ending  bool
	all     []*lockmgr.Manager
}

// A sharedClient is closed with the last of its machines.
type sharedClient struct {
	client rueidis.Client
	users  atomic.Int32
}

// connect makes the hosts and starts a manager on each machine.
func (w *world) connect() {
	share := w.set.kinds&shared != 0
	for i := range w.set.managers {
		h := &host{w: w, index: i, latency: w.set.latency[i], refused: make(map[string]int)}
		h.mute = i == w.set.managers-1 && w.set.kinds&noSubscribe != 0
		m := &machine{w: w, host: h, index: i}
		if share && i == 1 {
			m.host = w.hosts[0]
		} else {
			w.hosts = append(w.hosts, h)
		}
		w.machines = append(w.machines, m)
	}
	if share {
		client, err := rueidis.NewClient(lockmgr.TuneClient(w.clientOption(w.hosts[0])))
		if err != nil {
			panic(err)
		}
		s := &sharedClient{client: client}
		s.users.Store(2)
		w.machines[0].shared, w.machines[1].shared = s, s
	}
	for _, m := range w.machines {
		m.start()
	}
}

func (w *world) clientOption(h *host) rueidis.ClientOption {
	o := rueidis.ClientOption{
		InitAddress: w.addresses(), DialCtxFn: h.dial, ConnWriteTimeout: w.set.writeTimeout,
		ReadBufferEachConn: 4 << 10, WriteBufferEachConn: 4 << 10,
		RingScaleEachConn: 10, // in a full ring the client's writer waits for a mutex, which stops the fake clock
	}
	o.Dialer.KeepAlive, o.Dialer.Timeout = w.set.keepAlive, dialTimeout
	if w.set.kinds&shared != 0 {
		o.BlockingPoolSize = 1
	}
	return o
}

func (w *world) managerOptions(h *host) lockmgr.Options {
	o := lockmgr.Options{
		Lease: w.set.lease, CommandTimeout: w.set.timeout, RetryTime: w.set.retry,
		Linger: w.set.linger, PassCount: w.set.passCount, PassTime: w.set.passTime, Anonymous: w.set.kinds&telling == 0,
		Replicas: lockmgr.Replicas{Acks: w.set.acks, Timeout: w.set.ackTime}, ConnectLater: w.set.kinds&lateDial != 0,
		ForgetPermits: w.set.forget, MaxWaiters: w.set.maxWaiters, MaxLocks: w.set.maxLocks,
	}
	if w.set.kinds&classic != 0 {
		o.Channels = lockmgr.ClassicChannels
	}
	if w.set.kinds&prefixed != 0 {
		o.Prefix = prefix
	}
	if w.set.kinds&slowLog != 0 {
		o.Logger = slog.New(slowHandler{h})
	}
	o.Observer = func(e lockmgr.Event) {
		if w.set.kinds&slowObserver != 0 {
			h.block(1)
		}
		w.book.event(e)
	}
	return o
}

// A slowHandler blocks each caller while its host's log is slow.
type slowHandler struct{ h *host }

func (s slowHandler) Enabled(context.Context, slog.Level) bool { return true }
func (s slowHandler) WithAttrs([]slog.Attr) slog.Handler       { return s }
func (s slowHandler) WithGroup(string) slog.Handler            { return s }
func (s slowHandler) Handle(_ context.Context, r slog.Record) error {
	s.h.w.tracef("host %d logs: %s", s.h.index, r.Message)
	s.h.block(0)
	return nil
}

// start makes a manager, trying until there is one or the world ends.
func (m *machine) start() {
	for {
		var mgr *lockmgr.Manager
		var err error
		if m.shared != nil {
			mgr, err = lockmgr.New(m.shared.client, m.w.managerOptions(m.place()))
		} else {
			mgr, err = lockmgr.Dial(m.w.clientOption(m.place()), m.w.managerOptions(m.place()))
		}
		if err == nil {
			m.w.book.add(mgr, m)
			m.mu.Lock()
			m.manager, m.owners = mgr, []lockmgr.Owner{mgr.NewOwner(), mgr.NewOwner()}
			m.all = append(m.all, mgr)
			ending := m.ending
			m.mu.Unlock()
			if ending {
				defer m.close(0)
			}
			m.w.tracef("machine %d: manager %.8s", m.index, mgr.ID())
			return
		}
		if errors.Is(err, lockmgr.ErrInvalidOption) {
			panic(err)
		}
		if !m.w.pause(200 * ms) {
			return
		}
	}
}

// managerFeatures are those that all requests of a manager have.
func (w *world) managerFeatures() features {
	s := featuresOf(oneServer)
	if w.set.servers > 1 {
		s = featuresOf(shards)
	}
	for f, is := range map[feature]bool{
		replicas: w.set.replicas > 0, named: w.set.kinds&telling != 0, lingerOff: w.set.linger < 0, oneInARow: w.set.passCount == 1,
		acks: w.set.acks > 0, metLater: w.set.kinds&(lateDial|shared) == lateDial,
	} {
		if is {
			s.add(f)
		}
	}
	return s
}

// place returns the present host.
func (m *machine) place() *host {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.host
}

// die ends the process of the manager without a word. Another process, on a host of its own, takes
// its place.
func (m *machine) die(r *rand.Rand) {
	w := m.w
	m.mu.Lock()
	mgr := m.manager
	if mgr == nil || m.shared != nil || m.ending {
		m.mu.Unlock()
		return
	}
	m.manager = nil
	old := m.host
	m.mu.Unlock()
	w.book.killed(mgr)
	w.mu.Lock()
	if w.over {
		w.mu.Unlock()
		return
	}
	w.seen[kill.String()]++
	w.tracef("FAULT kill: machine %d, manager %.8s", m.index, mgr.ID())
	w.cutAll(old, r.IntN(2) == 0)
	old.down++
	h := &host{w: w, index: len(w.hosts), latency: old.latency, mute: old.mute, refused: make(map[string]int)}
	if w.halted > 0 {
		h.silent, h.silentFrom = w.halted, time.Now()
	}
	h.excuse(0)
	w.hosts = append(w.hosts, h)
	w.mu.Unlock()
	m.mu.Lock()
	m.host = h
	m.mu.Unlock()
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	go mgr.Close(gone)
	if w.pause(time.Duration(r.Int64N(int64(sec)))) {
		m.start()
	}
}

// current returns the manager, nil if there is none at present.
func (m *machine) current() *lockmgr.Manager {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.manager
}

// close ends the manager and checks how long that takes. Zero means a context without an end.
func (m *machine) close(patience time.Duration) {
	m.mu.Lock()
	mgr := m.manager
	m.manager = nil
	m.mu.Unlock()
	if mgr == nil {
		return
	}
	w := m.w
	ctx, cancel := w.context(patience)
	defer cancel()
	limit := w.closeLimit()
	if patience > 0 {
		limit = min(limit, patience+100*ms)
	}
	began := time.Now()
	w.tracef("machine %d: Close within %v", m.index, patience)
	w.book.closing(mgr)
	err := mgr.Close(ctx)
	took := time.Since(began)
	w.tracef("machine %d: Close: %v after %v", m.index, err, took)
	w.book.closed(mgr, err)
	w.book.promise9b(m, took, patience, limit)
	if m.shared != nil && m.last() {
		m.shared.client.Close()
	}
}

// last reports whether this was the last user of a shared client.
func (m *machine) last() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ending && m.shared.users.Add(-1) == 0
}

// restart closes the manager and starts another.
func (m *machine) restart(patience time.Duration) {
	if m.current() == nil {
		return
	}
	m.close(patience)
	m.start()
}

// abandon ends all managers of a machine that may be in any state.
func (m *machine) abandon(gone context.Context) {
	m.mu.Lock()
	all := m.all
	m.manager = nil
	m.mu.Unlock()
	for _, mgr := range all {
		go mgr.Close(gone)
	}
	if m.shared != nil {
		m.shared.client.Close()
	}
}

// context returns a caller's context. Zero means one without an end.
func (w *world) context(patience time.Duration) (context.Context, context.CancelFunc) {
	if patience == 0 || patience == math.MaxInt64 {
		return context.WithCancel(w.ctx)
	}
	return context.WithTimeoutCause(w.ctx, patience, errPatience)
}

var errPatience = fmt.Errorf("clientsim: patience is over: %w", context.DeadlineExceeded)
