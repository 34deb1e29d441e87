package lockmgr

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-go/holdfast/internal/clean"
	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
	"github.com/holdfast-go/holdfast/lockmgr/internal/wire"
	"github.com/holdfast-go/holdfast/notify"
)

// A Report is what Check found.
type Report struct {
	// Server is the name and version of the server, if the user may call INFO.
	Server string
	// Missing are the permissions the user lacks.
	Missing []Permission
	// Warnings are sentences about settings that slow locks down or put locks at risk.
	Warnings []string
}

// String returns the report in lines: the server, each missing permission, and each
// warning.
func (r Report) String() string {
	var lines []string
	if r.Server != "" {
		lines = append(lines, "server: "+r.Server)
	}
	for _, p := range r.Missing {
		line := "missing: " + p.String()
		if p.Optional {
			line += ", not needed by plain locks"
		}
		lines = append(lines, line)
	}
	for _, w := range r.Warnings {
		lines = append(lines, "warning: "+w)
	}
	return strings.Join(lines, "\n")
}

// A Permission is a command, a key or a channel that the server's access rules may allow.
type Permission struct {
	// Rule is the argument of ACL SETUSER that grants the permission, for example "+pttl". A
	// pattern is made from the prefix given to Check.
	Rule string
	// For names what does not work without the permission.
	For string
	// Optional reports whether plain locks work without the permission.
	Optional bool
	// Nodes are the addresses of the masters of a cluster without the permission. Each node has
	// access rules of its own. Nodes is nil if all masters that Check asks lack the permission, and
	// for a single server.
	Nodes []string
}

// String returns the rule, the purpose and the Nodes.
func (p Permission) String() string {
	text := p.Rule + " (" + p.For + ")"
	if len(p.Nodes) > 0 {
		text += " at " + strings.Join(p.Nodes, ", ")
	}
	return clean.Text(text, clean.Most)
}

// Check tries out everything a lock needs, on a name of its own. The name begins with prefix, which
// should be the prefix of your locks' names. Check takes the lock, contends for it under another
// owner, passes it on, renews it, releases it and waits for the release's message. With
// Options.Replicas Check takes the lock once more and waits for replicas. So a missing permission
// shows at the start of a service and not in its first contention. If ctx ends first, Check leaves
// its lock to expire, within ten seconds; otherwise Check leaves nothing.
//
// The error is nil if plain locks work. The error matches ErrPermission if the user lacks
// permissions for plain locks, and names the permissions. Missing permissions for Shared,
// Exclusive, Fair, Fenced, Permits and the like are in Report.Missing and are Optional. Further
// refusals match the errors that Lock returns for the refusals. With an error, the report has
// everything found before the error.
//
// In a cluster Check does all tests at each master that serves names with the prefix, because each
// node has access rules and settings of its own. A single master serves all names with a hash tag
// in the prefix. The error has the address of the master that refuses or does not answer. The error
// matches ErrTopology if a node of another cluster answers at the address of a master.
//
// For a server that is a replica the error matches ErrReadOnly.
//
// Check makes some forty round trips, in a cluster to each master that serves names with the
// prefix. Check blocks until the round trips are over or ctx ends.
func (m *Manager) Check(ctx context.Context, prefix string) (Report, error) {
	name := prefix + "holdfast-check-" + uuid.NewString()
	if err := checkName(name); err != nil {
		return Report{}, err
	}
	if err := ctx.Err(); err != nil {
		return Report{}, fmt.Errorf("%w: %w", err, context.Cause(ctx))
	}
	c := &checkup{m: m, prefix: prefix, sharded: m.onSharded(), places: m.places(name)}
	err := c.run(ctx)
	c.mergeNodes()
	return c.report, err
}

// A place is a server that Check asks, and the name of Check's lock there.
type place struct {
	master string // the address of a master of a cluster; empty for a single server
	name   string
}

// mostTries bounds how many names places tries.
const mostTries = 4096

// places returns the servers that Check asks. In a cluster places appends numbers to the name until
// each master serves a name, or places has tried mostTries numbers. All names with the same hash
// tag are at the same master.
func (m *Manager) places(name string) []place {
	if !m.clustered {
		return []place{{name: name}}
	}
	var all []place
	for i := 0; i < mostTries && len(all) < len(m.lanes.Masters()); i++ {
		p := place{name: name + strconv.Itoa(i)}
		p.master = m.lanes.Master(p.name)
		if !slices.ContainsFunc(all, func(q place) bool { return q.master == p.master }) {
			all = append(all, p)
		}
	}
	return all
}

