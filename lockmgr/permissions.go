package lockmgr

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast/internal/clean"
	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
	"github.com/holdfast-go/holdfast/lockmgr/internal/wire"
)

// Purposes of permissions.
const (
	forAll       = "every lock"
	forWaiting   = "a lock that somebody holds"
	forUnlock    = "giving a lock back"
	forFenced    = "Fenced"
	forInspect   = "Inspect, ForceUnlock, Shared, Exclusive and Fair"
	forReadWrite = "Shared and Exclusive"
	forPermits   = "Permits"
	forBoth      = "Shared, Exclusive and Permits"
	forFair      = "Fair"
	forGrants    = "handoffs to other processes in one round trip"
	forPlaces    = "Fair and Permits"
	forLine      = "the order of processes, Fair and Permits"
	forScan      = "Scan"
	forWho       = "telling who holds a lock"
)

// permissions tries each command by itself, because the error of a script does not always name the
// denied command. No command leaves a key.
func (c *checkup) permissions(ctx context.Context) error {
	const optional = true
	if c.m.options.Replicas.Acks > 0 { // WAIT for no replica blocks nobody
		if err := c.try(ctx, Permission{For: "Options.Replicas"}, "", "WAIT", "0", "1"); err != nil {
			return err
		}
	}
	if c.m.nodes != nil && !c.m.nodes.MaySendAsking(ctx, c.master) {
		c.missing(Permission{Rule: "+asking", For: "a slot that is being moved", Optional: optional})
	}
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
	// process is a key in the slot of the lock: the record of the manager may be at another master.
	process := wire.ProcessPrefix + strings.TrimPrefix(c.counter, wire.TokenPrefix+":")
	for _, p := range []struct {
		words    []string
		pattern  string // of the key or channel
		purpose  string
		optional bool
	}{
		{[]string{"EXISTS", c.name}, "~" + c.prefix + "*", forAll, false},
		{[]string{"EVALSHA", unknown, "1", c.name}, "", forAll, false},
		{[]string{"EVAL", "return 1", "1", c.name}, "", "scripts that the server has forgotten", false},
		{[]string{"SCRIPT", "LOAD", wire.Acquire.Text}, "", "scripts that the server does not forget", optional},
		{[]string{"PEXPIRE", c.name, "1000"}, "", forAll, false},
		{[]string{"PTTL", c.name}, "", forWaiting, false},
		{[]string{"HEXISTS", c.name, "0"}, "", forWaiting, false},
		{[]string{"DEL", c.name}, "", forUnlock, false},
		{[]string{"PUBLISH", c.channel, "0"}, "&" + wire.Channel(c.prefix) + "*", forUnlock, false},
		{[]string{"HDEL", c.name, "0"}, "", forUnlock, false},
		{[]string{"PUBSUB", "NUMSUB", c.channel}, "", "longer runs while nobody else waits", optional},
		{[]string{"GET", c.counter}, "~" + wire.TokenKey(c.prefix) + "*", forFenced, optional},
		{[]string{"HGETALL", c.name}, "", forInspect, optional},
		{[]string{"HSCAN", c.name, "0"}, "", forInspect, optional},
		{[]string{"GETRANGE", c.counter, "0", "0"}, "", forInspect, optional},
		{[]string{"MEMORY", "USAGE", c.name}, "", "Inspect and Scan beside data of many MiB", optional},
		{[]string{"UNLINK", c.name}, "", "ForceUnlock of a record with very many entries", optional},
		{[]string{"PING"}, "", "noticing soon that a connection is dead", optional},

		{[]string{"HGET", c.name, wire.ModeField}, "", "the order of processes, Shared, Exclusive, Fair and Permits", optional},
		{[]string{"HLEN", c.name}, "", "the order of processes, and " + forBoth, optional},
		{[]string{"SET", c.name, "0", "XX"}, "", forBoth, optional},
		{[]string{"EXISTS", wire.TakenKey(c.name)}, "~" + tag + "*", "the order of processes, and " + forBoth, optional},
		{[]string{"PUBLISH", wire.ChannelOf(core.ReadWrite, c.name), "0"}, "&" + wire.ChannelOf(core.ReadWrite, c.prefix) + "*", forReadWrite, optional},

		{[]string{"TIME"}, "", forLine, optional},
		{[]string{"ZADD", c.name, "XX", "0", "0"}, "", forPlaces, optional},
		{[]string{"ZREM", c.name, "0"}, "", forPlaces, optional},
		{[]string{"ZSCORE", c.name, "0"}, "", forPlaces, optional},
		{[]string{"ZCARD", c.name}, "", forPermits, optional},
		{[]string{"ZCOUNT", c.name, "0", "0"}, "", forPermits, optional},
		{[]string{"ZRANGEBYSCORE", c.name, "0", "0"}, "", forPermits, optional},
		{[]string{"PUBLISH", wire.ChannelOf(core.Permits, c.name), "0"}, "&" + wire.ChannelOf(core.Permits, c.prefix) + "*", forPermits, optional},

		{[]string{"PEXPIREAT", c.name, "1"}, "", forGrants, optional},
		{[]string{"LINDEX", c.name, "0"}, "", forLine, optional},
		{[]string{"LPOP", c.name}, "", forFair, optional},
		{[]string{"LRANGE", c.name, "0", "0"}, "", forFair + " and Inspect", optional},
		{[]string{"LREM", c.name, "0", "0"}, "", forLine, optional},
		{[]string{"SCAN", "0", "COUNT", "1"}, "", forScan, optional},
		{[]string{"EXISTS", process}, "~" + wire.ProcessPrefix + "*", forWho, optional},

		{[]string{"EXISTS", wire.QueueKey(c.name)}, "~" + wire.QueueKey(c.prefix) + "*", forFair, optional},
		{[]string{"EXISTS", wire.DeadlinesKey(c.name)}, "~" + wire.DeadlinesKey(c.prefix) + "*", forFair, optional},
	} {
		if err := c.try(ctx, Permission{For: p.purpose, Optional: p.optional}, p.pattern, p.words...); err != nil {
			return err
		}
	}
	return nil
}

