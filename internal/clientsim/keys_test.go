package clientsim

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/luaserver"
	"github.com/holdfast-go/holdfast/internal/resp"
)

// A keyspace is the data of a server.
type keyspace struct {
	*luaserver.Keyspace
	// rate is how fast the server's clock runs, by the clock of the bubble, which all hosts have.
	rate float64
}

func (w *world) newKeyspace() keyspace {
	k := luaserver.NewKeyspace(func() time.Duration {
		return time.Duration(w.began.UnixNano()) + time.Duration(float64(time.Since(w.began))*w.set.rate)
	})
	servers++
	k.ReplicationID = strconv.Itoa(servers)
	return keyspace{k, w.set.rate}
}

// servers counts the servers of all seeds, which run one after the other.
var servers int

// A command or a script answers with a value of package resp.
type (
	status  = resp.Status
	failure = resp.Error
	value   = luaserver.Value
)

// names returns the names of the fields of a hash, nil where there is none.
func (k keyspace) names(key string) []string { return namesOf(k.Get(key)) }

func namesOf(v *value) (names []string) {
	if v != nil {
		for _, f := range v.Fields {
			names = append(names, f.Name)
		}
	}
	return names
}

// in returns the instant after d by the server's clock, in milliseconds.
func (k keyspace) in(d time.Duration) string {
	return fmt.Sprint(k.Ms() + (k.Skew + d).Milliseconds())
}

// life returns how long a key will be there, negative if it has no end, zero if it is not there.
func (k keyspace) life(key string) time.Duration {
	v := k.Get(key)
	switch {
	case v == nil:
		return 0
	case v.End == 0:
		return -1
	}
	return time.Duration(float64(v.End-k.Ms()+1) / k.rate * float64(ms))
}

func (k keyspace) setHash(key string, life time.Duration, pairs ...string) {
	v := &value{Kind: luaserver.Hash}
	for i := 0; i < len(pairs); i += 2 {
		v.Fields = append(v.Fields, luaserver.Field{Name: pairs[i], Value: pairs[i+1]})
	}
	k.Put(key, v, life.Milliseconds())
}

// engine runs the scripts of all seeds, which run one after the other.
var engine = luaserver.NewEngine()

// undeclared begins what a run has seen of a key that is not among the KEYS of a script.
const undeclared = "undeclared: "

// keyOf returns the first key of a command of a script, or "".
func keyOf(call []string) string {
	switch strings.ToUpper(call[0]) {
	case "PUBLISH", "SPUBLISH", "PUBSUB", "TIME", "CLUSTER", "INFO":
		return ""
	case "MEMORY":
		return call[2]
	}
	return call[1]
}

// kindOfKey returns what the table of package wire calls a key that is not among the KEYS.
func kindOfKey(key string) string {
	switch {
	case strings.Contains(key, ":rwlock_timeout:"):
		return "reader"
	case strings.HasPrefix(key, "redisson_lock_token:"):
		return "token"
	case strings.HasPrefix(key, "redisson_lock_queue:"), strings.HasPrefix(key, "redisson_lock_timeout:"):
		return "queue"
	case strings.HasSuffix(key, "line"), strings.HasSuffix(key, "wants"):
		return "line"
	}
	return key
}

// undeclaredKeys returns the table of package wire as what runs see.
func undeclaredKeys(t *testing.T) (all []string) {
	page, err := os.ReadFile("../../lockmgr/internal/wire/doc.go")
	require.NoError(t, err)
	_, table, _ := strings.Cut(string(page), "itself, in the slot of its KEYS:\n//\n")
	table, _, found := strings.Cut(table, "\n//\n")
	require.True(t, found)
	kind := ""
	for line := range strings.Lines(table) {
		words := strings.Fields(strings.TrimPrefix(line, "//"))
		if !strings.HasPrefix(line, "//\t  ") {
			kind, words = words[0], words[1:]
		}
		for _, script := range words {
			all = append(all, undeclared+script+" "+kind)
		}
	}
	return all
}
