package wire

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
)

// Lanes take the operations of a manager to its servers. There is one lane to a single server, or
// one to each master of a cluster. So a master that hangs delays no operation for another master.
//
// Lanes keep the layout: which master serves which slot. The layout may be old for a moment. A
// master refuses an operation for a slot that another master serves. Each master that a refusal
// names has one more lane, a detour lane, for refused operations.
//
// A lane is made when the layout, or a refusal, first names its master. When the master has served
// no slot for a minute, and nothing is under way on the lane, the lane is closed. A detour lane is
// closed a minute after the lane was made, when idle. The next redirection makes another lane. Any
// goroutine may call the methods of Lanes.
type Lanes struct {
	cfg     Config
	cluster *Cluster // nil: a single server
	detour  *Lane    // the detour lane for refusals that name no master; nil without Cluster.Node

	mu            sync.RWMutex          // NewLanes calls helpers without it, while nobody else has the Lanes
	lanes         []*Lane               // by number; nil for a number that no lane has
	number        map[string]int        // of a lane, by its key: a master's address, or detourPrefix and an address
	keys          []string              // by number
	slotlessSince map[int]time.Duration // by number: when the layout first had no slot of the master
	scripts       uint64                // the renewal scripts that closed lanes have sent
	slots         *[Slots]uint16        // the number of the lane of each slot; nil for a single server
	parts         [][]*core.Op          // the operations of one Submit, by number; reused
	suspect       chan struct{}         // gets a value if the layout may be old; holds one
	stop          context.CancelFunc
	done          chan struct{}  // closed when nobody asks for the layout any more
	closing       sync.WaitGroup // of lanes
	closed        bool

	spreads  spreads
	troubles slotTroubles
}

// detourPrefix begins the key of a detour lane: a lane for operations that masters refuse, because
// another master serves the slot. The address of the other master follows.
const detourPrefix = "redirected to "

// A Shard is a master of a cluster and the master's slots.
type Shard struct {
	Addr  string   // the key of the client's Nodes
	Slots [][2]int // ranges, both ends included
	Nodes []string // the IDs of the master and its replicas; nil: not known
	Addrs []string // the addresses of the first of Nodes; empty: not known
}

// ID returns the ID of the master, or "" if the ID is not known.
func (s *Shard) ID() string {
	if len(s.Nodes) == 0 {
		return ""
	}
	return s.Nodes[0]
}

// Cluster is what Lanes need of a cluster, or of a master that Sentinels replace.
type Cluster struct {
	// First is the layout at the start.
	First []Shard
	// Layout asks which slots each master serves.
	Layout func(context.Context) ([]Shard, error)
	// Node returns a Server that sends to a given master only. Nil: all lanes send to
	// Config.Server.
	Node func(addr string) Server
	// Every is how often the layout is asked for. Zero: layoutEvery.
	Every time.Duration
	// OneSlot is set if there is one master at a time, for all slots. If so, all locks may share a
	// command.
	OneSlot bool

	// The functions below must not block.

	// Moved is called when the layout has changed.
	Moved func()
	// Left is called after each look at the layout, if a master without slots has a lane, or if
	// there is a detour lane.
	Left func()
	// Queued is called when an operation waits at another master than Submit has noted in Op.Shard.
	Queued func(core.Queued)
	// Gone is called when the lane of a master without slots is closed. No reply has the shard from
	// then on, until another master gets the shard.
	Gone func(shard uint8)
}

const (
	// layoutEvery is how often the layout is asked for.
	layoutEvery = 10 * time.Second
	// layoutSoon is the time between two looks in the first suspectTime after LookSoon: a failover
	// takes seconds.
	layoutSoon  = 500 * time.Millisecond
	suspectTime = 30 * time.Second
	// layoutPause is the least time between two looks.
	layoutPause = 100 * time.Millisecond
	// layoutTimeout bounds one look.
	layoutTimeout = 3 * time.Second
	// laneRest is how long a lane is kept whose master serves no slot. A moved slot may come back.
	laneRest = time.Minute
)

