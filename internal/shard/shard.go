// Package shard splits a list of tests into parts of about the same size, so that each part can run
// by itself: on another machine, or on another day.
package shard

import (
	"fmt"
	"strconv"
	"strings"
)

// A Shard is the part K of N, from 1 to N. The zero Shard is the whole. It is a flag.Value, written
// "K/N".
type Shard struct{ K, N int }

// String returns the shard as Set reads it, or "" for the whole.
func (s *Shard) String() string {
	if s.N == 0 {
		return ""
	}
	return fmt.Sprintf("%d/%d", s.K, s.N)
}

// Set reads a shard. It returns an error unless text is "K/N" with 1 ≤ K ≤ N.
func (s *Shard) Set(text string) error {
	k, n, _ := strings.Cut(text, "/")
	var err error
	var got Shard
	if got.K, err = strconv.Atoi(k); err == nil {
		got.N, err = strconv.Atoi(n)
	}
	if err != nil || got.K < 1 || got.K > got.N {
		return fmt.Errorf("%q is not K/N with 1 ≤ K ≤ N", text)
	}
	*s = got
	return nil
}

// Has reports whether the i-th item of a list, counted from 0, is in the shard. Neighbours are in
// different shards.
func (s Shard) Has(i int) bool { return s.N == 0 || i%s.N == s.K-1 }
