package renewal

import "iter"

// Batches sorts what is due into batches for one request each. Items with the same key (the same cluster slot and lease, say) go together, in
// the order in which they came, and no batch is longer than limit; a limit below 1 is none. Keys come in the order in which they
// were first seen, all batches of a key in a row. The slices are copies, which the caller may keep and append to.
func Batches[T any, K comparable](due []T, key func(T) K, limit int) iter.Seq2[K, []T] {
	return func(yield func(K, []T) bool) {
		for _, g := range groups(due, key) {
			for rest := g.items; len(rest) > 0; {
				n := len(rest)
				if limit > 0 {
					n = min(n, limit)
				}
				if !yield(g.key, rest[:n:n]) {
					return
				}
				rest = rest[n:]
			}
		}
	}
}

type group[T any, K comparable] struct {
	key   K
	size  int
	items []T
}

// groups counts first and copies then, so that one array holds all groups, each in a row.
func groups[T any, K comparable](due []T, key func(T) K) []group[T, K] {
	var (
		gs    []group[T, K]
		of    = make([]int32, len(due)) // which group an item belongs to
		index = make(map[K]int32)
		g     int32
	)
	for i, x := range due {
		k := key(x)
		if i == 0 || gs[g].key != k { // neighbours mostly share their key
			known := false
			if g, known = index[k]; !known {
				g = int32(len(gs))
				index[k] = g
				gs = append(gs, group[T, K]{key: k})
			}
		}
		of[i] = g
		gs[g].size++
	}

	room := make([]T, len(due))
	for i := range gs {
		gs[i].items = room[:0]
		room = room[gs[i].size:]
	}
	for i, x := range due {
		g := &gs[of[i]]
		g.items = append(g.items, x)
	}
	return gs
}
