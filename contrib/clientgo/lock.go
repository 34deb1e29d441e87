package clientgo

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/holdfast-go/holdfast/lockmgr"
)

// maxNoteWait is how long Get waits for the identity of a new leader, and noteRetry how often it
// looks. A manager writes the note of a hold a second after its grant.
const (
	maxNoteWait = 1500 * time.Millisecond
	noteRetry   = 250 * time.Millisecond
)

// The events that an elector records: of its first Update that succeeded, and when its term is
// over.
const (
	becameLeader   = "became leader"
	stoppedLeading = "stopped leading"
)

// A Lock is the lock of one candidate. It implements resourcelock.Interface. Its methods are safe
// for concurrent use, but it belongs to one elector at a time.
type Lock struct {
	manager        *lockmgr.Manager
	name, identity string

	mu      sync.Mutex
	held    *lockmgr.Lock                     // the last hold, until it is given back
	leading bool                              // the elector leads, or believes so
	record  resourcelock.LeaderElectionRecord // what the elector has put last in this term
	onLoss  map[int]context.CancelCauseFunc   // of the contexts of UntilLost
	next    int                               // the key of the next one
	seen    struct{ owner, identity string }  // the last other leader
}

var _ resourcelock.Interface = (*Lock)(nil)

// New returns a lock for one candidate. It does no I/O. Candidates with the same name, which is
// that of the lock, elect one leader. The identity must be unique among them, such as the host name
// and a UUID. It has 1 to lockmgr.MaxNoteBytes bytes of valid UTF-8; otherwise New fails.
func New(m *lockmgr.Manager, name, identity string) (*Lock, error) {
	if identity == "" || len(identity) > lockmgr.MaxNoteBytes || !utf8.ValidString(identity) {
		return nil, fmt.Errorf("clientgo: identity %q: %w", identity, lockmgr.ErrInvalidOption)
	}
	return &Lock{manager: m, name: name, identity: identity, onLoss: map[int]context.CancelCauseFunc{}}, nil
}

// Get returns the record of the current leader, or one without a HolderIdentity if there is none.
// It blocks for a round trip or two, and for up to 1.5 s more while the identity of a new leader is
// not known.
func (l *Lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	r, err := l.get(ctx)
	if err != nil {
		return nil, nil, err
	}
	raw, err := json.Marshal(r)
	return &r, raw, err
}

func (l *Lock) get(ctx context.Context) (r resourcelock.LeaderElectionRecord, err error) {
	l.mu.Lock()
	leads := l.held != nil && l.held.Valid()
	r = l.record
	l.mu.Unlock()
	if leads {
		return r, nil
	}
	info, err := l.look(ctx)
	if err != nil || !info.Locked {
		return resourcelock.LeaderElectionRecord{LeaderTransitions: int(info.Token)}, err
	}
	h := info.Holders[0]
	// The times change with each call, so that the elector never takes the record of a holder for
	// an old one. Whether the holder lives is for the server to say.
	now := metav1.Now()
	r = resourcelock.LeaderElectionRecord{HolderIdentity: l.identityOf(h), RenewTime: now, AcquireTime: now,
		LeaseDurationSeconds: int(max(info.TTL, time.Second) / time.Second), LeaderTransitions: int(info.Token)}
	if !h.Since.IsZero() {
		r.AcquireTime = metav1.NewTime(h.Since)
	}
	return r, nil
}

// look reads who holds the lock. It waits for the note of a holder that it has not seen before.
func (l *Lock) look(ctx context.Context) (info lockmgr.Info, err error) {
	for end := time.Now().Add(maxNoteWait); ; {
		info, err = l.manager.Inspect(ctx, l.name)
		switch {
		case err != nil || len(info.Holders) == 0:
			info.Locked = false
			return info, err
		case info.Holders[0].Note != "" || l.hasSeen(info.Holders[0].Owner) || time.Now().After(end):
			return info, nil
		}
		select {
		case <-ctx.Done():
			return info, context.Cause(ctx)
		case <-time.After(noteRetry):
		}
	}
}

func (l *Lock) hasSeen(owner string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.seen.owner == owner
}

// identityOf returns the identity of another leader. A hold of this candidate that it has no more
// goes by the owner, so that the elector does not believe that it leads.
func (l *Lock) identityOf(h lockmgr.Holder) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	identity := h.Note
	switch {
	case identity == "" && l.seen.owner == h.Owner:
		identity = l.seen.identity
	case identity == "" || identity == l.identity:
		identity = h.Owner
	}
	l.seen.owner, l.seen.identity = h.Owner, identity
	return identity
}