// NewLanes starts the lanes of a manager. The lanes end with Close. cluster is nil for a single
// server.
func NewLanes(cfg Config, cluster *Cluster) *Lanes {
	l := &Lanes{
		cfg: cfg, cluster: cluster, number: make(map[string]int), slotlessSince: make(map[int]time.Duration),
		suspect: make(chan struct{}, 1), done: make(chan struct{}),
	}
	l.cfg.troubles = &l.troubles
	if cluster == nil {
		l.lanes, l.parts, l.stop = []*Lane{NewLane(l.cfg)}, make([][]*core.Op, 1), func() {}
		close(l.done)
		return l
	}
	l.cfg.group, l.cfg.clustered = l, !cluster.OneSlot
	l.spreads.submit, l.spreads.pass = l.submitPart, cfg.Post
	l.applyLayout(cluster.First)
	if cluster.Node != nil {
		l.detour = l.add(len(l.lanes), "", l.cfg.Server, true)
	}
	ctx, stop := context.WithCancel(context.Background())
	l.stop = stop
	go l.follow(ctx)
	return l
}

// follow keeps the layout up to date.
func (l *Lanes) follow(ctx context.Context) {
	defer close(l.done)
	every := cmp.Or(l.cluster.Every, layoutEvery)
	timer := time.NewTimer(every)
	defer timer.Stop()
	var until time.Time // looks are frequent
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-l.suspect:
			until = time.Now().Add(suspectTime)
		}
		l.look(ctx)
		timer.Reset(layoutPause)
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		if time.Now().Before(until) {
			timer.Reset(min(every, layoutSoon))
		} else {
			timer.Reset(every)
		}
	}
}

// look asks for the layout, applies the layout, and reports to the manager what has changed.
func (l *Lanes) look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, layoutTimeout)
	defer cancel()
	shards, err := l.cluster.Layout(ctx)
	if err != nil {
		return
	}
	changed, left, gone := l.applyLayout(shards)
	if changed {
		l.cluster.Moved()
	}
	if left {
		l.cluster.Left()
	}
	for _, shard := range gone {
		l.cluster.Gone(shard)
	}
}

// applyLayout puts each slot on the lane of its master. A slot without a master stays on its lane.
// changed reports whether a slot has another lane than before. For left and gone see closeLeft.
func (l *Lanes) applyLayout(shards []Shard) (changed, left bool, gone []uint8) {
	l.mu.Lock()
	defer l.mu.Unlock()
	slots := new([Slots]uint16)
	if l.slots != nil {
		*slots = *l.slots
	}
	for _, s := range shards {
		n := l.ensureLane(s.Addr)
		for _, r := range s.Slots {
			for slot := r[0]; slot <= r[1]; slot++ {
				slots[slot] = uint16(n)
			}
		}
	}
	changed = l.slots == nil || *slots != *l.slots
	if changed {
		l.slots = slots
	}
	left, gone = l.closeLeft()
	return changed, left, gone
}

// closeLeft closes each lane whose master has served no slot for laneRest, if nothing is under way
// on the lane. A detour lane never has a slot. So goroutines and buffers do not pile up as masters
// are replaced. left reports whether there were lanes without slots. gone are the shards of the
// closed lanes, except shards that another lane has, too. The mutex is held.
func (l *Lanes) closeLeft() (left bool, gone []uint8) {
	now := l.cfg.Now()
	serves := l.serving()
	for n, lane := range l.lanes {
		if lane == nil || lane == l.detour {
			continue
		}
		if serves[n] {
			delete(l.slotlessSince, n)
			continue
		}
		left = true
		since, known := l.slotlessSince[n]
		if !known {
			l.slotlessSince[n] = now
			continue
		}
		if now-since >= laneRest && lane.idle() {
			// If the layout names the master again, the master gets another lane, and perhaps
			// another number.
			delete(l.slotlessSince, n)
			delete(l.number, l.keys[n])
			l.lanes[n], l.keys[n], l.parts[n] = nil, "", nil
			l.scripts += lane.RenewalScripts()
			l.closing.Go(func() { lane.Close(); lane.Wait() })
			gone = append(gone, lane.cfg.shard)
		}
	}
	return left, slices.DeleteFunc(gone, func(shard uint8) bool {
		return slices.ContainsFunc(l.lanes, func(lane *Lane) bool { return lane != nil && lane.cfg.shard == shard })
	})
}

