package luaserver

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/resp"
)

// A Keyspace is the data of a server.
type Keyspace struct {
	// Clock returns the time since 1970 by the server's clock. It must not go back.
	Clock func() time.Duration
	// Skew is how far TIME and PEXPIREAT are ahead of Clock: a failover may bring another clock.
	Skew time.Duration
	// ReplicationID is what INFO tells of the server: hexadecimal digits. A failover changes it.
	ReplicationID string
	// Values has the value of each key. Those that have expired may still be there: Get removes
	// them.
	Values map[string]*Value
}

// NewKeyspace returns an empty Keyspace.
func NewKeyspace(clock func() time.Duration) *Keyspace {
	return &Keyspace{Clock: clock, ReplicationID: "0", Values: make(map[string]*Value)}
}

// A Value is the value of a key. One of its fields counts, which Kind says.
type Value struct {
	Kind    Kind
	Fields  []Field // of a hash, in the order in which they were first set
	Text    string
	List    []string
	Members []Member // of a sorted set, by score and name
	// End is the last millisecond of its life since 1970. Zero means no end.
	End int64
}

// Kind is the type of a value.
type Kind uint8

const (
	Hash Kind = iota + 1
	Text
	List
	Scores // a sorted set
)

// A Field is one entry of a hash.
type Field struct{ Name, Value string }

// A Member is one entry of a sorted set.
type Member struct {
	Name  string
	Score float64
}

// Ms returns the server's clock in milliseconds.
func (k *Keyspace) Ms() int64 { return int64(k.Clock() / time.Millisecond) }

// Get returns the value of a key, or nil. A key that has expired is removed.
func (k *Keyspace) Get(key string) *Value {
	v := k.Values[key]
	if v != nil && v.End != 0 && k.Ms() > v.End {
		delete(k.Values, key)
		return nil
	}
	return v
}

// Put sets the value of a key. A life in milliseconds that is not positive means no end.
func (k *Keyspace) Put(key string, v *Value, life int64) {
	if v.End = 0; life > 0 {
		v.End = k.Ms() + life
	}
	k.Values[key] = v
}

// Fields returns the fields of a hash, which must not be changed. It returns nil if there is no
// such hash.
func (k *Keyspace) Fields(key string) []Field {
	if v := k.Get(key); v != nil && v.Kind == Hash {
		return v.Fields
	}
	return nil
}

// Copy returns a copy that shares nothing with v.
func (v *Value) Copy() *Value {
	c := *v
	c.Fields, c.List, c.Members = slices.Clone(v.Fields), slices.Clone(v.List), slices.Clone(v.Members)
	return &c
}

// Equal reports whether two values are equal. Members and fields have their order.
func (v *Value) Equal(o *Value) bool {
	return v.Kind == o.Kind && v.Text == o.Text && v.End == o.End && slices.Equal(v.Fields, o.Fields) &&
		slices.Equal(v.List, o.List) && slices.Equal(v.Members, o.Members)
}

// Field returns the value of a field of a hash, and whether there is one.
func (v *Value) Field(name string) (value string, there bool) {
	if i := v.field(name); i >= 0 {
		return v.Fields[i].Value, true
	}
	return "", false
}

func (v *Value) field(name string) int {
	if v != nil {
		for i := range v.Fields {
			if v.Fields[i].Name == name {
				return i
			}
		}
	}
	return -1
}

// Score returns the score of a member of a sorted set, and whether there is one. v may be nil.
func (v *Value) Score(name string) (score float64, there bool) {
	if i := v.member(name); i >= 0 {
		return v.Members[i].Score, true
	}
	return 0, false
}

func (v *Value) member(name string) int {
	if v != nil {
		for i := range v.Members {
			if v.Members[i].Name == name {
				return i
			}
		}
	}
	return -1
}

// setScore adds a member, or moves it.
func (v *Value) setScore(name string, score float64) {
	if i := v.member(name); i >= 0 {
		v.Members = slices.Delete(v.Members, i, i+1)
	}
	m := Member{name, score}
	i, _ := slices.BinarySearchFunc(v.Members, m, func(a, b Member) int {
		return cmp.Or(cmp.Compare(a.Score, b.Score), strings.Compare(a.Name, b.Name))
	})
	v.Members = slices.Insert(v.Members, i, m)
}

// within returns the members with scores in a range. An end that begins with ( is not part of it.
func (v *Value) within(lo, hi string) (members []Member, ok bool) {
	loText, openLo := strings.CutPrefix(lo, "(")
	hiText, openHi := strings.CutPrefix(hi, "(")
	from, okLo := readScore(loText)
	to, okHi := readScore(hiText)
	if !okLo || !okHi || v == nil {
		return nil, okLo && okHi
	}
	first := 0
	for first < len(v.Members) && (v.Members[first].Score < from || openLo && v.Members[first].Score == from) {
		first++
	}
	last := first
	for last < len(v.Members) && (v.Members[last].Score < to || !openHi && v.Members[last].Score == to) {
		last++
	}
	return v.Members[first:last], true
}

const wrongType = resp.Error("WRONGTYPE Operation against a key holding the wrong kind of value")
