package lockmgr_test

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// In a cluster a user needs the permissions that docs/clusters.md lists for plain locks, and those
// that it lists for clusters. A waiter is then woken by a message. Each of them is needed.
func TestCluster_LeastPrivilege(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3, 0)
	ctx := faults.Patient(t)
	grant := func(user, commands string) {
		for _, n := range c.Nodes {
			words := []string{"ACL", "SETUSER", user, "on", ">secret", "resetchannels", "-@all"}
			words = append(words, strings.Fields(commands)...)
			faults.Do(t, n, append(words, "~app:*", "~{app:*", "&redisson_lock__channel:{app:*")...)
		}
	}
	const plain = "+evalsha +eval +script|load +exists +hexists +hset +hdel +pexpire +pttl +del +ping " +
		"+time +hget +hlen +lindex +lrem +rpush +info +pexpireat" // for turns
	const more = "+spublish +ssubscribe +sunsubscribe +pubsub|shardnumsub +cluster|slots +cluster|shards +cluster|myid +asking"
	readme := must(os.ReadFile("../docs/clusters.md"))(t)
	require.True(t, strings.Contains(string(readme), more), "the page has other rules than %s", more)
	grant("locker", plain+" "+more)
	opt := rueidis.ClientOption{InitAddress: c.Addrs(), Username: "locker", Password: "secret"}
	// On a busy machine a hold may last for a second. Its record would take a permission.
	m := must(lockmgr.Dial(opt, lockmgr.Options{Anonymous: true}))(t)
	other := must(lockmgr.Dial(opt, lockmgr.Options{Linger: -1, Anonymous: true}))(t)
	moving := c.Movable(t, "app:moving-%d")
	held := mustLock(t, m, moving)
	move := c.BeginMove(t, moving)
	move.Migrate(moving)
	mustUnlock(t, held)
	for _, name := range []string{"app:a", "app:b", "app:c", "app:d"} {
		l := mustLock(t, m, name)
		f := other.LockAsync(name)
		awaitSubscribers(t, c.Owner(name), false)
		mustUnlock(t, l)
		mustUnlock(t, mustAwait(t, f))
		owner := c.Owner(name)
		faults.Eventually(t, func() bool { return owner.Commands(t)["sunsubscribe"] > 0 })
	}
	mustClose(t, other, m)
	used := map[string]int{}
	for _, n := range c.Nodes {
		for _, entry := range strings.Split(faults.Do(t, n, "ACL", "LOG"), "object\n")[1:] {
			// The client tries the first on servers from 7.2 on, a refused request the second: both
			// can do without.
			require.True(t, strings.HasPrefix(entry, "client|setinfo\n") || strings.HasPrefix(entry, "hgetall\n"), "denied: %s", entry)
		}
		for command, calls := range n.Commands(t) {
			used[command] += calls
		}
	}
	// The client asks servers from 8 on for their shards, and older ones for their slots. The
	// manager asks all for their slots.
	for _, command := range strings.Fields(more) {
		if command != "+cluster|shards" {
			require.Positive(t, used[command[1:]], "%s is granted but not used", command)
		}
	}
	opt.Username = "nomap"
	for _, rule := range []string{"+cluster|slots", "+cluster|myid"} {
		grant("nomap", plain+" "+strings.ReplaceAll(more, rule, ""))
		require.ErrorIs(t, errOf(lockmgr.Dial(opt, lockmgr.Options{})), lockmgr.ErrPermission)
	}
	grant("nomap", plain+" "+strings.ReplaceAll(more, "+cluster|shards", ""))
	m, err := lockmgr.Dial(opt, lockmgr.Options{})
	if used["cluster|shards"] > 0 {
		require.ErrorIs(t, err, lockmgr.ErrPermission)
	} else {
		require.NoError(t, err)
		mustClose(t, m)
	}

	// A name whose record does not exist is at the new master.
	opt.Username = "noasking"
	grant("noasking", plain+" "+strings.ReplaceAll(more, "+asking", ""))
	m = must(lockmgr.Dial(opt, lockmgr.Options{RetryTime: time.Second}))(t)
	require.ErrorIs(t, errOf(m.TryLock(ctx, moving)), lockmgr.ErrPermission)
	report, err := m.Check(ctx, "{"+moving+"}")
	require.ErrorIs(t, err, lockmgr.ErrPermission)
	require.False(t, slices.ContainsFunc(report.Missing, func(p lockmgr.Permission) bool { return p.Rule == "+exists" }), "%v", report)
	mustClose(t, m)
	move.Finish()

	// With one address, the manager asks the server what it is.
	opt.InitAddress, opt.Username = c.Addrs()[:1], "seed"
	name := "app:a"
	for c.Owner(name) == c.Nodes[0] {
		name += "a"
	}
	grant("seed", plain+" "+more)
	m = must(lockmgr.Dial(opt, lockmgr.Options{}))(t)
	mustTryLock(t, m, name)
	mustClose(t, m)

	// A client for a single server does not know whether there are others.
	opt.ForceSingleClient = true
	m = must(lockmgr.Dial(opt, lockmgr.Options{}))(t)
	require.ErrorIs(t, errOf(m.TryLock(ctx, name)), lockmgr.ErrTopology)
	_, err = m.Check(ctx, "app:")
	requireServerError(t, lockmgr.ErrPermission, err, "+cluster|info (")
	mustClose(t, m)
	opt.InitAddress, opt.ForceSingleClient = c.Addrs(), false
	requireCheckNames(t, opt, grant, plain, more)
}