// onRecord tries commands that must not find a free name, because they would leave a key there.
// Both commands fail at a record, which is a hash.
func (c *checkup) onRecord(ctx context.Context) error {
	err := c.try(ctx, Permission{For: forFenced + " and " + forPermits, Optional: true}, "", "INCRBY", c.name, "1")
	if err == nil {
		err = c.try(ctx, Permission{For: forLine, Optional: true}, "", "RPUSH", c.name, "0")
	}
	return err
}

// try sends a command and reports the permission as missing if the command is denied. pattern is
// that of the key or the channel.
func (c *checkup) try(ctx context.Context, p Permission, pattern string, words ...string) error {
	switch {
	case !c.sharded:
	case words[0] == "PUBLISH":
		words[0] = "SPUBLISH"
	case words[0] == "PUBSUB":
		words[1] = "SHARD" + words[1]
	}
	a, err := c.say(ctx, words...)
	if err != nil {
		return err
	}
	if p.Rule = deniedRule(a, words, pattern); p.Rule != "" {
		p.Rule = strings.ReplaceAll(p.Rule, "{"+c.prefix+"}*", "{"+c.prefix+"*")
		c.missing(p)
	}
	return nil
}

// deniedRule returns the rule that would have allowed a command, or "" if the command was not
// denied. Further errors will show in the rehearsal.
func deniedRule(a wire.Answer, words []string, pattern string) string {
	f := a.Failure
	if f == nil || f.Kind != wire.Permission {
		return ""
	}
	switch text := f.Err.Error(); {
	case !strings.Contains(text, "run the"):
		return pattern // denied for its key or channel
	case strings.Contains(text, "'asking'"):
		return "+asking" // the slot is being moved, and the command was sent after ASKING
	}
	command := strings.ToLower(words[0])
	if slices.Contains([]string{"script", "pubsub", "memory"}, command) {
		command += "|" + strings.ToLower(words[1])
	}
	return "+" + command
}

// about reads the server's INFO, if the user may, and adds warnings about the server's settings.
func (c *checkup) about(ctx context.Context) error {
	a, err := c.say(ctx, "INFO")
	if err == nil && a.Failure != nil && a.Failure.Kind == wire.Permission {
		c.missing(Permission{Rule: "+info", For: "the warnings of Check, and " + forGrants, Optional: true})
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
