package cluster

import (
	"errors"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
)

// Of several addresses those of one cluster are used.
func TestSeeds(t *testing.T) {
	single, alone := "-ERR This instance has cluster support disabled\r\n", "*0\r\n"
	for name, one := range map[string]struct {
		answers map[string]string // empty: nobody listens
		want    []string          // nil: ErrSeeds
	}{
		"all of one":                 {map[string]string{"a": ours, "b": ours, "c": ours}, []string{"a", "b", "c"}},
		"one of another":             {map[string]string{"a": ours, "b": theirs, "c": ours}, []string{"a", "c"}},
		"one of another, one down":   {map[string]string{"a": ours, "b": theirs, "c": "", "d": ours}, []string{"a", "d"}},
		"a single server":            {map[string]string{"a": ours, "b": single}, []string{"a"}},
		"a node of no cluster":       {map[string]string{"a": ours, "b": alone}, []string{"a"}},
		"nobody answers":             {map[string]string{"a": "", "b": ""}, []string{"a", "b"}},
		"single servers only":        {map[string]string{"a": single, "b": single}, []string{"a", "b"}},
		"as many of each":            {map[string]string{"a": ours, "b": theirs}, nil},
		"as many of each, one alone": {map[string]string{"a": ours, "b": theirs, "c": alone}, nil},
		"the user may not ask":       {map[string]string{"a": "-NOPERM no\r\n", "b": ours}, []string{"b"}},
	} {
		t.Run(name, func(t *testing.T) {
			var addrs []string
			nodes := map[string]*fakeNode{}
			for _, addr := range []string{"a", "b", "c", "d"} {
				answer, there := one.answers[addr]
				if there {
					addrs = append(addrs, addr)
				}
				if answer != "" {
					nodes[addr] = newFakeNode(t, "A", answer)
				}
			}
			for range 10 { // the answers come in any order
				got, err := Seeds(t.Context(), addrs, func(addr string) (rueidis.Client, error) {
					if nodes[addr] == nil {
						return nil, errors.New("nobody listens there")
					}
					return lasting{nodes[addr].client}, nil
				})
				if one.want == nil {
					require.ErrorIs(t, err, ErrSeeds)
					continue
				}
				require.NoError(t, err)
				require.Subset(t, one.want, got)
				if 2*len(got) <= len(addrs) { // else enough had answered
					require.Len(t, got, len(one.want))
				}
			}
		})
	}
}

// lasting is a client that Close leaves open.
type lasting struct{ rueidis.Client }

func (lasting) Close() {}
