package lockmgr_test

import (
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

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