// A checkup is a call of Check.
type checkup struct {
	m       *Manager
	prefix  string
	sharded bool // whether channels are sharded
	places  []place
	report  Report

	place                   // the place that is asked now
	channel, counter string // the channel and the token key of its name
}

// visit calls f once for each place, after setting place, channel and counter. visit ends at the
// first error, and adds the address of the master to the error.
func (c *checkup) visit(f func() error) error {
	for _, p := range c.places {
		c.place, c.channel, c.counter = p, wire.Channel(p.name), wire.TokenKey(p.name)
		if err := f(); err != nil && p.master != "" {
			return fmt.Errorf("lockmgr: check of the master at %s: %w", clean.Text(p.master, clean.Most), err)
		} else if err != nil {
			return err
		}
	}
	return nil
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

// denied returns an error that names the missing permissions for plain locks, or nil.
func (c *checkup) denied() error {
	c.mergeNodes()
	var needed []string
	for _, p := range c.report.Missing {
		if !p.Optional {
			needed = append(needed, p.String())
		}
	}
	if len(needed) == 0 {
		return nil
	}
	return &ServerError{Kind: ErrPermission, Err: errors.New("the user lacks " + strings.Join(needed, ", ")), Hint: "see ACL SETUSER, and docs/redis.md for all that is needed"}
}

// missing adds a missing permission of the place to the report.
func (c *checkup) missing(p Permission) {
	i := slices.IndexFunc(c.report.Missing, func(q Permission) bool { return q.Rule == p.Rule })
	if i < 0 {
		i = len(c.report.Missing)
		c.report.Missing = append(c.report.Missing, p)
	}
	q := &c.report.Missing[i]
	if c.master != "" && !slices.Contains(q.Nodes, c.master) {
		q.Nodes = append(q.Nodes, c.master)
	}
}

// mergeNodes removes the addresses from each permission missing at all places.
func (c *checkup) mergeNodes() {
	for i := range c.report.Missing {
		if p := &c.report.Missing[i]; len(p.Nodes) == len(c.places) {
			p.Nodes = nil
		}
	}
}

// Purposes of permissions.
const (
	forAll       = "every lock"
	forWaiting   = "a lock that another holds"
	forUnlock    = "giving a lock back"
	forHandoff   = "passing a lock on"
	forFenced    = "Fenced"
	forInspect   = "Inspect, ForceUnlock, Shared, Exclusive and Fair"
	forReadWrite = "Shared and Exclusive"
	forPermits   = "Permits"
	forBoth      = "Shared, Exclusive and Permits"
	forFair      = "Fair"
	forPlaces    = "Fair and Permits"
	forScan      = "Scan"
	forWho       = "telling who holds a lock"
)

// permissions tries each command by itself, because the error of a script does not always name the
// denied command. No command leaves a key.
func (c *checkup) permissions(ctx context.Context) error {
	const optional = true
	unknown := strings.Repeat("0", 40)
	tag := c.prefix // the keys beside the lock's own key begin with it
	if !strings.Contains(tag, "{") {
		tag = "{" + tag
	}
	if c.m.nodes != nil {
		if denied := c.m.nodes.DeniedQuestion(ctx, c.master); denied != "" {
			c.missing(Permission{Rule: "+" + denied, For: forAll})
			return nil // nothing else is sent to the node
		}
	}
	// The manager's own record may be at another master of a cluster.
	process := wire.ProcessPrefix + strings.TrimPrefix(c.counter, wire.TokenPrefix+":")
	if c.m.options.Replicas.Acks > 0 {
		a, err := c.say(ctx, "WAIT", "0", "1") // for none: it blocks nobody
		if err != nil {
			return err
		}
		if rule := deniedRule(a, []string{"WAIT"}, ""); rule != "" {
			c.missing(Permission{Rule: rule, For: "Options.Replicas"})
		}
	}
	if c.m.nodes != nil && !c.m.nodes.MaySendAsking(ctx, c.master) {
		c.missing(Permission{Rule: "+asking", For: "a slot that is being moved", Optional: optional})
	}
	for _, p := range []struct {
		words    []string
		pattern  string // of the key or channel, or the rule for a command of a script
		purpose  string
		optional bool
	}{
		{[]string{"EXISTS", c.name}, "~" + c.prefix + "*", forAll, false},
		{[]string{"EVALSHA", unknown, "1", c.name}, "", forAll, false},
		{[]string{"EVAL", "return 1", "1", c.name}, "", "scripts that the server has forgotten", false},
		{[]string{"SCRIPT", "LOAD", wire.Acquire.Text}, "", "scripts that the server does not forget", optional},
		{[]string{"PEXPIRE", c.name, "1000"}, "", forAll, false},
		{[]string{"PTTL", c.name}, "", forWaiting, false},
		{[]string{"HEXISTS", c.name, "0"}, "", forUnlock, false},
		{[]string{"DEL", c.name}, "", forUnlock, false},
		{[]string{"PUBLISH", c.channel, "0"}, "&" + wire.Channel(c.prefix) + "*", forUnlock, false},
		{[]string{"HDEL", c.name, "0"}, "", forHandoff, false},
		{[]string{"PUBSUB", "NUMSUB", c.channel}, "", "longer runs while nobody else waits", optional},
		{[]string{"GET", c.counter}, "~" + wire.TokenKey(c.prefix) + "*", forFenced, optional},
		{[]string{"HGETALL", c.name}, "", forInspect, optional},
		{[]string{"HSCAN", c.name, "0"}, "", forInspect, optional},
		{[]string{"GETRANGE", c.counter, "0", "0"}, "", forInspect, optional},
		{[]string{"UNLINK", c.name}, "", "ForceUnlock of a record with very many entries", optional},
		{[]string{"PING"}, "", "noticing soon that a connection is dead", optional},

		{[]string{"HGET", c.name, wire.ModeField}, "", "Shared, Exclusive and Fair", optional},
		{[]string{"HLEN", c.name}, "", forBoth, optional},
		{[]string{"SET", c.name, "0", "XX"}, "", forBoth, optional},
		{[]string{"EXISTS", wire.TakenKey(c.name)}, "~" + tag + "*", forBoth, optional},
		{[]string{"PUBLISH", wire.ChannelOf(core.ReadWrite, c.name), "0"}, "&" + wire.ChannelOf(core.ReadWrite, c.prefix) + "*", forReadWrite, optional},

		{[]string{"TIME"}, "", forPlaces, optional},
		{[]string{"ZADD", c.name, "XX", "0", "0"}, "", forPlaces, optional},
		{[]string{"ZREM", c.name, "0"}, "", forPlaces, optional},
		{[]string{"ZSCORE", c.name, "0"}, "", forPlaces, optional},
		{[]string{"ZCARD", c.name}, "", forPermits, optional},
		{[]string{"ZCOUNT", c.name, "0", "0"}, "", forPermits, optional},
		{[]string{"ZRANGEBYSCORE", c.name, "0", "0"}, "", forPermits, optional},
		{[]string{"PUBLISH", wire.ChannelOf(core.Permits, c.name), "0"}, "&" + wire.ChannelOf(core.Permits, c.prefix) + "*", forPermits, optional},

		{[]string{"LINDEX", c.name, "0"}, "", forFair, optional},
		{[]string{"LPOP", c.name}, "", forFair, optional},
		{[]string{"LRANGE", c.name, "0", "0"}, "", forFair + " and Inspect", optional},
		{[]string{"LREM", c.name, "0", "0"}, "", forFair, optional},
		{[]string{"SCAN", "0", "COUNT", "1"}, "", forScan, optional},
		{[]string{"EXISTS", process}, "~" + wire.ProcessPrefix + "*", forWho, optional},

		{[]string{"EVAL", tryPush, "1", c.name}, "+rpush", forFair, optional},
		{[]string{"EXISTS", wire.QueueKey(c.name)}, "~" + wire.QueueKey(c.prefix) + "*", forFair, optional},
		{[]string{"EXISTS", wire.DeadlinesKey(c.name)}, "~" + wire.DeadlinesKey(c.prefix) + "*", forFair, optional},
	} {
		for _, words := range c.forms(p.words) {
			a, err := c.say(ctx, words...)
			if err != nil {
				return err
			}
			if rule := deniedRule(a, words, p.pattern); rule != "" {
				c.missing(Permission{Rule: strings.ReplaceAll(rule, "{"+c.prefix+"}*", "{"+c.prefix+"*"), For: p.purpose, Optional: p.optional})
			}
		}
	}
	return nil
}

// forms returns the words of a command for the kind of channels in use.
func (c *checkup) forms(words []string) [][]string {
	forms := [][]string{words}
	switch {
	case !c.sharded:
	case words[0] == "PUBLISH":
		forms[0] = append([]string{"SPUBLISH"}, words[1:]...)
	case words[0] == "PUBSUB":
		forms[0] = append([]string{"PUBSUB", "SHARD" + words[1]}, words[2:]...)
	}
	return forms
}

// tryPush adds to a list and removes the list again, because RPUSH can't be tried without a write.
const tryPush = "local answer = redis.pcall('RPUSH', KEYS[1], '0') redis.pcall('DEL', KEYS[1]) return answer"

// deniedRule returns the rule that would have allowed a command, or "" if the command was not
// denied. Further errors will show in the rehearsal.
func deniedRule(a wire.Answer, words []string, pattern string) string {
	f := a.Failure
	if f == nil || f.Kind != wire.Permission {
		return ""
	}
	if strings.HasPrefix(pattern, "+") { // its script has one command that may be denied
		if strings.Contains(f.Err.Error(), "'eval'") {
			return "" // another row reports it
		}
		return pattern
	}
	if !strings.Contains(f.Err.Error(), "run the") {
		return pattern // denied for its key or channel
	}
	command := strings.ToLower(words[0])
	if command == "script" || command == "pubsub" {
		command += "|" + strings.ToLower(words[1])
	}
	return "+" + command
}

// about reads the server's INFO, if the user may, and adds warnings about the server's settings.
func (c *checkup) about(ctx context.Context) error {
	a, err := c.say(ctx, "INFO")
	if err == nil && a.Failure != nil && a.Failure.Kind == wire.Permission {
		c.missing(Permission{Rule: "+info", For: "the warnings of Check", Optional: true})
	}
	if err != nil || a.Kind != wire.Text {
		return err
	}
	info := map[string]string{}
	for line := range strings.Lines(a.Text) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			info[key] = value
		}
	}
	server := "redis " + info["redis_version"]
	if v := info["valkey_version"]; v != "" {
		server = "valkey " + v
	}
	c.report.Server = cmp.Or(c.report.Server, clean.Text(server, clean.Most))
	if major, _, _ := strings.Cut(info["redis_version"], "."); major != "" {
		if n, err := strconv.Atoi(major); err == nil && n < 7 {
			c.warn("the server is older than 7.0, with which this package is not tested")
		}
	}
	if policy := info["maxmemory_policy"]; info["maxmemory"] != "0" && policy != "" && policy != "noeviction" {
		c.warn("with maxmemory-policy %s the server may evict locks that are held", policy)
	}
	if n, err := strconv.Atoi(info["connected_slaves"]); err == nil && n < c.m.options.Replicas.Acks {
		c.warn("replicas that are connected: %d; replicas that a lock waits for: %d. Requests fail with ErrReplicas", n, c.m.options.Replicas.Acks)
	}
	return nil
}

