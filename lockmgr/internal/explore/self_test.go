package explore

import (
	"bytes"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
	"github.com/holdfast-go/holdfast/lockmgr/internal/model"
)

// A scene with one caller that takes a lock with a fixed lease has 15 states. The
// caller has not asked; the acquire is on its way; its answer is; the caller holds the
// lock; the lease is over. Then the caller unlocks in time, or too late, or the
// manager notices first. In each case the release is on its way, its answer is, or it
// is done. The caller and the manager can be too late in either order.
func TestExplorer_FindsAKnownCount(t *testing.T) {
	s := &Scene{Wants: [2][]Want{{{Lease: 2 * time.Second}}}}
	r := Explore(s)
	require.Nil(t, r.Violation)
	require.Equal(t, 15, r.States)
	require.Equal(t, 20, r.Transitions)
	require.Equal(t, 7, r.Depth)
	require.True(t, r.Whole)
}

// A world and the same world with the managers exchanged have one digest.
func TestExplorer_ManagersThatChangePlaces(t *testing.T) {
	s := &Scene{Wants: [2][]Want{{{}}, {{}}}}
	var e encoder
	first, second := newWorld(s), newWorld(s)
	for range 40 {
		c, more := first.fair()
		if first.managers[0].calls[0].state == fresh {
			c, more = choice{ask, 0, 0}, true
		}
		if !more {
			break
		}
		require.Nil(t, first.apply(c))
		if c.do != pass && c.do != force {
			c.who = 1 - c.who
		}
		require.Nil(t, second.apply(c))
		require.Equal(t, digestOf(first, &e), digestOf(second, &e))
	}
	require.Equal(t, done, first.managers[0].calls[0].state)
}

// A step of a copy does not change the original, and a path made again leads to the
// same state.
func TestExplorer_CopyIsDeep(t *testing.T) {
	for _, s := range Scenes() {
		var e encoder
		w, again, seed := newWorld(s), newWorld(s), uint64(1)
		for range 200 {
			all := w.choices(nil)
			if len(all) == 0 {
				break
			}
			before := digestOf(w, &e)
			for _, c := range all {
				require.Nil(t, clone(w).apply(c))
				require.Equal(t, before, digestOf(w, &e), "%s: %s", s.Name, w.words(c))
			}
			seed = mix(seed, 0xe7037ed1a0b428db)
			c := all[seed%uint64(len(all))]
			next := clone(w)
			require.Nil(t, next.apply(c))
			require.Nil(t, again.apply(c))
			require.Equal(t, digestOf(next, &e), digestOf(again, &e))
			w = next
		}
	}
}

// A search that keeps no worlds finds the same states, and each state that is made again
// by its path has the digest of the state that was found.
func TestExplorer_AStateMadeAgainIsTheSame(t *testing.T) {
	if slow {
		t.Skip("SKIPPED with the race detector: it runs in one goroutine, and takes minutes")
	}
	for _, name := range []string{"three requests", "re-entry"} {
		all := Scenes()
		s := all[slices.IndexFunc(all, func(s *Scene) bool { return s.Name == name })]
		s.Bounds.States = few
		x := newSearch(s, 0)
		require.Equal(t, Explore(s), x.run())
		for i, d := range x.found.digests {
			if digestOf(x.world(int32(i)), &x.e) != d {
				t.Fatalf("%s: another state at the end of %v", s.Name, x.path(int32(i)))
			}
		}
	}
}

// The fields that a digest leaves out by name must exist. If one was renamed, the
// digest would tell equal states apart.
func TestExplorer_WhatADigestLeavesOutIsThere(t *testing.T) {
	machine := reflect.TypeFor[core.Machine]()
	for _, name := range leftOut {
		field, ok := strings.CutPrefix(name, machine.Name()+".")
		require.True(t, ok)
		_, ok = machine.FieldByName(field)
		require.True(t, ok, name)
	}
	for _, name := range gauges {
		_, ok := reflect.TypeFor[core.Stats]().FieldByName(name)
		require.True(t, ok, name)
	}
	for _, name := range memory {
		_, field, _ := strings.Cut(name, ".")
		_, ok := reflect.TypeFor[manager]().FieldByName(field)
		require.True(t, ok, name)
	}
}

// Each plant is a bug of the server that the explorer must find. The path is the
// shortest, and can be replayed.
func TestExplorer_FindsPlantedBugs(t *testing.T) {
	for _, p := range []struct {
		name      string
		invariant string
		depth     int
		plant     func(*world, *command, *answer)
	}{
		{"every acquire is granted", "until the record ends", 5, func(_ *world, c *command, a *answer) {
			a.ok = a.ok || c.verb == core.VerbAcquire
		}},
		{"nothing is granted", "no lost wake-up", 0, func(w *world, c *command, a *answer) {
			if c.verb == core.VerbAcquire {
				w.server.Del(lockKey)
				a.ok, a.ttl = false, 9000
			}
		}},
		{"another has the lock for ever", "nobody waits for ever", 0, func(w *world, c *command, a *answer) {
			if c.verb == core.VerbAcquire {
				w.server.SetHash(lockKey, 0, model.Field{Name: "F:1", Value: "1"})
				a.ok, a.ttl = false, -1
			}
		}},
	} {
		t.Run(p.name, func(t *testing.T) {
			s := &Scene{Wants: [2][]Want{{{}}, {{}}}, plant: p.plant}
			r := Explore(s)
			require.Equal(t, r, newSearch(s, 0).run())
			require.NotNil(t, r.Violation)
			require.Equal(t, p.invariant, r.Violation.Invariant, "%v", r.Violation)
			if p.depth > 0 {
				require.Len(t, r.Path, p.depth)
			}
			var b bytes.Buffer
			v, err := Replay(s, r.Path, &b)
			require.NoError(t, err)
			if p.invariant != "nobody waits for ever" { // no single choice violates that
				require.Equal(t, r.Violation, v)
			}
			require.Contains(t, b.String(), "a caller makes request 0")
		})
	}
}

func TestReplay_RefusesWhatIsNoChoice(t *testing.T) {
	s := &Scene{Wants: [2][]Want{{{}}}}
	for _, path := range []string{"1.0.0", "0.0.0 0.0.0", "x", "4.0.7"} {
		_, err := Replay(s, strings.Fields(path), &bytes.Buffer{})
		require.Error(t, err)
	}
}
