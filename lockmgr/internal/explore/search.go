package explore

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// A Result is what came of a search.
type Result struct {
	States      int
	Transitions int
	Depth       int  // choices in the longest of the shortest paths
	Whole       bool // no bound on depth or states was met
	Fair        int  // states beyond the bound that the fair schedule led to
	Violation   *Violation
	Path        []string // the choices that lead there
}

// A node is a state that was found: how, and where the fair schedule leads.
type node struct {
	parent int32
	by     choice
	fair   int32 // the next state; over when there is none, unknown before it is expanded
}

const (
	unknown = -1
	over    = -2
)

// A search goes through the states of a scene in the order of their depth.
type search struct {
	scene *Scene
	first *world
	nodes []node
	found map[digest]int32
	e     encoder
	// worlds are those of the states that are not expanded yet, from the first
	// one on, as far as they are kept; the others are made again by their paths.
	worlds map[int32]*world
	res    Result
}

// keep is the most worlds that are kept.
const keep = 200_000

// Explore goes through all states of a scene within its bounds.
func Explore(s *Scene) Result {
	x := &search{scene: s, first: newWorld(s), found: map[digest]int32{}, worlds: map[int32]*world{}}
	x.add(clone(x.first), node{parent: -1, fair: unknown})
	x.walk()
	if x.res.Violation == nil {
		x.live()
	}
	x.res.States = len(x.nodes)
	return x.res
}

// add takes a state in. It returns its place, and whether it is new.
func (x *search) add(w *world, n node) (int32, bool) {
	p := digestOf(w, &x.e)
	if i, known := x.found[p]; known {
		return i, false
	}
	i := int32(len(x.nodes))
	x.found[p] = i
	x.nodes = append(x.nodes, n)
	if len(x.worlds) < keep {
		x.worlds[i] = w
	}
	return i, true
}

func (x *search) walk() {
	x.res.Whole = true
	level := 1 // the end of the level
	for i := 0; i < len(x.nodes); i++ {
		if i == level {
			x.res.Depth++
			level = len(x.nodes)
		}
		b := &x.scene.Bounds
		if b.States > 0 && len(x.nodes) >= b.States || b.Depth > 0 && x.res.Depth >= b.Depth {
			x.res.Whole = false
			return
		}
		if !x.expand(int32(i)) {
			return
		}
	}
}

// expand finds the states that follow one.
func (x *search) expand(i int32) bool {
	w := x.world(i)
	delete(x.worlds, i)
	fair, more := w.fair()
	if !more {
		if v := check(w.checkOver); v != nil {
			x.fail(v, x.path(i))
			return false
		}
		x.nodes[i].fair = over
	}
	all := w.choices(nil)
	for k, c := range all {
		to := w
		if k < len(all)-1 {
			to = clone(w)
		}
		x.res.Transitions++
		if v := to.apply(c); v != nil {
			x.fail(v, append(x.path(i), c))
			return false
		}
		j, _ := x.add(to, node{parent: i, by: c, fair: unknown})
		if more && c == fair {
			x.nodes[i].fair = j
		}
	}
	if more && x.nodes[i].fair == unknown {
		panic(fmt.Sprintf("explore: what is fair is no choice: %s", w.words(fair)))
	}
	return true
}

// path returns the choices that lead to a state.
func (x *search) path(i int32) []choice {
	var path []choice
	for ; x.nodes[i].parent >= 0; i = x.nodes[i].parent {
		path = append(path, x.nodes[i].by)
	}
	slices.Reverse(path)
	return path
}

// world returns the world of a state.
func (x *search) world(i int32) *world {
	if w := x.worlds[i]; w != nil {
		return w
	}
	w := clone(x.first)
	for _, c := range x.path(i) {
		if v := w.apply(c); v != nil {
			panic(fmt.Sprintf("explore: a path that was good: %v", v))
		}
	}
	return w
}

// longest is how many choices the fair schedule may take until all is over.
const longest = 2000

// live checks that the fair schedule comes to an end from each state.
func (x *search) live() {
	good := make([]bool, len(x.nodes))
	beyond := map[digest]bool{} // states that are not in the search, and from which it does
	var way []int32
	for i := range x.nodes {
		way = way[:0]
		at := int32(i)
		for at >= 0 && !good[at] && len(way) <= longest {
			way = append(way, at)
			if x.nodes[at].fair == unknown && !x.follow(at, beyond) {
				return
			}
			if x.nodes[at].fair == unknown {
				break
			}
			at = x.nodes[at].fair
		}
		if len(way) > longest && !x.confirm(int32(i)) {
			return
		}
		for _, at := range way {
			good[at] = true
		}
	}
	x.res.Fair = len(beyond)
}

// follow runs the fair schedule from a state to its end, or to a state that is
// looked at anyhow: one of the search, or of beyond, where it notes what it
// meets. If beyond is nil there is no such state.
func (x *search) follow(i int32, beyond map[digest]bool) bool {
	w := clone(x.world(i))
	path := x.path(i)
	for range longest {
		c, more := w.fair()
		if !more {
			if v := check(w.checkOver); v != nil {
				x.fail(v, path)
				return false
			}
			return true
		}
		path = append(path, c)
		if v := w.apply(c); v != nil {
			x.fail(v, path)
			return false
		}
		if beyond == nil {
			continue
		}
		p := digestOf(w, &x.e)
		if j, known := x.found[p]; beyond[p] || known && x.nodes[j].fair != unknown {
			return true
		}
		beyond[p] = true
	}
	x.fail(&Violation{"nobody waits for ever", fmt.Sprintf("the fair schedule has no end after %d choices", longest)}, path)
	return false
}

// confirm looks whether the fair schedule has really no end from a state. States
// that were folded may make a circle where there is none.
func (x *search) confirm(i int32) bool { return x.follow(i, nil) }

// check returns the invariant that a function finds violated.
func check(f func()) (v *Violation) {
	defer func() {
		if p := recover(); p != nil {
			v = p.(*Violation)
		}
	}()
	f()
	return nil
}

func (x *search) fail(v *Violation, path []choice) {
	x.res.Violation = v
	for _, c := range path {
		x.res.Path = append(x.res.Path, fmt.Sprintf("%d.%d.%d", c.do, c.who, c.what))
	}
}

// Replay makes the choices of a path and tells what happens.
func Replay(s *Scene, path []string, out io.Writer) (*Violation, error) {
	w := newWorld(s)
	w.out = out
	for _, step := range path {
		var c choice
		if _, err := fmt.Sscanf(step, "%d.%d.%d", &c.do, &c.who, &c.what); err != nil {
			return nil, fmt.Errorf("a choice is three numbers with dots: %q", step)
		}
		if !slices.Contains(w.choices(nil), c) {
			return nil, fmt.Errorf("%s is no choice here", step)
		}
		if v := w.apply(c); v != nil {
			return v, nil
		}
	}
	if _, more := w.fair(); !more {
		return check(w.checkOver), nil
	}
	return nil, nil
}

// String tells what was found.
func (r *Result) String() string {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s states, %s transitions, depth %d", thousands(r.States), thousands(r.Transitions), r.Depth)
	if r.Whole {
		b.WriteString(", whole")
	} else {
		fmt.Fprintf(&b, ", and %s states of the fair schedule beyond", thousands(r.Fair))
	}
	return b.String()
}

func thousands(n int) string {
	s := strconv.Itoa(n)
	var parts []string
	for len(s) > 3 {
		parts = append([]string{s[len(s)-3:]}, parts...)
		s = s[:len(s)-3]
	}
	return strings.Join(append([]string{s}, parts...), ",")
}