// requireCheckNames requires that Check finds plain locks to work for a user with all rules, and
// names a rule of a cluster that a user lacks.
func requireCheckNames(t *testing.T, opt rueidis.ClientOption, grant func(user, commands string), plain, more string) {
	t.Helper()
	opt.Username = "checked"
	for rule, want := range map[string]error{"": nil, "+spublish": lockmgr.ErrPermission, "+ssubscribe": nil, "+pubsub|shardnumsub": nil, "+asking": nil} {
		grant("checked", plain+" "+strings.ReplaceAll(more, rule, ""))
		m := must(lockmgr.Dial(opt, lockmgr.Options{}))(t)
		report, err := m.Check(faults.Patient(t), "app:")
		require.ErrorIs(t, err, want, rule)
		var named []string
		for _, p := range report.Missing {
			named = append(named, p.Rule)
		}
		require.Equal(t, rule != "", slices.Contains(named, rule), "%s: %v", rule, named)
		require.NotContains(t, named, "+publish")
		require.NotContains(t, named, "+subscribe")
		mustClose(t, m)
	}
	grant("checked", plain+" "+more)
	m := must(lockmgr.Dial(opt, lockmgr.Options{}))(t)
	for _, rule := range []string{"+cluster|myid", "+cluster|slots"} { // taken away later
		grant("checked", plain+" "+strings.ReplaceAll(more, rule, ""))
		report, err := m.Check(faults.Patient(t), "app:")
		require.ErrorIs(t, err, lockmgr.ErrPermission)
		require.Equal(t, rule, report.Missing[0].Rule)
	}
	require.NoError(t, m.Close(faults.Patient(t)))
	for without, with := range map[string]string{"+publish": "+subscribe +unsubscribe", "+subscribe": "+publish", "": "+publish +subscribe +unsubscribe"} {
		grant("checked", plain+" "+more+" "+with)
		m := must(lockmgr.Dial(opt, lockmgr.Options{Channels: lockmgr.ClassicChannels}))(t)
		report, _ := m.Check(faults.Patient(t), "app:")
		for _, rule := range []string{"+publish", "+subscribe"} {
			require.Equal(t, rule == without, slices.ContainsFunc(report.Missing, func(p lockmgr.Permission) bool { return p.Rule == rule }), "%q: %v", without, report.Missing)
		}
		mustClose(t, m)
	}
}

