package explore

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// A Result is the result of a search.
type Result struct {
	States      int
	Transitions int
	Depth       int  // choices from the first state to the one farthest from it
	Whole       bool // no bound on depth or states was met
	Fair        int  // states beyond the bound that the fair schedule led to
	Violation   *Violation
	Path        []string // the choices that lead to the violation
}

// A node is a state that was found. Below it are the states that were found first
// from it. They have consecutive indices.
type node struct {
	parent int32  // the node above
	fair   int32  // the next state of the fair schedule; over if there is none, unknown before it is expanded
	first  int32  // the first node below that has not ended; zero before the state is expanded
	below  uint8  // how many nodes from first on may not have ended
	by     choice // the choice that leads here from the node above
}

const (
	unknown = -1
	over    = -2
)

// ended reports whether the state and all states below it are expanded.
func (n *node) ended() bool { return n.first > 0 && n.below == 0 }

// end returns the index after that of the last node below.
func (n *node) end() int32 { return n.first + int32(n.below) }

// A search goes through the states of a scene level by level: the states of a level
// are equally many choices away from the first state.
type search struct {
	scene *Scene
	first *world
	nodes []node
	found set // the digests of the nodes
	e     encoder
	// level is the index of the first state of the newest level. worlds are the
	// worlds of that level's states. If there are more than keep, worlds is nil, and
	// visit makes them again.
	level  int
	worlds []*world
	keep   int
	res    Result
}

// keep is how many worlds Explore keeps. A world takes nine kilobytes.
const keep = 20_000

// Explore goes through all states of a scene within its bounds.
func Explore(s *Scene) Result { return newSearch(s, keep).run() }

func newSearch(s *Scene, keep int) *search {
	return &search{scene: s, first: newWorld(s), worlds: []*world{}, keep: keep}
}

func (x *search) run() Result {
	x.add(clone(x.first), node{parent: -1, fair: unknown})
	x.walk()
	if x.res.Violation == nil {
		x.live()
	}
	x.res.States = len(x.nodes)
	return x.res
}

// add adds a state, if it is new. It returns its index.
func (x *search) add(w *world, n node) int32 {
	i, isNew := x.found.add(digestOf(w, &x.e))
	if isNew {
		x.nodes = append(x.nodes, n)
		if len(x.worlds) == x.keep {
			x.worlds = nil
		}
		if x.worlds != nil {
			x.worlds = append(x.worlds, w)
		}
	}
	return i
}

// walk expands the states of one level after the other.
func (x *search) walk() {
	x.res.Whole = true
	for more := true; more; {
		if most := x.scene.Bounds.Depth; most > 0 && x.res.Depth >= most {
			x.res.Whole = false
			return
		}
		level, worlds := x.level, x.worlds
		x.level, x.worlds = len(x.nodes), []*world{}
		if worlds == nil {
			more = x.visit(0, clone(x.first), x.res.Depth)
		}
		for k := 0; k < len(worlds) && more; k++ {
			more = x.expand(int32(level+k), worlds[k])
			worlds[k] = nil
		}
		if more = more && x.level < len(x.nodes); more {
			x.res.Depth++
		}
	}
}

// visit expands the states that are so many levels below a state, in the order of their
// indices. It makes the choices on the way to them again, which needs more time than
// to keep the worlds, and no memory. w is the world of the state, and is used up. visit
// returns false if the search is to stop.
func (x *search) visit(i int32, w *world, levels int) bool {
	if levels == 0 {
		return x.expand(i, w)
	}
	for c, end := x.nodes[i].first, x.nodes[i].end(); c < end; c++ {
		if x.nodes[c].ended() {
			continue
		}
		to := w
		if c < end-1 {
			to = clone(w)
		}
		x.remake(to, x.nodes[c].by)
		if !x.visit(c, to, levels-1) {
			return false
		}
	}
	// Leave out nodes that have ended.
	n := &x.nodes[i]
	for n.below > 0 && x.nodes[n.end()-1].ended() {
		n.below--
	}
	for n.below > 0 && x.nodes[n.first].ended() {
		n.first++
		n.below--
	}
	return true
}

// expand finds the states that follow a state. w is the world of the state, and is used
// up. expand returns false if the search is to stop.
func (x *search) expand(i int32, w *world) bool {
	if most := x.scene.Bounds.States; most > 0 && len(x.nodes) >= most {
		x.res.Whole = false
		return false
	}
	x.nodes[i].first = int32(len(x.nodes))
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
		j := x.add(to, node{parent: i, by: c, fair: unknown})
		if more && c == fair {
			x.nodes[i].fair = j
		}
	}
	if more && x.nodes[i].fair == unknown {
		panic(fmt.Sprintf("explore: what is fair is no choice: %s", w.words(fair)))
	}
	x.nodes[i].below = uint8(len(x.nodes) - int(x.nodes[i].first))
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
	w := clone(x.first)
	for _, c := range x.path(i) {
		x.remake(w, c)
	}
	return w
}

// remake makes a choice that was made before.
func (x *search) remake(w *world, c choice) {
	if v := w.apply(c); v != nil {
		panic(fmt.Sprintf("explore: a path that was good: %v", v))
	}
}

// longest is how many choices the fair schedule may take until all is over.
const longest = 2000

// live checks that the fair schedule comes to an end from each state.
func (x *search) live() {
	good := make([]bool, len(x.nodes))
	beyond := &set{} // states that the search has not expanded, and from which it does
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
	x.res.Fair = beyond.len()
}

// follow runs the fair schedule from a state to its end, or to a state that need not
// be checked here: an expanded state of the search, or one in beyond. It adds the
// states on its way to beyond. If beyond is nil, follow always runs to the end. It
// returns false at a violation.
func (x *search) follow(i int32, beyond *set) bool {
	w := x.world(i)
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
		if j, known := x.found.find(p); known && x.nodes[j].fair != unknown {
			return true
		}
		if _, isNew := beyond.add(p); !isNew {
			return true
		}
	}
	x.fail(&Violation{"nobody waits for ever", fmt.Sprintf("the fair schedule has no end after %d choices", longest)}, path)
	return false
}

// confirm runs the fair schedule from a state from which the nodes seem to lead in a
// circle: two different states with one digest may look like one. It returns false if
// the schedule really has no end.
func (x *search) confirm(i int32) bool { return x.follow(i, nil) }

// check returns the violation that a function finds, or nil.
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

// Replay makes the choices of a path and writes all events to out. It returns the
// violation that it finds, or nil.
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

// String returns the figures of the search.
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
