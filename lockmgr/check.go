package lockmgr

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
	"github.com/holdfast-go/holdfast/lockmgr/internal/wire"
	"github.com/holdfast-go/holdfast/notify"
)

// Check tries out everything a lock needs, so that a missing permission shows at the start of a
// service and not in its first contention. Check takes a lock whose name begins with prefix, which
// should be the prefix of your locks' names, contends for it, passes it on, renews it, releases it
// and waits for the release's message. With Options.Replicas Check takes the lock once more and
// waits for replicas. If ctx ends first, Check leaves its lock to expire, within ten seconds;
// otherwise Check leaves nothing.
//
// The error is nil if plain locks work. The error matches ErrPermission if the user lacks
// permissions for plain locks, and names them. Missing permissions for other kinds of locks are in
// Report.Missing and are Optional. Further errors are those that Lock returns, ErrReadOnly for a
// replica among them. With an error, the report has everything found before the error.
//
// In a cluster Check does all tests at each master that serves names with the prefix, because each
// node has access rules and settings of its own. A single master serves all names with a hash tag
// in the prefix. The error has the address of the master. The error matches ErrTopology if a node
// of another cluster answers at the address of a master.
//
// Check makes some forty round trips to each master, and blocks until the round trips are over or
// ctx ends.
func (m *Manager) Check(ctx context.Context, prefix string) (Report, error) {
	prefix = cmp.Or(m.prefixed(prefix), m.options.Prefix)
	name := prefix + "holdfast-check-" + uuid.NewString()
	if err := checkName(name); err != nil {
		return Report{}, err
	}
	if err := ctx.Err(); err != nil {
		return Report{}, fmt.Errorf("%w: %w", err, context.Cause(ctx))
	}
	c := &checkup{m: m, prefix: prefix, sharded: m.onSharded(), sites: m.sites(name)}
	err := c.run(ctx)
	c.mergeNodes()
	return c.report, err
}

// mostTries bounds how many names sites tries.
const mostTries = 4096

// sites returns the servers that Check asks. In a cluster sites appends numbers to the name until
// each master serves a name, or sites has tried mostTries numbers. All names with the same hash tag
// are at the same master.
func (m *Manager) sites(name string) []site {
	if !m.clustered {
		return []site{{name: name}}
	}
	var all []site
	for i := 0; i < mostTries && len(all) < len(m.lanes.Masters()); i++ {
		p := site{name: name + strconv.Itoa(i)}
		p.master = m.lanes.Master(p.name)
		if !slices.ContainsFunc(all, func(q site) bool { return q.master == p.master }) {
			all = append(all, p)
		}
	}
	return all
}

// run makes all checks, and ends at the first error other than a missing permission.
func (c *checkup) run(ctx context.Context) error {
	if err := c.m.strangers(ctx); err != nil { // first, because all else would fail at that master
		return err
	}
	err := c.visit(func() error {
		if err := c.permissions(ctx); err != nil {
			return err
		}
		return c.about(ctx)
	})
	if err != nil {
		return err
	}
	warning, err := c.m.topology(ctx)
	if errors.Is(err, ErrPermission) {
		c.missing(Permission{Rule: "+cluster|info", For: "finding the other masters of the cluster"})
	} else if err != nil {
		return err
	}
	if warning != "" {
		c.report.Warnings = append(c.report.Warnings, warning)
	}
	if err := c.denied(); err != nil {
		return err
	}
	err = c.visit(func() error {
		err := c.rehearse(ctx)
		if errors.Is(err, ErrPermission) {
			// HSET can't be tried by itself: the key would never expire if the process died before
			// its next command.
			c.missing(Permission{Rule: "+hset", For: "every lock"})
			return nil
		}
		return err
	})
	return cmp.Or(err, c.denied())
}

// rehearse subscribes, takes a lock through a whole life, and waits for the message of the release.
func (c *checkup) rehearse(ctx context.Context) error {
	watch := c.m.hubs.watch(c.channel, c.sharded).Watch
	defer watch.Close()
	refused := false
	heard, err := c.hear(ctx, watch, notify.DefaultDialTimeout+notify.DefaultCommandTimeout, func(w notify.Wake) bool {
		refused = w.Reason.Has(notify.ReasonRefused)
		return refused || w.Subscribed
	})
	switch {
	case err != nil:
		return err
	case refused: // locks work without a subscription
		rule := "+subscribe"
		if c.sharded {
			rule = "+ssubscribe"
		}
		c.missing(Permission{Rule: rule, For: "being told of an unlock, instead of polling every 10 ms to every second", Optional: true})
	case !heard:
		c.warn("a subscription was not confirmed in time: waiters will poll, every 10 ms to every second")
	}
	if err := c.liveOnce(ctx); err != nil {
		c.cleanUp()
		return err
	}
	if err := c.withReplicas(ctx); err != nil || refused || !heard {
		return err
	}
	told, err := c.hear(ctx, watch, notify.DefaultCommandTimeout, func(w notify.Wake) bool { return w.Reason.Has(notify.ReasonMessage) })
	if err == nil && !told {
		c.warn("the message of an unlock did not arrive: waiters may wait for longer than they have to")
	}
	return err
}

