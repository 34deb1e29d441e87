package client

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// crc16 is the checksum of the cluster specification (CRC-16/XMODEM).
func crc16(s string) (crc uint16) {
	for i := range len(s) {
		crc ^= uint16(s[i]) << 8
		for range 8 {
			top := crc&0x8000 != 0
			if crc <<= 1; top {
				crc ^= 0x1021
			}
		}
	}
	return crc
}

// slot is the cluster slot of a key: of what is between its first brace and the next closing one,
// if there is something, else of the whole.
func slot(key string) uint16 {
	if i := strings.IndexByte(key, '{'); i >= 0 {
		if n := strings.IndexByte(key[i+1:], '}'); n > 0 {
			key = key[i+1:][:n]
		}
	}
	return crc16(key) % 16384
}

// randomName is short and made of what is delicate in names.
func randomName(rng *rand.Rand) string {
	parts := []string{"{", "}", "a", "A", ":", "redisson_", "lock", "redisson_lock_token:", "redisson_lock__channel:", "\x00", " ", "é", "{}", "{x}"}
	var b strings.Builder
	for range 1 + rng.IntN(6) {
		b.WriteString(parts[rng.IntN(len(parts))])
	}
	return b.String()
}

// Every name that is accepted can be locked, handed on, inspected and unlocked on a server in
// cluster mode, which refuses scripts whose keys are in more than one slot. The lock's key is the
// name itself, so that no two locks share one, and what stands beside it stays in its slot.
func TestName_StaysInOneSlot(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, "--cluster-enabled", "yes", "--cluster-require-full-coverage", "no")
	faults.Do(t, s, "CLUSTER", "ADDSLOTSRANGE", "0", "16383")
	require.Eventually(t, func() bool { return strings.Contains(faults.Do(t, s, "CLUSTER", "INFO"), "cluster_state:ok") }, faults.Patience, 1e6)
	for _, key := range []string{"foo", "{foo}bar", "a{}b", "foo{}{bar}", "foo{{bar}}zap", "foo{bar}{zap}", "}a{", "{"} {
		require.Equal(t, fmt.Sprint(slot(key)), faults.Do(t, s, "CLUSTER", "KEYSLOT", key), "this test and the server agree on %q", key)
	}
	m := dial(t, s, lockmgr.Options{})
	rng := rand.New(rand.NewPCG(1, 2))
	accepted, refused := map[string]bool{}, 0
	for len(accepted) < 60 {
		name := randomName(rng)
		if accepted[name] {
			continue
		}
		f := m.LockAsync(name, lockmgr.Fenced())
		next := m.LockAsync(name, lockmgr.Fenced())
		l, err := f.Await(faults.Patient(t))
		if err != nil {
			require.ErrorIs(t, err, lockmgr.ErrInvalidName, "%q", name)
			refused++
			continue
		}
		accepted[name] = true
		require.Equal(t, l.HolderID()+"\n1", faults.Do(t, s, "HGETALL", name), "the key is the name")
		require.NoError(t, l.Unlock(faults.Patient(t)), "%q", name)
		l = redistest.Must(next.Await(faults.Patient(t)))(t, "%q", name)
		info := redistest.Must(m.Inspect(faults.Patient(t), name))(t, "%q", name)
		require.GreaterOrEqual(t, info.Token, l.Token())
		require.NoError(t, l.Unlock(faults.Patient(t)), "%q", name)

		// All that the server has now are counters of names so far.
		for _, prefix := range []string{"redisson_lock__channel", "redisson_lock_token"} {
			beside := prefix + ":{" + name + "}"
			if strings.Contains(name, "{") {
				beside = prefix + ":" + name
			}
			require.Equal(t, slot(name), slot(beside), "%q", name)
			if prefix == "redisson_lock_token" {
				require.Equal(t, "1", faults.Do(t, s, "EXISTS", beside), "%q", beside)
			}
		}
		redistest.Must(m.ForceUnlock(faults.Patient(t), name))(t, "%q", name)
	}
	require.Positive(t, refused)
	require.NoError(t, m.Close(faults.Patient(t)))
	for key := range strings.SplitSeq(faults.Do(t, s, "KEYS", "*"), "\n") {
		require.True(t, strings.HasPrefix(key, "redisson_lock_token:"), "%q is left", key)
	}
}