// serving returns which lanes have slots, by number. The mutex is held.
func (l *Lanes) serving() []bool {
	serves := make([]bool, len(l.lanes))
	for _, n := range l.slots {
		serves[n] = true
	}
	return serves
}

// ensureLane returns the number of the lane with a key. If there is no such lane, ensureLane makes
// the lane with the smallest free number. Numbers are used again, because the core has a health for
// each number. The mutex is held.
func (l *Lanes) ensureLane(key string) int {
	if n, known := l.number[key]; known {
		return n
	}
	n := slices.Index(l.lanes, nil)
	if n < 0 {
		n = len(l.lanes)
	}
	l.number[key] = n
	server, detour := l.cfg.Server, strings.HasPrefix(key, detourPrefix)
	if l.cluster.Node != nil && !detour {
		server = l.cluster.Node(key)
	}
	l.add(n, key, server, detour)
	return n
}

// redirect is group.redirect. f may name the other master. Each named master has a lane of its own,
// so a master that hangs delays no operation for another.
func (l *Lanes) redirect(t task, f *Failure, asked string) bool {
	addr, _ := Redirection(f, asked)
	lane := l.detour
	if addr != "" {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.closed {
			return false
		}
		lane = l.lanes[l.ensureLane(detourPrefix+addr)]
	}
	if t.op != nil {
		l.queued(t.op, lane.cfg.shard) // before the lane has it, as its answer may come at once
	}
	return lane.adopt(t)
}

// queued reports that an operation waits at another master than Submit has noted.
func (l *Lanes) queued(op *core.Op, shard uint8) {
	l.cluster.Queued(core.Queued{Name: op.Name, Set: op.Items != nil, ID: op.ID, Shard: shard})
}

// add makes the lane with a number and a key, which sends to server. The mutex is held.
func (l *Lanes) add(n int, key string, server Server, detour bool) *Lane {
	cfg := l.cfg
	cfg.shard = uint8(n % core.NoShard) // beyond 255 masters, two share a number and so a health
	cfg.Server, cfg.Post = server, l.spreads.post
	cfg.detour, cfg.redirects = detour, !detour && l.cluster.Node != nil
	if l.cluster.Node != nil {
		cfg.where = strings.TrimPrefix(key, detourPrefix)
		if strings.HasPrefix(cfg.where, "?:") { // a master that does not know the host has named it
			cfg.where = ""
		}
		cfg.Error = func(f *Failure) error { return l.cfg.Error(f.at(cfg.where)) }
	}
	if detour && cfg.where != "" {
		cfg.named = l.cluster.Node(cfg.where)
	}
	lane := NewLane(cfg)
	if n == len(l.lanes) {
		l.lanes, l.keys, l.parts = append(l.lanes, nil), append(l.keys, ""), append(l.parts, nil)
	}
	l.lanes[n], l.keys[n] = lane, key
	return lane
}

// LookSoon makes the lanes look at the layout soon: a command has failed, or the layout can be had
// now. LookSoon never blocks.
func (l *Lanes) LookSoon() {
	select {
	case l.suspect <- struct{}{}:
	default:
	}
}

// laneNumber returns the number of the lane of a key or a sharded channel. The mutex is held.
func (l *Lanes) laneNumber(key string) int { return int(l.slots[SlotOf(key)]) }