// One node of a cluster refuses the password. Requests for its names are told so at once. Locks of
// the other nodes are granted and renewed. Dial fails if it knows no other node.
func TestCluster_WrongPasswordAtOneNode(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3, 0)
	passwords := []string{"another", secret, secret}
	for i, n := range c.Nodes {
		faults.Do(t, n, "ACL", "SETUSER", "locker", "on", ">"+passwords[i], "~*", "&*", "+@all")
	}
	opt := rueidis.ClientOption{InitAddress: c.Addrs(), Username: "locker", Password: secret}
	const retry = 4 * time.Second // an error that a retry would not end comes long before
	// A try fails with its first time-out, and a dial comes before it.
	o := lockmgr.Options{RetryTime: retry, Lease: 3 * time.Second, CommandTimeout: 900 * time.Millisecond}
	ctx := faults.Patient(t)
	// soon requires that something was refused, and not only after retries.
	soon := func(begin time.Time, err error, what string) {
		t.Helper()
		requireServerError(t, lockmgr.ErrPermission, err)
		require.Less(t, time.Since(begin), retry, what)
	}

	begin := time.Now()
	only := opt
	only.InitAddress = c.Addrs()[:1]
	_, err := lockmgr.Dial(only, o)
	soon(begin, err, "Dial")

	m := must(lockmgr.Dial(opt, o))(t)
	defer func() { mustClose(t, m) }()
	var held []*lockmgr.Lock
	for owner, names := range namesOn(c, 3) {
		if owner != c.Nodes[0] {
			for _, name := range names {
				held = append(held, must(m.Lock(ctx, name))(t, name))
			}
			continue
		}
		begin := time.Now()
		_, err := m.Lock(ctx, names[0])
		soon(begin, err, "Lock")
		_, err = m.TryLock(ctx, names[1])
		soon(begin, err, "TryLock")
		_, err = m.Lock(ctx, names[1], lockmgr.Exclusive())
		soon(begin, err, "Lock of a read-write lock")
		_, err = m.Inspect(ctx, names[2])
		soon(begin, err, "Inspect")
		_, err = m.LockAll(ctx, lockmgr.All(names...))
		soon(begin, err, "LockAll")
	}
	begin = time.Now()
	report, err := m.Check(ctx, "app:")
	soon(begin, err, "Check")
	require.Empty(t, report.Missing, "no rule would help")
	require.ErrorContains(t, err, c.Nodes[0].Addr())
	before := m.Stats().Renewals
	faults.Eventually(t, func() bool { return m.Stats().Renewals >= before+uint64(3*len(held)) }, "renewals")
	mustUnlock(t, held...)
}

// Check asks each master of a cluster, as each has access rules of its own. It names the masters
// that lack a permission, unless all do.
func TestCheck_AsksEachMaster(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3, 0)
	opt := rueidis.ClientOption{InitAddress: c.Addrs(), Username: "locker", Password: secret}
	for _, n := range c.Nodes {
		faults.Do(t, n, "ACL", "SETUSER", "locker", "on", ">"+secret, "~*", "&*", "+@all")
	}
	m := must(lockmgr.Dial(opt, lockmgr.Options{}))(t)
	defer func() { mustClose(t, m) }()
	for _, n := range c.Nodes {
		for command, want := range map[string]error{
			"hset": lockmgr.ErrPermission, "pexpire": lockmgr.ErrPermission, "spublish": lockmgr.ErrPermission,
			"zcard": nil, "ssubscribe": nil, "script|load": nil,
		} {
			faults.Do(t, n, "ACL", "SETUSER", "locker", "-"+command)
			report, err := m.Check(faults.Patient(t), "app:")
			require.ErrorIs(t, err, want, command)
			if want != nil {
				require.ErrorContains(t, err, n.Addr())
			}
			require.Len(t, report.Missing, 1, command)
			require.Equal(t, "+"+command, report.Missing[0].Rule)
			require.Equal(t, []string{n.Addr()}, report.Missing[0].Nodes, command)
			faults.Do(t, n, "ACL", "SETUSER", "locker", "+"+command)
		}
	}
	for _, n := range c.Nodes {
		faults.Do(t, n, "ACL", "SETUSER", "locker", "-hset", "-zcard")
	}
	report, err := m.Check(faults.Patient(t), "app:")
	requireServerError(t, lockmgr.ErrPermission, err)
	require.Len(t, report.Missing, 2)
	for _, p := range report.Missing {
		require.Empty(t, p.Nodes, p.Rule)
	}
	for _, n := range c.Nodes {
		require.Equal(t, "0", faults.Do(t, n, "DBSIZE"), "nothing is left behind")
	}
}