// warn adds a warning. In a cluster the warning begins with the address of the master.
func (c *checkup) warn(format string, args ...any) {
	text := clean.Text(fmt.Sprintf(format, args...), clean.Most)
	if c.master != "" {
		text = "the master at " + c.master + ": " + text
	}
	c.report.Warnings = append(c.report.Warnings, text)
}

// rehearse subscribes, takes a lock through a whole life, and waits for the message of the release.
func (c *checkup) rehearse(ctx context.Context) error {
	watch := c.m.hubs.watch(c.channel, c.sharded).Watch
	defer watch.Close()
	heard, err := c.subscribe(ctx, watch, c.sharded)
	if err != nil {
		return err
	}
	if err := c.live(ctx); err != nil {
		c.cleanUp()
		return err
	}
	if err := c.confirmed(ctx); err != nil {
		return err
	}
	if !heard {
		return nil
	}
	return c.message(ctx, watch)
}

// confirmed takes the lock as users do, if a grant needs replicas.
func (c *checkup) confirmed(ctx context.Context) error {
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

// live takes the lock, contends for the lock, passes the lock on, renews and releases the lock.
func (c *checkup) live(ctx context.Context) error {
	first, second, third := c.m.lastID.Add(1), c.m.lastID.Add(1), c.m.lastID.Add(1)
	r, err := c.do(ctx, core.Op{Verb: core.VerbAcquire, Number: first})
	if err != nil || !r.OK {
		return c.unless(err, "a lock of an unknown name is held")
	}
	r, err = c.do(ctx, core.Op{Verb: core.VerbAcquire, Number: second})
	if err != nil || r.OK || r.TTL <= 0 || r.TTL > checkLease {
		return c.unless(err, fmt.Sprintf("a lock that is held for %v has %v to live", checkLease, r.TTL))
	}
	if err := c.counting(ctx); err != nil {
		return err
	}
	r, err = c.do(ctx, core.Op{Verb: core.VerbTransfer, Number: third, OtherNumbers: []uint64{first}})
	if err != nil || !r.OK {
		return c.unless(err, "a lock that was taken is gone")
	}
	r, err = c.do(ctx, core.Op{Verb: core.VerbRenew, Number: third})
	if err != nil || !r.OK {
		return c.unless(err, "a lock that was taken could not be renewed")
	}
	r, err = c.do(ctx, core.Op{Verb: core.VerbRelease, OtherNumbers: []uint64{third}})
	if err != nil || !r.OK {
		return c.unless(err, "a lock that was taken was not there to be released")
	}
	return nil
}

// do runs a script as the core would.
func (c *checkup) do(ctx context.Context, op core.Op) (core.Reply, error) {
	op.Name, op.Lease = c.name, checkLease
	a, err := c.m.run(ctx, wire.Encode(c.m.id.uuid, &op))
	if err = cmp.Or(err, serverError(a.Failure)); err != nil {
		return core.Reply{}, err
	}
	r := wire.Decode(&op, &a, serverError)
	return r, r.Err
}

// unless returns err, or if err is nil, an error about an impossible answer of the server.
func (c *checkup) unless(err error, what string) error {
	if err != nil {
		return err
	}
	return &ServerError{Kind: ErrServer, Err: errors.New(what)}
}

// counting checks the permission for INCRBY on the lock's key. There the command
// fails, because the key is a hash, and leaves no counter behind.
func (c *checkup) counting(ctx context.Context) error {
	words := []string{"INCRBY", c.name, "1"}
	a, err := c.say(ctx, words...)
	if err != nil {
		return err
	}
	if rule := deniedRule(a, words, ""); rule != "" {
		c.missing(Permission{Rule: rule, For: forFenced + " and " + forPermits, Optional: true})
	}
	return nil
}

// subscribe reports whether the subscription was confirmed. Locks work without a subscription, but
// waiters have to poll.
func (c *checkup) subscribe(caller context.Context, w *notify.Watch, sharded bool) (bool, error) {
	ctx, cancel := context.WithTimeout(caller, notify.DefaultDialTimeout+notify.DefaultCommandTimeout)
	defer cancel()
	for after := uint64(0); ; {
		wake, err := w.Next(after).Await(ctx)
		switch {
		case errors.Is(err, context.DeadlineExceeded) && caller.Err() == nil:
			c.warn("a subscription was not confirmed in time: waiters will poll, every 10 ms to every second")
			return false, nil
		case errors.Is(err, notify.ErrClosed):
			return false, ErrClosed
		case err != nil:
			return false, err
		case wake.Reason.Has(notify.ReasonRefused):
			rule := "+subscribe"
			if sharded {
				rule = "+ssubscribe"
			}
			c.missing(Permission{Rule: rule, For: "being told of an unlock, instead of polling every 10 ms to every second", Optional: true})
			return false, nil
		case wake.Subscribed:
			return true, nil
		}
		after = wake.Seq
	}
}

// message waits for the message of the release.
func (c *checkup) message(caller context.Context, w *notify.Watch) error {
	ctx, cancel := context.WithTimeout(caller, notify.DefaultCommandTimeout)
	defer cancel()
	for after := uint64(0); ; {
		wake, err := w.Next(after).Await(ctx)
		switch {
		case errors.Is(err, context.DeadlineExceeded) && caller.Err() == nil:
			c.warn("the message of an unlock did not arrive: waiters may wait for longer than they have to")
			return nil
		case errors.Is(err, notify.ErrClosed):
			return ErrClosed
		case err != nil:
			return err
		case wake.Reason.Has(notify.ReasonMessage):
			return nil
		}
		after = wake.Seq
	}
}

// cleanUp removes the record that a failed rehearsal may have left, and does not wait for the
// answer. The record would expire anyway.
func (c *checkup) cleanUp() {
	c.m.lanes.Call(wire.Command{Args: []string{"DEL"}, Keys: []string{c.name}}, func(wire.Answer) {})
}

// say sends a command that is no script. say returns an error if no answer came, if the server is
// unavailable, or if the server refused the user or the password. Further errors of the server are
// in the answer.
func (c *checkup) say(ctx context.Context, words ...string) (wire.Answer, error) {
	a, err := c.m.runAt(ctx, c.master, wire.Command{Args: words})
	if f := a.Failure; err == nil && f != nil && (f.Kind == wire.Unavailable || f.Kind == wire.Closed || f.BadLogin() || ctx.Err() != nil) {
		return a, serverError(f)
	}
	return a, err
}
