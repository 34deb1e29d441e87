package lockmgr_test

import (
	"strings"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// In a cluster a user needs the permissions that the README lists for plain locks, and those
// that it lists for clusters. A waiter is then woken by a message. Each of them is needed.
func TestCluster_LeastPrivilege(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3, 0)
	ctx := faults.Patient(t)
	grant := func(user, commands string) {
		for _, n := range c.Nodes {
			words := []string{"ACL", "SETUSER", user, "on", ">secret", "resetchannels", "-@all"}
			words = append(words, strings.Fields(commands)...)
			faults.Do(t, n, append(words, "~app:*", "~redisson_lock__channel:{app:*", "~{app:*", "&redisson_lock__channel:{app:*")...)
		}
	}
	const plain = "+evalsha +eval +script|load +exists +hexists +hset +hdel +pexpire +pttl +del +ping"
	const more = "+spublish +ssubscribe +sunsubscribe +pubsub|shardnumsub +cluster|slots"
	grant("locker", plain+" "+more)
	opt := rueidis.ClientOption{InitAddress: c.Addrs(), Username: "locker", Password: "secret"}
	m, err := lockmgr.Dial(opt, lockmgr.Options{})
	require.NoError(t, err)
	other, err := lockmgr.Dial(opt, lockmgr.Options{})
	require.NoError(t, err)
	for _, name := range []string{"app:a", "app:b", "app:c", "app:d"} {
		l, err := m.Lock(ctx, name)
		require.NoError(t, err)
		f := other.LockAsync(name)
		requireSubscribers(t, c.Owner(name), false)
		require.NoError(t, l.Unlock(ctx))
		l, err = f.Await(ctx)
		require.NoError(t, err)
		require.NoError(t, l.Unlock(ctx))
	}
	require.NoError(t, other.Close(ctx))
	require.NoError(t, m.Close(ctx))
	for _, n := range c.Nodes {
		require.Empty(t, faults.Do(t, n, "ACL", "LOG"))
	}

	grant("nomap", plain+" "+strings.ReplaceAll(more, "+cluster|slots", ""))
	opt.Username = "nomap"
	_, err = lockmgr.Dial(opt, lockmgr.Options{})
	require.ErrorIs(t, err, lockmgr.ErrPermission)
}
