package redistest

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/resp"
)

// asDefault sends a command as a test's own client would.
func asDefault(s *Server, args ...string) (string, error) {
	return s.do(resp.Login{Password: s.password}, args...)
}

func TestUser_DefaultCanBeRestricted(t *testing.T) {
	find(t)
	t.Setenv(envLeast, "1")
	for name, args := range map[string][]string{"plain": nil, "with a password": {"--requirepass", "secret"}} {
		t.Run(name, func(t *testing.T) {
			s := Start(t, args...)
			check := func() {
				t.Helper()
				_, err := asDefault(s, "EVAL", "redis.call('HSET', KEYS[1], 'f', 1) return redis.call('PEXPIRE', KEYS[1], 60000)", "1", "any name")
				require.NoError(t, err)
				Must(asDefault(s, "PUBLISH", "redisson_lock__channel:{a}", "0"))(t)
				for _, denied := range [][]string{
					{"APPEND", "a", "b"}, {"FLUSHALL"}, {"CONFIG", "GET", "port"}, {"ACL", "WHOAMI"}, {"SCRIPT", "FLUSH"},
					{"PUBLISH", "another channel", "0"}, {"EVAL", "return redis.call('APPEND', 'a', 'b')", "0"},
				} {
					_, err = asDefault(s, denied...)
					require.ErrorAs(t, err, new(resp.Error), "%q", denied)
					require.Regexp(t, "NOPERM|permission|can't run this command", err.Error())
				}
				reply := Must(s.Do("ACL", "WHOAMI"))(t, "Do is not restricted")
				require.Equal(t, adminUser, reply)
			}
			check()
			s.Restart()
			require.Zero(t, s.Commands(t)["auth"], "our own connections leave nothing that a test would count")
			check()

			require.Same(t, s, s.Unrestricted())
			for range 2 {
				Must(asDefault(s, "APPEND", "a", "b"))(t)
				Must(asDefault(s, "PUBLISH", "another channel", "0"))(t)
				reply := Must(s.Do("ACL", "WHOAMI"))(t)
				require.Equal(t, "default", reply)
				s.Restart()
			}
		})
	}
}

func TestUser_ReplicasOfRestrictedServersSync(t *testing.T) {
	find(t)
	t.Setenv(envLeast, "1")
	primary, replica := Start(t, "--repl-diskless-sync-delay", "0"), Start(t)
	Must(primary.Do("SET", "k", "v"))(t)
	Must(replica.Do("REPLICAOF", "127.0.0.1", primary.Addr()[strings.LastIndex(primary.Addr(), ":")+1:]))(t)
	require.Eventually(t, func() bool {
		v, err := replica.Do("GET", "k")
		return err == nil && v == "v"
	}, time.Minute, 5*time.Millisecond)
}

func TestArgs_WithRulesAreLeftAlone(t *testing.T) {
	find(t)
	t.Setenv(envLeast, "1")
	s := Start(t, "--user", "somebody", "on", "nopass", "+@all")
	Must(asDefault(s, "SET", "a", "b"))(t)
	require.Same(t, s, s.Unrestricted())
}

func TestUser_NotRestrictedUnasked(t *testing.T) {
	t.Setenv(envLeast, "")
	s := Start(t)
	Must(asDefault(s, "FLUSHALL"))(t)
	require.Same(t, s, s.Unrestricted())
}

// What is tested here must be what users are told.
func TestUser_RulesAreThoseOfTheDocs(t *testing.T) {
	page := Must(os.ReadFile("../../docs/redis.md"))(t)
	_, rules, found := strings.Cut(string(page), "ACL SETUSER locker")
	require.True(t, found)
	rules, _, _ = strings.Cut(rules, "```")
	require.Equal(t, strings.Fields(leastCommands), regexp.MustCompile(`\+[a-z|]+`).FindAllString(rules, -1))
	require.Contains(t, rules, "&redisson_lock__channel:")
}
