package redistest

import (
	"os"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/internal/resp"
)

const (
	envLeast = "HOLDFAST_LEAST_PRIVILEGE"

	// adminUser may do everything on a restricted server. The password keeps nobody out: the server
	// listens on loopback for as long as a test runs.
	adminUser     = "redistest"
	adminPassword = "redistest-may-do-everything"
)

// leastCommands are the commands that docs/redis.md grants to a user of locks.
const leastCommands = "+evalsha +eval +script|load +exists +hexists +hset +hdel +pexpire +pttl +del +publish +pubsub|numsub " +
	"+subscribe +unsubscribe +ping +incrby +get +hgetall +hscan +getrange +memory|usage +unlink +hget +hlen +set " +
	"+scan +time +lindex +lrem +rpush +info +pexpireat " +
	"+zadd +zrem +zscore +zcard +zcount +zrangebyscore +lpop +lrange"

// leastChannels are those of all locks.
const leastChannels = "&redisson_lock__channel:* &redisson_rwlock:* &redisson_sc:*"

// leastPrivilege tells whether a server with these args is to restrict its default user. Args that
// bring users of their own are left alone.
func leastPrivilege(args []string) bool {
	return os.Getenv(envLeast) == "1" && !slices.Contains(args, "--user") && !slices.Contains(args, "--aclfile")
}

// Unrestricted lets the default user do everything again, over restarts too, on a server that
// HOLDFAST_LEAST_PRIVILEGE=1 has restricted: for tests that act as an administrator by a connection
// of their own, or that test rules. Elsewhere it does nothing. It returns s.
func (s *Server) Unrestricted() *Server {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.restricted {
		return s
	}
	admin := s.admin()
	s.restricted = false
	if !s.server.Running() {
		return s // the next child will have no rules
	}
	if _, err := s.do(admin, append([]string{"ACL", "SETUSER", "default", "reset", "on"}, s.free()...)...); err != nil {
		s.t.Errorf("redistest: %v", err)
	}
	return s
}

func (s *Server) free() []string { return []string{s.secret(), "~*", "&*", "+@all"} }

// secret is the rule for the default user's password.
func (s *Server) secret() string {
	if s.password != "" {
		return ">" + s.password
	}
	return "nopass"
}

// rules returns the arguments that restrict the default user from the server's first moment on, so
// that clients that reconnect to a restarted server never find it open. Replicas of a restricted
// server must be somebody else. The caller holds s.mu.
func (s *Server) rules() []string {
	if !s.restricted {
		return nil
	}
	args := []string{"--user", adminUser, "on", ">" + adminPassword, "~*", "&*", "+@all"}
	args = append(args, "--user", "default", "on", s.secret(), "~*", "resetchannels")
	args = append(args, strings.Fields(leastChannels)...)
	args = append(args, "-@all")
	args = append(args, strings.Fields(leastCommands)...)
	return append(args, "--masteruser", adminUser, "--masterauth", adminPassword)
}

// grantSetInfo allows what newer clients tell newer servers. Older servers do not know it, and
// would not start with such a rule.
func (s *Server) grantSetInfo(admin resp.Login) {
	_, _ = s.do(admin, "ACL", "SETUSER", "default", "+client|setinfo")
}

// admin returns the user of Do. The caller holds s.mu.
func (s *Server) admin() resp.Login {
	if s.restricted {
		return resp.Login{User: adminUser, Password: adminPassword}
	}
	return resp.Login{Password: s.password}
}