// Create does what Update does.
func (l *Lock) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return l.Update(ctx, r)
}

// Update takes, keeps or gives back the lock. With the identity of this candidate in r it tries
// once to take the lock, or keeps it for r.LeaseDurationSeconds from now on. Without an identity it
// gives the lock back, in the background.
//
// To take or keep the lock blocks for a round trip or two, and until ctx ends while the server is
// silent. The error matches lockmgr.ErrNotAcquired if another candidate leads, and
// lockmgr.ErrLeaseLost from a loss until the elector has stopped leading.
func (l *Lock) Update(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	l.mu.Lock()
	held := l.held
	if held != nil && !l.leading && !held.Valid() {
		held = nil // it ended after the elector had stopped without a release
	}
	l.mu.Unlock()
	lease := time.Duration(r.LeaseDurationSeconds) * time.Second
	switch {
	case r.HolderIdentity == "":
		l.giveBack(held)
		return nil
	case r.HolderIdentity != l.identity:
		return fmt.Errorf("clientgo: candidate %q can't lead as %q: %w", l.identity, r.HolderIdentity, lockmgr.ErrInvalidOption)
	case held == nil:
		return l.take(ctx, r, lease)
	}
	if err := held.Extend(ctx, lease); err != nil {
		return err
	}
	l.put(held, r)
	return nil
}

func (l *Lock) put(held *lockmgr.Lock, r resourcelock.LeaderElectionRecord) {
	r.LeaderTransitions = int(held.Token())
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held, l.record = held, r
}

func (l *Lock) take(ctx context.Context, r resourcelock.LeaderElectionRecord, lease time.Duration) error {
	// Without an owner no candidate re-enters the hold of another.
	held, err := l.manager.TryLock(lockmgr.WithoutOwner(ctx), l.name, lockmgr.FixedLease(lease), lockmgr.Fenced(), lockmgr.Note(l.identity))
	if err != nil {
		return err
	}
	// A grant holds for Options.Lease at first, which may be shorter.
	if err := held.Extend(ctx, lease); err != nil {
		held.UnlockAsync()
		return err
	}
	l.put(held, r)
	context.AfterFunc(held.Context(context.Background()), func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.tell()
	})
	return nil
}

// tell ends the contexts of UntilLost if the lock is lost while the elector leads.
func (l *Lock) tell() {
	if !l.leading || l.held == nil || l.held.Valid() {
		return
	}
	l.endContexts(l.held.Err())
}

// giveBack ends the term. It does not wait for the server: the elector ends the context of its
// leader only when Update has returned.
func (l *Lock) giveBack(held *lockmgr.Lock) {
	l.mu.Lock()
	l.held = nil
	l.endContexts(nil)
	l.mu.Unlock()
	if held != nil {
		held.UnlockAsync()
	}
}

// endContexts ends the contexts of UntilLost, and forgets them.
func (l *Lock) endContexts(cause error) {
	for _, cancel := range l.onLoss {
		cancel(cause)
	}
	clear(l.onLoss)
}

// RecordEvent notes whether the elector leads. It records nothing.
func (l *Lock) RecordEvent(event string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch event {
	case becameLeader:
		l.leading = true
		l.tell() // the lock may be lost already
	case stoppedLeading:
		l.leading = false
		l.endContexts(nil)
	}
}

// Identity returns what New was given.
func (l *Lock) Identity() string { return l.identity }

// Describe returns the name of the lock.
func (l *Lock) Describe() string { return l.name }

// Token returns the fencing token of the current term, or zero while this candidate does not lead.
// A resource that refuses tokens smaller than the last one is safe from leaders of earlier terms.
// It does not block.
func (l *Lock) Token() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held == nil || !l.held.Valid() {
		return 0
	}
	return l.held.Token()
}

// UntilLost returns a context that ends with ctx, and with the term: as soon as the lock is lost,
// given back, or the elector has stopped leading. After a loss its cause matches
// lockmgr.ErrLeaseLost. If the lock of this term is lost already, the context has ended. Run the
// elector with it. An elector that is to run again needs a new one. It does not block.
func (l *Lock) UntilLost(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancelCause(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.next
	l.next++
	l.onLoss[k] = cancel
	l.tell() // the lock may be lost already
	context.AfterFunc(ctx, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.onLoss, k)
	})
	return ctx
}
