package lockmgr

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/lockmgr/internal/wire"
)

// Targets for native fuzzing. Their seeds run with the tests; to look further:
//
//	go test ./lockmgr -run '^$' -fuzz FuzzName_TwoShareNoKey -fuzztime 60s

// FuzzName_TwoShareNoKey checks pairs of accepted names. The key of one is never a key or a channel
// of the other, a channel is never a token key, and channel and token key are in the slot of the
// lock's key. Only x and {x} share a channel and a counter, as in Redisson: a message wakes the
// waiters of both and tokens skip numbers, but no lock is mistaken for the other.
func FuzzName_TwoShareNoKey(f *testing.F) {
	for _, pair := range [][2]string{
		{"a", "b"}, {"a", "a"}, {"", "a"}, {"x", "{x}"}, {"{x}", "{{x}}"}, {"a{t}b", "t"}, {"{a}b}", "a}b"},
		{"a{b", "a{b}"}, {"{}a", "a"}, {"a}b", "b"}, {"{}", "{}{x}"}, {"x}{", "x"},
		{"redisson_lock_token:{a}", "a"}, {"redisson_lock__channel:{a}", "a"}, {"redisson", "redisson_"},
		{"redisson_lock_token:a", "a"}, {"redisson_lock:orders", "orders"}, {"redisson_lock_queue:{a}", "a"},
		{"redisson_lock_timeout:x{a}", "x{a}"}, {"redisson_rwlock:{a}", "a"}, {"redisson_unlock_latch:{a}:0f", "a"},
		{"{a}:u:1:rwlock_timeout:2", "a"}, {":{a}", "a"}, {"_token:{a}", "a"}, {"\x00", "\xff"}, {"a ", "a"}, {"é", "e\u0301"},
		{strings.Repeat("x", MaxNameBytes), strings.Repeat("x", MaxNameBytes-1)}, {"{a}:waits", "a"}, {"x{a}:absent", "x{a}"},
	} {
		f.Add(pair[0], pair[1])
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		for _, name := range []string{a, b} {
			if checkName(name) != nil {
				return
			}
			channel, counter := wire.Channel(name), wire.TokenKey(name)
			require.NotEqual(t, channel, counter)
			require.Equal(t, wire.SlotOf(name), wire.SlotOf(channel), "%q and its channel %q", name, channel)
			require.Equal(t, wire.SlotOf(name), wire.SlotOf(counter), "%q and its counter %q", name, counter)
		}
		require.NotContains(t, besideOf(b), a)
		require.NotContains(t, besideOf(a), b)
		require.NotEqual(t, wire.Channel(a), wire.TokenKey(b))
		require.NotEqual(t, wire.Channel(b), wire.TokenKey(a))
		if shared := a == b || a == "{"+b+"}" || b == "{"+a+"}"; !shared {
			require.NotEqual(t, wire.Channel(a), wire.Channel(b))
			require.NotEqual(t, wire.TokenKey(a), wire.TokenKey(b))
			require.NotContains(t, besideOf(b), wire.QueueKey(a))
			require.NotContains(t, besideOf(a), wire.QueueKey(b))
		}
	})
}

// besideOf returns the keys and channels that Redisson has beside a lock's key, for all kinds of
// locks. It shares no code with names.go.
func besideOf(name string) (keys []string) {
	inBraces := name
	if !strings.Contains(name, "{") {
		inBraces = "{" + name + "}"
	}
	for _, what := range []string{"lock__channel", "lock_token", "lock_queue", "lock_timeout", "rwlock", "unlock_latch"} {
		keys = append(keys, "redisson_"+what+":"+inBraces)
	}
	return append(keys,
		"redisson_unlock_latch:"+inBraces+":00112233445566778899aabbccddeeff",
		"redisson_lock__channel:"+inBraces+":c9b5bf3a:17",
		inBraces+":c9b5bf3a:17:rwlock_timeout:1",
		"redisson_sc:"+inBraces, inBraces+":timeout", inBraces+":line",
		"redisson_lock_queue:"+inBraces+":waits", "redisson_lock_queue:"+inBraces+":absent",
		"holdfast:manager:0123456789abcdef",
	)
}

// Only the names that checkName describes are refused.
func TestName_Accepted(t *testing.T) {
	for _, name := range []string{
		"redisson", "redisson_", "redisson_lock:orders", "redisson_lock:{orders}", "redisson_lock_token", "redisson_lock_token:orders",
		"redisson_lock__channel:orders", "redisson_lock_tokens:{a}", "my:redisson_lock_token:{a}", "x{t}y", "{x}", "x:timeout",
		"a:rwlock_timeout:1", "{a}:rwlock_timeout:", "holdfast:manager", "holdfast", "my:holdfast:manager:0123456789abcdef", "{a}:rwlock_timeout:x", strings.Repeat("x", 513), strings.Repeat("x", MaxNameBytes),
	} {
		require.NoErrorf(t, checkName(name), "%.100q", name)
	}
	for _, name := range []string{"a", "x{t}y", "{x}", "redisson_lock:orders"} {
		for _, key := range besideOf(name) {
			require.ErrorIs(t, checkName(key), ErrInvalidName, "%q", key)
		}
	}
	for _, name := range []string{"", "{}", "a{b", "a}b", "{}a", "{a", "}{", "}a", "redisson_lock_token:{}", "holdfast:manager:", "holdfast:manager:orders", strings.Repeat("x", MaxNameBytes+1)} {
		require.ErrorIsf(t, checkName(name), ErrInvalidName, "%.100q", name)
	}
}