// With Sentinel a user needs the permissions that docs/clusters.md lists beside those for plain
// locks, on every server, and others at the Sentinels. The manager then follows a failover.
func TestSentinel_LeastPrivilege(t *testing.T) {
	t.Parallel()
	w := redistest.StartSentinel(t, 1)
	const plain = "+evalsha +eval +script|load +exists +hexists +hset +hdel +pexpire +pttl +del +publish +pubsub|numsub +subscribe +unsubscribe +ping " +
		"+hget +hlen +lindex +lrem +rpush +time ~app:* ~{app:* &redisson_lock__channel:{app:*"
	const watching = "+sentinel|get-master-addr-by-name +sentinel|sentinels +subscribe +unsubscribe +ping &*"
	page := string(must(os.ReadFile("../docs/clusters.md"))(t))
	require.Contains(t, page, "`"+watching+"`")
	require.Contains(t, page, "With Sentinel, add\n`+role`.")
	grant := func(servers []*redistest.Server, user, rules string) {
		for _, s := range servers {
			faults.Do(t, s, append([]string{"ACL", "SETUSER", user, "reset", "on", ">secret"}, strings.Fields(rules)...)...)
		}
	}
	opt := rueidis.ClientOption{InitAddress: w.Addrs(), Username: "locker", Password: "secret"}
	opt.Sentinel = rueidis.SentinelOption{MasterSet: redistest.MasterSet, Username: "watcher", Password: "secret"}
	grant(w.Servers, "locker", plain)
	grant(w.Sentinels, "watcher", watching)
	_, err := lockmgr.Dial(opt, lockmgr.Options{})
	require.ErrorIs(t, err, lockmgr.ErrPermission)
	grant(w.Servers, "locker", plain+" +role")
	for _, rule := range strings.Fields(watching)[:2] {
		grant(w.Sentinels, "watcher", strings.ReplaceAll(watching, rule, ""))
		_, err := lockmgr.Dial(opt, lockmgr.Options{})
		require.ErrorIs(t, err, lockmgr.ErrPermission, rule)
	}
	grant(w.Sentinels, "watcher", watching)
	m := dialOption(t, opt, lockmgr.Options{RetryTime: 20 * time.Second})
	old := w.Master()
	l := mustLock(t, m, "app:a")
	require.Equal(t, "1", faults.Do(t, old, "WAIT", "1", "2000"))
	faults.Do(t, w.Sentinels[0], "SENTINEL", "FAILOVER", redistest.MasterSet)
	faults.Eventually(t, func() bool { now := w.Master(); return now != nil && now != old })
	mustUnlock(t, l)
	faults.Eventually(t, func() bool { // the first may be lost with the old master
		return mustLock(t, m, "app:b").Unlock(ctx) == nil
	})
	for _, s := range w.Sentinels {
		for _, entry := range strings.Split(faults.Do(t, s, "ACL", "LOG"), "object\n")[1:] {
			require.True(t, strings.HasPrefix(entry, "client|setinfo\n") || strings.HasPrefix(entry, "sentinel|"), "denied: %s", entry)
		}
	}
}
