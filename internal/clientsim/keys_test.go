package clientsim

import (
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/internal/luaserver"
	"github.com/holdfast-go/holdfast/internal/resp"
)

// A keyspace is the data of a server, by the clock of the bubble.
type keyspace struct{ *luaserver.Keyspace }

func newKeyspace() keyspace {
	k := luaserver.NewKeyspace(func() time.Duration { return time.Duration(time.Now().UnixNano()) })
	servers++
	k.ReplicationID = strconv.Itoa(servers)
	return keyspace{k}
}

// servers counts the servers of all seeds, which run one after the other.
var servers int

// A command or a script answers with a value of package resp.
type (
	status  = resp.Status
	failure = resp.Error
	value   = luaserver.Value
)

func nowMs() int64 { return time.Now().UnixMilli() }

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

// life returns how long a key will be there, negative if it has no end, zero
// if it is not there.
func (k keyspace) life(key string) time.Duration {
	v := k.Get(key)
	switch {
	case v == nil:
		return 0
	case v.End == 0:
		return -1
	}
	return time.Duration(v.End-nowMs()+1) * time.Millisecond
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
