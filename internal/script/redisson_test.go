package script_test

import (
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/lockmgr"
)

// The parts of Redisson's own scripts that concern the record. Each side must
// understand a record that the other has written.
const (
	redissonLock = `
		if redis.call('exists', KEYS[1]) == 0 or redis.call('hexists', KEYS[1], ARGV[2]) == 1 then
			redis.call('hincrby', KEYS[1], ARGV[2], 1)
			redis.call('pexpire', KEYS[1], ARGV[1])
			return nil
		end
		return redis.call('pttl', KEYS[1])`
	redissonUnlock = `
		if redis.call('hexists', KEYS[1], ARGV[2]) == 0 then return nil end
		if redis.call('hincrby', KEYS[1], ARGV[2], -1) > 0 then
			redis.call('pexpire', KEYS[1], ARGV[1])
			return 0
		end
		redis.call('del', KEYS[1])
		redis.call('publish', KEYS[2], '0')
		return 1`
)

func TestScript_SharesARecordWithRedisson(t *testing.T) {
	onBoth(t, func(t *testing.T, s *scriptServer) {
		e := listen(t, s, theChannel)
		keys := []string{theLock}
		theirs := func(script string) string {
			return s.show(s.do(t, "EVAL", script, "2", theLock, theChannel, "30000", java))
		}
		acquire := func() string { return s.eval(t, s.wire, "acquire", keys, []string{"20000", "0", "me:1"}) }

		require.Equal(t, "nil", theirs(redissonLock))
		require.Equal(t, "nil", theirs(redissonLock))
		s.requireState(t, "L: "+java+"=2 for 30000")
		require.Equal(t, "30000", acquire())
		require.Equal(t, "0", theirs(redissonUnlock))
		require.Equal(t, "30000", acquire(), "one hold is left")
		require.Equal(t, "1", theirs(redissonUnlock))
		require.Equal(t, []string{theChannel + " 0"}, e.heard(t))

		require.Equal(t, "nil", acquire())
		require.Equal(t, "20000", theirs(redissonLock))
		require.Equal(t, "nil", theirs(redissonUnlock), "not theirs to unlock")
		require.Equal(t, "1", s.eval(t, s.wire, "release", keys, []string{"me:1"}))
		require.Equal(t, []string{theChannel + " 0"}, e.heard(t))
		require.Equal(t, "nil", theirs(redissonLock))
	})
}

// A manager writes records as Redisson does: the key is the name, the field
// "uuid:number", the value a decimal, and there is always a TTL.
func TestServer_RecordLooksLikeRedissons(t *testing.T) {
	s := realScripts(t)
	m := must(lockmgr.Dial(rueidis.ClientOption{InitAddress: []string{s.addr}}, lockmgr.Options{Anonymous: true}))(t)
	defer func() { require.NoError(t, m.Close(t.Context())) }()
	for name, suffix := range map[string]string{"plain": "{plain}", "with {tag} inside": "with {tag} inside"} {
		channel := "redisson_lock__channel:" + suffix
		e := listen(t, s, channel)
		l := must(m.Lock(t.Context(), name, lockmgr.Fenced()))(t)
		require.Regexp(t, `^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}:[0-9]+$`, l.HolderID())
		require.Equal(t, map[string]string{
			name:                            l.HolderID() + "=1 for 30000",
			"redisson_lock_token:" + suffix: `"1" for -1`,
		}, s.state(t))
		require.NoError(t, l.Unlock(t.Context()))
		require.Equal(t, []string{channel + " 0"}, e.heard(t))
		require.Equal(t, map[string]string{"redisson_lock_token:" + suffix: `"1" for -1`}, s.state(t))
		s.do(t, "FLUSHALL")
	}
}
