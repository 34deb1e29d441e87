package renewal_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/renewal"
)

type batch struct {
	key   string
	items []string
}

func batches(due []string, limit int) (bs []batch) {
	for k, items := range renewal.Batches(due, func(s string) string { return s[:1] }, limit) {
		bs = append(bs, batch{k, items})
	}
	return bs
}

func TestBatches(t *testing.T) {
	due := []string{"b1", "a1", "b2", "b3", "c1", "a2", "b4", "b5"}
	for _, test := range []struct {
		name  string
		due   []string
		limit int
		want  []batch
	}{
		{"nothing due", nil, 10, nil},
		{"one", due[:1], 10, []batch{{"b", []string{"b1"}}}},
		{"no limit", due, 0, []batch{{"b", []string{"b1", "b2", "b3", "b4", "b5"}}, {"a", []string{"a1", "a2"}}, {"c", []string{"c1"}}}},
		{"no limit either", due, -1, []batch{{"b", []string{"b1", "b2", "b3", "b4", "b5"}}, {"a", []string{"a1", "a2"}}, {"c", []string{"c1"}}}},
		{"limit", due, 2, []batch{
			{"b", []string{"b1", "b2"}}, {"b", []string{"b3", "b4"}}, {"b", []string{"b5"}},
			{"a", []string{"a1", "a2"}}, {"c", []string{"c1"}},
		}},
		{"limit of the largest", due, 5, []batch{{"b", []string{"b1", "b2", "b3", "b4", "b5"}}, {"a", []string{"a1", "a2"}}, {"c", []string{"c1"}}}},
		{"each alone", due[:3], 1, []batch{{"b", []string{"b1"}}, {"b", []string{"b2"}}, {"a", []string{"a1"}}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			require.Equal(t, test.want, batches(test.due, test.limit))
		})
	}
}

func TestBatchesAreCopies(t *testing.T) {
	due := []string{"a1", "a2", "b1", "a3"}
	bs := batches(due, 2)
	clear(due)
	_ = append(bs[0].items, "a4")
	_ = append(bs[1].items, "a5")
	require.Equal(t, []batch{{"a", []string{"a1", "a2"}}, {"a", []string{"a3"}}, {"b", []string{"b1"}}}, bs)
}

func TestBatchesStopWhenTheLoopDoes(t *testing.T) {
	n := 0
	for range renewal.Batches([]int{1, 2, 3}, func(i int) int { return i }, 1) {
		if n++; n == 2 {
			break
		}
	}
	require.Equal(t, 2, n)
}

func TestBatchesLoseNothing(t *testing.T) {
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 3))
		keys, limit := 1+rng.IntN(20), 1+rng.IntN(20)
		due := rng.Perm(rng.IntN(300))
		var got int
		place := make(map[int]int) // where in due an item is
		for i, x := range due {
			place[x] = i
		}
		last, finished := -1, make(map[int]bool)
		before := -1
		for k, items := range renewal.Batches(due, func(i int) int { return i % keys }, limit) {
			require.NotEmpty(t, items)
			require.LessOrEqual(t, len(items), limit)
			require.False(t, finished[k], "all batches of a key in a row")
			if k != last {
				finished[last] = true
				last, before = k, -1
			}
			for _, x := range items {
				require.Equal(t, k, x%keys)
				require.Less(t, before, place[x], "in the order in which they came")
				before = place[x]
				got++
			}
		}
		require.Equal(t, len(due), got)
	}
}

func ExampleBatches() {
	due := []string{"eu:1", "us:1", "eu:2", "eu:3"}
	region := func(s string) string { return s[:2] }
	for key, names := range renewal.Batches(due, region, 2) {
		fmt.Println(key, names)
	}
	// Output:
	// eu [eu:1 eu:2]
	// eu [eu:3]
	// us [us:1]
}