// hear waits for a wake-up that is the expected one, and reports whether it came in time.
func (c *checkup) hear(caller context.Context, w *notify.Watch, limit time.Duration, expected func(notify.Wake) bool) (bool, error) {
	ctx, cancel := context.WithTimeout(caller, limit)
	defer cancel()
	for after := uint64(0); ; {
		wake, err := w.Next(after).Await(ctx)
		switch {
		case errors.Is(err, context.DeadlineExceeded) && caller.Err() == nil:
			return false, nil
		case errors.Is(err, notify.ErrClosed):
			return false, ErrClosed
		case err != nil:
			return false, err
		case expected(wake):
			return true, nil
		}
		after = wake.Seq
	}
}

// withReplicas takes the lock as users do, if a grant needs replicas.
func (c *checkup) withReplicas(ctx context.Context) error {
	if c.m.options.Replicas.Acks == 0 {
		return nil
	}
	l, err := c.m.Lock(ctx, c.name) // another name may be at another master
	if err == nil {
		err = l.Unlock(ctx)
	}
	if e := new(LockError); errors.As(err, &e) {
		return e.Err // nobody asked for that lock
	}
	return err
}

// checkLease is the lease of Check's lock. Check releases the lock long before its end, however far
// away the server is.
const checkLease = 10 * time.Second

// liveOnce takes the lock, contends for it, passes it on, renews and releases it.
func (c *checkup) liveOnce(ctx context.Context) error {
	first, second, third := c.m.lastID.Add(1), c.m.lastID.Add(1), c.m.lastID.Add(1)
	r, err := c.do(ctx, core.Op{Verb: core.VerbAcquire, Number: first})
	if err != nil || !r.OK {
		return c.orImpossible(err, "a lock of an unknown name is held")
	}
	r, err = c.do(ctx, core.Op{Verb: core.VerbAcquire, Number: second})
	if err != nil || r.OK || r.TTL <= 0 || r.TTL > checkLease {
		return c.orImpossible(err, fmt.Sprintf("a lock that is held for %v has %v to live", checkLease, r.TTL))
	}
	if err := c.onRecord(ctx); err != nil {
		return err
	}
	r, err = c.do(ctx, core.Op{Verb: core.VerbTransfer, Number: third, OtherNumbers: []uint64{first}})
	if err != nil || !r.OK {
		return c.orImpossible(err, "a lock that was taken is gone")
	}
	r, err = c.do(ctx, core.Op{Verb: core.VerbRenew, Number: third})
	if err != nil || !r.OK {
		return c.orImpossible(err, "a lock that was taken could not be renewed")
	}
	r, err = c.do(ctx, core.Op{Verb: core.VerbRelease, OtherNumbers: []uint64{third}})
	if err != nil || !r.OK {
		return c.orImpossible(err, "a lock that was taken was not there to be released")
	}
	return nil
}

// do runs a script as the core would.
func (c *checkup) do(ctx context.Context, op core.Op) (core.Reply, error) {
	op.Name, op.Lease = c.name, checkLease
	a, err := c.m.run(ctx, "", wire.Encode(c.m.id.uuid, &op))
	if err = cmp.Or(err, serverError(a.Failure)); err != nil {
		return core.Reply{}, err
	}
	r := wire.Decode(&op, &a, serverError)
	return r, r.Err
}

// orImpossible returns err, or if err is nil, an error about an impossible answer of the server.
func (c *checkup) orImpossible(err error, what string) error {
	if err != nil {
		return err
	}
	return &ServerError{Kind: ErrServer, Err: errors.New(what)}
}

// cleanUp removes the record that a failed rehearsal may have left, and does not wait for the
// answer. The record would expire anyway.
func (c *checkup) cleanUp() {
	c.m.lanes.Call(wire.Command{Args: []string{"DEL"}, Keys: []string{c.name}}, func(wire.Answer) {})
}