// withLane calls f with the lane of a key. The lane is not closed meanwhile, unless Close is
// called. f must not block.
func (l *Lanes) withLane(key string, f func(*Lane)) {
	if l.cluster == nil {
		f(l.lanes[0])
		return
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	f(l.lanes[l.laneNumber(key)])
}

// Master returns the address of the master that serves a key or a sharded channel, by the layout,
// or "" for a single server.
func (l *Lanes) Master(key string) string {
	if l.cluster == nil {
		return ""
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.keys[l.laneNumber(key)]
}

// Masters returns the addresses of all masters that serve slots, in no order, or nil for a single
// server.
func (l *Lanes) Masters() (all []string) {
	if l.cluster == nil {
		return nil
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	for n, serves := range l.serving() {
		if serves {
			all = append(all, l.keys[n])
		}
	}
	return all
}

// Submit queues operations. Submit never blocks. After Close, Submit does nothing, because nobody
// waits for replies. Only one goroutine at a time may call Submit. In a cluster Submit notes in
// Op.Shard at which master an operation waits, or NoShard for an operation at several masters.
func (l *Lanes) Submit(ops []*core.Op, now time.Duration) {
	if l.cluster == nil {
		l.lanes[0].Submit(ops, now)
		return
	}
	for _, s := range l.submit(ops, now) {
		s.start()
	}
}

// submit queues operations, and returns the spreads among the operations.
func (l *Lanes) submit(ops []*core.Op, now time.Duration) (spreads []*spread) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, op := range ops {
		if l.cfg.clustered && inSeveralSlots(op) {
			op.Shard = core.NoShard
			spreads = append(spreads, l.spreads.newSpread(op, l.slots))
			continue
		}
		n := l.laneNumber(keyOf(op))
		op.Shard = l.lanes[n].cfg.shard
		l.parts[n] = append(l.parts[n], op)
	}
	for n, part := range l.parts {
		if len(part) > 0 {
			l.lanes[n].Submit(part, now)
			clear(part)
			l.parts[n] = part[:0]
		}
	}
	return spreads
}

// submitPart queues a part of a spread. The parts of an acquire that are under way are at one
// master, which the core has to know.
func (l *Lanes) submitPart(op *core.Op) {
	l.withLane(keyOf(op), func(lane *Lane) {
		if op.Verb == core.VerbAcquire {
			l.queued(op, lane.cfg.shard)
		}
		lane.Submit([]*core.Op{op}, l.cfg.Now())
	})
}

// Call queues a command that does not concern the core. Call never blocks. done is called with the
// answer, on a sender's goroutine, and must not block. After Close, Call returns false.
func (l *Lanes) Call(c Command, done func(Answer)) (called bool) {
	key := ""
	if len(c.Keys) > 0 {
		key = c.Keys[0]
	}
	l.withLane(key, func(lane *Lane) { called = lane.Call(c, done) })
	return called
}

// CallAt is Call for the master at an address that Masters returned, or for the single server. The
// call fails at once if the master has left the cluster.
func (l *Lanes) CallAt(master string, c Command, done func(Answer)) bool {
	if l.cluster == nil {
		return l.lanes[0].Call(c, done)
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	n, known := l.number[master]
	switch {
	case known:
		return l.lanes[n].Call(c, done)
	case !l.closed:
		done((&Failure{Kind: Unavailable, Addr: master, Err: errLeft}).Answer())
	}
	return !l.closed
}

var errLeft = errors.New("the master has left the cluster")

// Failing returns the failure for which a request for a name, made at asked, is unanswered at now,
// or nil. The failure is of the kind Unavailable or ReadOnly, or the failure of an operation that
// replicas have not confirmed.
func (l *Lanes) Failing(name string, asked, now time.Duration) (f *Failure) {
	l.withLane(name, func(lane *Lane) {
		if f = lane.Failing(asked, now); f == nil {
			f = lane.unconfirmed(name, asked, now)
		}
		if l.cluster != nil && l.cluster.Node != nil {
			f = f.at(l.keys[l.laneNumber(name)])
		}
	})
	if f == nil {
		f = l.troubles.failing(SlotOf(name), asked, now)
	}
	return f
}

// RenewalScripts returns how many renewal scripts have been sent.
func (l *Lanes) RenewalScripts() (n uint64) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	n = l.scripts
	for _, lane := range l.lanes {
		if lane != nil {
			n += lane.RenewalScripts()
		}
	}
	return n
}

// Close closes all lanes: see Lane.Close.
func (l *Lanes) Close() {
	l.stop()
	<-l.done
	l.mu.Lock()
	l.closed = true
	lanes := slices.Clone(l.lanes)
	l.mu.Unlock()
	var closing sync.WaitGroup
	for _, lane := range lanes { // nobody adds one any more
		if lane != nil {
			closing.Go(func() {
				lane.Close()
				l.closing.Go(lane.Wait)
			})
		}
	}
	closing.Wait()
}

// Wait waits until the connections of all lanes are closed: see Lane.Wait. Wait must follow Close.
func (l *Lanes) Wait() { l.closing.Wait() }
